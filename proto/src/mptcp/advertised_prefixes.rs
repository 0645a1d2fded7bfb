//! Prefixes that the routers of a link advertise. An address needs the router that advertises its prefix, so an address
//! whose router is gone has no route, whatever the routing table says (RFC 4861 §6.3.4, RFC 8028 §3.1).

use crate::{Time, VecMap};
use core::time::Duration;
use roam6_wire::Prefix;
use roam6_wire::icmp6::{NeighbourOption, RouterAdvertisement};
use std::net::Ipv6Addr;

/// Routers remembered on one link; the one that expires first is replaced.
pub const MAX_ROUTERS: usize = 8;
/// Prefixes remembered of one router; a deprecated one is replaced, the first to expire. Further ones are ignored.
pub const MAX_PREFIXES: usize = 16;

/// An advertisement cannot shorten a valid lifetime below this (RFC 4862 §5.5.3 e). The address of a withdrawn prefix
/// is deprecated, and remains for existing connections.
const TWO_HOURS: Duration = Duration::from_secs(7200);

/// The routers of one link and their prefixes.
#[derive(Debug, Clone, Default)]
pub struct AdvertisedPrefixes {
    routers: VecMap<Ipv6Addr, Router>,
}

#[derive(Debug, Clone)]
struct Router {
    expires: Time,
    reachable: bool,
    prefixes: VecMap<Prefix, Lifetimes>,
}

/// Lifetimes of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// End of the preferred lifetime.
    pub preferred_until: Time,
    /// End of the valid lifetime.
    pub valid_until: Time,
}

impl AdvertisedPrefixes {
    /// Processes a Router Advertisement that passed the checks of RFC 4861 §6.1.2; `false` if it replaced a router. The
    /// prefixes of an expired router are forgotten, and have to be advertised again.
    pub fn handle_advertisement(&mut self, now: Time, router: Ipv6Addr, message: &RouterAdvertisement) -> bool {
        self.expire(now);
        let room = self.routers.contains_key(&router) || self.routers.len() < MAX_ROUTERS;
        if !room && let Some(oldest) = self.routers.iter().min_by_key(|(_, known)| known.expires).map(|(at, _)| *at) {
            self.routers.remove(&oldest);
        }
        let new = Router { expires: now, reachable: true, prefixes: VecMap::new() };
        let known = self.routers.entry(router).or_insert(new);
        known.reachable = true;
        known.expires = now + Duration::from_secs(message.lifetime.into());
        for option in &message.options {
            let NeighbourOption::PrefixInformation { prefix, valid, preferred, .. } = option else { continue };
            // RFC 4862 §5.5.3: preferred beyond valid is an error.
            if preferred > valid || prefix.length() < MIN_PREFIX_LENGTH || prefix.address().is_unicast_link_local() {
                continue;
            }
            let news = !known.prefixes.contains_key(prefix);
            if news && (*valid == 0 || !known.make_room(now)) {
                continue;
            }
            let until = |seconds: u32| now + Duration::from_secs(seconds.into());
            let before = known.prefixes.get(prefix).map_or(now, |lifetimes| lifetimes.valid_until);
            let valid_until = until(*valid).max(before.min(now + TWO_HOURS));
            known.prefixes.insert(*prefix, Lifetimes { preferred_until: until(*preferred), valid_until });
        }
        room
    }

    /// Records the kernel's reachability state of a neighbour, which may be a router.
    pub fn set_reachable(&mut self, router: Ipv6Addr, reachable: bool) {
        if let Some(router) = self.routers.get_mut(&router) {
            router.reachable = reachable;
        }
    }

    /// The prefix of `address` with the longest preferred lifetime, and its reachable router.
    pub fn find(&self, now: Time, address: Ipv6Addr) -> Option<(Prefix, Ipv6Addr, Lifetimes)> {
        let there = self.routers.iter().filter(|(_, router)| router.reachable && router.expires > now);
        let prefixes =
            there.flat_map(|(at, router)| router.prefixes.iter().map(|(prefix, until)| (*prefix, *at, *until)));
        let holding = prefixes.filter(|(prefix, _, until)| prefix.contains(address) && until.valid_until > now);
        holding.max_by_key(|(prefix, at, until)| (until.preferred_until, *prefix, *at))
    }

    /// A reachable router.
    pub fn router(&self, now: Time) -> Option<Ipv6Addr> {
        self.routers.iter().find(|(_, router)| router.reachable && router.expires > now).map(|(address, _)| *address)
    }

    /// When the next lifetime ends.
    pub fn deadline(&self, now: Time) -> Option<Time> {
        let prefixes = self.routers.values().flat_map(|router| router.prefixes.values());
        let ends = prefixes.flat_map(|until| [until.preferred_until, until.valid_until]);
        ends.chain(self.routers.values().map(|router| router.expires)).filter(|end| *end > now).min()
    }

    /// Removes expired routers and prefixes.
    pub fn expire(&mut self, now: Time) {
        self.routers.retain(|_, router| {
            router.prefixes.retain(|_, until| until.valid_until > now);
            router.expires > now
        });
    }
}

impl Router {
    /// Removes a deprecated prefix if the table is full; `false` if it remains full.
    fn make_room(&mut self, now: Time) -> bool {
        if self.prefixes.len() < MAX_PREFIXES {
            return true;
        }
        let over = self.prefixes.iter().filter(|(_, until)| until.preferred_until <= now);
        let over = over.min_by_key(|(_, until)| until.valid_until).map(|(prefix, _)| *prefix);
        over.is_some_and(|prefix| self.prefixes.remove(&prefix).is_some())
    }
}

/// Shortest prefix accepted on an interface, bits.
const MIN_PREFIX_LENGTH: u8 = 48;

#[cfg(test)]
mod tests {
    use super::*;

    fn advertisement(lifetime: u16, prefix: &str) -> RouterAdvertisement {
        let option = NeighbourOption::PrefixInformation {
            prefix: prefix.parse().unwrap(),
            address: Ipv6Addr::UNSPECIFIED,
            on_link: true,
            autonomous: true,
            router_address: false,
            valid: 3600,
            preferred: 3600,
        };
        RouterAdvertisement { lifetime, options: vec![option], ..Default::default() }
    }

    #[test]
    fn prefixes_of_an_expired_router_are_forgotten() {
        let (router, first, second) = ("fe80::1", "2001:db8:1::5", "2001:db8:2::5");
        let [router, first, second] = [router, first, second].map(|text| text.parse::<Ipv6Addr>().unwrap());
        let at = |seconds: u64| Time::from_micros(seconds * 1_000_000);
        let mut advertised = AdvertisedPrefixes::default();
        advertised.handle_advertisement(at(0), router, &advertisement(20, "2001:db8:1::/64"));
        advertised.handle_advertisement(at(19), router, &advertisement(20, "2001:db8:2::/64"));
        assert!(advertised.find(at(19), first).is_some() && advertised.find(at(19), second).is_some());
        advertised.handle_advertisement(at(39), router, &advertisement(20, "2001:db8:2::/64"));
        assert!(advertised.find(at(39), first).is_none() && advertised.find(at(39), second).is_some());
    }
}
