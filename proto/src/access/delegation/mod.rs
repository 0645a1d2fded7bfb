//! A prefix of one's own from the network visited, or an address: the client's side of DHCPv6 prefix delegation and
//! stateful address assignment, one for each uplink. There is no Confirm: on another link one begins anew (RFC 8415 §15, §16, §18.2; RFC 7084 §4.2).

mod exchange;
mod lease;
mod message;
pub mod scenario;
pub mod subnets;
#[cfg(test)]
mod tests;

pub use lease::{Lease, MAX_LEASES};
pub use message::{Client, Names, Request};
pub use subnets::Subnets;

use crate::base::ids::LinkId;
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use crate::contract::report::{DropReason, Report};
use core::time::Duration;
use exchange::Exchange;
use lease::Leases;
use message::Answer;
use roam6_wire::dhcp6::{Duid, MessageType, StatusCode};
use roam6_wire::ip6::Datagram;
use roam6_wire::{Prefix, dhcp6};
use std::net::Ipv6Addr;

/// Offers remembered while choosing; the least preferred makes room.
pub const MAX_OFFERS: usize = 8;
/// RFC 8415 §7.6: SOL_MAX_RT, and what a server may make of it (§21.24).
const SOLICIT_MAX: Duration = Duration::from_secs(3600);
const SOLICIT_MAX_RANGE: core::ops::RangeInclusive<u32> = 60..=86_400;
/// Time before servers that gave no address are asked again: without one the uplink is of no use.
const ADDRESS_RETRY: Duration = Duration::from_secs(30);
/// A server with this preference is taken at once (RFC 8415 §18.2.1).
const TAKE_AT_ONCE: u8 = 255;

/// The requesting router of one uplink, from the moment its link-local address can be used.
#[derive(Debug, Clone)]
pub struct Delegation {
    interface: Interface,
    client: Client,
    stage: Stage,
    exchange: Option<Exchange>,
    leases: Leases,
    /// Who granted the leases, or is asked to.
    server: Option<Duid>,
    /// What the server that granted the leases has said of DNS.
    names: Names,
    solicit_max: Duration,
    /// It was told already that there is nothing to be had.
    given_up: bool,
}

/// The uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// Which.
    pub link: LinkId,
    /// Its link-local address.
    pub source: Ipv6Addr,
}

/// What became of the prefixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Prefixes are ours.
    Delegated(Vec<Lease>),
    /// They are ours for longer, or preferred for longer or shorter.
    Extended(Vec<Lease>),
    /// These are ours now: some came or went.
    Changed(Vec<Lease>),
    /// None is ours any longer; another is looked for.
    Lost(Why),
    /// None is to be had here: time to share the visited link instead. It is asked for again after a long time.
    Unavailable(Why),
}

/// Why there is no prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// No server answers.
    Silent,
    /// The servers that answer give none.
    Refused(StatusCode),
    /// Its lifetime ended and nobody extended it.
    Expired,
    /// The server took it back.
    Withdrawn,
}

#[derive(Debug, Clone)]
enum Stage {
    /// Looks for servers.
    Soliciting { offers: Vec<Offer>, refused: Option<StatusCode> },
    /// Takes an offer; others remain.
    Requesting { wanted: Vec<Prefix>, offers: Vec<Offer> },
    /// Has what it wants.
    Bound,
    /// Extends it with the server that granted it.
    Renewing,
    /// Extends it with any server.
    Rebinding,
    /// Has given up for a while.
    Resting { until: Time },
    /// Gives back what it had.
    Releasing { prefixes: Vec<Prefix> },
    /// Is done.
    Over,
}

/// What a server would grant.
#[derive(Debug, Clone)]
struct Offer {
    server: Duid,
    preference: u8,
    prefixes: Vec<Prefix>,
}

