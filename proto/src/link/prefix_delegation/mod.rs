//! A DHCPv6 client for each uplink: prefix delegation, and stateful address assignment. It sends no Confirm: on
//! another link it restarts (RFC 8415 §15, §16, §18.2; RFC 7084 §4.2).

mod exchange;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod lease;
mod message;
pub mod subnets;
#[cfg(test)]
mod tests;

pub use lease::{Lease, MAX_LEASES};
pub use message::{DhcpClientConfig, DnsInfo, IaType};
pub use subnets::Subnets;

use crate::{DropReason, Entropy, LinkId, Outbox, Time};
use core::time::Duration;
use exchange::Exchange;
use lease::Leases;
use message::ServerMessage;
use roam6_wire::dhcp6::{Duid, MessageType, StatusCode};
use roam6_wire::ip6::Datagram;
use roam6_wire::{Prefix, dhcp6};
use std::net::Ipv6Addr;

/// Maximum offers while collecting; the least preferred is removed.
pub const MAX_OFFERS: usize = 8;
/// RFC 8415 §7.6: SOL_MAX_RT, and the range that a server may set (§21.24).
const SOL_MAX_RT: Duration = Duration::from_secs(3600);
const SOL_MAX_RT_RANGE: core::ops::RangeInclusive<u32> = 60..=86_400;
/// Interval after which an address is requested again: without one the uplink cannot be used.
const ADDRESS_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// The preference that ends collection at once (RFC 8415 §18.2.1).
const MAX_PREFERENCE: u8 = 255;

/// The DHCPv6 client of one uplink, from the time its link-local address is usable.
#[derive(Debug, Clone)]
pub struct DhcpClient {
    interface: DhcpInterface,
    client: DhcpClientConfig,
    state: ClientState,
    exchange: Option<Exchange>,
    leases: Leases,
    /// The server that granted the leases, or from which they are requested.
    server: Option<Duid>,
    /// The DNS configuration from the server that granted the leases.
    dns: DnsInfo,
    solicit_max: Duration,
    /// [`DhcpEvent::Unavailable`] was returned already.
    reported_unavailable: bool,
}

/// The uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DhcpInterface {
    /// The interface.
    pub link: LinkId,
    /// Its link-local address.
    pub source: Ipv6Addr,
}

/// A change of the leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DhcpEvent {
    /// The first leases.
    Delegated(Vec<Lease>),
    /// Lifetimes changed.
    Extended(Vec<Lease>),
    /// Leases were added or removed; these are all.
    Changed(Vec<Lease>),
    /// All leases ended; the client solicits again.
    Lost(DhcpFailure),
    /// No lease is available here, so the visited link may be shared instead. The client retries after a long time.
    Unavailable(DhcpFailure),
}

/// Why there is no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DhcpFailure {
    /// No server answers.
    NoAnswer,
    /// The servers answered with this status.
    Rejected(StatusCode),
    /// Its lifetime ended without a renewal.
    Expired,
    /// The server withdrew it.
    Withdrawn,
}

#[derive(Debug, Clone)]
enum ClientState {
    /// Collects offers of servers.
    Soliciting { offers: Vec<Offer>, refused: Option<StatusCode> },
    /// Requests an offer; the others remain as alternatives.
    Requesting { wanted: Vec<Prefix>, offers: Vec<Offer> },
    /// Has leases.
    Bound,
    /// Renews with the server that granted the leases.
    Renewing,
    /// Rebinds with any server.
    Rebinding,
    /// Waits before the next Solicit.
    BackedOff { until: Time },
    /// Releases its leases.
    Releasing { prefixes: Vec<Prefix> },
    /// Stopped, with nothing left to send.
    Stopped,
}

impl ClientState {
    /// The message that is sent in this state.
    fn message_type(&self) -> Option<MessageType> {
        match self {
            ClientState::Soliciting { .. } => Some(MessageType::Solicit),
            ClientState::Requesting { .. } => Some(MessageType::Request),
            ClientState::Renewing => Some(MessageType::Renew),
            ClientState::Rebinding => Some(MessageType::Rebind),
            ClientState::Releasing { .. } => Some(MessageType::Release),
            ClientState::Bound | ClientState::BackedOff { .. } | ClientState::Stopped => None,
        }
    }
}

