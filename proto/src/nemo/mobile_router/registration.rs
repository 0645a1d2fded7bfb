//! The binding update list: the requested and the acknowledged registration, and when updates are sent, retransmitted
//! and refreshed (RFC 6275 §11.7.1, §11.7.3, §11.8; RFC 3963 §5; RFC 5648 §5).

use crate::crypto::authenticator::Timestamp;
use crate::{LinkId, Time, TokenBucket};
use core::time::Duration;
use roam6_wire::{Bid, CareOfAddress, Sequence};
use std::net::Ipv6Addr;

/// RFC 6275 §12: timeout of a first registration, also of the first after a stay at home (§11.8).
const FIRST_BINDACK_TIMEOUT: Duration = Duration::from_millis(1500);
/// RFC 6275 §12: INITIAL_BINDACK_TIMEOUT.
const INITIAL_BINDACK_TIMEOUT: Duration = Duration::from_secs(1);
/// RFC 6275 §12: MAX_BINDACK_TIMEOUT.
const MAX_BINDACK_TIMEOUT: Duration = Duration::from_secs(32);
/// RFC 6275 §12: MAX_UPDATE_RATE, 3 a second; as a token bucket, so that a second handover soon after the first is not
/// delayed.
const UPDATE_BURST: u32 = 3;
const UPDATE_INTERVAL: Duration = Duration::from_millis(334);
/// A retransmission that is due within this time need not be sent sooner.
const DUE_SOON: Duration = Duration::from_millis(100);
/// Unanswered updates when the maximum timeout is reached; fewer if some were rejected.
const MAX_UNANSWERED: usize = 5;
/// Maximum transmissions of one update whose acknowledgement may still arrive.
const MAX_OUTSTANDING: usize = 8;

/// The desired registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredRegistration {
    /// The home agent.
    pub home_agent: Ipv6Addr,
    /// The location.
    pub location: Location,
}

/// The location of the mobile router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// On the home link: the home agent has no binding.
    Home {
        /// The home link.
        link: LinkId,
    },
    /// In one or more visited networks, or home and away; the first visited care-of address is the source of the
    /// update.
    Away {
        /// Never empty.
        care_of: Vec<CareOf>,
        /// With BIDs (RFC 5648).
        mcoa: bool,
    },
}

/// A registered care-of address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CareOf {
    /// Its BID, 0 without RFC 5648.
    pub bid: Bid,
    /// The address.
    pub address: CareOfAddress,
    /// BID-PRI (RFC 6089 §4.1).
    pub priority: u8,
    /// Its interface.
    pub link: LinkId,
    /// Length of its on-link prefix, 128 for none.
    pub prefix_length: u8,
    /// It is the home address, and `link` the home link (RFC 5648 §5.6).
    pub on_home_link: bool,
    /// Packets are in UDP; over IPv4 a NAT or the home agent may require it in any case.
    pub udp: bool,
}

/// The acknowledged binding.
#[derive(Debug, Clone)]
pub struct Binding {
    /// The accepted registration.
    pub registration: DesiredRegistration,
    /// The requested registration, of which a part may be accepted.
    requested: DesiredRegistration,
    /// When it expires.
    pub expires: Time,
    /// When the home agent has none of its care-of addresses any more: one that has an update of its own may outlive the
    /// others.
    pub held_until: Time,
    refresh_at: Time,
}

/// An update without an acknowledgement so far.
#[derive(Debug, Clone)]
struct PendingUpdate {
    registration: DesiredRegistration,
    transmissions: Vec<Transmission>,
    next_at: Time,
    timeout: Duration,
    /// It was sent before: each retransmission doubles the timeout.
    was_sent: bool,
    /// Number of rejections.
    rejections: u32,
}

/// One transmission of an update.
#[derive(Debug, Clone, Copy)]
pub struct Transmission {
    /// Its sequence number.
    pub sequence: Sequence,
    /// When it was sent.
    pub sent_at: Time,
    /// The requested lifetime.
    pub lifetime: Duration,
    /// Its timestamp, which the acknowledgement echoes (RFC 4285 §6); `None` where updates have none.
    pub timestamp: Option<Timestamp>,
}

impl Transmission {
    /// When what it registered ends, if the home agent has `granted` this lifetime.
    pub fn expires(&self, granted: Duration) -> Time {
        self.sent_at + granted.min(self.lifetime)
    }
}

/// The registration with one home agent at a time.
#[derive(Debug, Clone)]
pub struct Registration {
    sequence: Sequence,
    serving_home_agent: Option<Ipv6Addr>,
    binding: Option<Binding>,
    pending: Option<PendingUpdate>,
    limiter: TokenBucket,
    needs_refresh: bool,
    /// There is nothing to register, or no path: a due refresh waits.
    idle: bool,
}