impl Delegation {
    /// Begins to look for a prefix on a link just found. The first Solicit is due at once: the random delay before it
    /// is for crowds that start together (RFC 8415 §18.2.1), and nothing moves before it.
    pub fn new(now: Time, interface: Interface, client: Client, entropy: &mut Entropy) -> Delegation {
        let mut delegation = Delegation {
            interface,
            client,
            stage: Stage::Over,
            exchange: None,
            leases: Leases::default(),
            server: None,
            names: Names::default(),
            solicit_max: SOLICIT_MAX,
            given_up: false,
        };
        delegation.solicit(now, entropy);
        delegation
    }

    /// The prefixes that are ours.
    pub fn leases(&self) -> &[Lease] {
        self.leases.all()
    }

    /// What the network says of DNS, as long as there are leases.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Whether a server has offered prefixes that are not ours yet.
    pub fn is_offered(&self) -> bool {
        match &self.stage {
            Stage::Soliciting { offers, .. } => !offers.is_empty(),
            Stage::Requesting { .. } => true,
            _ => false,
        }
    }

    /// Whether it was stopped and has nothing more to say.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// When [`Delegation::expire`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let own = match &self.stage {
            Stage::Over => return None,
            Stage::Resting { until } => Some(*until),
            Stage::Bound => Some(self.leases.renew_at()),
            Stage::Renewing => Some(self.leases.rebind_at()),
            _ => None,
        };
        let exchange = self.exchange.as_ref().map(Exchange::due);
        [own, exchange, self.leases.deadline()].into_iter().flatten().min()
    }

    /// Forgets leases that have ended, and sends what is due.
    pub fn expire(&mut self, now: Time, entropy: &mut Entropy, out: &mut Outbox) -> Option<Event> {
        let mut event = None;
        if self.leases.expire(now) {
            event = Some(Event::Changed(self.leases.all().to_vec()));
            if self.leases.all().is_empty() {
                event = Some(Event::Lost(Why::Expired));
                self.solicit(now, entropy);
            }
        }
        match self.stage {
            Stage::Bound | Stage::Renewing if self.leases.rebind_at() <= now => {
                self.begin(now, Stage::Rebinding, MessageType::Rebind, entropy);
            }
            Stage::Bound if self.leases.renew_at() <= now => self.begin(now, Stage::Renewing, MessageType::Renew, entropy),
            Stage::Resting { until } if until <= now => self.solicit(now, entropy),
            _ => {}
        }
        self.repeat(now, entropy, out).or(event)
    }

    /// Whether a packet to the client port answers what this client has asked.
    pub fn is_answered_by(&self, datagram: &Datagram<'_>) -> bool {
        matches!(message::read(datagram, &self.client), Ok(Some(answer)) if self.waits_for(&answer))
    }

    /// Takes a packet to the client port. What is not an answer to this client is reported as dropped.
    pub fn hear(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        entropy: &mut Entropy,
        out: &mut Outbox,
    ) -> Option<Event> {
        let from = Some(datagram.source);
        let (reason, detail) = match message::read(datagram, &self.client) {
            Ok(Some(answer)) if self.waits_for(&answer) => return self.take(now, answer, entropy, out),
            Ok(_) => (DropReason::Unsolicited, "no answer to what this client asked".to_owned()),
            Err(malformed) => (DropReason::Malformed, malformed.to_string()),
        };
        out.report(Report::Dropped { reason, from, detail });
        None
    }

    /// Ends in good order: gives back what it has. Until [`Delegation::is_over`], answers and ticks are still wanted.
    pub fn stop(&mut self, now: Time, entropy: &mut Entropy, out: &mut Outbox) {
        let prefixes: Vec<Prefix> = self.leases.all().iter().map(|lease| lease.prefix).collect();
        self.leases = Leases::default();
        self.exchange = None;
        if prefixes.is_empty() {
            self.stage = Stage::Over;
            return;
        }
        self.begin(now, Stage::Releasing { prefixes }, MessageType::Release, entropy);
        self.repeat(now, entropy, out);
    }

    fn waits_for(&self, answer: &Answer) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| exchange.transaction() == answer.transaction)
    }

    fn take(&mut self, now: Time, answer: Answer, entropy: &mut Entropy, out: &mut Outbox) -> Option<Event> {
        // Holds even where the rest of the message is of no use (RFC 8415 §18.2.9).
        if let Some(seconds) = answer.solicit_max.filter(|seconds| SOLICIT_MAX_RANGE.contains(seconds)) {
            self.solicit_max = Duration::from_secs(seconds.into());
        }
        match (&self.stage, answer.kind) {
            (Stage::Soliciting { .. }, MessageType::Advertise) => self.consider(now, &answer, entropy, out),
            (Stage::Soliciting { .. }, MessageType::Reply) if answer.rapid_commit => self.accept(now, answer, entropy, out),
            (Stage::Requesting { .. } | Stage::Renewing | Stage::Rebinding, MessageType::Reply) => {
                self.accept(now, answer, entropy, out)
            }
            (Stage::Releasing { .. }, MessageType::Reply) => {
                self.exchange = None;
                self.stage = Stage::Over;
                None
            }
            _ => None,
        }
    }

    /// Remembers an offer; takes it at once if it is the best there can be, or the time for choosing is over.
    fn consider(&mut self, now: Time, answer: &Answer, entropy: &mut Entropy, out: &mut Outbox) -> Option<Event> {
        let prefixes = lease::offered(&self.client, &answer.prefixes);
        let Stage::Soliciting { offers, refused } = &mut self.stage else { return None };
        if prefixes.is_empty() || answer.refusal().is_some() {
            *refused = Some(answer.refusal().unwrap_or(StatusCode::NO_PREFIXES));
            return None;
        }
        offers.retain(|offer| offer.server != answer.server);
        // The best is last; among equals the one heard first.
        let place = offers.iter().position(|offer| offer.preference >= answer.preference).unwrap_or(offers.len());
        offers.insert(place, Offer { server: answer.server.clone(), preference: answer.preference, prefixes });
        if offers.len() > MAX_OFFERS {
            out.report(Report::TableFull { table: "DHCPv6 offers".to_owned(), limit: MAX_OFFERS });
            offers.remove(0);
        }
        let late = self.exchange.as_ref().is_some_and(Exchange::was_repeated);
        if late || answer.preference == TAKE_AT_ONCE {
            return self.request_next(now, Why::Silent, entropy, out);
        }
        None
    }

    /// Asks the best server that is left for what it offered, or gives up.
    fn request_next(&mut self, now: Time, why: Why, entropy: &mut Entropy, out: &mut Outbox) -> Option<Event> {
        let (Stage::Soliciting { offers, .. } | Stage::Requesting { offers, .. }) = &mut self.stage else {
            return None;
        };
        let Some(offer) = offers.pop() else { return self.give_up(now, why, entropy) };
        let offers = std::mem::take(offers);
        self.request(now, offer, offers, entropy);
        self.repeat(now, entropy, out)
    }

    fn request(&mut self, now: Time, offer: Offer, offers: Vec<Offer>, entropy: &mut Entropy) {
        self.server = Some(offer.server);
        self.begin(now, Stage::Requesting { wanted: offer.prefixes, offers }, MessageType::Request, entropy);
    }

    fn accept(&mut self, now: Time, answer: Answer, entropy: &mut Entropy, out: &mut Outbox) -> Option<Event> {
        let extending = matches!(self.stage, Stage::Renewing | Stage::Rebinding);
        match answer.refusal() {
            // Failed this once, or to be sent as it always is: repeated when its time comes (RFC 8415 §18.2.10).
            Some(StatusCode::UNSPECIFIED | StatusCode::USE_MULTICAST) => return None,
            Some(StatusCode::NO_BINDING) if extending => {
                let prefixes = self.leases.all().iter().map(|lease| lease.prefix).collect();
                let offer = Offer { server: answer.server, preference: answer.preference, prefixes };
                self.request(now, offer, Vec::new(), entropy);
                return self.repeat(now, entropy, out);
            }
            Some(_) if extending => return None,
            Some(code) => return self.request_next(now, Why::Refused(code), entropy, out),
            None => {}
        }
        let had = !self.leases.all().is_empty();
        let change = self.leases.update(now, &self.client, &answer);
        if self.leases.all().is_empty() {
            if !had {
                return self.request_next(now, Why::Refused(StatusCode::NO_PREFIXES), entropy, out);
            }
            self.solicit(now, entropy);
            return Some(Event::Lost(Why::Withdrawn));
        }
        if change == lease::Change::Nothing {
            // Said nothing of them: as if it had not been received (RFC 8415 §18.2.10.1).
            return None;
        }
        self.server = Some(answer.server);
        self.names = answer.names;
        self.exchange = None;
        self.stage = Stage::Bound;
        self.given_up = false;
        let leases = self.leases.all().to_vec();
        Some(match change {
            _ if !had => Event::Delegated(leases),
            lease::Change::Prefixes => Event::Changed(leases),
            _ => Event::Extended(leases),
        })
    }

    /// Sends the message that is due, unless it was sent often enough.
    fn repeat(&mut self, now: Time, entropy: &mut Entropy, out: &mut Outbox) -> Option<Event> {
        let exchange = self.exchange.as_mut().filter(|exchange| exchange.due() <= now)?;
        if let Stage::Soliciting { offers, refused } = &self.stage
            && exchange.was_sent()
        {
            if !offers.is_empty() {
                return self.request_next(now, Why::Silent, entropy, out);
            }
            if let Some(code) = *refused {
                return self.give_up(now, Why::Refused(code), entropy);
            }
        }
        if exchange.is_exhausted() {
            return match self.stage {
                Stage::Requesting { .. } => self.request_next(now, Why::Silent, entropy, out),
                Stage::Releasing { .. } => {
                    self.exchange = None;
                    self.stage = Stage::Over;
                    None
                }
                _ => self.give_up(now, Why::Silent, entropy),
            };
        }
        let elapsed = exchange.send(now, self.solicit_max, entropy);
        let (kind, transaction) = (exchange.kind(), exchange.transaction());
        let server = self.server.as_ref().filter(|_| !matches!(kind, MessageType::Solicit | MessageType::Rebind));
        let wanted = self.wanted();
        let options = message::options(&self.client, kind, server, elapsed, &wanted);
        out.transmit(message::emit(self.interface, dhcp6::ClientServerMessage { kind, transaction, options }));
        None
    }

    /// The prefixes the next message speaks of.
    fn wanted(&self) -> Vec<Prefix> {
        match &self.stage {
            Stage::Requesting { wanted, .. } => wanted.clone(),
            Stage::Releasing { prefixes } => prefixes.clone(),
            Stage::Renewing | Stage::Rebinding => self.leases.all().iter().map(|lease| lease.prefix).collect(),
            _ => self.client.wish().into_iter().collect(),
        }
    }

    fn solicit(&mut self, now: Time, entropy: &mut Entropy) {
        self.server = None;
        self.begin(now, Stage::Soliciting { offers: Vec::new(), refused: None }, MessageType::Solicit, entropy);
    }

    fn begin(&mut self, now: Time, stage: Stage, kind: MessageType, entropy: &mut Entropy) {
        self.stage = stage;
        self.exchange = Some(Exchange::new(now, kind, entropy));
    }

    /// Rests for as long as two Solicits may lie apart, then begins anew (RFC 8415 §18.2.1).
    fn give_up(&mut self, now: Time, why: Why, entropy: &mut Entropy) -> Option<Event> {
        self.exchange = None;
        self.server = None;
        let rest = if self.client.request == Request::Address { ADDRESS_RETRY } else { self.solicit_max };
        self.stage = Stage::Resting { until: now + exchange::spread(rest, entropy) };
        let had = !self.leases.all().is_empty();
        self.leases = Leases::default();
        let told = std::mem::replace(&mut self.given_up, true);
        match (had, told) {
            (true, _) => Some(Event::Lost(why)),
            (false, false) => Some(Event::Unavailable(why)),
            (false, true) => None,
        }
    }
}
