//! Which home agent is asked: the configured ones in turn, or those found by dynamic home agent address discovery
//! (RFC 6275 §11.4.1, RFC 3963 §7).

use crate::base::time::Time;
use core::time::Duration;
use roam6_wire::{CareOfAddress, Prefix};
use std::net::Ipv6Addr;

/// Home agents remembered from one reply.
pub const MAX_HOME_AGENTS: usize = 8;

/// RFC 6275 §12: DHAAD_RETRIES and INITIAL_DHAAD_TIMEOUT.
const RETRIES: u32 = 4;
const INITIAL_TIMEOUT: Duration = Duration::from_secs(3);
/// After all home agents refused, or none was found, this long nobody is asked.
pub(super) const HOLD: Duration = Duration::from_secs(32);
/// After all home agents refused to serve a mobile router in every mode. RFC 3963 §5.4 says to stop; operators mend
/// prefix tables, and nobody would tell us.
const REST: Duration = Duration::from_secs(600);
/// Shortest time between two questions from different places: uplinks may flap.
const SPACING: Duration = Duration::from_secs(1);
/// RFC 6275 §11.7.1: between one home agent and the next.
pub(super) const NEXT: Duration = Duration::from_millis(1500);

/// Home agents and the one in use.
#[derive(Debug, Clone)]
pub struct HomeAgents {
    configured: bool,
    addresses: Vec<Ipv6Addr>,
    index: usize,
    not_before: Time,
    request: Option<Request>,
}

#[derive(Debug, Clone)]
struct Request {
    identifier: u16,
    /// Where it was asked from.
    from: CareOfAddress,
    /// How often, and when last.
    sent: u32,
    asked: Time,
    next: Time,
}

impl HomeAgents {
    /// The configured home agents, the preferred first; none: they are discovered.
    pub fn new(configured: &[Ipv6Addr]) -> HomeAgents {
        HomeAgents {
            configured: !configured.is_empty(),
            addresses: configured.to_vec(),
            index: 0,
            not_before: Time::ZERO,
            request: None,
        }
    }

    /// The home agent to ask now.
    pub fn current(&self, now: Time) -> Option<Ipv6Addr> {
        if self.not_before > now { None } else { self.addresses.get(self.index).copied() }
    }

    /// The home agent asked now or next.
    pub fn in_use(&self) -> Option<Ipv6Addr> {
        self.addresses.get(self.index).copied()
    }

    /// Begins with `address`, if it is one of them.
    pub fn prefer(&mut self, address: Option<Ipv6Addr>) {
        let found = self.addresses.iter().position(|known| Some(*known) == address);
        self.index = found.unwrap_or(self.index);
    }

    /// Whether `address` is one of them.
    pub fn contains(&self, address: Ipv6Addr) -> bool {
        self.addresses.contains(&address)
    }

    /// Asks `address` now, if it is one of them.
    pub fn turn_to(&mut self, now: Time, address: Ipv6Addr) {
        self.prefer(Some(address));
        self.not_before = self.not_before.min(now);
    }

    /// All of them, beginning with the one after that in use, which is the last.
    pub fn from_next(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        let (before, after) = self.addresses.split_at((self.index + 1).min(self.addresses.len()));
        after.iter().chain(before).copied()
    }

    /// Whether there is another one to go to.
    pub fn has_other(&self) -> bool {
        self.addresses.len() > 1
    }

    /// Goes to the next one; after the last, nobody is asked for `pause` and discovered ones are looked for anew.
    pub fn next(&mut self, now: Time, pause: Duration) {
        self.index += 1;
        self.not_before = now + NEXT;
        if self.index >= self.addresses.len() {
            self.index = 0;
            self.not_before = now + pause;
            if !self.configured {
                self.addresses.clear();
                self.request = None;
            }
        }
    }

    /// Whether every home agent has had its turn.
    pub fn is_round_over(&self) -> bool {
        self.index == 0
    }

    /// Begins another round without the pause after a vain one.
    pub fn begin_round(&mut self, now: Time) {
        self.not_before = now + NEXT;
    }

    /// Ends a pause: the operator may have changed what was in the way.
    pub fn wake(&mut self, now: Time) {
        self.not_before = self.not_before.min(now);
    }

    /// Asks nobody for a long while.
    pub fn rest(&mut self, now: Time) {
        self.not_before = now + REST;
    }