impl Registration {
    /// No registration; the next update has the number after `sequence`.
    pub fn new(sequence: Sequence) -> Registration {
        Registration {
            sequence,
            serving_home_agent: None,
            binding: None,
            pending: None,
            limiter: TokenBucket::new(UPDATE_BURST, UPDATE_INTERVAL),
            needs_refresh: false,
            idle: true,
        }
    }

    /// Continues from a used sequence number: of the journal, or of the home agent (status 135).
    pub fn resume(&mut self, sequence: Sequence) {
        self.sequence = sequence;
    }

    /// The last sequence number used.
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// The binding of the home agent, as far as known.
    pub fn binding(&self) -> Option<&Binding> {
        self.binding.as_ref()
    }

    /// The home agent that has accepted the mobile router: it has a binding, or had one until the return home.
    pub fn serving_home_agent(&self) -> Option<Ipv6Addr> {
        self.serving_home_agent
    }

    /// The requested registration without an answer so far.
    pub fn pending(&self) -> Option<&DesiredRegistration> {
        self.pending.as_ref().map(|pending| &pending.registration)
    }

    /// Requests an update although nothing changed.
    pub fn request_refresh(&mut self) {
        self.needs_refresh = true;
    }

    /// Removes the binding.
    pub fn drop_binding(&mut self) -> Option<Binding> {
        self.serving_home_agent = None;
        self.binding.take()
    }

    /// Removes the pending update, as after a rejection.
    pub fn drop_pending(&mut self) {
        self.pending = None;
    }

    /// Sends the next update at once, as after an answer with a correction.
    pub fn retry(&mut self, now: Time) {
        if let Some(pending) = &mut self.pending {
            pending.next_at = now;
            pending.timeout = INITIAL_BINDACK_TIMEOUT;
            pending.was_sent = false;
            pending.transmissions.clear();
        }
    }

    /// Decides whether an update for `wanted` is to be sent now.
    pub fn needs_update(&mut self, now: Time, wanted: Option<&DesiredRegistration>) -> bool {
        self.idle = wanted.is_none();
        let Some(wanted) = wanted else {
            // An unanswered update may have been accepted: a return to the former registration needs an update too.
            self.needs_refresh |= self.pending.take().is_some_and(|pending| !pending.transmissions.is_empty());
            return false;
        };
        match &self.pending {
            Some(pending) if pending.registration == *wanted && !self.needs_refresh => {}
            None if self.is_up_to_date(now, wanted) => return false,
            _ => {
                let timeout = self.first_timeout();
                self.pending = Some(PendingUpdate {
                    registration: wanted.clone(),
                    transmissions: Vec::new(),
                    next_at: now,
                    timeout,
                    was_sent: false,
                    rejections: 0,
                });
                self.needs_refresh = false;
            }
        }
        self.pending.as_ref().is_some_and(|pending| pending.next_at <= now) && self.limiter.take(now)
    }

    /// The next sequence number, for an update without an expected acknowledgement.
    pub fn next_sequence(&mut self) -> Sequence {
        self.sequence = self.sequence.next();
        self.sequence
    }

    /// The next sequence number, for the update that is sent now.
    pub fn record_sent(&mut self, now: Time, lifetime: Duration) -> Sequence {
        let sequence = self.next_sequence();
        if let Some(pending) = &mut self.pending {
            if pending.transmissions.len() >= MAX_OUTSTANDING {
                pending.transmissions.remove(0);
            }
            if core::mem::replace(&mut pending.was_sent, true) {
                pending.timeout = (pending.timeout * 2).min(MAX_BINDACK_TIMEOUT);
            }
            pending.transmissions.push(Transmission { sequence, sent_at: now, lifetime, timestamp: None });
            pending.next_at = now + pending.timeout;
        }
        sequence
    }

    /// Records the timestamp of the update that is sent now.
    pub fn record_timestamp(&mut self, stamp: Option<Timestamp>) {
        if let Some(sent) = self.pending.as_mut().and_then(|pending| pending.transmissions.last_mut()) {
            sent.timestamp = stamp;
        }
    }

    /// The transmission of the pending update with this sequence number.
    pub fn find_by_sequence(&self, sequence: Sequence) -> Option<(&DesiredRegistration, Transmission)> {
        let pending = self.pending.as_ref()?;
        let sent = pending.transmissions.iter().find(|sent| sent.sequence == sequence)?;
        Some((&pending.registration, *sent))
    }

