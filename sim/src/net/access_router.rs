//! An access router: advertises its prefix on one link, periodically and when solicited (RFC 4861 §6.2).

use crate::net::datagram;
use core::time::Duration;
use roam6_proto::{Engine, Entropy, Input, LinkId, Outbox, Time, Transmit, Via, View};
use roam6_wire::icmp6::{self, Message, NeighbourOption, RouterAdvertisement};
use roam6_wire::{LinkAddress, Prefix};

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

/// A Router Advertisement for autoconfiguration from these prefixes, each with preferred and valid lifetime in seconds.
pub fn router_advertisement(
    own: LinkAddress,
    lifetime: u16,
    prefixes: impl IntoIterator<Item = (Prefix, (u32, u32))>,
) -> Vec<u8> {
    let option = |(prefix, (preferred, valid)): (Prefix, (u32, u32))| NeighbourOption::PrefixInformation {
        prefix,
        address: prefix.address(),
        on_link: true,
        autonomous: true,
        router_address: false,
        valid,
        preferred,
    };
    let options = [NeighbourOption::SourceLinkAddress(own)].into_iter();
    let options = options.chain(prefixes.into_iter().map(option)).collect();
    let message = RouterAdvertisement { hop_limit: 64, lifetime, options, ..Default::default() };
    datagram::on_link(own.link_local(), icmp6::ALL_NODES, &Message::RouterAdvertisement(message))
}

/// The prefixes for autoconfiguration in a Router Advertisement, each with preferred and valid lifetime in seconds.
pub fn autonomous_prefixes(message: &RouterAdvertisement) -> impl Iterator<Item = (Prefix, (u32, u32))> {
    message.options.iter().filter_map(|option| match option {
        NeighbourOption::PrefixInformation { prefix, autonomous: true, preferred, valid, .. } => {
            Some((*prefix, (*preferred, *valid)))
        }
        _ => None,
    })
}

/// The access router.
#[derive(Debug)]
pub struct AccessRouter {
    spec: AdvertisementSpec,
    entropy: Entropy,
    next: Time,
}

impl AccessRouter {
    /// A router with this advertisement.
    pub fn new(spec: AdvertisementSpec, entropy: Entropy) -> AccessRouter {
        AccessRouter { spec, entropy, next: Time::ZERO }
    }

    fn random_delay(&mut self, span: Duration) -> Duration {
        Duration::from_micros(self.entropy.below(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }

    fn advertisement(&self) -> Vec<u8> {
        let AdvertisementSpec { address, prefix, router_lifetime, prefix_lifetime, .. } = self.spec;
        router_advertisement(address, router_lifetime, [(prefix, (prefix_lifetime, prefix_lifetime))])
    }
}

impl Engine for AccessRouter {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        if let Input::Packet(packet) = input
            && packet.link == self.spec.link
            && matches!(datagram::parse_icmp6(&packet.bytes), Some(Message::RouterSolicitation(_)))
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
