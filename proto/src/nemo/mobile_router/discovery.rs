//! Selection of the home agent: the configured ones in turn, or those found by dynamic home agent address discovery
//! (RFC 6275 §11.4.1, RFC 3963 §7).

use crate::base::time::Time;
use core::time::Duration;
use roam6_wire::{CareOfAddress, Prefix};
use std::net::Ipv6Addr;

/// Maximum home agents of one reply.
pub const MAX_HOME_AGENTS: usize = 8;

/// RFC 6275 §12: DHAAD_RETRIES and INITIAL_DHAAD_TIMEOUT.
const DHAAD_RETRIES: u32 = 4;
const INITIAL_DHAAD_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause after all home agents rejected, or none was found.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(32);
/// Pause after all home agents rejected the mobile router in both modes. RFC 3963 §5.4 says to stop; but operators
/// correct prefix tables, and nothing would signal that.
const LONG_RETRY_DELAY: Duration = Duration::from_secs(600);
/// Minimum interval of two requests from different care-of addresses: uplinks may flap.
const MIN_REQUEST_INTERVAL: Duration = Duration::from_secs(1);
/// RFC 6275 §11.7.1: delay before the next home agent.
pub(super) const NEXT_HOME_AGENT_DELAY: Duration = Duration::from_millis(1500);

/// Home agents and the one in use.
#[derive(Debug, Clone)]
pub struct HomeAgentList {
    configured: bool,
    addresses: Vec<Ipv6Addr>,
    index: usize,
    not_before: Time,
    /// The former home agent has not answered, and only that is waited for.
    awaits_answer: bool,
    request: Option<DiscoveryRequest>,
}

#[derive(Debug, Clone)]
struct DiscoveryRequest {
    identifier: u16,
    /// The care-of address it was sent from.
    care_of: CareOfAddress,
    /// Number of transmissions, and the time of the last.
    transmissions: u32,
    last_sent: Time,
    next_at: Time,
}

impl HomeAgentList {
    /// The configured home agents, in order of preference; empty: they are discovered.
    pub fn new(configured: &[Ipv6Addr]) -> HomeAgentList {
        HomeAgentList {
            configured: !configured.is_empty(),
            addresses: configured.to_vec(),
            index: 0,
            not_before: Time::ZERO,
            awaits_answer: false,
            request: None,
        }
    }

    /// The home agent to register with now; `None` during a pause.
    pub fn current(&self, now: Time) -> Option<Ipv6Addr> {
        if self.not_before > now { None } else { self.addresses.get(self.index).copied() }
    }

    /// The present or next home agent.
    pub fn in_use(&self) -> Option<Ipv6Addr> {
        self.addresses.get(self.index).copied()
    }

    /// Selects `address`, if it is one of them.
    pub fn prefer(&mut self, address: Option<Ipv6Addr>) {
        let found = self.addresses.iter().position(|known| Some(*known) == address);
        self.index = found.unwrap_or(self.index);
    }

    /// Whether `address` is one of them.
    pub fn contains(&self, address: Ipv6Addr) -> bool {
        self.addresses.contains(&address)
    }

    /// Selects `address` without a pause, if it is one of them.
    pub fn switch_to(&mut self, now: Time, address: Ipv6Addr) {
        self.prefer(Some(address));
        self.not_before = self.not_before.min(now);
    }

    /// All of them, from the one after the present, which is the last.
    pub fn from_next(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        let (before, after) = self.addresses.split_at((self.index + 1).min(self.addresses.len()));
        after.iter().chain(before).copied()
    }

    /// Whether there is another one.
    pub fn has_other(&self) -> bool {
        self.addresses.len() > 1
    }

    /// Selects the next one; after the last there is a pause, and discovery restarts. The pause is longer than the delay
    /// before the next one if home agents have answered.
    pub fn advance(&mut self, now: Time, pause: Duration) {
        self.index += 1;
        self.awaits_answer = pause <= NEXT_HOME_AGENT_DELAY;
        self.not_before = now + NEXT_HOME_AGENT_DELAY;
        if self.index >= self.addresses.len() {
            self.index = 0;
            self.not_before = now + pause;
            if !self.configured {
                self.addresses.clear();
                self.request = None;
            }
        }
    }

    /// Whether every home agent has been tried.
    pub fn is_round_over(&self) -> bool {
        self.index == 0
    }

    /// Starts another round without the pause.
    pub fn start_round(&mut self, now: Time) {
        self.not_before = now + NEXT_HOME_AGENT_DELAY;
    }

    /// Ends a pause: the operator may have removed the cause.
    pub fn end_pause(&mut self, now: Time) {
        self.not_before = self.not_before.min(now);
    }

    /// The home agent to register with next answers echo requests: a delay because the former one does not answer ends.
    pub fn end_delay(&mut self, now: Time) {
        if self.awaits_answer {
            self.end_pause(now);
        }
    }

    /// Starts the long pause.
    pub fn pause_long(&mut self, now: Time) {
        self.not_before = now + LONG_RETRY_DELAY;
    }