    /// Whether a request is to be sent now that the care-of address `from` is there; its identifier. That nobody answered
    /// elsewhere says nothing of here.
    pub fn expire(&mut self, now: Time, from: CareOfAddress, fresh: u16) -> Option<u16> {
        if self.configured || !self.addresses.is_empty() || self.not_before > now {
            return None;
        }
        let former = self.request.take_if(|request| request.from != from);
        let next = former.map_or(now, |former| former.asked + SPACING).max(now);
        let request = self.request.get_or_insert(Request { identifier: fresh, from, sent: 0, asked: now, next });
        if request.next > now {
            return None;
        }
        if request.sent >= RETRIES {
            self.request = None;
            self.not_before = now + HOLD;
            return None;
        }
        request.asked = now;
        request.next = now + INITIAL_TIMEOUT * (1 << request.sent);
        request.sent += 1;
        Some(request.identifier)
    }

    /// Takes a reply; `false` if nobody asked.
    pub fn hear(&mut self, identifier: u16, addresses: &[Ipv6Addr]) -> bool {
        if self.request.as_ref().is_none_or(|request| request.identifier != identifier) || addresses.is_empty() {
            return false;
        }
        self.request = None;
        self.addresses = addresses.iter().copied().take(MAX_HOME_AGENTS).collect();
        self.index = 0;
        true
    }

    /// When something is to be done.
    pub fn deadline(&self, now: Time) -> Option<Time> {
        let held = Some(self.not_before).filter(|at| *at > now);
        held.into_iter().chain(self.request.as_ref().map(|request| request.next)).min()
    }
}

/// The Mobile IPv6 Home-Agents anycast address of a prefix (RFC 2526 §2): identifier 126.
pub fn anycast(home: Prefix) -> Ipv6Addr {
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
    fn the_anycast_address_is_that_of_rfc2526() {
        let home: Prefix = "2001:db8::/64".parse().unwrap();
        assert_eq!(anycast(home), "2001:db8::fdff:ffff:ffff:fffe".parse::<Ipv6Addr>().unwrap());
        let home: Prefix = "2001:db8::/48".parse().unwrap();
        assert_eq!(anycast(home), "2001:db8:0:ffff:ffff:ffff:ffff:fffe".parse::<Ipv6Addr>().unwrap());
    }

    #[test]
    fn asks_four_times_with_doubling_pauses_then_rests() {
        let mut agents = HomeAgents::new(&[]);
        let from = CareOfAddress("2001:db8:f::1".parse().unwrap());
        let mut now = Time::ZERO;
        let mut asked = Vec::new();
        for _ in 0..4 {
            assert_eq!(agents.expire(now, from, 7), Some(7));
            asked.push(now.as_micros() / 1_000_000);
            assert_eq!(agents.expire(now, from, 8), None);
            now = agents.deadline(now).unwrap();
        }
        assert_eq!(asked, [0, 3, 9, 21]);
        assert_eq!(agents.expire(now, from, 9), None);
        assert_eq!(agents.deadline(now), Some(now + HOLD));
        assert!(!agents.hear(7, &["2001:db8::1".parse().unwrap()]), "too late");
    }

    #[test]
    fn from_elsewhere_it_asks_anew_and_soon() {
        let mut agents = HomeAgents::new(&[]);
        let [here, there] = ["2001:db8:f::1", "2001:db8:e::1"].map(|address| CareOfAddress(address.parse().unwrap()));
        assert_eq!(agents.expire(Time::ZERO, here, 7), Some(7));
        assert_eq!(agents.expire(Time::ZERO, here, 8), None);
        assert_eq!(agents.expire(Time::ZERO, there, 9), None);
        let soon = agents.deadline(Time::ZERO).unwrap();
        assert_eq!(soon, Time::ZERO + SPACING);
        assert_eq!(agents.expire(soon, there, 10), Some(9));
        assert!(!agents.hear(7, &["2001:db8::1".parse().unwrap()]), "to the former question");
    }

    #[test]
    fn after_the_last_home_agent_comes_a_rest_and_then_the_first() {
        let (one, two) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        let mut agents = HomeAgents::new(&[one, two]);
        assert_eq!(agents.current(Time::ZERO), Some(one));
        agents.next(Time::ZERO, HOLD);
        assert_eq!(agents.current(Time::ZERO), None);
        assert_eq!(agents.current(Time::ZERO + NEXT), Some(two));
        agents.next(Time::ZERO + NEXT, HOLD);
        assert_eq!(agents.current(Time::ZERO + NEXT + HOLD), Some(one));
    }
}
