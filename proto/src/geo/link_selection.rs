//! Selection of the virtual link of a unicast packet: EN 302 636-6-1 §8.2.2. All virtual links of a station have its
//! link-layer address, so the kernel gives them the same link-local address, and the GeoNetworking header of a unicast
//! packet names no link. Recent exchanges with the station then select it: an advertisement belongs to the link on
//! which the neighbour was solicited.

use crate::base::ids::LinkId;
use crate::base::vec_map::VecMap;
use crate::base::vec_set::VecSet;
use roam6_wire::LinkAddress;
use roam6_wire::icmp6::{Message, kind};
use roam6_wire::ip6::{Datagram, protocol};
use std::collections::VecDeque;
use std::net::Ipv6Addr;

/// Addresses of this host tracked at most; the kernel allows an interface 16 from advertisements.
const MAX_ADDRESSES: usize = 256;
/// Stations and solicited addresses remembered at most, each.
pub const MAX_REMEMBERED: usize = 512;

/// The links on which this host and other stations have exchanged packets.
#[derive(Debug, Default)]
pub struct LinkSelection {
    /// Addresses of the host's interfaces.
    addresses: VecSet<(Ipv6Addr, LinkId)>,
    /// The link used last with each station.
    by_station: RecentLinks<(LinkAddress, Ipv6Addr)>,
    /// The link on which each address was solicited.
    by_solicited: RecentLinks<Ipv6Addr>,
}

/// The newest entries of a map; the oldest are evicted.
#[derive(Debug)]
struct RecentLinks<K> {
    links: VecMap<K, LastLink>,
    order: VecDeque<K>,
}

#[derive(Debug, Clone, Copy)]
struct LastLink {
    link: LinkId,
    /// Set by a packet of this host; packets of others do not change it.
    by_us: bool,
}

impl<K> Default for RecentLinks<K> {
    fn default() -> RecentLinks<K> {
        RecentLinks { links: VecMap::new(), order: VecDeque::new() }
    }
}

impl<K: Ord + Copy> RecentLinks<K> {
    fn record(&mut self, key: K, link: LinkId, by_us: bool) {
        if self.links.get(&key).is_some_and(|known| known.by_us && !by_us) {
            return;
        }
        if self.links.insert(key, LastLink { link, by_us }).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.links.remove(&oldest);
        }
    }

    fn get(&self, key: &K) -> Option<LinkId> {
        self.links.get(key).map(|talked| talked.link)
    }
}

impl LinkSelection {
    /// An address of this host was added or removed.
    pub fn set_address(&mut self, link: LinkId, address: Ipv6Addr, present: bool) {
        if !present {
            self.addresses.remove(&(address, link));
        } else if self.addresses.len() < MAX_ADDRESSES {
            self.addresses.insert((address, link));
        }
    }

    /// This host has sent a packet on a link.
    pub fn record_sent(&mut self, link: LinkId, station: LinkAddress, packet: &[u8]) {
        let Ok(datagram) = Datagram::parse(packet) else { return };
        if station.is_unicast() {
            self.by_station.record((station, peer_key(datagram.destination)), link, true);
        }
        if let Some(Message::NeighbourSolicitation(message)) = neighbour_discovery_message(&datagram)
            && !datagram.source.is_unspecified()
        {
            self.by_solicited.record(message.target, link, true);
        }
    }

    /// A multicast packet of a station was received on a link.
    pub fn record_received(&mut self, link: LinkId, station: LinkAddress, packet: &[u8]) {
        if let Ok(datagram) = Datagram::parse(packet) {
            self.by_station.record((station, peer_key(datagram.source)), link, false);
        }
    }

    /// The link of a unicast packet from a station, if an address or an earlier exchange determines it; `is_up` returns
    /// whether a link exists.
    pub fn select(&self, station: LinkAddress, packet: &[u8], is_up: impl Fn(LinkId) -> bool) -> Option<LinkId> {
        let datagram = Datagram::parse(packet).ok()?;
        let destination = datagram.destination;
        let mut with_address = self.addresses.iter().filter(|(address, link)| *address == destination && is_up(*link));
        let one = with_address.next().filter(|_| with_address.next().is_none()).map(|(_, link)| *link);
        let solicited = || match neighbour_discovery_message(&datagram) {
            Some(Message::NeighbourAdvertisement(message)) => self.by_solicited.get(&message.target),
            _ => None,
        };
        let talked = || self.by_station.get(&(station, peer_key(datagram.source)));
        one.or_else(solicited).or_else(talked).filter(|link| is_up(*link))
    }

    /// The link with an address in the /64 of the packet's destination.
    pub fn by_prefix(&self, packet: &[u8], is_up: impl Fn(LinkId) -> bool) -> Option<LinkId> {
        let destination = Datagram::parse(packet).ok()?.real_destination();
        let prefix = |address: Ipv6Addr| address.to_bits() >> 64;
        let is_on = |address: Ipv6Addr| !address.is_unicast_link_local() && prefix(address) == prefix(destination);
        self.addresses.iter().find(|(address, link)| is_on(*address) && is_up(*link)).map(|(_, link)| *link)
    }
}

#[cfg(test)]
impl LinkSelection {
    /// The number of remembered stations and of solicited addresses.
    pub fn remembered(&self) -> (usize, usize) {
        (self.by_station.links.len(), self.by_solicited.links.len())
    }
}

/// The part of the key that names the peer's address: link-local addresses are the station's own; behind any other
/// address there may be many hosts.
fn peer_key(address: Ipv6Addr) -> Ipv6Addr {
    if address.is_unicast_link_local() { address } else { Ipv6Addr::UNSPECIFIED }
}

/// Parses a Neighbour Solicitation or Advertisement.
fn neighbour_discovery_message(datagram: &Datagram<'_>) -> Option<Message> {
    let kinds = [kind::NEIGHBOUR_SOLICITATION, kind::NEIGHBOUR_ADVERTISEMENT];
    let is_meant =
        datagram.protocol == protocol::ICMPV6 && datagram.payload.first().is_some_and(|it| kinds.contains(it));
    if is_meant { Message::parse(datagram).ok() } else { None }
}
