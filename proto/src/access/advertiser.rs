//! Advertises the mobile network to the nodes inside: the router side of RFC 4861 §6.2, never on a visited link.

use crate::access::limiter::Limiter;
use crate::access::neighbour;
use crate::engine::Outbox;
use crate::entropy::Entropy;
use crate::input::LinkId;
use crate::time::Time;
use core::time::Duration;
use roam6_wire::icmp6::{self, Message, NeighbourOption, RouterAdvertisement};
use roam6_wire::{LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// RFC 4861 §10: MAX_INITIAL_RTR_ADVERTISEMENTS and MAX_INITIAL_RTR_ADVERT_INTERVAL.
const INITIAL_ADVERTISEMENTS: u8 = 3;
const INITIAL_INTERVAL: Duration = Duration::from_secs(16);
/// RFC 4861 §6.2.1: longest MaxRtrAdvInterval; RFC 6275 §7.5: shortest.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1800);
const SHORTEST_INTERVAL: Duration = Duration::from_millis(70);
/// RFC 4861 §6.2.1: AdvValidLifetime and AdvPreferredLifetime, seconds.
const VALID: u32 = 2_592_000;
const PREFERRED: u32 = 604_800;
/// RFC 4861 §6.2.1: AdvDefaultLifetime is at most this, seconds.
const MAX_LIFETIME: u16 = 9000;
/// Answers to solicitations: this many at once, then one each interval. RFC 4861 §6.2.6 delays answers at random so
/// that routers of one link do not speak at once; inside, we are the only one.
const ANSWERS: u32 = 8;
const ANSWER_INTERVAL: Duration = Duration::from_millis(50);

/// The advertiser of one interface.
#[derive(Debug, Clone)]
pub struct Advertiser {
    link: LinkId,
    address: LinkAddress,
    content: Content,
    sent: u8,
    next: Time,
    answers: Limiter,
}

/// What is advertised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The prefix, for hosts to form addresses from.
    pub prefix: Prefix,
    /// Largest packet on the way out, octets, if less than the link's.
    pub mtu: Option<u32>,
    /// Whether the prefix may be used: not if the home agent refused it (RFC 3963 §5.4.3).
    pub usable: bool,
    /// Longest interval between advertisements.
    pub interval: Duration,
}

impl Advertiser {
    /// Begins to advertise on an interface that has just come up; the first advertisement is due at once.
    pub fn new(now: Time, link: LinkId, address: LinkAddress, content: Content) -> Advertiser {
        let answers = Limiter::new(ANSWERS, ANSWER_INTERVAL);
        Advertiser { link, address, content, sent: 0, next: now, answers }
    }

    /// Advertises `content` from now on; a change is told at once, as often as a beginning (RFC 4861 §6.2.4).
    pub fn put(&mut self, now: Time, content: Content) {
        if self.content != content {
            self.content = content;
            self.sent = 0;
            self.next = now;
        }
    }

    /// When the next advertisement is due.
    pub fn deadline(&self) -> Time {
        self.next
    }

