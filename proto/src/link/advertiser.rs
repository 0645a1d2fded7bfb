//! The router side of Neighbour Discovery on ingress interfaces (RFC 4861 §6.2), never on a visited link. Lifetimes of
//! delegated prefixes count down (RFC 8415 §6.3, RFC 7084 §4.3).

use crate::link::nd_messages;
use crate::{Entropy, LinkId, Outbox, Time, TokenBucket, Via};
use core::time::Duration;
use roam6_wire::icmp6::{self, Message, NeighbourOption, RouterAdvertisement, RouterPreference};
use roam6_wire::{DomainName, LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// RFC 4861 §10: MAX_INITIAL_RTR_ADVERTISEMENTS and MAX_INITIAL_RTR_ADVERT_INTERVAL.
const MAX_INITIAL_RTR_ADVERTISEMENTS: u8 = 3;
const MAX_INITIAL_RTR_ADVERT_INTERVAL: Duration = Duration::from_secs(16);
/// RFC 4861 §6.2.1: longest MaxRtrAdvInterval; RFC 6275 §7.5: shortest.
const MAX_INTERVAL: Duration = Duration::from_secs(1800);
const MIN_INTERVAL: Duration = Duration::from_millis(70);
/// RFC 4861 §6.2.1: AdvValidLifetime and AdvPreferredLifetime.
pub const VALID_LIFETIME: Duration = Duration::from_secs(2_592_000);
/// See [`VALID_LIFETIME`].
pub const PREFERRED_LIFETIME: Duration = Duration::from_secs(604_800);
/// Interval between the first advertisements of a change that nodes must not miss, since a frame may be lost (RFC 6275
/// §7.5 allows 30 ms).
const QUICK_INTERVAL: Duration = Duration::from_millis(200);
/// RFC 4861 §6.2.1: upper limit of AdvDefaultLifetime, seconds.
const MAX_ROUTER_LIFETIME: u16 = 9000;
/// Burst and interval of solicited advertisements. RFC 4861 §6.2.6 delays them at random so that the routers of one
/// link do not send at once; an ingress interface has only this router.
const SOLICITED_BURST: u32 = 8;
const SOLICITED_INTERVAL: Duration = Duration::from_millis(50);

/// The advertiser of one interface.
#[derive(Debug, Clone)]
pub struct Advertiser {
    link: LinkId,
    address: LinkAddress,
    content: RaContent,
    sent: u8,
    next_at: Time,
    solicited_limiter: TokenBucket,
}

/// The content of a Router Advertisement.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RaContent {
    /// Prefixes, for hosts to form addresses from.
    pub prefixes: Vec<AdvertisedPrefix>,
    /// Prefixes for the Route Information option (RFC 4191 §2.3).
    pub routes: Vec<(Prefix, AdvertisedLifetime)>,
    /// Recursive DNS servers (RFC 8106 §5.1), in order of preference.
    pub resolvers: Vec<(Ipv6Addr, AdvertisedLifetime)>,
    /// DNS search domains (RFC 8106 §5.2), in search order.
    pub search_domains: Vec<(DomainName, AdvertisedLifetime)>,
    /// MTU of the path to the Internet, octets, if less than the link's.
    pub mtu: Option<u32>,
    /// Longest interval between advertisements.
    pub interval: Duration,
    /// The P flag: one of the prefixes is shared with another link by an ND proxy (RFC 4389 §4.1.3.3).
    pub proxy_flag: bool,
    /// Whether a change is repeated quickly, because nodes that miss it lose connections.
    pub repeat_quickly: bool,
}

/// A Prefix Information option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdvertisedPrefix {
    /// The prefix.
    pub prefix: Prefix,
    /// The L flag; if clear, nodes send packets for the prefix to this router (RFC 4861 §4.6.2).
    pub on_link: bool,
    /// Valid lifetime.
    pub valid: AdvertisedLifetime,
    /// Preferred lifetime.
    pub preferred: AdvertisedLifetime,
}

