//! Recursive DNS servers and search domains on ingress interfaces: the configured ones, else those of the visited
//! networks (RFC 8106 §5 and §6.3).

use super::MobileRouter;
use super::care_of_address::AddressLease;
use super::care_of_prefix::PrefixSource;
use crate::base::time::Time;
use crate::contract::config::nemo::IngressConfig;
use crate::link::advertiser::{AdvertisedLifetime, router_lifetime};
use core::time::Duration;
use roam6_wire::{DomainName, Prefix};
use std::net::Ipv6Addr;

/// Maximum resolvers, or search domains, advertised on one interface, withdrawn ones included.
const MAX_ADVERTISED: usize = 16;

/// Unique local addresses (RFC 4193 §3.1).
const UNIQUE_LOCAL: u128 = 0xfc00 << 112;

/// The DNS configuration of the visited networks, the preferred uplink's first, each value with the end of its
/// lifetime.
#[derive(Debug, Default)]
pub(super) struct LearnedDns {
    resolvers: Vec<(Ipv6Addr, Time)>,
    search_domains: Vec<(DomainName, Time)>,
    /// Whether any uplink is attached: while none is, advertised values expire.
    attached: bool,
}

/// Values with their advertised lifetimes.
type Lifetimes<T> = Vec<(T, AdvertisedLifetime)>;

/// The DNS configuration that the nodes of an interface may consider valid.
#[derive(Debug, Default, Clone)]
pub(super) struct IngressDns {
    resolvers: AdvertisedDns<Ipv6Addr>,
    search_domains: AdvertisedDns<DomainName>,
}

/// Values advertised on one interface.
#[derive(Debug, Clone)]
struct AdvertisedDns<T> {
    values: Vec<AdvertisedValue<T>>,
}

#[derive(Debug, Clone)]
struct AdvertisedValue<T> {
    value: T,
    /// When it expires at the nodes.
    believed_until: Time,
    /// Whether it is advertised with lifetime 0 until then.
    withdrawn: bool,
}

impl<T> Default for AdvertisedDns<T> {
    fn default() -> AdvertisedDns<T> {
        AdvertisedDns { values: Vec::new() }
    }
}

impl<T: Clone + PartialEq> AdvertisedDns<T> {
    /// Replaces the values by `offered`, each for `longest` at most and no longer than offered. A value that is no
    /// longer offered is withdrawn with lifetime 0 if `others` replace it, else it expires.
    fn update(&mut self, now: Time, offered: &[(T, Time)], longest: Duration, others: bool) -> Lifetimes<T> {
        let is_offered = |value: &T| offered.iter().any(|(one, _)| one == value);
        self.values.retain(|known| known.believed_until > now && !is_offered(&known.value));
        self.values.iter_mut().for_each(|known| known.withdrawn |= others);
        let current = offered.iter().take(MAX_ADVERTISED);
        let current: Vec<AdvertisedValue<T>> = current
            .map(|(value, until)| AdvertisedValue {
                value: value.clone(),
                believed_until: (*until).min(now + longest),
                withdrawn: false,
            })
            .collect();
        let lifetimes = offered.iter().map(|(_, until)| AdvertisedLifetime::Until(*until, longest));
        let mut advertised: Lifetimes<T> = current.iter().map(|known| known.value.clone()).zip(lifetimes).collect();
        self.values.splice(0..0, current);
        self.values.truncate(MAX_ADVERTISED);
        for known in self.values.iter().filter(|known| !is_offered(&known.value)) {
            let lifetime = if known.withdrawn {
                AdvertisedLifetime::Zero
            } else {
                AdvertisedLifetime::Until(known.believed_until, longest)
            };
            advertised.push((known.value.clone(), lifetime));
        }
        advertised
    }
}

impl MobileRouter {
    /// The DNS configuration of the visited networks. A resolver that answers only nodes of the visited network is
    /// left out: packets of the mobile network come from the home network.
    pub(super) fn learned_dns(&self, now: Time) -> LearnedDns {
        let mut learned = LearnedDns::default();
        let local = self.config.care_of_prefixes.is_some();
        let mut uplinks: Vec<_> = self.uplinks.iter().filter(|uplink| uplink.is_up() && !uplink.is_barred()).collect();
        uplinks.sort_by_key(|uplink| uplink.config.priority);
        for uplink in uplinks {
            let Some(router) = uplink.attachment.as_ref().and_then(|attachment| attachment.router()) else { continue };
            learned.attached = true;
            let usable = router.resolvers.iter().filter(|(address, _)| is_reachable(*address, local));
            add_longest(&mut learned.resolvers, now, usable);
            add_longest(&mut learned.search_domains, now, router.search_domains.iter());
            let leased = uplink.lease.as_ref().and_then(AddressLease::dns);
            let delegated = self.prefix_sources.get(&uplink.config.bid).and_then(PrefixSource::dns);
            for (names, until) in leased.into_iter().chain(delegated) {
                let servers: Vec<_> = names.servers.iter().map(|server| (*server, until)).collect();
                let domains: Vec<_> = names.search_domains.iter().map(|domain| (domain.clone(), until)).collect();
                add_longest(
                    &mut learned.resolvers,
                    now,
                    servers.iter().filter(|(address, _)| is_reachable(*address, local)),
                );
                add_longest(&mut learned.search_domains, now, domains.iter());
            }
        }
        learned
    }
}

impl IngressDns {
    /// The values to advertise on the interface of `config`: configured ones, else learned ones.
    pub(super) fn update(
        &mut self,
        now: Time,
        config: &IngressConfig,
        learned: &LearnedDns,
    ) -> (Lifetimes<Ipv6Addr>, Lifetimes<DomainName>) {
        let longest = Duration::from_secs(router_lifetime(config.advertisement_interval).into());
        let (dns, search) = (config.dns.as_ref(), config.search_domains.as_ref());
        let resolvers = dns.map(|set| set.iter().map(|server| (*server, FOREVER)).collect());
        let resolvers: &Vec<_> = resolvers.as_ref().unwrap_or(&learned.resolvers);
        let domains = search.map(|set| set.iter().map(|domain| (domain.clone(), FOREVER)).collect());
        let domains: &Vec<_> = domains.as_ref().unwrap_or(&learned.search_domains);
        let resolvers = self.resolvers.update(now, resolvers, longest, learned.attached || dns.is_some());
        let search = self.search_domains.update(now, domains, longest, learned.attached || search.is_some());
        (resolvers, search)
    }
}

/// The end of what does not end.
const FOREVER: Time = Time::from_micros(u64::MAX);

fn add_longest<'a, T: Clone + PartialEq + 'a>(
    all: &mut Vec<(T, Time)>,
    now: Time,
    offered: impl Iterator<Item = &'a (T, Time)>,
) {
    for (value, until) in offered.filter(|(_, until)| *until > now) {
        match all.iter_mut().find(|(known, _)| known == value) {
            Some((_, known)) => *known = (*known).max(*until),
            None => all.push((value.clone(), *until)),
        }
    }
}

/// Whether a resolver of a visited network answers nodes of the mobile network; `local`: these may have addresses of
/// the visited network.
fn is_reachable(address: Ipv6Addr, local: bool) -> bool {
    let unique_local = Prefix::new(Ipv6Addr::from_bits(UNIQUE_LOCAL), 7).is_some_and(|all| all.contains(address));
    let unusable = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    !unusable && !address.is_unicast_link_local() && (local || !unique_local)
}
