//! IPv6 over GeoNetworking: EN 302 636-6-1 (GN6ASL). A virtual link looks like Ethernet to IPv6; the link-layer address
//! of each station on it is the one in its GeoNetworking address, so neighbour discovery finds stations, and a
//! frame's destination selects one station, or all that the link reaches.

mod advertised;
mod identifier;

use super::geometry;
use super::link_selection::LinkSelection;
use super::multicast_listeners::MulticastListeners;
use super::request::{Delivery, PacketRequest};
use crate::base::ids::LinkId;
use crate::base::vec_map::VecMap;
use crate::contract::config::geo::{DestinationScope, GeoDestination, LinkScope, TransportType, VirtualLink};
use crate::contract::input::{AddressEvent, AddressState, Frame};
use advertised::AdvertisedLink;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Area, Coordinates, ExtendedHeader, GeoAddress, ItsStationType, Packet, UpperProtocol};
use roam6_wire::ip6::MINIMUM_MTU;
use std::net::Ipv6Addr;

pub use advertised::AdvertisementEffect;

/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// Destination addresses with a configured area, at most.
pub const MAX_DESTINATIONS: usize = 256;
/// Octets that GeoNetworking headers may need, taken from the MTU (itsGnMaxGeoNetworkingHeaderSize).
const GEO_HEADERS: u32 = 88;
/// Length of an IPv6 header, and the offset of its addresses.
const IPV6_HEADER: usize = 40;
const DESTINATION_OFFSET: usize = 24;

/// The virtual links of a station.
#[derive(Debug)]
pub struct Ipv6Adaptation {
    links: Vec<VirtualLinkState>,
    /// Links that Router Advertisements may create, at most.
    max_advertised: usize,
    destinations: VecMap<Ipv6Addr, DestinationScope>,
    link_selection: LinkSelection,
}

#[derive(Debug)]
struct VirtualLinkState {
    config: VirtualLink,
    /// Its interface, once that exists.
    link: Option<LinkId>,
    /// The multicast groups the host has joined there.
    listeners: MulticastListeners,
    /// Set if Router Advertisements have created it.
    advertised: Option<AdvertisedLink>,
}

impl Ipv6Adaptation {
    /// The adaptation layer of these virtual links, before any of their interfaces exists.
    pub fn new(links: Vec<VirtualLink>, max_advertised: usize, destinations: &[GeoDestination]) -> Ipv6Adaptation {
        let state = |config| VirtualLinkState {
            config,
            link: None,
            listeners: MulticastListeners::default(),
            advertised: None,
        };
        Ipv6Adaptation {
            links: links.into_iter().map(state).collect(),
            max_advertised,
            destinations: destinations.iter().map(|it| (it.address, it.scope)).take(MAX_DESTINATIONS).collect(),
            link_selection: LinkSelection::default(),
        }
    }