/// What one call of the client works with.
struct Turn<'a> {
    now: Time,
    entropy: &'a mut Entropy,
    out: &'a mut Outbox,
}

/// An Advertise.
#[derive(Debug, Clone)]
struct Offer {
    server: Duid,
    preference: u8,
    prefixes: Vec<Prefix>,
}

impl DhcpClient {
    /// A client for a link just found. The first Solicit is due at once: the random delay of RFC 8415 §18.2.1 is for
    /// many clients that start together, and forwarding waits for this.
    pub fn new(now: Time, interface: DhcpInterface, client: DhcpClientConfig, entropy: &mut Entropy) -> DhcpClient {
        let mut delegation = DhcpClient {
            interface,
            client,
            state: ClientState::Stopped,
            exchange: None,
            leases: Leases::default(),
            server: None,
            dns: DnsInfo::default(),
            solicit_max: SOL_MAX_RT,
            reported_unavailable: false,
        };
        delegation.solicit(now, entropy);
        delegation
    }

    /// The current leases.
    pub fn leases(&self) -> &[Lease] {
        &self.leases.all
    }

    /// The DNS configuration of the network, as long as there are leases.
    pub fn dns(&self) -> &DnsInfo {
        &self.dns
    }

    /// Whether a server has offered prefixes that are not leased yet.
    pub fn has_offer(&self) -> bool {
        match &self.state {
            ClientState::Soliciting { offers, .. } => !offers.is_empty(),
            ClientState::Requesting { .. } => true,
            _ => false,
        }
    }

