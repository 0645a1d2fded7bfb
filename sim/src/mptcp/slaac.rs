//! Stateless address autoconfiguration of a host's kernel (RFC 4861 §6.3.4, RFC 4862 §5.5.3).

use crate::net::access_router::autonomous_prefixes;
use crate::net::items::{address_item, route_via};
use crate::net::{Header, datagram};
use core::time::Duration;
use roam6_proto::{Item, Key, LinkId, Outbox, Time};
use roam6_wire::icmp6::Message;
use roam6_wire::{LinkAddress, Prefix};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// RFC 4862 §5.5.3 e: an advertisement cannot shorten the remaining lifetime below this.
const TWO_HOURS: Duration = Duration::from_secs(7200);

/// The addresses and default router of one interface.
#[derive(Debug)]
pub struct Slaac {
    link: LinkId,
    own: LinkAddress,
    /// End of preference and of validity.
    addresses: BTreeMap<Ipv6Addr, (Time, Time)>,
    router: Option<(Ipv6Addr, Time)>,
}

impl Slaac {
    /// An interface without addresses.
    pub fn new(link: LinkId, own: LinkAddress) -> Slaac {
        Slaac { link, own, addresses: BTreeMap::new(), router: None }
    }

    /// Whether an address is preferred at `now`; `None` if it does not exist.
    pub fn preferred(&self, now: Time, address: Ipv6Addr) -> Option<bool> {
        self.addresses.get(&address).map(|(preferred, _)| *preferred > now)
    }

    /// Whether there is a default router.
    pub fn has_router(&self, now: Time) -> bool {
        self.router.is_some_and(|(_, until)| until > now)
    }

    /// Its addresses.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.addresses.keys().copied()
    }

    /// The address of a prefix.
    pub fn address_in(&self, prefix: Prefix) -> Ipv6Addr {
        prefix.with_identifier(self.own.interface_identifier()).unwrap_or(Ipv6Addr::UNSPECIFIED)
    }

    /// Receives a packet; returns the addresses whose state has changed.
    pub fn receive(&mut self, now: Time, packet: &[u8], out: &mut Outbox) -> Vec<Ipv6Addr> {
        let (Some(header), Some(Message::RouterAdvertisement(message))) =
            (Header::parse(packet), datagram::parse_icmp6(packet))
        else {
            return Vec::new();
        };
        let before = self.router.replace((header.source, now + Duration::from_secs(message.lifetime.into())));
        if before.is_none() {
            out.put(self.route(header.source));
        }
        let mut changed = Vec::new();
        for (prefix, (preferred, valid)) in autonomous_prefixes(&message) {
            let address = self.address_in(prefix);
            let until = |seconds: u32| now + Duration::from_secs(seconds.into());
            let known = self.addresses.get(&address).copied();
            if known.is_none() && valid == 0 {
                continue;
            }
            let was = known.map(|(until, _)| until > now);
            let least = known.map_or(Time::ZERO, |(_, end)| end.min(now + TWO_HOURS));
            self.addresses.insert(address, (until(preferred), until(valid).max(least)));
            if known.is_none() {
                out.put(self.item(address));
            } else if was != Some(preferred > 0) {
                changed.push(address);
            }
        }
        changed
    }

    /// Expires lifetimes; returns the addresses that are now deprecated.
    pub fn expire(&mut self, since: Time, now: Time, out: &mut Outbox) -> Vec<Ipv6Addr> {
        for address in self.addresses().collect::<Vec<_>>() {
            if self.addresses.get(&address).is_some_and(|(_, valid)| *valid <= now) {
                self.addresses.remove(&address);
                out.drop(Key::Address(self.link, address));
            }
        }
        if let Some((router, _)) = self.router.take_if(|(_, until)| *until <= now) {
            out.drop(self.route(router).key());
        }
        let ended = |(_, (preferred, _)): &(&Ipv6Addr, &(Time, Time))| *preferred > since && *preferred <= now;
        self.addresses.iter().filter(ended).map(|(address, _)| *address).collect()
    }

    /// When [`Slaac::expire`] is due.
    pub fn deadline(&self, now: Time) -> Option<Time> {
        let ends = self.addresses.values().flat_map(|(preferred, valid)| [*preferred, *valid]);
        ends.chain(self.router.map(|(_, until)| until)).filter(|end| *end > now).min()
    }

    /// Requests again an own item that was refused: a kernel never refuses its own.
    pub fn retry(&self, refused: &Key, out: &mut Outbox) -> bool {
        let items = self.addresses().map(|address| self.item(address));
        let mut items = items.chain(self.router.map(|(router, _)| self.route(router)));
        let own = items.find(|item| item.key() == *refused);
        let is_own = own.is_some();
        own.into_iter().for_each(|item| out.put(item));
        is_own
    }

    fn item(&self, address: Ipv6Addr) -> Item {
        address_item(self.link, address, 64)
    }

    fn route(&self, router: Ipv6Addr) -> Item {
        route_via(Prefix::ALL, self.link, router)
    }
}
