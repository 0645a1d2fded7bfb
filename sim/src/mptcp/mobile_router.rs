//! The mobile router as its nodes see it: advertises its own prefix and those of visited networks, at once when they
//! change (RFC 4861 §6.2, RFC 9096 §3.3).

use crate::net::access_router::router_advertisement;
use crate::net::datagram;
use core::time::Duration;
use roam6_proto::contract::output::{Transmit, Via};
use roam6_proto::{Engine, Input, LinkId, Outbox, Time, View};
use roam6_wire::icmp6::Message;
use roam6_wire::{LinkAddress, Prefix};
use std::collections::BTreeMap;

/// Interval of advertisements, and of the first ones after a change.
const INTERVAL: Duration = Duration::from_secs(3);
const MIN_INTERVAL: Duration = Duration::from_millis(200);
/// Router lifetime, seconds.
const LIFETIME: u16 = 30;

/// Preferred and valid lifetime of each prefix, seconds.
pub type AdvertisedPrefixes = BTreeMap<Prefix, (u32, u32)>;

/// The mobile router.
#[derive(Debug)]
pub struct PrefixAdvertiser {
    link: LinkId,
    address: LinkAddress,
    /// The advertised prefixes by time.
    schedule: Vec<(Time, AdvertisedPrefixes)>,
    sent: u8,
    next: Time,
    offer: AdvertisedPrefixes,
}

impl PrefixAdvertiser {
    /// A router on `link`, where it has `address`.
    pub fn new(link: LinkId, address: LinkAddress, mut schedule: Vec<(Time, AdvertisedPrefixes)>) -> PrefixAdvertiser {
        schedule.sort_by_key(|(at, _)| *at);
        schedule.reverse();
        PrefixAdvertiser { link, address, schedule, sent: 0, next: Time::ZERO, offer: AdvertisedPrefixes::new() }
    }

    fn advertisement(&self) -> Transmit {
        let prefixes = self.offer.iter().map(|(prefix, lifetimes)| (*prefix, *lifetimes));
        Transmit { via: Via::Link(self.link), bytes: router_advertisement(self.address, LIFETIME, prefixes) }
    }
}

impl Engine for PrefixAdvertiser {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        while let Some((_, offer)) = self.schedule.pop_if(|(at, _)| *at <= now) {
            (self.offer, self.sent, self.next) = (offer, 0, now);
        }
        if let Input::Packet(packet) = input
            && let Some(Message::RouterSolicitation(_)) = datagram::parse_icmp6(&packet.bytes)
        {
            out.transmit(self.advertisement());
        }
        if now >= self.next {
            out.transmit(self.advertisement());
            self.sent = self.sent.saturating_add(1);
            self.next = now + if self.sent < 3 { MIN_INTERVAL } else { INTERVAL };
        }
    }

    fn deadline(&self) -> Option<Time> {
        Some(self.schedule.last().map_or(self.next, |(at, _)| self.next.min(*at)))
    }

    fn view(&self, _: Time, _: &mut View) {}
}
