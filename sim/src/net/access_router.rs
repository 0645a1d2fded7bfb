//! An access router: advertises its prefix on one link, periodically and when solicited (RFC 4861 §6.2).

use crate::net::datagram::{self, Header, ICMPV6};
use core::time::Duration;
use roam6_proto::{Engine, Entropy, Input, LinkId, Outbox, Time, Transmit, Via, View};
use roam6_wire::{LinkAddress, Prefix};
use std::net::Ipv6Addr;

const SOLICITATION: u8 = 133;
const ADVERTISEMENT: u8 = 134;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The advertisement of an access router and its timing.
#[derive(Debug, Clone, Copy)]
pub struct AdvertisementSpec {
    /// The link it serves.
    pub link: LinkId,
    /// Its link-layer address there.
    pub address: LinkAddress,
    /// The prefix of the link.
    pub prefix: Prefix,
    /// Interval of unsolicited advertisements.
    pub interval: Duration,
    /// Largest delay of a solicited advertisement.
    pub reply_delay: Duration,
    /// Lifetime as default router, seconds.
    pub router_lifetime: u16,
    /// Valid lifetime of the prefix, seconds; preferred for as long.
    pub prefix_lifetime: u32,
}

/// The link-local address derived from a link-layer address (RFC 4862 §5.3).
pub fn link_local(address: LinkAddress) -> Ipv6Addr {
    Ipv6Addr::from_bits((0xfe80 << 112) | u128::from(address.interface_identifier()))
}

/// The access router.
#[derive(Debug)]
pub struct AccessRouter {
    spec: AdvertisementSpec,
    chance: Entropy,
    next: Time,
}

impl AccessRouter {
    /// A router with this advertisement.
    pub fn new(offer: AdvertisementSpec, chance: Entropy) -> AccessRouter {
        AccessRouter { spec: offer, chance, next: Time::ZERO }
    }

    fn random_delay(&mut self, span: Duration) -> Duration {
        Duration::from_micros(self.chance.below(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }

    fn advertisement(&self) -> Vec<u8> {
        let [high, low] = self.spec.router_lifetime.to_be_bytes();
        let mut message = vec![ADVERTISEMENT, 0, 0, 0, 64, 0, high, low, 0, 0, 0, 0, 0, 0, 0, 0];
        message.extend([1, 1]);
        message.extend(self.spec.address.0);
        message.extend([3, 4, self.spec.prefix.length(), 0xc0]);
        message.extend(self.spec.prefix_lifetime.to_be_bytes());
        message.extend(self.spec.prefix_lifetime.to_be_bytes());
        message.extend([0; 4]);
        message.extend(self.spec.prefix.address().octets());
        let source = link_local(self.spec.address);
        datagram::icmp6(Header { source, destination: ALL_NODES, next: ICMPV6, hop_limit: 255 }, &message)
    }
}

impl Engine for AccessRouter {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        if let Input::Packet(packet) = input
            && packet.link == self.spec.link
            && matches!(datagram::upper_layer(&packet.bytes), Some((ICMPV6, [SOLICITATION, ..])))
        {
            self.next = self.next.min(now + self.random_delay(self.spec.reply_delay));
        }
        if now >= self.next {
            out.transmit(Transmit { via: Via::Link(self.spec.link), bytes: self.advertisement() });
            let interval = self.spec.interval;
            self.next = now + interval / 2 + self.random_delay(interval / 2);
        }
    }

    fn deadline(&self) -> Option<Time> {
        Some(self.next)
    }

    fn view(&self, _: Time, _: &mut View) {}
}