    /// Whether it was stopped and has no message left to send.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, ClientState::Stopped)
    }

    /// When [`DhcpClient::expire`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let own = match &self.state {
            ClientState::Stopped => return None,
            ClientState::BackedOff { until } => Some(*until),
            ClientState::Bound => Some(self.leases.renew_at),
            ClientState::Renewing => Some(self.leases.rebind_at),
            _ => None,
        };
        let exchange = self.exchange.as_ref().map(|exchange| exchange.next_at);
        [own, exchange, self.leases.deadline()].into_iter().flatten().min()
    }

    /// Removes expired leases, and sends the message that is due.
    pub fn expire(&mut self, now: Time, entropy: &mut Entropy, out: &mut Outbox) -> Option<DhcpEvent> {
        let mut event = None;
        if self.leases.expire(now) {
            event = Some(DhcpEvent::Changed(self.leases.all.clone()));
            if self.leases.all.is_empty() {
                event = Some(DhcpEvent::Lost(DhcpFailure::Expired));
                self.solicit(now, entropy);
            }
        }
        match self.state {
            ClientState::Bound | ClientState::Renewing if self.leases.rebind_at <= now => {
                self.start_exchange(now, ClientState::Rebinding, entropy);
            }
            ClientState::Bound if self.leases.renew_at <= now => {
                self.start_exchange(now, ClientState::Renewing, entropy)
            }
            ClientState::BackedOff { until } if until <= now => self.solicit(now, entropy),
            _ => {}
        }
        self.transmit_due(&mut Turn { now, entropy, out }).or(event)
    }

    /// Whether a packet to the client port answers the current exchange.
    pub fn is_answered_by(&self, datagram: &Datagram<'_>) -> bool {
        matches!(message::parse(datagram, &self.client), Ok(Some(answer)) if self.is_expected(&answer))
    }

    /// Processes a packet to the client port. One that answers no exchange is reported as dropped.
    pub fn receive(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        entropy: &mut Entropy,
        out: &mut Outbox,
    ) -> Option<DhcpEvent> {
        let from = Some(datagram.source);
        let (reason, detail) = match message::parse(datagram, &self.client) {
            Ok(Some(answer)) if self.is_expected(&answer) => {
                return self.process(answer, &mut Turn { now, entropy, out });
            }
            Ok(_) => (DropReason::Unsolicited, "answers no request of this client".to_owned()),
            Err(malformed) => (DropReason::Malformed, malformed.to_string()),
        };
        out.report_drop(reason, from, detail);
        None
    }

    /// Stops and releases the leases. Until [`DhcpClient::is_stopped`], packets and timers must still be passed in.
    pub fn stop(&mut self, now: Time, entropy: &mut Entropy, out: &mut Outbox) {
        let prefixes = self.leases.prefixes();
        self.leases = Leases::default();
        self.exchange = None;
        if prefixes.is_empty() {
            self.state = ClientState::Stopped;
            return;
        }
        self.start_exchange(now, ClientState::Releasing { prefixes }, entropy);
        self.transmit_due(&mut Turn { now, entropy, out });
    }

    fn is_expected(&self, answer: &ServerMessage) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| exchange.transaction == answer.transaction)
    }

    fn process(&mut self, answer: ServerMessage, turn: &mut Turn<'_>) -> Option<DhcpEvent> {
        // Applies even if the rest of the message is unusable (RFC 8415 §18.2.9).
        if let Some(seconds) = answer.solicit_max.filter(|seconds| SOL_MAX_RT_RANGE.contains(seconds)) {
            self.solicit_max = Duration::from_secs(seconds.into());
        }
        match (&self.state, answer.kind) {
            (ClientState::Soliciting { .. }, MessageType::Advertise) => self.add_offer(&answer, turn),
            (ClientState::Soliciting { .. }, MessageType::Reply) if answer.rapid_commit => self.accept(answer, turn),
            (ClientState::Requesting { .. } | ClientState::Renewing | ClientState::Rebinding, MessageType::Reply) => {
                self.accept(answer, turn)
            }
            (ClientState::Releasing { .. }, MessageType::Reply) => {
                self.exchange = None;
                self.state = ClientState::Stopped;
                None
            }
            _ => None,
        }
    }

    /// Records an offer; requests it at once if its preference is the highest, or if the time for collecting is over.
    fn add_offer(&mut self, answer: &ServerMessage, turn: &mut Turn<'_>) -> Option<DhcpEvent> {
        let prefixes = lease::usable_prefixes(&self.client, &answer.prefixes);
        let ClientState::Soliciting { offers, refused } = &mut self.state else { return None };
        if prefixes.is_empty() || answer.error_status().is_some() {
            *refused = Some(answer.error_status().unwrap_or(StatusCode::NO_PREFIXES));
            return None;
        }
        offers.retain(|offer| offer.server != answer.server);
        // The most preferred is last; among equals the first received.
        let place = offers.iter().position(|offer| offer.preference >= answer.preference).unwrap_or(offers.len());
        offers.insert(place, Offer { server: answer.server.clone(), preference: answer.preference, prefixes });
        if offers.len() > MAX_OFFERS {
            turn.out.report_full_table("DHCPv6 offers", MAX_OFFERS);
            offers.remove(0);
        }
        let late = self.exchange.as_ref().is_some_and(Exchange::was_repeated);
        if late || answer.preference == MAX_PREFERENCE {
            return self.request_next(DhcpFailure::NoAnswer, turn);
        }
        None
    }

    /// Requests the offer of the best remaining server, or gives up.
    fn request_next(&mut self, why: DhcpFailure, turn: &mut Turn<'_>) -> Option<DhcpEvent> {
        let (ClientState::Soliciting { offers, .. } | ClientState::Requesting { offers, .. }) = &mut self.state else {
            return None;
        };
        let Some(offer) = offers.pop() else { return self.back_off(why, turn) };
        let offers = std::mem::take(offers);
        self.request(offer, offers, turn)
    }

    fn request(&mut self, offer: Offer, offers: Vec<Offer>, turn: &mut Turn<'_>) -> Option<DhcpEvent> {
        self.server = Some(offer.server);
        self.start_exchange(turn.now, ClientState::Requesting { wanted: offer.prefixes, offers }, turn.entropy);
        self.transmit_due(turn)
    }

    fn accept(&mut self, answer: ServerMessage, turn: &mut Turn<'_>) -> Option<DhcpEvent> {
        let extending = matches!(self.state, ClientState::Renewing | ClientState::Rebinding);
        match answer.error_status() {
            // A temporary failure, or a request for multicast, which we always use: retransmitted in due time (RFC
            // 8415 §18.2.10).
            Some(StatusCode::UNSPECIFIED | StatusCode::USE_MULTICAST) => return None,
            Some(StatusCode::NO_BINDING) if extending => {
                let prefixes = self.leases.prefixes();
                let offer = Offer { server: answer.server, preference: answer.preference, prefixes };
                return self.request(offer, Vec::new(), turn);
            }
            Some(_) if extending => return None,
            Some(code) => return self.request_next(DhcpFailure::Rejected(code), turn),
            None => {}
        }
        let had = !self.leases.all.is_empty();
        let change = self.leases.update(turn.now, &self.client, &answer);
        if self.leases.all.is_empty() {
            if !had {
                return self.request_next(DhcpFailure::Rejected(StatusCode::NO_PREFIXES), turn);
            }
            self.solicit(turn.now, turn.entropy);
            return Some(DhcpEvent::Lost(DhcpFailure::Withdrawn));
        }
        if change == lease::LeaseChange::Unchanged {
            // Without any of the leases it counts as not received (RFC 8415 §18.2.10.1).
            return None;
        }
        self.server = Some(answer.server);
        self.dns = answer.dns;
        self.exchange = None;
        self.state = ClientState::Bound;
        self.reported_unavailable = false;
        let leases = self.leases.all.clone();
        Some(match change {
            _ if !had => DhcpEvent::Delegated(leases),
            lease::LeaseChange::Prefixes => DhcpEvent::Changed(leases),
            _ => DhcpEvent::Extended(leases),
        })
    }

    /// Sends the message that is due, unless the retransmission limit is reached.
    fn transmit_due(&mut self, turn: &mut Turn<'_>) -> Option<DhcpEvent> {
        let exchange = self.exchange.as_mut().filter(|exchange| exchange.next_at <= turn.now)?;
        if let ClientState::Soliciting { offers, refused } = &self.state
            && exchange.was_sent()
        {
            if !offers.is_empty() {
                return self.request_next(DhcpFailure::NoAnswer, turn);
            }
            if let Some(code) = *refused {
                return self.back_off(DhcpFailure::Rejected(code), turn);
            }
        }
        if exchange.is_exhausted() {
            return match self.state {
                ClientState::Requesting { .. } => self.request_next(DhcpFailure::NoAnswer, turn),
                ClientState::Releasing { .. } => {
                    self.exchange = None;
                    self.state = ClientState::Stopped;
                    None
                }
                _ => self.back_off(DhcpFailure::NoAnswer, turn),
            };
        }
        let elapsed = exchange.send(turn.now, self.solicit_max, turn.entropy);
        let (kind, transaction) = (exchange.kind, exchange.transaction);
        let server = self.server.as_ref().filter(|_| !matches!(kind, MessageType::Solicit | MessageType::Rebind));
        let wanted = self.requested_prefixes();
        let options = message::options(&self.client, kind, server, elapsed, &wanted);
        turn.out.transmit(message::emit(self.interface, dhcp6::ClientServerMessage { kind, transaction, options }));
        None
    }

    /// The prefixes in the next message.
    fn requested_prefixes(&self) -> Vec<Prefix> {
        match &self.state {
            ClientState::Requesting { wanted, .. } => wanted.clone(),
            ClientState::Releasing { prefixes } => prefixes.clone(),
            ClientState::Renewing | ClientState::Rebinding => self.leases.prefixes(),
            _ => self.client.prefix_hint().into_iter().collect(),
        }
    }

    fn solicit(&mut self, now: Time, entropy: &mut Entropy) {
        self.server = None;
        self.start_exchange(now, ClientState::Soliciting { offers: Vec::new(), refused: None }, entropy);
    }

    fn start_exchange(&mut self, now: Time, state: ClientState, entropy: &mut Entropy) {
        self.exchange = state.message_type().map(|kind| Exchange::new(now, kind, entropy));
        self.state = state;
    }

    /// Waits for SOL_MAX_RT, then restarts (RFC 8415 §18.2.1).
    fn back_off(&mut self, why: DhcpFailure, turn: &mut Turn<'_>) -> Option<DhcpEvent> {
        self.exchange = None;
        self.server = None;
        let rest = if self.client.ia_type == IaType::IaNa { ADDRESS_RETRY_INTERVAL } else { self.solicit_max };
        self.state = ClientState::BackedOff { until: turn.now + exchange::randomized(rest, turn.entropy) };
        let had = !self.leases.all.is_empty();
        self.leases = Leases::default();
        let reported = std::mem::replace(&mut self.reported_unavailable, true);
        match (had, reported) {
            (true, _) => Some(DhcpEvent::Lost(why)),
            (false, false) => Some(DhcpEvent::Unavailable(why)),
            (false, true) => None,
        }
    }
}