/// The lifetime of an advertised value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdvertisedLifetime {
    /// Zero: withdrawn.
    Zero,
    /// Constant.
    Fixed(Duration),
    /// Counts down to the end, and never exceeds the duration.
    Until(Time, Duration),
}

impl AdvertisedLifetime {
    /// The remaining lifetime.
    pub fn remaining(self, now: Time) -> Duration {
        match self {
            AdvertisedLifetime::Zero => Duration::ZERO,
            AdvertisedLifetime::Fixed(span) => span,
            AdvertisedLifetime::Until(end, most) => end.since(now).min(most),
        }
    }

    /// In whole seconds, as on the wire; a fraction counts as zero.
    fn seconds(self, now: Time) -> u32 {
        u32::try_from(self.remaining(now).as_secs()).unwrap_or(u32::MAX)
    }
}

impl RaContent {
    /// The content apart from the value of its lifetimes: a change of it is advertised at once.
    fn without_lifetimes(&self, now: Time) -> impl PartialEq + '_ {
        let alive = move |lifetime: AdvertisedLifetime| lifetime.seconds(now) > 0;
        let prefixes = self.prefixes.iter();
        let prefixes = prefixes.map(move |one| (one.prefix, one.on_link, alive(one.valid), alive(one.preferred)));
        let routes = self.routes.iter().map(move |(prefix, lifetime)| (*prefix, alive(*lifetime)));
        let (prefixes, routes) = (prefixes.collect::<Vec<_>>(), routes.collect::<Vec<_>>());
        let resolvers = self.resolvers.iter().map(move |(server, lifetime)| (server, alive(*lifetime)));
        let search = self.search_domains.iter().map(move |(domain, lifetime)| (domain, alive(*lifetime)));
        let names = (resolvers.collect::<Vec<_>>(), search.collect::<Vec<_>>());
        (prefixes, routes, names, self.mtu, self.interval, self.proxy_flag)
    }
}

impl Advertiser {
    /// An advertiser for an interface that has just come up; the first advertisement is due at once.
    pub fn new(now: Time, link: LinkId, address: LinkAddress, content: RaContent) -> Advertiser {
        let answers = TokenBucket::new(SOLICITED_BURST, SOLICITED_INTERVAL);
        Advertiser { link, address, content, sent: 0, next_at: now, solicited_limiter: answers }
    }

    /// Replaces the content; a change is advertised at once, as often as at the start (RFC 4861 §6.2.4).
    pub fn update(&mut self, now: Time, content: RaContent) {
        if self.content.without_lifetimes(now) != content.without_lifetimes(now) {
            self.sent = 0;
            self.next_at = now;
        }
        self.content = content;
    }

    /// When the next advertisement is due.
    pub fn deadline(&self) -> Time {
        self.next_at
    }