    /// The identifier of the discovery request to send now from the care-of address `from`, if one is due. A request
    /// unanswered elsewhere says nothing about this address.
    pub fn next_request(&mut self, now: Time, from: CareOfAddress, fresh: u16) -> Option<u16> {
        if self.configured || !self.addresses.is_empty() || self.not_before > now {
            return None;
        }
        let former = self.request.take_if(|request| request.care_of != from);
        let next = former.map_or(now, |former| former.last_sent + MIN_REQUEST_INTERVAL).max(now);
        let request = self.request.get_or_insert(DiscoveryRequest {
            identifier: fresh,
            care_of: from,
            transmissions: 0,
            last_sent: now,
            next_at: next,
        });
        if request.next_at > now {
            return None;
        }
        if request.transmissions >= DHAAD_RETRIES {
            self.request = None;
            self.not_before = now + RETRY_DELAY;
            return None;
        }
        request.last_sent = now;
        request.next_at = now + INITIAL_DHAAD_TIMEOUT * (1 << request.transmissions);
        request.transmissions += 1;
        Some(request.identifier)
    }

    /// Processes a reply; `false` if it is unsolicited.
    pub fn receive_reply(&mut self, identifier: u16, addresses: &[Ipv6Addr]) -> bool {
        if self.request.as_ref().is_none_or(|request| request.identifier != identifier) || addresses.is_empty() {
            return false;
        }
        self.request = None;
        self.addresses = addresses.iter().copied().take(MAX_HOME_AGENTS).collect();
        self.index = 0;
        true
    }

    /// When the next request is due.
    pub fn deadline(&self, now: Time) -> Option<Time> {
        let held = Some(self.not_before).filter(|at| *at > now);
        held.into_iter().chain(self.request.as_ref().map(|request| request.next_at)).min()
    }
}

/// The Mobile IPv6 Home-Agents anycast address of a prefix (RFC 2526 §2): identifier 126.
pub fn home_agents_anycast(home: Prefix) -> Ipv6Addr {
    const IDENTIFIER: u128 = 0x7e;
    // RFC 2526 §2: all ones between prefix and the seven low bits; in an EUI-64 identifier the universal bit is zero.
    let host = u128::MAX.checked_shr(home.length().into()).unwrap_or(0);
    let universal = if home.length() == 64 { 0x0200_0000_0000_0000 } else { 0 };
    Ipv6Addr::from_bits(home.address().to_bits() | (host & !universal & !0x7f) | IDENTIFIER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_agents_anycast_address_follows_rfc_2526() {
        let home: Prefix = "2001:db8::/64".parse().unwrap();
        assert_eq!(home_agents_anycast(home), "2001:db8::fdff:ffff:ffff:fffe".parse::<Ipv6Addr>().unwrap());
        let home: Prefix = "2001:db8::/48".parse().unwrap();
        assert_eq!(home_agents_anycast(home), "2001:db8:0:ffff:ffff:ffff:ffff:fffe".parse::<Ipv6Addr>().unwrap());
    }

    #[test]
    fn dhaad_request_is_sent_four_times_with_backoff() {
        let mut agents = HomeAgentList::new(&[]);
        let from = CareOfAddress("2001:db8:f::1".parse().unwrap());
        let mut now = Time::ZERO;
        let mut sent_at = Vec::new();
        for _ in 0..4 {
            assert_eq!(agents.next_request(now, from, 7), Some(7));
            sent_at.push(now.as_micros() / 1_000_000);
            assert_eq!(agents.next_request(now, from, 8), None);
            now = agents.deadline(now).unwrap();
        }
        assert_eq!(sent_at, [0, 3, 9, 21]);
        assert_eq!(agents.next_request(now, from, 9), None);
        assert_eq!(agents.deadline(now), Some(now + RETRY_DELAY));
        assert!(!agents.receive_reply(7, &["2001:db8::1".parse().unwrap()]), "too late");
    }

    #[test]
    fn dhaad_restarts_from_a_new_care_of_address() {
        let mut agents = HomeAgentList::new(&[]);
        let [here, there] = ["2001:db8:f::1", "2001:db8:e::1"].map(|address| CareOfAddress(address.parse().unwrap()));
        assert_eq!(agents.next_request(Time::ZERO, here, 7), Some(7));
        assert_eq!(agents.next_request(Time::ZERO, here, 8), None);
        assert_eq!(agents.next_request(Time::ZERO, there, 9), None);
        let soon = agents.deadline(Time::ZERO).unwrap();
        assert_eq!(soon, Time::ZERO + MIN_REQUEST_INTERVAL);
        assert_eq!(agents.next_request(soon, there, 10), Some(9));
        assert!(!agents.receive_reply(7, &["2001:db8::1".parse().unwrap()]), "the reply to a former request");
    }

    #[test]
    fn home_agents_are_tried_in_turn_with_a_pause_after_the_last() {
        let (one, two) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        let mut agents = HomeAgentList::new(&[one, two]);
        assert_eq!(agents.current(Time::ZERO), Some(one));
        agents.advance(Time::ZERO, RETRY_DELAY);
        assert_eq!(agents.current(Time::ZERO), None);
        assert_eq!(agents.current(Time::ZERO + NEXT_HOME_AGENT_DELAY), Some(two));
        agents.advance(Time::ZERO + NEXT_HOME_AGENT_DELAY, RETRY_DELAY);
        assert_eq!(agents.current(Time::ZERO + NEXT_HOME_AGENT_DELAY + RETRY_DELAY), Some(one));
        agents.end_delay(Time::ZERO + NEXT_HOME_AGENT_DELAY);
        assert_eq!(agents.current(Time::ZERO + NEXT_HOME_AGENT_DELAY), None, "the pause stays");
        agents.advance(Time::ZERO, NEXT_HOME_AGENT_DELAY);
        assert_eq!(agents.current(Time::ZERO), None);
        agents.end_delay(Time::ZERO);
        assert_eq!(agents.current(Time::ZERO), Some(two), "it answers, and the first one does not");
    }
}
