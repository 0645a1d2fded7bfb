//! A default router of a visited link: its advertisement, and its neighbour unreachability detection (RFC 4861 §6.3.4,
//! §7.3; RFC 6275 §11.5.1).

use crate::contract::report::LossReason;
use crate::link::nd_messages;
use crate::{LinkId, Outbox, Time};
use core::time::Duration;
use roam6_wire::icmp6::{NeighbourOption, RouterAdvertisement};
use roam6_wire::ip6::MINIMUM_MTU;
use roam6_wire::{DomainName, LinkAddress, PortalUri, Prefix};
use std::net::Ipv6Addr;

/// Maximum prefixes of one router; further ones are ignored.
pub const MAX_PREFIXES: usize = 8;

/// Maximum resolvers, and search domains, of one router; RFC 8106 §5.3.1 requires three at least.
pub const MAX_RESOLVERS: usize = 8;
/// Neighbour Solicitations to a router in NUD, and the time between them.
const NUD_PROBES: u8 = 3;
const NUD_INTERVAL: Duration = Duration::from_millis(200);
/// The time between them after an advertisement of another router, which may mean another network: the link stayed up,
/// but a wireless one may have moved.
const QUICK_NUD_INTERVAL: Duration = Duration::from_millis(100);
/// A router confirmed within this time is not probed because of another router's advertisement.
const REACHABLE_TIME: Duration = Duration::from_secs(3);
/// Missed advertisements, by the Advertisement Interval option, before the router is probed (RFC 6275 §11.5.1).
const MAX_MISSED_ADVERTISEMENTS: u32 = 2;

/// A default router of the link.
#[derive(Debug, Clone)]
pub struct Router {
    /// Its link-local address.
    pub address: Ipv6Addr,
    /// Its link-layer address.
    pub link_address: Option<LinkAddress>,
    /// Whether it is a home agent (H flag, RFC 6275 §7.1).
    pub home_agent: bool,
    /// Whether the link is behind an ND proxy (P flag, RFC 4389 §4.1.3.3).
    pub proxy_flag: bool,
    /// The MTU option, if there was one, octets.
    pub mtu: Option<u32>,
    /// Whether addresses are assigned by DHCPv6 (M flag, RFC 4861 §4.2).
    pub managed: bool,
    /// Its prefixes, in the order of its advertisement.
    pub prefixes: Vec<RouterPrefix>,
    /// Recursive DNS servers, and the end of their lifetimes (RFC 8106 §5.1).
    pub resolvers: Vec<(Ipv6Addr, Time)>,
    /// DNS search domains, and the end of their lifetimes (RFC 8106 §5.2).
    pub search_domains: Vec<(DomainName, Time)>,
    /// The API of the network's captive portal (RFC 8910 §2.3).
    pub captive_portal: Option<PortalUri>,
    expires_at: Time,
    advertisement_interval: Option<Duration>,
    pub(super) last_heard: Time,
    nud: Option<NudProbes>,
}

/// A prefix that a router has advertised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterPrefix {
    /// The prefix.
    pub prefix: Prefix,
    /// The L flag.
    pub on_link: bool,
    /// The A flag.
    pub autonomous: bool,
    /// The router's own address in it (R flag, RFC 6275 §7.2).
    pub router_address: Option<Ipv6Addr>,
    /// End of the valid lifetime.
    pub valid_until: Time,
    /// End of the preferred lifetime.
    pub preferred_until: Time,
}

#[derive(Debug, Clone)]
struct NudProbes {
    next_at: Time,
    remaining: u8,
    interval: Duration,
}

impl Router {
    pub(super) fn new(now: Time, address: Ipv6Addr) -> Router {
        Router {
            address,
            link_address: None,
            home_agent: false,
            proxy_flag: false,
            mtu: None,
            managed: false,
            prefixes: Vec::new(),
            resolvers: Vec::new(),
            search_domains: Vec::new(),
            captive_portal: None,
            expires_at: now,
            advertisement_interval: None,
            last_heard: now,
            nud: None,
        }
    }