    /// Sends the advertisement that is due.
    pub fn send_due(&mut self, now: Time, entropy: &mut Entropy, out: &mut Outbox) {
        if self.next_at > now {
            return;
        }
        self.send(now, (icmp6::ALL_NODES, None), self.lifetime(), out);
        self.sent = self.sent.saturating_add(1);
        let longest = self.interval();
        // RFC 4861 §6.2.4: uniform between MinRtrAdvInterval, here a third of the maximum, and MaxRtrAdvInterval.
        let spread = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX) * 2 / 3;
        let mut wait = longest / 3 + Duration::from_micros(entropy.below(spread));
        if self.sent < MAX_INITIAL_RTR_ADVERTISEMENTS {
            wait = wait.min(if self.content.repeat_quickly { QUICK_INTERVAL } else { MAX_INITIAL_RTR_ADVERT_INTERVAL });
        }
        self.next_at = now + self.advertised_lifetime(now).map_or(wait, |lifetime| wait.min(lifetime));
    }

    /// The shortest preferred lifetime that nodes have received, less a second for its renewal; `None` if none counts
    /// down. A lease may be shorter than the interval.
    fn advertised_lifetime(&self, now: Time) -> Option<Duration> {
        let ends = self.content.prefixes.iter().map(|one| one.preferred);
        let ends = ends.filter(|preferred| matches!(preferred, AdvertisedLifetime::Until(..)));
        let soonest = ends.map(|preferred| preferred.seconds(now)).filter(|seconds| *seconds > 0).min()?;
        Some(Duration::from_secs(u64::from(soonest.saturating_sub(1).max(1))))
    }

    /// Answers a Router Solicitation: by unicast if the source's link-layer address is known, else to all nodes.
    /// Returns `false` if the rate limit forbids an answer.
    pub fn answer_solicitation(
        &mut self,
        now: Time,
        asker: Ipv6Addr,
        link_address: Option<LinkAddress>,
        out: &mut Outbox,
    ) -> bool {
        if !self.solicited_limiter.take(now) {
            return false;
        }
        let to = match link_address.filter(|_| asker.is_unicast_link_local()) {
            Some(link_address) => (asker, Some(link_address)),
            None => (icmp6::ALL_NODES, None),
        };
        self.send(now, to, self.lifetime(), out);
        true
    }

    /// Sends the final advertisement of a router that stops (RFC 4861 §6.2.5). Prefixes with a limited lifetime are
    /// withdrawn, the others deprecated, since a later run may advertise others in their place (RFC 9096 §3.5).
    pub fn stop(&mut self, now: Time, out: &mut Outbox) {
        for one in &mut self.content.prefixes {
            one.preferred = AdvertisedLifetime::Zero;
            if let AdvertisedLifetime::Until(..) = one.valid {
                one.valid = AdvertisedLifetime::Zero;
            }
        }
        self.send_final(now, out);
    }

    /// The same for an interface that is removed from the configuration: all its prefixes are withdrawn (RFC 9096
    /// §3.5).
    pub fn withdraw(&mut self, now: Time, out: &mut Outbox) {
        for one in &mut self.content.prefixes {
            (one.valid, one.preferred) = (AdvertisedLifetime::Zero, AdvertisedLifetime::Zero);
        }
        self.send_final(now, out);
    }

    fn send_final(&mut self, now: Time, out: &mut Outbox) {
        self.content.resolvers.iter_mut().for_each(|(_, lifetime)| *lifetime = AdvertisedLifetime::Zero);
        self.content.search_domains.iter_mut().for_each(|(_, lifetime)| *lifetime = AdvertisedLifetime::Zero);
        self.content.routes.iter_mut().for_each(|(_, lifetime)| *lifetime = AdvertisedLifetime::Zero);
        self.send(now, (icmp6::ALL_NODES, None), 0, out);
    }

    fn send(&self, now: Time, (to, link_address): (Ipv6Addr, Option<LinkAddress>), lifetime: u16, out: &mut Outbox) {
        let content = &self.content;
        let mut options = vec![NeighbourOption::SourceLinkAddress(self.address)];
        options.extend(content.prefixes.iter().map(|one| NeighbourOption::PrefixInformation {
            prefix: one.prefix,
            address: one.prefix.address(),
            on_link: one.on_link,
            autonomous: true,
            router_address: false,
            valid: one.valid.seconds(now),
            preferred: one.preferred.seconds(now).min(one.valid.seconds(now)),
        }));
        options.extend(content.routes.iter().map(|(prefix, lifetime)| NeighbourOption::RouteInformation {
            prefix: *prefix,
            preference: RouterPreference::Medium,
            lifetime: lifetime.seconds(now),
        }));
        let resolvers = group_by_lifetime(&content.resolvers, now).into_iter();
        options.extend(resolvers.map(|(lifetime, servers)| NeighbourOption::RecursiveDns { lifetime, servers }));
        let search = group_by_lifetime(&content.search_domains, now).into_iter();
        options.extend(search.map(|(lifetime, domains)| NeighbourOption::DnsSearchList { lifetime, domains }));
        options.extend(content.mtu.map(NeighbourOption::Mtu));
        if content.interval < Duration::from_secs(4) {
            let milliseconds = u32::try_from(self.interval().as_millis()).unwrap_or(u32::MAX);
            options.push(NeighbourOption::AdvertisementInterval { milliseconds });
        }
        let proxy = content.proxy_flag;
        let message =
            RouterAdvertisement { hop_limit: ADV_CUR_HOP_LIMIT, proxy, lifetime, options, ..Default::default() };
        let message = Message::RouterAdvertisement(message);
        let via = Via::on_link(self.link, link_address);
        out.transmit(nd_messages::transmit_on_link(via, &message, self.address.link_local(), to));
    }

    fn interval(&self) -> Duration {
        self.content.interval.clamp(MIN_INTERVAL, MAX_INTERVAL)
    }

    fn lifetime(&self) -> u16 {
        router_lifetime(self.content.interval)
    }
}