    /// The transmission of the pending update with this timestamp; without timestamps, the last one.
    pub fn find_by_timestamp(&self, stamp: Option<Timestamp>) -> Option<(&DesiredRegistration, Transmission)> {
        let pending = self.pending.as_ref()?;
        let stamped = |sent: &&Transmission| sent.timestamp.is_none() || sent.timestamp == stamp;
        Some((&pending.registration, *pending.transmissions.iter().rev().find(stamped)?))
    }

    /// Counts a rejection of the pending update; returns their number. If it is `proven` to come from the home agent,
    /// it answers the transmission with this sequence number.
    pub fn count_rejection(&mut self, sequence: Sequence, proven: bool) -> u32 {
        let Some(pending) = &mut self.pending else { return 0 };
        if proven {
            pending.transmissions.retain(|sent| sent.sequence != sequence);
        }
        pending.rejections = pending.rejections.saturating_add(1);
        pending.rejections
    }

    /// Whether `home_agent` has a binding that the pending update would only refresh.
    pub fn is_refreshing(&self, home_agent: Ipv6Addr) -> bool {
        let pending = self.pending.as_ref().map(|pending| &pending.registration);
        self.binding.as_ref().is_some_and(|binding| {
            binding.registration.home_agent == home_agent
                && pending.is_some_and(|pending| binding.requested.is_same_location(pending))
        })
    }

    /// Requests an update because the binding may be lost. A pending one stays, and is retransmitted now unless it was
    /// just sent.
    pub fn verify_binding(&mut self, now: Time) {
        match &self.pending {
            Some(_) => self.retransmit_waiting(now),
            None => self.needs_refresh = true,
        }
    }

    /// Retransmits the pending update now, unless it was just sent.
    pub fn retransmit_waiting(&mut self, now: Time) {
        if self.is_waiting_long(now) {
            self.retransmit_now(now);
        }
    }

    /// The same if its acknowledgement should have come, by the round trip of a probe that was answered now.
    pub fn retransmit_overdue(&mut self, now: Time, round_trip: Duration) {
        if self.is_unanswered_for(now, round_trip * 2) {
            self.retransmit_now(now);
        }
    }