    /// The first preferred autonomous prefix, else the first valid one.
    pub fn care_of_prefix(&self, now: Time) -> Option<&RouterPrefix> {
        let usable = |known: &&RouterPrefix| known.autonomous && known.prefix.length() == 64 && known.valid_until > now;
        let preferred = self.prefixes.iter().filter(usable).find(|known| known.preferred_until > now);
        preferred.or_else(|| self.prefixes.iter().find(usable))
    }

    pub(super) fn is_usable(&self, now: Time, home: Prefix) -> bool {
        let is_home = |known: &RouterPrefix| known.on_link && known.valid_until > now && known.prefix == home;
        self.care_of_prefix(now).is_some() || self.managed || self.prefixes.iter().any(is_home)
    }

    /// Whether the advertisement has none of the known prefixes: many networks use `fe80::1` as router address.
    pub(super) fn is_of_other_network(&self, message: &RouterAdvertisement) -> bool {
        let mut prefixes =
            router_prefixes(self.last_heard, message).filter(|prefix| prefix.valid_until > self.last_heard).peekable();
        prefixes.peek().is_some()
            && !self.prefixes.is_empty()
            && prefixes.all(|prefix| self.prefixes.iter().all(|known| known.prefix != prefix.prefix))
    }

    /// Whether the advertisement is of another node with the same address, in another network.
    pub(super) fn is_other_node(&self, sender: Option<LinkAddress>, message: &RouterAdvertisement) -> bool {
        let link_address = nd_messages::source_link_address(&message.options);
        let differs = link_address.or(sender).zip(self.link_address).is_some_and(|(theirs, known)| theirs != known);
        differs && self.is_of_other_network(message)
    }

    pub(super) fn update(&mut self, now: Time, sender: Option<LinkAddress>, message: &RouterAdvertisement) {
        self.expires_at = now + Duration::from_secs(message.lifetime.into());
        self.home_agent = message.home_agent;
        self.proxy_flag = message.proxy;
        self.managed = message.managed;
        self.last_heard = now;
        self.nud = None;
        // An option that is absent never means a reset (RFC 4861 §6.2.7, §6.3.4).
        let mut link_address = None;
        for option in &message.options {
            match option {
                NeighbourOption::SourceLinkAddress(address) => link_address = Some(*address),
                NeighbourOption::Mtu(mtu) => self.mtu = (*mtu >= MINIMUM_MTU).then_some(*mtu),
                NeighbourOption::AdvertisementInterval { milliseconds } => {
                    self.advertisement_interval = Some(Duration::from_millis(u64::from(*milliseconds)));
                }
                NeighbourOption::RecursiveDns { lifetime, servers } => {
                    servers.iter().for_each(|server| set_expiry(&mut self.resolvers, now, *server, *lifetime));
                }
                NeighbourOption::DnsSearchList { lifetime, domains } => {
                    domains
                        .iter()
                        .for_each(|domain| set_expiry(&mut self.search_domains, now, domain.clone(), *lifetime));
                }
                NeighbourOption::CaptivePortal(uri) => self.captive_portal = Some(uri.clone()),
                _ => {}
            }
        }
        self.link_address = link_address.or(sender).or(self.link_address);
        for prefix in router_prefixes(now, message) {
            self.update_prefix(now, prefix);
        }
    }

    fn update_prefix(&mut self, now: Time, mut advertised: RouterPrefix) {
        // RFC 4862 §5.5.3: link-local prefixes and preferred beyond valid are ignored.
        if advertised.preferred_until > advertised.valid_until || nd_messages::is_link_local(advertised.prefix) {
            return;
        }
        if let Some(known) = self.prefixes.iter_mut().find(|known| known.prefix == advertised.prefix) {
            // RFC 4862 §5.5.3 e: an unauthenticated advertisement cuts the rest to two hours at worst.
            advertised.valid_until = advertised.valid_until.max(known.valid_until.min(now + TWO_HOURS));
            *known = advertised;
        } else if advertised.valid_until > now && self.prefixes.len() < MAX_PREFIXES {
            self.prefixes.push(advertised);
        }
    }

