//! Router discovery and movement detection on a visited link: solicitations, choice of the router, its loss, and
//! another network on the same link (RFC 4861 §6.3, RFC 7559, RFC 6275 §11.5.1).

use crate::base::ids::LinkId;
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use crate::contract::engine::Outbox;
use crate::contract::report::{HostReport, LinkReport, LossReason, Report};
use crate::link::nd_messages;
use core::time::Duration;
use roam6_wire::icmp6::{NeighbourOption, RouterAdvertisement};
use roam6_wire::{DomainName, LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// Maximum routers of one link; the one not heard for the longest time is removed.
pub const MAX_ROUTERS: usize = 8;
/// Maximum prefixes of one router; further ones are ignored.
pub const MAX_PREFIXES: usize = 8;

/// Maximum resolvers, and search domains, of one router; RFC 8106 §5.3.1 requires three at least.
pub const MAX_RESOLVERS: usize = 8;

/// First retransmission interval of a solicitation: short, since a link often loses the first frames after carrier-up.
const FIRST_SOLICITATION_INTERVAL: Duration = Duration::from_millis(20);
/// From this interval on intervals are randomized, so that the routers of a fleet that started together are not
/// solicited together for ever (RFC 7559 §2).
const RANDOMIZED_FROM: Duration = Duration::from_secs(4);
/// RFC 7559 §2: MRT, the maximum interval, apart from its random part.
const MAX_SOLICITATION_INTERVAL: Duration = Duration::from_secs(3600);
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

/// The state of router discovery on one link, from carrier-up to carrier-down.
#[derive(Debug, Clone)]
pub struct Attachment {
    link: LinkId,
    address: Option<LinkAddress>,
    /// The home prefix: its router is usable also if no address can be formed from it.
    home_prefix: Prefix,
    routers: VecMap<Ipv6Addr, Router>,
    current: Option<Ipv6Addr>,
    solicitation: Option<Solicitation>,
    /// An advertisement of another node with the address of the router in use, and with other prefixes.
    conflicting_ra: Option<ConflictingRa>,
    entropy: Entropy,
}

/// An advertisement that is accepted once the router in use is unreachable.
#[derive(Debug, Clone)]
struct ConflictingRa {
    source: Ipv6Addr,
    sender: Option<LinkAddress>,
    message: RouterAdvertisement,
}

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
    expires_at: Time,
    advertisement_interval: Option<Duration>,
    last_heard: Time,
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
struct Solicitation {
    next_at: Time,
    interval: Duration,
}

#[derive(Debug, Clone)]
struct NudProbes {
    next_at: Time,
    remaining: u8,
    interval: Duration,
}

impl Attachment {
    /// State for an interface that has just come up. The first solicitation is due at once: no random delay after a
    /// movement (RFC 6275 §11.5.1). A router of the `home` prefix counts whether or not addresses are formed from it.
    pub fn new(
        now: Time,
        (link, address): (LinkId, Option<LinkAddress>),
        home: Prefix,
        entropy: &mut Entropy,
    ) -> Attachment {
        let mut attachment = Attachment {
            link,
            address,
            home_prefix: home,
            routers: VecMap::new(),
            current: None,
            solicitation: None,
            conflicting_ra: None,
            entropy: Entropy::seed_from_u64(entropy.next_u64()),
        };
        attachment.start_solicitation(now);
        attachment
    }

    /// The router in use.
    pub fn router(&self) -> Option<&Router> {
        self.routers.get(&self.current?)
    }

    /// All known routers.
    pub fn routers(&self) -> impl Iterator<Item = &Router> {
        self.routers.values()
    }

    /// The best prefix of the router in use for a care-of address.
    pub fn care_of_prefix(&self, now: Time) -> Option<&RouterPrefix> {
        self.router()?.care_of_prefix(now)
    }

    /// The router in use and its on-link prefix that contains `address`.
    pub fn find_on_link(&self, now: Time, address: Ipv6Addr) -> Option<(&Router, &RouterPrefix)> {
        let on_link =
            |known: &&RouterPrefix| known.on_link && known.valid_until > now && known.prefix.contains(address);
        // Only the router in use counts: another one may advertise the network that was just left.
        let router = self.router()?;
        Some((router, router.prefixes.iter().find(on_link)?))
    }

    /// When [`Attachment::expire`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let solicitation = self.solicitation.iter().map(|solicitation| solicitation.next_at);
        let routers = self.routers.values().map(|router| router.deadline(self.current));
        solicitation.chain(routers).min()
    }

    /// When the next solicitation is due.
    pub fn next_solicitation(&self) -> Option<Time> {
        self.solicitation.as_ref().map(|solicitation| solicitation.next_at)
    }

    /// Whether solicitations have been unanswered for some seconds.
    pub fn is_unanswered(&self) -> bool {
        self.solicitation.as_ref().is_some_and(|solicitation| solicitation.interval >= RANDOMIZED_FROM)
    }

    /// Sends messages that are due, and removes expired routers and prefixes.
    pub fn expire(&mut self, now: Time, out: &mut Outbox) {
        let ended: Vec<(Ipv6Addr, LossReason)> = self
            .routers
            .values()
            .filter_map(|router| router.loss_reason(now).map(|why| (router.address, why)))
            .collect();
        for (router, why) in ended {
            self.drop_router(now, router, why, out);
        }
        for router in self.routers.values_mut() {
            router.prefixes.retain(|known| known.valid_until > now);
            router.send_nud_probe(now, self.link, self.address, self.current == Some(router.address), out);
        }
        if self.router().is_some_and(|router| !router.is_usable(now, self.home_prefix)) {
            self.select_router(now);
        }
        let Some(solicitation) = self.solicitation.as_mut().filter(|solicitation| solicitation.next_at <= now) else {
            return;
        };
        out.transmit(nd_messages::router_solicitation(self.link, self.address));
        out.report(Report::Link(LinkReport::RouterSolicitationSent { link: self.link }));
        solicitation.next_at = now + solicitation.interval;
        solicitation.interval = next_interval(solicitation.interval, &mut self.entropy);
    }

    /// Processes an advertisement that passed the checks of RFC 4861 §6.1.2, from `source` with the link-layer address
    /// `sender`.
    pub fn receive_advertisement(
        &mut self,
        now: Time,
        source: Ipv6Addr,
        sender: Option<LinkAddress>,
        message: &RouterAdvertisement,
        out: &mut Outbox,
    ) {
        if message.lifetime == 0 {
            self.drop_router(now, source, LossReason::Expired, out);
            return;
        }
        if self.current == Some(source) && self.routers.get(&source).is_some_and(|it| it.is_other_node(sender, message))
        {
            self.conflicting_ra = Some(ConflictingRa { source, sender, message: message.clone() });
            self.start_nud(now, source);
            return self.send_due_nud_probes(now, out);
        }
        let known = self.routers.contains_key(&source);
        if !known {
            self.make_room(out);
        }
        let router = self.routers.entry(source).or_insert_with(|| Router::new(now, source));
        let replaced = known && router.is_of_other_network(message);
        if replaced {
            router.prefixes.clear();
            router.resolvers.clear();
            router.search_domains.clear();
        }
        router.update(now, sender, message);
        if !router.is_usable(now, self.home_prefix) {
            return;
        }
        let forms_addresses = router.care_of_prefix(now).is_some();
        if !forms_addresses && self.current != Some(source) && self.care_of_prefix(now).is_some() {
            // DHCPv6 is the second choice: it takes longer, and the link may have both.
            return;
        }
        let Some(router) = self.routers.get(&source) else { return };
        let prefix = router.care_of_prefix(now).map(|known| known.prefix);
        if !known || replaced {
            out.report(Report::Link(LinkReport::RouterFound { link: self.link, router: source, prefix }));
        }
        self.select_or_probe(now, source, out);
    }

    /// A neighbour is reachable.
    pub fn confirm_reachable(&mut self, now: Time, neighbour: Ipv6Addr) {
        if let Some(router) = self.routers.get_mut(&neighbour) {
            router.nud = None;
            router.last_heard = now;
            self.conflicting_ra.take_if(|rival| rival.source == neighbour);
        }
    }

    /// Removes a router that is unreachable or ceased to be one; another one is selected, or solicitation starts anew.
    pub fn drop_router(&mut self, now: Time, address: Ipv6Addr, why: LossReason, out: &mut Outbox) {
        if self.routers.remove(&address).is_none() {
            return;
        }
        out.report(Report::Link(LinkReport::RouterLost { link: self.link, router: address, why }));
        if self.current == Some(address) {
            self.current = None;
            if let Some(rival) = self.conflicting_ra.take_if(|rival| rival.source == address) {
                self.receive_advertisement(now, rival.source, rival.sender, &rival.message, out);
            }
            if self.current.is_none() {
                self.select_router(now);
            }
        }
    }

    /// Switches to another usable router of the link, if there is one, because the path through the one in use is
    /// down.
    pub fn switch_router(&mut self, now: Time) -> bool {
        let usable = self.routers.values().filter(|router| router.is_usable(now, self.home_prefix));
        let other = usable.filter(|router| Some(router.address) != self.current).max_by_key(|router| router.last_heard);
        let Some(other) = other.map(|router| router.address) else { return false };
        self.current = Some(other);
        true
    }

    /// Another router may be a second one, an impostor, or mean another network on the same link. The router in use is
    /// therefore probed, and stays as long as it is reachable (RFC 4861 §6.3.6, §7.3.1).
    fn select_or_probe(&mut self, now: Time, heard: Ipv6Addr, out: &mut Outbox) {
        let current = self.router().map(|router| router.address);
        match current {
            None => {
                self.current = Some(heard);
                self.solicitation = None;
            }
            Some(current) if current == heard => self.solicitation = None,
            Some(_) if self.is_dhcp_only(now) => self.current = Some(heard),
            Some(current) => self.start_nud(now, current),
        }
        self.send_due_nud_probes(now, out);
    }

    /// Whether the router in use assigns addresses by DHCPv6 only.
    fn is_dhcp_only(&self, now: Time) -> bool {
        self.router().is_some_and(|router| router.managed && router.care_of_prefix(now).is_none())
    }

    /// Sends the NUD probes that are due.
    fn send_due_nud_probes(&mut self, now: Time, out: &mut Outbox) {
        for router in self.routers.values_mut() {
            router.send_nud_probe(now, self.link, self.address, self.current == Some(router.address), out);
        }
    }

    /// Starts NUD for `router`.
    fn start_nud(&mut self, now: Time, router: Ipv6Addr) {
        if let Some(router) = self.routers.get_mut(&router)
            && router.nud.is_none()
            && now.since(router.last_heard) > REACHABLE_TIME.min(NUD_INTERVAL)
        {
            router.nud = Some(NudProbes { next_at: now, remaining: NUD_PROBES, interval: QUICK_NUD_INTERVAL });
        }
    }

    /// Selects the usable router heard last, preferring those with a prefix, or starts solicitation.
    fn select_router(&mut self, now: Time) {
        let usable = self.routers.values().filter(|router| router.is_usable(now, self.home_prefix));
        let rank = |router: &&Router| (router.care_of_prefix(now).is_some(), router.last_heard);
        self.current = usable.max_by_key(rank).map(|router| router.address);
        if self.current.is_none() {
            self.start_solicitation(now);
        }
    }

    fn start_solicitation(&mut self, now: Time) {
        if self.solicitation.is_none() {
            self.solicitation = Some(Solicitation { next_at: now, interval: FIRST_SOLICITATION_INTERVAL });
        }
    }

    fn make_room(&mut self, out: &mut Outbox) {
        if self.routers.len() < MAX_ROUTERS {
            return;
        }
        out.report(Report::Host(HostReport::TableFull { table: "routers".to_owned(), limit: MAX_ROUTERS }));
        let others = self.routers.values().filter(|router| Some(router.address) != self.current);
        if let Some(oldest) = others.min_by_key(|router| router.last_heard).map(|router| router.address) {
            self.routers.remove(&oldest);
        }
    }
}