    /// Whether an update was sent and is not answered.
    pub fn is_waiting(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| !pending.transmissions.is_empty())
    }

    /// Whether the pending update was sent more than once.
    pub fn is_repeated(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.transmissions.len() > 1)
    }

    /// Whether the pending update was sent a while ago, and its retransmission is not due soon.
    pub fn is_waiting_long(&self, now: Time) -> bool {
        self.is_unanswered_for(now, INITIAL_BINDACK_TIMEOUT / 2)
    }

    /// Whether the pending update was last sent so long ago, and its retransmission is not due soon.
    fn is_unanswered_for(&self, now: Time, time: Duration) -> bool {
        self.pending.as_ref().is_some_and(|pending| {
            let last = pending.transmissions.last().map(|sent| sent.sent_at);
            last.is_none_or(|last| last + time <= now) && pending.next_at > now + DUE_SOON
        })
    }

    /// Makes the next retransmission due now.
    pub fn retransmit_now(&mut self, now: Time) {
        if let Some(pending) = &mut self.pending {
            pending.next_at = pending.next_at.min(now);
        }
    }

    /// The pending registration, if `attempts` updates were not answered within their timeouts.
    pub fn find_unanswered(&self, now: Time, attempts: usize) -> Option<&DesiredRegistration> {
        let pending = self
            .pending
            .as_ref()
            .filter(|pending| pending.transmissions.len() >= attempts && pending.next_at <= now)?;
        Some(&pending.registration)
    }

    /// When the home agent has been silent for the time of RFC 6275 §11.8, after which another one is tried. The last
    /// update has time for an answer too: the network may just have come back.
    pub fn gives_up_at(&self) -> Option<Time> {
        let silent = |pending: &&PendingUpdate| {
            pending.timeout >= MAX_BINDACK_TIMEOUT && pending.transmissions.len() >= MAX_UNANSWERED
        };
        let last = self.pending.as_ref().filter(silent)?.transmissions.last()?;
        Some(last.sent_at + self.first_timeout())
    }

    /// The timeout of the first transmission of an update.
    fn first_timeout(&self) -> Duration {
        let held = self.binding.as_ref().is_some_and(Binding::is_away);
        if held { INITIAL_BINDACK_TIMEOUT } else { FIRST_BINDACK_TIMEOUT }
    }

    /// The home agent accepted the pending update sent as `sent`: it has `wanted` for `granted`, and asks for a
    /// refresh after `advice`.
    pub fn accept(
        &mut self,
        wanted: DesiredRegistration,
        sent: Transmission,
        granted: Duration,
        advice: Option<RefreshAdvice>,
    ) {
        let mut asked = self.pending.take().map_or_else(|| wanted.clone(), |pending| pending.registration);
        if let Location::Away { care_of, mcoa: true } = &mut asked.location {
            // An IPv4 care-of address that was not accepted gets an update of its own.
            care_of.retain(|one| !one.is_observed() || wanted.care_of().contains(one));
        }
        let expires = sent.expires(granted);
        // Early enough for several retransmissions before expiry.
        let mut refresh = sent.sent_at + granted.min(sent.lifetime) * 3 / 4;
        if let Some(RefreshAdvice(advice)) = advice.filter(|RefreshAdvice(advice)| !advice.is_zero()) {
            refresh = refresh.min(sent.sent_at + advice.max(Duration::from_secs(4)));
        }
        self.serving_home_agent = Some(wanted.home_agent);
        let before = self.binding.as_ref().filter(|before| before.registration.home_agent == wanted.home_agent);
        let held_until = before.map_or(expires, |before| before.held_until.max(expires));
        self.binding =
            Some(Binding { registration: wanted, requested: asked, expires, held_until, refresh_at: refresh });
    }

    /// The home agent has registered `care_of` beside the others, until `expires`.
    pub fn add_care_of(&mut self, care_of: CareOf, expires: Time) {
        let Some(binding) = &mut self.binding else { return };
        binding.held_until = binding.held_until.max(expires);
        for known in [&mut binding.registration, &mut binding.requested] {
            if let Location::Away { care_of: held, mcoa: true } = &mut known.location {
                held.retain(|other| other.bid != care_of.bid);
                held.push(care_of);
                held.sort_by_key(|one| (one.priority, one.bid));
            }
        }
    }

    /// When the pending update was last sent.
    pub fn last_sent(&self) -> Option<Time> {
        self.pending.as_ref()?.transmissions.last().map(|sent| sent.sent_at)
    }

    /// When [`Registration::needs_update`] or [`Registration::expire`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let update = match (&self.pending, &self.binding) {
            (Some(pending), _) => Some(pending.next_at.max(self.limiter.next_token())),
            (None, Some(binding)) if binding.is_away() && !self.idle => Some(binding.refresh_at),
            _ => None,
        };
        let end = self.binding.iter().filter(|binding| binding.is_away()).map(|binding| binding.expires);
        end.chain(update).min()
    }

    /// Removes the binding if it has expired.
    pub fn expire(&mut self, now: Time) -> Option<Binding> {
        let ended = self.binding.take_if(|binding| binding.is_away() && binding.expires <= now)?;
        self.serving_home_agent = None;
        Some(ended)
    }

    fn is_up_to_date(&self, now: Time, wanted: &DesiredRegistration) -> bool {
        !self.needs_refresh
            && self.binding.as_ref().is_some_and(|binding| {
                binding.requested.is_same_location(wanted) && !(binding.is_away() && binding.refresh_at <= now)
            })
    }
}

/// The interval of a Binding Refresh Advice option (RFC 6275 §6.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefreshAdvice(pub Duration);

impl Binding {
    /// Whether the home agent has care-of addresses.
    pub fn is_away(&self) -> bool {
        matches!(self.registration.location, Location::Away { .. })
    }

    /// The registered care-of addresses; the first forwards.
    pub fn care_of(&self) -> &[CareOf] {
        self.registration.care_of()
    }

    /// When it is to be refreshed.
    pub fn refresh(&self) -> Time {
        self.refresh_at
    }
}

impl CareOf {
    /// Whether it is the same address of the same interface, in UDP or not; two interfaces may have equal private
    /// addresses.
    pub fn is_same_address(&self, other: &CareOf) -> bool {
        (self.link, self.address, self.udp) == (other.link, other.address, other.udp)
    }
}

impl DesiredRegistration {
    /// The care-of addresses, none at home.
    pub fn care_of(&self) -> &[CareOf] {
        match &self.location {
            Location::Away { care_of, .. } => care_of,
            Location::Home { .. } => &[],
        }
    }

    /// The visited care-of address that the update is sent from; none if it is sent from home.
    pub fn first_visited(&self) -> Option<&CareOf> {
        self.care_of().iter().find(|care_of| !care_of.on_home_link)
    }