/// Groups adjacent values with equal lifetimes: an option has one lifetime (RFC 8106 §5.1).
fn group_by_lifetime<T: Clone>(values: &[(T, AdvertisedLifetime)], now: Time) -> Vec<(u32, Vec<T>)> {
    let mut groups: Vec<(u32, Vec<T>)> = Vec::new();
    for (value, lifetime) in values {
        let seconds = lifetime.seconds(now);
        match groups.last_mut().filter(|(other, _)| *other == seconds) {
            Some((_, group)) => group.push(value.clone()),
            None => groups.push((seconds, vec![value.clone()])),
        }
    }
    groups
}

/// Three times the interval, seconds; never 0, which would mean "not a default router" (RFC 4861 §6.2.1).
pub fn router_lifetime(interval: Duration) -> u16 {
    let seconds = (interval.clamp(MIN_INTERVAL, MAX_INTERVAL) * 3).as_millis().div_ceil(1000);
    u16::try_from(seconds).unwrap_or(u16::MAX).min(MAX_ROUTER_LIFETIME)
}

/// The hop limit that hosts use (RFC 4861 §6.2.1, AdvCurHopLimit).
const ADV_CUR_HOP_LIMIT: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::output::Output;
    use roam6_wire::ip6::Datagram;

    const LINK: LinkId = LinkId(1);
    const MAC: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 1]);

    fn content(seconds: u64) -> RaContent {
        let (valid, preferred) =
            (AdvertisedLifetime::Fixed(VALID_LIFETIME), AdvertisedLifetime::Fixed(PREFERRED_LIFETIME));
        let prefix = "2001:db8:f00::/64".parse().unwrap();
        RaContent {
            prefixes: vec![AdvertisedPrefix { prefix, on_link: true, valid, preferred }],
            routes: Vec::new(),
            resolvers: Vec::new(),
            search_domains: Vec::new(),
            mtu: Some(1460),
            interval: Duration::from_secs(seconds),
            proxy_flag: false,
            repeat_quickly: false,
        }
    }

    fn sent(out: &mut Outbox) -> Vec<RouterAdvertisement> {
        out.drain()
            .filter_map(|output| match output {
                Output::Transmit(transmit) => {
                    let datagram = Datagram::parse(&transmit.bytes).unwrap();
                    let message = Message::parse(&datagram).unwrap();
                    message.check_on_link(&datagram).unwrap();
                    match message {
                        Message::RouterAdvertisement(message) => Some(message),
                        _ => None,
                    }
                }
                _ => None,
            })
            .collect()
    }

    #[test]
    fn ra_is_sent_at_once_periodically_and_on_change() {
        let mut entropy = Entropy::seed_from_u64(1);
        let mut advertiser = Advertiser::new(Time::ZERO, LINK, MAC, content(60));
        let (mut out, mut now) = (Outbox::new(), Time::ZERO);
        for count in 0..20 {
            assert_eq!(advertiser.deadline(), now);
            advertiser.send_due(now, &mut entropy, &mut out);
            let wait = advertiser.deadline().since(now);
            let longest = if count < 2 { 16 } else { 60 };
            assert!((Duration::from_secs(16)..=Duration::from_secs(longest)).contains(&wait), "{count}: {wait:?}");
            now = advertiser.deadline();
        }
        let messages = sent(&mut out);
        assert!(messages.len() == 20 && messages.iter().all(|message| message.lifetime == 180));
        assert!(messages[0].options.contains(&NeighbourOption::Mtu(1460)));
        now = now - Duration::from_secs(5);
        advertiser.update(now, content(60));
        assert!(advertiser.deadline() > now);
        advertiser.update(now, RaContent { mtu: Some(1400), ..content(60) });
        assert_eq!(advertiser.deadline(), now);
    }

    #[test]
    fn answers_to_rs_are_rate_limited() {
        let mut advertiser = Advertiser::new(Time::ZERO, LINK, MAC, content(60));
        let mut out = Outbox::new();
        let start = Time::from_micros(10_000_000);
        for count in 0..1000 {
            let now = start + Duration::from_millis(count);
            advertiser.answer_solicitation(now, "fe80::5".parse().unwrap(), Some(MAC), &mut out);
        }
        assert_eq!(sent(&mut out).len(), 8 + 19);
    }

    #[test]
    fn router_lifetime_is_never_zero() {
        let advertiser = Advertiser::new(Time::ZERO, LINK, MAC, content(0));
        assert_eq!(advertiser.lifetime(), 1);
        assert_eq!(Advertiser::new(Time::ZERO, LINK, MAC, content(5000)).lifetime(), 5400);
    }

    fn care_of(seconds: u64, end: Time) -> RaContent {
        let (valid, preferred) =
            (AdvertisedLifetime::Until(end, VALID_LIFETIME), AdvertisedLifetime::Until(end, PREFERRED_LIFETIME));
        let one = AdvertisedPrefix { prefix: "2001:db8:a00::/64".parse().unwrap(), on_link: true, valid, preferred };
        let base = content(seconds);
        RaContent { prefixes: [base.prefixes.clone(), vec![one]].concat(), repeat_quickly: true, ..base }
    }

    fn lifetimes(message: &RouterAdvertisement) -> Vec<(u32, u32)> {
        let lifetimes = message.options.iter().filter_map(|option| match option {
            NeighbourOption::PrefixInformation { valid, preferred, .. } => Some((*valid, *preferred)),
            _ => None,
        });
        lifetimes.collect()
    }

    #[test]
    fn prefix_lifetimes_count_down_and_a_changed_ra_is_sent_thrice() {
        let (mut entropy, mut out) = (Entropy::seed_from_u64(1), Outbox::new());
        let end = Time::ZERO + Duration::from_secs(100);
        let mut advertiser = Advertiser::new(Time::ZERO, LINK, MAC, care_of(60, end));
        advertiser.send_due(Time::ZERO, &mut entropy, &mut out);
        let later = Time::ZERO + Duration::from_secs(30);
        advertiser.update(later, care_of(60, end + Duration::from_secs(500)));
        assert!(advertiser.deadline() < later, "a longer lifetime sends no additional RA");
        advertiser.update(later, care_of(60, end));
        let mut now = later;
        advertiser.update(now, care_of(60, Time::ZERO));
        for _ in 0..3 {
            advertiser.send_due(now, &mut entropy, &mut out);
            now = advertiser.deadline();
        }
        assert!(now.since(later) < Duration::from_secs(61) && now.since(later) > Duration::from_secs(20));
        advertiser.update(now, care_of(60, now + Duration::from_secs(40)));
        advertiser.stop(now, &mut out);
        let advertised: Vec<_> = sent(&mut out).iter().map(|message| lifetimes(message)[1]).collect();
        assert_eq!(advertised, [(100, 100), (0, 0), (0, 0), (0, 0), (0, 0)]);
    }
}