    /// The names of the virtual links.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.links.iter().map(|link| link.config.name.as_str())
    }

    /// The MTU of a virtual link, for a maximum SDU of `max_sdu` octets and frames of `mtu` octets; at least the IPv6
    /// minimum.
    pub fn mtu(max_sdu: u16, mtu: u32) -> u32 {
        mtu.saturating_sub(GEO_HEADERS).min(u32::from(max_sdu)).max(MINIMUM_MTU)
    }

    /// The minimum MTU of frames, octets: IPv6 packets of the IPv6 minimum fit.
    pub const MIN_FRAME_MTU: u32 = MINIMUM_MTU + GEO_HEADERS;

    /// The interface of a virtual link appeared or disappeared.
    pub fn set_link(&mut self, name: &str, link: Option<LinkId>) {
        for known in self.links.iter_mut().filter(|known| known.config.name == name) {
            if known.link != link {
                (known.link, known.listeners) = (link, MulticastListeners::default());
            }
        }
    }

    /// An address of the host was added or removed, on any interface.
    pub fn set_address(&mut self, event: &AddressEvent) {
        let present = !matches!(event.state, AddressState::Removed | AddressState::DadFailed);
        // With the address its virtual link may be removed too.
        if !present || self.is_virtual_link(event.link) {
            self.link_selection.set_address(event.link, event.address, present);
        }
    }

    /// Whether the interface is a virtual link.
    pub fn is_virtual_link(&self, link: LinkId) -> bool {
        self.links.iter().any(|known| known.link == Some(link))
    }

    /// Sends packets for an address to a destination of their own; `false` if the table is full.
    pub fn put(&mut self, destination: GeoDestination) -> bool {
        let fits = self.destinations.len() < MAX_DESTINATIONS || self.destinations.contains_key(&destination.address);
        if fits {
            self.destinations.insert(destination.address, destination.scope);
        }
        fits
    }

    /// Removes the destination of an address; its packets go to the scope of their link again.
    pub fn drop(&mut self, address: Ipv6Addr) {
        self.destinations.remove(&address);
    }

    /// The addresses with a destination of their own.
    pub fn destinations(&self) -> impl Iterator<Item = GeoDestination> + '_ {
        self.destinations.iter().map(|(address, scope)| GeoDestination { address: *address, scope: *scope })
    }

    /// Learns from a frame that the host has sent into a virtual link: MLD reports, and the link used for a neighbour.
    pub fn observe(&mut self, frame: &Frame) {
        if let Some(known) = self.links.iter_mut().find(|known| known.link == Some(frame.link)) {
            known.listeners.observe(&frame.bytes);
            self.link_selection.record_sent(frame.link, frame.destination, &frame.bytes);
        }
    }

    /// Whether the host wants a frame received on a virtual link.
    pub fn has_listener(&self, frame: &Frame) -> bool {
        let group = destination(&frame.bytes).filter(Ipv6Addr::is_multicast);
        let on = self.links.iter().find(|known| known.link == Some(frame.link));
        group.zip(on).is_none_or(|(group, on)| on.listeners.has_listener(group))
    }

    /// The multicast groups the host has joined, by virtual link.
    pub fn groups(&self) -> impl Iterator<Item = (&str, Ipv6Addr)> {
        self.links.iter().flat_map(|known| known.listeners.groups().map(|group| (known.config.name.as_str(), group)))
    }

    /// The request for a frame that the host has sent into a virtual link; `None` if it is not IPv6 or its link has no
    /// destination for it. `own` is the place of this station, `place_of` that of another.
    pub fn request(
        &self,
        frame: Frame,
        own: Option<Coordinates>,
        place_of: impl Fn(LinkAddress) -> Option<Coordinates>,
    ) -> Option<PacketRequest> {
        let virtual_link = self.links.iter().find(|known| known.link == Some(frame.link))?;
        let destination = destination(&frame.bytes).filter(|_| frame.ethertype == IPV6)?;
        let to_area = |area| match destination.is_multicast() {
            true => TransportType::GeoBroadcast(area),
            false => TransportType::GeoAnycast(area),
        };
        let to = match self.destinations.get(&destination) {
            Some(DestinationScope::Area(area)) => to_area(*area),
            Some(DestinationScope::Around(radius)) => to_area(Area::circle(own?, *radius)),
            Some(DestinationScope::AroundStation { station, radius }) => {
                to_area(Area::circle(place_of(*station)?, *radius))
            }
            Some(DestinationScope::Hops(hops)) => multicast_destination(LinkScope::Hops(*hops), own)?,
            None if frame.destination.is_unicast() => {
                TransportType::GeoUnicast(GeoAddress::new(ItsStationType::UNKNOWN, frame.destination))
            }
            None => multicast_destination(virtual_link.config.reach, own)?,
        };
        let (upper, payload) = (UpperProtocol::Ipv6, frame.bytes);
        let parameters = virtual_link.config.parameters(dscp(&payload));
        let class = parameters.traffic_class(VirtualLink::CLASS);
        // A number of hops that is the destination stays as it is.
        let hops = parameters.hops.filter(|_| !matches!(to, TransportType::TopologyBroadcast(_)));
        Some(PacketRequest { to, upper, payload, class, lifetime: parameters.lifetime, hops, repetition: None })
    }

    /// The frame that delivers a received packet to the host; `None` if it is not IPv6 or belongs to no virtual link.
    /// `own` is the link-layer address of this station, `here` its place.
    pub fn frame(&mut self, delivery: &Delivery<'_>, own: LinkAddress, here: Option<Coordinates>) -> Option<Frame> {
        let packet = &delivery.packet;
        let is_ours = packet.upper_protocol == UpperProtocol::Ipv6 && !delivery.hop_limit_reached;
        let destination = destination(packet.payload).filter(|_| is_ours)?;
        let source = packet.extended.source().address.mid;
        let link = match packet.extended {
            ExtendedHeader::GeoUnicast { .. } | ExtendedHeader::GeoAnycast { .. } => self.unicast_link(packet, here)?,
            _ => self.multicast_link(packet)?,
        };
        if destination.is_multicast() {
            self.link_selection.record_received(link, source, packet.payload);
        }
        let destination = if destination.is_multicast() { multicast_address(destination) } else { own };
        Some(Frame { link, source, destination, ethertype: IPV6, bytes: packet.payload.to_vec() })
    }

    /// The virtual links whose interface exists, with the scope of each.
    fn links_up(&self) -> impl Iterator<Item = (LinkId, LinkScope)> + '_ {
        self.links.iter().filter_map(|known| Some((known.link?, known.config.reach)))
    }

    /// The virtual link of a unicast packet (EN 302 636-6-1 §8.2.2): by its IPv6 destination address or by earlier
    /// packets between the stations; else the smallest area that contains the source; else the prefix of the destination; else the
    /// first link without an area.
    fn unicast_link(&self, packet: &Packet<'_>, here: Option<Coordinates>) -> Option<LinkId> {
        let source = packet.extended.source();
        let is_up = |link| self.links_up().any(|(up, _)| up == link);
        let holds = |reach: LinkScope| match reach {
            LinkScope::Area(area) => Some(area),
            LinkScope::Around(radius) => here.map(|here| Area::circle(here, radius)),
            LinkScope::Hops(_) => None,
        };
        let around = |(link, reach)| Some((link, holds(reach).filter(|area| geometry::contains(area, source.place))?));
        let smallest = || {
            let areas = self.links_up().filter_map(around).map(|(link, area)| (link, geometry::square_metres(&area)));
            areas.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(link, _)| link)
        };
        let dynamic = || self.links_up().find(|(_, reach)| matches!(reach, LinkScope::Around(_)));
        let known = self.link_selection.select(source.address.mid, packet.payload, is_up);
        known
            .or_else(smallest)
            .or_else(|| self.link_selection.by_prefix(packet.payload, is_up))
            .or_else(|| dynamic().or_else(|| self.links_up().next()).map(|(link, _)| link))
    }

    /// The virtual link of a multicast packet: the one with its area, radius or hop limit, else the first with the same
    /// kind of scope, else the first.
    fn multicast_link(&self, packet: &Packet<'_>) -> Option<LinkId> {
        let is_same = |reach: LinkScope| match (reach, &packet.extended) {
            (LinkScope::Area(own), ExtendedHeader::GeoBroadcast { area, .. }) => own == *area,
            (LinkScope::Around(radius), ExtendedHeader::GeoBroadcast { area, .. }) => is_around(area, radius, packet),
            (LinkScope::Hops(hops), ExtendedHeader::TopoBroadcast(_) | ExtendedHeader::SingleHop { .. }) => {
                hops.max(1) == packet.max_hop_limit
            }
            _ => false,
        };
        let is_like = |reach: LinkScope| match &packet.extended {
            ExtendedHeader::TopoBroadcast(_) | ExtendedHeader::SingleHop { .. } => matches!(reach, LinkScope::Hops(_)),
            ExtendedHeader::GeoBroadcast { .. } => matches!(reach, LinkScope::Around(_)),
            _ => false,
        };
        let find = |fits: &dyn Fn(LinkScope) -> bool| self.links_up().find(|(_, reach)| fits(*reach));
        let found = find(&is_same).or_else(|| find(&is_like)).or_else(|| self.links_up().next());
        found.map(|(link, _)| link)
    }
}