    /// Whether it is the same registration; at home, on any link.
    fn is_same_location(&self, other: &DesiredRegistration) -> bool {
        match (&self.location, &other.location) {
            (Location::Home { .. }, Location::Home { .. }) => true,
            // In any order: their priorities are compared too.
            (Location::Away { care_of, mcoa }, Location::Away { care_of: others, mcoa: several }) => {
                let same = mcoa == several && care_of.len() == others.len();
                self.home_agent == other.home_agent && same && care_of.iter().all(|one| others.contains(one))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1000)
    }

    fn wanted(last: u16) -> DesiredRegistration {
        let address = CareOfAddress(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, last));
        let care_of = CareOf {
            bid: Bid(0),
            address,
            priority: 1,
            link: LinkId(1),
            prefix_length: 64,
            on_home_link: false,
            udp: false,
        };
        DesiredRegistration {
            home_agent: "2001:db8::1".parse().unwrap(),
            location: Location::Away { care_of: vec![care_of], mcoa: false },
        }
    }

    const LIFETIME: Duration = Duration::from_secs(60);

    #[test]
    fn binding_update_is_retransmitted_with_backoff_up_to_32_seconds() {
        let mut registration = Registration::new(Sequence(9));
        let mut sent = Vec::new();
        let mut now = at(0);
        for _ in 0..8 {
            assert!(registration.needs_update(now, Some(&wanted(1))));
            sent.push((now.as_micros() / 1000, registration.record_sent(now, LIFETIME).0));
            assert!(!registration.needs_update(now, Some(&wanted(1))));
            now = registration.deadline().unwrap();
        }
        let expected =
            [(0, 10), (1500, 11), (4500, 12), (10500, 13), (22500, 14), (46500, 15), (78500, 16), (110500, 17)];
        assert_eq!(sent, expected);
        assert_eq!(registration.gives_up_at(), Some(at(110_500 + 1500)), "the last one has time for an answer");
    }

    #[test]
    fn movement_sends_update_at_once_and_drops_former_acknowledgement() {
        let mut registration = Registration::new(Sequence(0));
        assert!(registration.needs_update(at(0), Some(&wanted(1))));
        let first = registration.record_sent(at(0), LIFETIME);
        assert!(registration.needs_update(at(5), Some(&wanted(2))));
        let second = registration.record_sent(at(5), LIFETIME);
        assert!(registration.find_by_sequence(first).is_none());
        let (_, sent) = registration.find_by_sequence(second).unwrap();
        registration.accept(wanted(2), sent, LIFETIME, None);
        assert!(!registration.needs_update(at(6), Some(&wanted(2))));
        assert_eq!(registration.deadline(), Some(at(5 + 45_000)));
        assert!(registration.needs_update(at(45_005), Some(&wanted(2))), "refreshed well before the end");
    }

    #[test]
    fn home_agent_has_a_path_for_as_long_as_it_was_granted() {
        let mut registration = Registration::new(Sequence(0));
        let accept = |registration: &mut Registration, now: Time| {
            registration.request_refresh();
            assert!(registration.needs_update(now, Some(&wanted(1))));
            let sequence = registration.record_sent(now, LIFETIME);
            let (_, sent) = registration.find_by_sequence(sequence).unwrap();
            registration.accept(wanted(1), sent, LIFETIME, None);
            registration.binding().map(|binding| (binding.expires, binding.held_until))
        };
        assert_eq!(accept(&mut registration, at(0)), Some((at(60_000), at(60_000))));
        registration.add_care_of(wanted(2).care_of()[0], at(3_600_000));
        assert_eq!(accept(&mut registration, at(10_000)), Some((at(70_000), at(3_600_000))));
    }

    #[test]
    fn updates_beyond_max_update_rate_are_delayed() {
        let mut registration = Registration::new(Sequence(0));
        for last in 1..=3 {
            assert!(registration.needs_update(at(0), Some(&wanted(last))));
            registration.record_sent(at(0), LIFETIME);
        }
        assert!(!registration.needs_update(at(0), Some(&wanted(4))));
        let next = registration.deadline().unwrap();
        assert_eq!(next, at(334));
        assert!(registration.needs_update(next, Some(&wanted(4))));
    }

    #[test]
    fn binding_expires_with_its_granted_lifetime() {
        let mut registration = Registration::new(Sequence(0));
        assert!(registration.needs_update(at(0), Some(&wanted(1))));
        let sequence = registration.record_sent(at(0), LIFETIME);
        let (_, sent) = registration.find_by_sequence(sequence).unwrap();
        registration.accept(wanted(1), sent, Duration::from_secs(20), Some(RefreshAdvice(Duration::from_secs(8))));
        assert_eq!(registration.deadline(), Some(at(8_000)));
        assert!(registration.expire(at(19_999)).is_none());
        assert!(registration.expire(at(20_000)).is_some());
    }
}