    pub(super) fn deadline(&self, current: Option<Ipv6Addr>) -> Time {
        let confirmation = self.nud.as_ref().map(|confirmation| confirmation.next_at);
        let missed = self.next_advertisement_due().filter(|_| current == Some(self.address) && confirmation.is_none());
        let prefixes = self.prefixes.iter().map(|known| known.valid_until);
        prefixes.chain(confirmation).chain(missed).fold(self.expires_at, Time::min)
    }

    /// When an advertisement counts as missed.
    fn next_advertisement_due(&self) -> Option<Time> {
        self.advertisement_interval
            .map(|interval| self.last_heard + interval.max(MIN_INTERVAL) * MAX_MISSED_ADVERTISEMENTS)
    }

    pub(super) fn loss_reason(&self, now: Time) -> Option<LossReason> {
        let silent = self.nud.as_ref().is_some_and(|probes| probes.remaining == 0 && probes.next_at <= now);
        match (self.expires_at <= now, silent) {
            (true, _) => Some(LossReason::Expired),
            (_, true) => Some(LossReason::Unreachable),
            _ => None,
        }
    }

    /// The router is reachable.
    pub(super) fn confirm_reachable(&mut self, now: Time) {
        self.nud = None;
        self.last_heard = now;
    }

    /// Starts NUD, unless it runs or the router was confirmed recently.
    pub(super) fn start_nud(&mut self, now: Time) {
        if self.nud.is_none() && now.since(self.last_heard) > REACHABLE_TIME.min(NUD_INTERVAL) {
            self.nud = Some(NudProbes { next_at: now, remaining: NUD_PROBES, interval: QUICK_NUD_INTERVAL });
        }
    }

    /// Continues NUD, or starts it because advertisements are missed.
    pub(super) fn send_nud_probe(
        &mut self,
        now: Time,
        link: LinkId,
        address: Option<LinkAddress>,
        current: bool,
        out: &mut Outbox,
    ) {
        if current && self.nud.is_none() && self.next_advertisement_due().is_some_and(|late| late <= now) {
            let interval = NUD_INTERVAL;
            self.nud = Some(NudProbes { next_at: now, remaining: NUD_PROBES, interval });
        }
        let Some(probes) = self.nud.as_mut().filter(|probes| probes.next_at <= now && probes.remaining > 0) else {
            return;
        };
        probes.remaining -= 1;
        probes.next_at = now + probes.interval;
        out.transmit(nd_messages::nud_solicitation(link, address, self.address, self.link_address));
    }
}

/// Lower bound of the Advertisement Interval, so that hostile values cost little (RFC 6275 §7.5 allows 70 ms).
const MIN_INTERVAL: Duration = Duration::from_millis(70);
const TWO_HOURS: Duration = Duration::from_secs(7200);

/// Sets the lifetime of `value` to `seconds` from now on; 0 removes it (RFC 8106 §6.2).
fn set_expiry<T: PartialEq>(known: &mut Vec<(T, Time)>, now: Time, value: T, seconds: u32) {
    let until = now + Duration::from_secs(seconds.into());
    known.retain(|(_, until)| *until > now);
    match known.iter().position(|(one, _)| *one == value) {
        Some(at) if seconds == 0 => drop(known.remove(at)),
        Some(at) => known.iter_mut().skip(at).take(1).for_each(|(_, end)| *end = until),
        None if seconds > 0 && known.len() < MAX_RESOLVERS => known.push((value, until)),
        None => {}
    }
}

fn router_prefixes(now: Time, message: &RouterAdvertisement) -> impl Iterator<Item = RouterPrefix> {
    message.options.iter().filter_map(move |option| match *option {
        NeighbourOption::PrefixInformation {
            prefix,
            address,
            on_link,
            autonomous,
            router_address,
            valid,
            preferred,
        } => Some(RouterPrefix {
            prefix,
            on_link,
            autonomous,
            router_address: router_address.then_some(address),
            valid_until: now + Duration::from_secs(valid.into()),
            preferred_until: now + Duration::from_secs(preferred.into()),
        }),
        _ => None,
    })
}