    /// Sends the advertisement that is due.
    pub fn expire(&mut self, now: Time, entropy: &mut Entropy, out: &mut Outbox) {
        if self.next > now {
            return;
        }
        self.send(icmp6::ALL_NODES, None, self.lifetime(), out);
        self.sent = self.sent.saturating_add(1);
        let longest = self.interval();
        // RFC 4861 §6.2.4: at random between a third of the longest interval and the longest.
        let spread = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX) * 2 / 3;
        let mut wait = longest / 3 + Duration::from_micros(entropy.below(spread));
        if self.sent < INITIAL_ADVERTISEMENTS {
            wait = wait.min(INITIAL_INTERVAL);
        }
        self.next = now + wait;
    }

    /// Answers a solicitation: to the asker alone if its link-layer address is known, else to all.
    pub fn answer(&mut self, now: Time, asker: Ipv6Addr, link_address: Option<LinkAddress>, out: &mut Outbox) -> bool {
        if !self.answers.take(now) {
            return false;
        }
        match link_address.filter(|_| asker.is_unicast_link_local()) {
            Some(link_address) => self.send(asker, Some(link_address), self.lifetime(), out),
            None => self.send(icmp6::ALL_NODES, None, self.lifetime(), out),
        }
        true
    }

    /// Says goodbye: the router is one no longer (RFC 4861 §6.2.5).
    pub fn stop(&self, out: &mut Outbox) {
        self.send(icmp6::ALL_NODES, None, 0, out);
    }

    fn send(&self, to: Ipv6Addr, link_address: Option<LinkAddress>, lifetime: u16, out: &mut Outbox) {
        let usable = self.content.usable;
        let mut options = vec![
            NeighbourOption::SourceLinkAddress(self.address),
            NeighbourOption::PrefixInformation {
                prefix: self.content.prefix,
                address: self.content.prefix.address(),
                on_link: true,
                autonomous: true,
                router_address: false,
                valid: VALID,
                preferred: if usable { PREFERRED } else { 0 },
            },
        ];
        options.extend(self.content.mtu.map(NeighbourOption::Mtu));
        if self.content.interval < Duration::from_secs(4) {
            let milliseconds = u32::try_from(self.interval().as_millis()).unwrap_or(u32::MAX);
            options.push(NeighbourOption::AdvertisementInterval { milliseconds });
        }
        let message = RouterAdvertisement { hop_limit: HOP_LIMIT, lifetime, options, ..RouterAdvertisement::default() };
        let message = Message::RouterAdvertisement(message);
        let source = neighbour::link_local(self.address);
        out.transmit(neighbour::on_link((self.link, Some(self.address)), &message, source, to, link_address));
    }

    fn interval(&self) -> Duration {
        self.content.interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)
    }

    /// Three times the interval, in seconds; never 0, which would say we are no router (RFC 4861 §6.2.1).
    fn lifetime(&self) -> u16 {
        let seconds = (self.interval() * 3).as_millis().div_ceil(1000);
        u16::try_from(seconds).unwrap_or(u16::MAX).min(MAX_LIFETIME)
    }
}

/// What hosts put into their packets (RFC 4861 §6.2.1, AdvCurHopLimit).
const HOP_LIMIT: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Output;
    use roam6_wire::ip6::Datagram;

    const LINK: LinkId = LinkId(1);
    const MAC: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 1]);

    fn content(seconds: u64) -> Content {
        let prefix = "2001:db8:f00::/64".parse().unwrap();
        Content { prefix, mtu: Some(1460), usable: true, interval: Duration::from_secs(seconds) }
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
    fn advertises_at_once_then_within_its_interval_and_at_once_when_something_changes() {
        let mut entropy = Entropy::from_number(1);
        let mut advertiser = Advertiser::new(Time::ZERO, LINK, MAC, content(60));
        let (mut out, mut now) = (Outbox::new(), Time::ZERO);
        for count in 0..20 {
            assert_eq!(advertiser.deadline(), now);
            advertiser.expire(now, &mut entropy, &mut out);
            let wait = advertiser.deadline().since(now);
            let longest = if count < 2 { 16 } else { 60 };
            assert!((Duration::from_secs(16)..=Duration::from_secs(longest)).contains(&wait), "{count}: {wait:?}");
            now = advertiser.deadline();
        }
        let messages = sent(&mut out);
        assert!(messages.len() == 20 && messages.iter().all(|message| message.lifetime == 180));
        assert!(messages[0].options.contains(&NeighbourOption::Mtu(1460)));
        now = now - Duration::from_secs(5);
        advertiser.put(now, content(60));
        assert!(advertiser.deadline() > now);
        advertiser.put(now, Content { mtu: Some(1400), ..content(60) });
        assert_eq!(advertiser.deadline(), now);
    }

    #[test]
    fn a_storm_of_solicitations_is_answered_in_measure() {
        let mut advertiser = Advertiser::new(Time::ZERO, LINK, MAC, content(60));
        let mut out = Outbox::new();
        let start = Time::from_micros(10_000_000);
        for count in 0..1000 {
            let now = start + Duration::from_millis(count);
            advertiser.answer(now, "fe80::5".parse().unwrap(), Some(MAC), &mut out);
        }
        assert_eq!(sent(&mut out).len(), 8 + 19);
    }

    #[test]
    fn even_the_shortest_interval_leaves_a_router() {
        let advertiser = Advertiser::new(Time::ZERO, LINK, MAC, content(0));
        assert_eq!(advertiser.lifetime(), 1);
        assert_eq!(Advertiser::new(Time::ZERO, LINK, MAC, content(5000)).lifetime(), 5400);
    }
}