/// The next interval: twice the former, with a random part of a tenth (RFC 7559 §2, RFC 8415 §15).
fn next_interval(interval: Duration, entropy: &mut Entropy) -> Duration {
    let doubled = interval * 2;
    let (base, part) = if doubled > MAX_SOLICITATION_INTERVAL {
        (MAX_SOLICITATION_INTERVAL, MAX_SOLICITATION_INTERVAL / 10)
    } else if doubled < RANDOMIZED_FROM {
        return doubled;
    } else {
        (doubled, interval / 10)
    };
    let spread = u64::try_from(part.as_micros() * 2).unwrap_or(0);
    base - part + Duration::from_micros(entropy.below(spread + 1))
}

impl Router {
    fn new(now: Time, address: Ipv6Addr) -> Router {
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

    fn is_usable(&self, now: Time, home: Prefix) -> bool {
        let is_home = |known: &RouterPrefix| known.on_link && known.valid_until > now && known.prefix == home;
        self.care_of_prefix(now).is_some() || self.managed || self.prefixes.iter().any(is_home)
    }

    /// Whether the advertisement has none of the known prefixes: many networks use `fe80::1` as router address.
    fn is_of_other_network(&self, message: &RouterAdvertisement) -> bool {
        let mut heard =
            router_prefixes(self.last_heard, message).filter(|heard| heard.valid_until > self.last_heard).peekable();
        heard.peek().is_some()
            && !self.prefixes.is_empty()
            && heard.all(|heard| self.prefixes.iter().all(|known| known.prefix != heard.prefix))
    }

    /// Whether the advertisement is of another node with the same address, in another network.
    fn is_other_node(&self, sender: Option<LinkAddress>, message: &RouterAdvertisement) -> bool {
        let told = message.options.iter().find_map(|option| match option {
            NeighbourOption::SourceLinkAddress(address) => Some(*address),
            _ => None,
        });
        let differs = told.or(sender).zip(self.link_address).is_some_and(|(theirs, known)| theirs != known);
        differs && self.is_of_other_network(message)
    }

    fn update(&mut self, now: Time, sender: Option<LinkAddress>, message: &RouterAdvertisement) {
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
                NeighbourOption::Mtu(mtu) => self.mtu = (*mtu >= MIN_MTU).then_some(*mtu),
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
                _ => {}
            }
        }
        self.link_address = link_address.or(sender).or(self.link_address);
        for heard in router_prefixes(now, message) {
            self.update_prefix(now, heard);
        }
    }

    fn update_prefix(&mut self, now: Time, mut heard: RouterPrefix) {
        // RFC 4862 §5.5.3: link-local prefixes and preferred beyond valid are ignored.
        if heard.preferred_until > heard.valid_until || nd_messages::is_link_local(heard.prefix) {
            return;
        }
        if let Some(known) = self.prefixes.iter_mut().find(|known| known.prefix == heard.prefix) {
            // RFC 4862 §5.5.3 e: an unauthenticated advertisement cuts the rest to two hours at worst.
            heard.valid_until = heard.valid_until.max(known.valid_until.min(now + TWO_HOURS));
            *known = heard;
        } else if heard.valid_until > now && self.prefixes.len() < MAX_PREFIXES {
            self.prefixes.push(heard);
        }
    }

    fn deadline(&self, current: Option<Ipv6Addr>) -> Time {
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

    fn loss_reason(&self, now: Time) -> Option<LossReason> {
        let silent = self.nud.as_ref().is_some_and(|asked| asked.remaining == 0 && asked.next_at <= now);
        match (self.expires_at <= now, silent) {
            (true, _) => Some(LossReason::Expired),
            (_, true) => Some(LossReason::Unreachable),
            _ => None,
        }
    }

    /// Continues NUD, or starts it because advertisements are missed.
    fn send_nud_probe(
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
        let Some(asked) = self.nud.as_mut().filter(|asked| asked.next_at <= now && asked.remaining > 0) else {
            return;
        };
        asked.remaining -= 1;
        asked.next_at = now + asked.interval;
        out.transmit(nd_messages::nud_solicitation(link, address, self.address, self.link_address));
    }
}