/// Whether an area is the circle of this radius around the packet's source.
fn is_around(area: &Area, radius: u16, packet: &Packet<'_>) -> bool {
    *area == Area::circle(packet.extended.source().place, radius)
}

fn multicast_destination(reach: LinkScope, own: Option<Coordinates>) -> Option<TransportType> {
    Some(match reach {
        LinkScope::Area(area) => TransportType::GeoBroadcast(area),
        LinkScope::Around(radius) => TransportType::GeoBroadcast(Area::circle(own?, radius)),
        LinkScope::Hops(0 | 1) => TransportType::SingleHop,
        LinkScope::Hops(hops) => TransportType::TopologyBroadcast(hops),
    })
}

/// The DiffServ code point (RFC 2474 §3) of an IPv6 packet.
fn dscp(packet: &[u8]) -> u8 {
    let first_two = packet.first_chunk::<2>().map_or(0, |octets| u16::from_be_bytes(*octets));
    (first_two >> 6 & 0x3f) as u8
}

/// The destination of a well-formed IPv6 packet.
fn destination(bytes: &[u8]) -> Option<Ipv6Addr> {
    let is_ipv6 = bytes.first().is_some_and(|first| first >> 4 == 6);
    let payload: [u8; 2] = bytes.get(4..6)?.try_into().ok()?;
    let is_whole = bytes.len() == IPV6_HEADER + usize::from(u16::from_be_bytes(payload));
    let octets: [u8; 16] = bytes.get(DESTINATION_OFFSET..IPV6_HEADER)?.try_into().ok()?;
    (is_ipv6 && is_whole).then(|| Ipv6Addr::from(octets))
}

/// The link-layer address of a multicast group (RFC 2464 §7).
fn multicast_address(destination: Ipv6Addr) -> LinkAddress {
    let [.., a, b, c, d] = destination.octets();
    LinkAddress([0x33, 0x33, a, b, c, d])
}

#[cfg(test)]
mod tests;