/// Least link MTU of IPv6 (RFC 8200 §5).
const MIN_MTU: u32 = 1280;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::output::Output;

    const LINK: LinkId = LinkId(1);
    const MAC: Option<LinkAddress> = Some(LinkAddress([2, 0, 0, 0, 0, 1]));

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1000)
    }

    fn advertisement(prefix: &str, options: Vec<NeighbourOption>) -> RouterAdvertisement {
        let prefix: Prefix = prefix.parse().unwrap();
        let information = NeighbourOption::PrefixInformation {
            prefix,
            address: prefix.address(),
            on_link: true,
            autonomous: true,
            router_address: false,
            valid: 100,
            preferred: 50,
        };
        let options = [vec![information], options].concat();
        RouterAdvertisement { lifetime: 30, options, ..RouterAdvertisement::default() }
    }

    struct Bench {
        attachment: Attachment,
        lost: Vec<(u64, Ipv6Addr, LossReason)>,
        asked: usize,
    }

    impl Bench {
        fn new() -> Bench {
            let home = "2001:db8::/64".parse().unwrap();
            Bench {
                attachment: Attachment::new(at(0), (LINK, MAC), home, &mut Entropy::seed_from_u64(1)),
                lost: Vec::new(),
                asked: 0,
            }
        }

        fn hear(&mut self, millis: u64, source: &str, message: &RouterAdvertisement) {
            self.wait(millis);
            let mut out = Outbox::new();
            self.attachment.receive_advertisement(at(millis), ip(source), None, message, &mut out);
            self.note(millis, &mut out);
        }

        fn wait(&mut self, millis: u64) {
            while let Some(next) = self.attachment.deadline().filter(|next| *next <= at(millis)) {
                let mut out = Outbox::new();
                self.attachment.expire(next, &mut out);
                self.note(next.as_micros() / 1000, &mut out);
            }
        }

        fn note(&mut self, millis: u64, out: &mut Outbox) {
            for output in out.drain() {
                match output {
                    Output::Report(Report::Link(LinkReport::RouterLost { router, why, .. })) => {
                        self.lost.push((millis, router, why))
                    }
                    Output::Transmit(_) => self.asked += 1,
                    _ => {}
                }
            }
        }

        fn router(&self) -> Option<Ipv6Addr> {
            self.attachment.router().map(|router| router.address)
        }
    }

    #[test]
    fn router_that_misses_its_ra_interval_is_probed_by_nud_and_lost() {
        let mut bench = Bench::new();
        let interval = vec![NeighbourOption::AdvertisementInterval { milliseconds: 100 }];
        bench.hear(0, "fe80::1", &advertisement("2001:db8:1::/64", interval));
        bench.wait(799);
        assert_eq!(bench.router(), Some(ip("fe80::1")));
        bench.wait(800);
        assert_eq!(
            bench.lost,
            [(800, ip("fe80::1"), LossReason::Unreachable)],
            "two intervals and three questions later"
        );
        assert_eq!(bench.router(), None);
    }

    #[test]
    fn router_in_use_stays_while_it_answers_nud() {
        let mut bench = Bench::new();
        bench.hear(0, "fe80::1", &advertisement("2001:db8:1::/64", Vec::new()));
        bench.hear(5000, "fe80::2", &advertisement("2001:db8:2::/64", Vec::new()));
        assert_eq!(bench.router(), Some(ip("fe80::1")), "it works until it is seen not to");
        bench.attachment.confirm_reachable(at(5001), ip("fe80::1"));
        bench.hear(9000, "fe80::2", &advertisement("2001:db8:2::/64", Vec::new()));
        bench.wait(9299);
        assert!(bench.lost.is_empty());
        bench.wait(9300);
        assert_eq!(bench.lost, [(9300, ip("fe80::1"), LossReason::Unreachable)]);
        assert_eq!(bench.router(), Some(ip("fe80::2")));
    }

    #[test]
    fn ra_of_other_node_with_router_address_waits_for_nud() {
        let of = |last: u8, prefix: &str| {
            let address = LinkAddress([2, 0, 0, 0, 0, last]);
            advertisement(prefix, vec![NeighbourOption::SourceLinkAddress(address)])
        };
        for answers in [true, false] {
            let mut bench = Bench::new();
            bench.hear(0, "fe80::1", &of(1, "2001:db8:1::/64"));
            bench.hear(5000, "fe80::1", &of(2, "2001:db8:2::/64"));
            let prefix = |bench: &Bench| bench.attachment.care_of_prefix(at(5000)).unwrap().prefix.to_string();
            assert_eq!(prefix(&bench), "2001:db8:1::/64");
            if answers {
                bench.attachment.confirm_reachable(at(5001), ip("fe80::1"));
            }
            bench.wait(5300);
            assert_eq!(prefix(&bench), if answers { "2001:db8:1::/64" } else { "2001:db8:2::/64" });
        }
        let mut bench = Bench::new();
        bench.hear(0, "fe80::1", &of(1, "2001:db8:1::/64"));
        bench.hear(5000, "fe80::1", &of(1, "2001:db8:2::/64"));
        let prefix = bench.attachment.care_of_prefix(at(5000)).unwrap().prefix.to_string();
        assert_eq!(prefix, "2001:db8:2::/64", "its own word is believed at once");
    }

    #[test]
    fn other_router_is_used_when_path_is_down() {
        let mut bench = Bench::new();
        bench.hear(0, "fe80::1", &advertisement("2001:db8:1::/64", Vec::new()));
        assert!(!bench.attachment.switch_router(at(10)));
        bench.hear(100, "fe80::2", &advertisement("2001:db8:2::/64", Vec::new()));
        assert!(bench.attachment.switch_router(at(110)));
        assert_eq!(bench.router(), Some(ip("fe80::2")));
    }

    #[test]
    fn router_lifetime_zero_and_expiry_remove_router() {
        let mut bench = Bench::new();
        bench.hear(0, "fe80::1", &advertisement("2001:db8:1::/64", Vec::new()));
        bench.hear(10, "fe80::1", &RouterAdvertisement::default());
        assert_eq!(bench.lost, [(10, ip("fe80::1"), LossReason::Expired)]);
        bench.hear(20, "fe80::1", &advertisement("2001:db8:1::/64", Vec::new()));
        bench.wait(30_020);
        assert_eq!(bench.lost[1..], [(30_020, ip("fe80::1"), LossReason::Expired)]);
    }

    #[test]
    fn prefix_lifetime_is_not_cut_below_two_hours() {
        let mut bench = Bench::new();
        let with = |valid: u32, preferred: u32| {
            let mut message = advertisement("2001:db8:1::/64", Vec::new());
            message.lifetime = u16::MAX;
            if let Some(NeighbourOption::PrefixInformation { valid: v, preferred: p, .. }) = message.options.first_mut()
            {
                (*v, *p) = (valid, preferred);
            }
            message
        };
        bench.hear(0, "fe80::1", &with(90_000, 80_000));
        bench.hear(0, "fe80::1", &with(10, 0));
        let known = bench.attachment.care_of_prefix(at(0)).unwrap();
        assert_eq!((known.valid_until, known.preferred_until), (at(7_200_000), at(0)));
    }

    #[test]
    fn managed_router_is_used_if_no_prefix_is_advertised() {
        let mut bench = Bench::new();
        let managed = RouterAdvertisement { lifetime: 30, managed: true, ..RouterAdvertisement::default() };
        bench.hear(0, "fe80::1", &managed);
        assert_eq!(bench.router(), Some(ip("fe80::1")));
        bench.hear(10, "fe80::2", &advertisement("2001:db8:2::/64", Vec::new()));
        assert_eq!(bench.router(), Some(ip("fe80::2")));
        bench.hear(5000, "fe80::3", &managed);
        assert_eq!(bench.router(), Some(ip("fe80::2")), "not given up for an address by DHCPv6");
        bench.hear(5010, "fe80::2", &RouterAdvertisement::default());
        assert_eq!(bench.router(), Some(ip("fe80::3")), "the managed one heard last");
        bench.hear(5020, "fe80::4", &RouterAdvertisement { lifetime: 30, ..RouterAdvertisement::default() });
        assert_eq!(bench.router(), Some(ip("fe80::3")), "neither prefix nor M flag: of no use");
    }

    #[test]
    fn rdnss_and_dnssl_are_kept_for_their_lifetimes() {
        let mut bench = Bench::new();
        let domain: DomainName = "example.org".parse().unwrap();
        let told = |lifetime: u32, servers: Vec<Ipv6Addr>| {
            let domains = vec![domain.clone()];
            let options = vec![
                NeighbourOption::RecursiveDns { lifetime, servers },
                NeighbourOption::DnsSearchList { lifetime, domains },
            ];
            advertisement("2001:db8:1::/64", options)
        };
        let many: Vec<Ipv6Addr> = (1..=20).map(|number| Ipv6Addr::from_bits(0x2001_0db8 << 96 | number)).collect();
        bench.hear(0, "fe80::1", &told(60, many.clone()));
        let router = bench.attachment.router().unwrap();
        assert_eq!(router.resolvers.len(), MAX_RESOLVERS);
        assert_eq!(router.resolvers[0], (many[0], at(60_000)));
        assert_eq!(router.search_domains, [(domain.clone(), at(60_000))]);
        bench.hear(1000, "fe80::1", &told(0, vec![many[0]]));
        let router = bench.attachment.router().unwrap();
        assert_eq!((router.resolvers.len(), router.search_domains.len()), (MAX_RESOLVERS - 1, 0));
        assert!(router.resolvers.iter().all(|(one, _)| *one != many[0]));
    }

    #[test]
    fn router_of_home_prefix_is_used_without_autonomous_flag() {
        let mut bench = Bench::new();
        let mut message = advertisement("2001:db8::/64", Vec::new());
        if let Some(NeighbourOption::PrefixInformation { autonomous, .. }) = message.options.first_mut() {
            *autonomous = false;
        }
        bench.hear(0, "fe80::1", &message);
        assert!(bench.attachment.find_on_link(at(0), ip("2001:db8::100")).is_some());
        assert!(bench.attachment.care_of_prefix(at(0)).is_none());
    }

    #[test]
    fn rs_intervals_are_randomized_and_bounded_by_one_hour() {
        let mut entropy = Entropy::seed_from_u64(1);
        let mut intervals = vec![FIRST_SOLICITATION_INTERVAL];
        for index in 0..30 {
            intervals.push(next_interval(intervals[index], &mut entropy));
        }
        let early = intervals.iter().filter(|interval| **interval < RANDOMIZED_FROM);
        assert!(early.enumerate().all(|(index, interval)| *interval == FIRST_SOLICITATION_INTERVAL * (1 << index)));
        assert!(intervals.iter().all(|interval| *interval <= MAX_SOLICITATION_INTERVAL * 11 / 10));
        let late = &intervals[20..];
        assert!(late.iter().all(|interval| *interval >= MAX_SOLICITATION_INTERVAL * 9 / 10));
        assert!(late.windows(2).any(|pair| pair[0] != pair[1]));
    }
}
