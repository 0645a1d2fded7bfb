//! Packets of the tester's stations.

use core::net::Ipv6Addr;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{
    Area, Coordinates, ExtendedHeader, GeoAddress, ItsStationType, Lifetime, LongPositionVector, Packet,
    SequencedSource, ShortPositionVector, Timestamp, TrafficClass, UpperProtocol, VERSION,
};
use roam6_wire::ip6::{self, Header, protocol};
use std::time::Duration;

/// The link-layer address of the implementation under test.
pub(super) const IUT: LinkAddress = LinkAddress([2, 0x49, 0x55, 0x54, 0, 1]);
/// Its place.
pub(super) const IUT_PLACE: Coordinates = Coordinates { latitude: 480_000_000, longitude: 110_000_000 };

/// A station of the tester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) mid: LinkAddress,
    pub(super) place: Coordinates,
}

const fn node(number: u8, latitude: i32, longitude: i32) -> Node {
    Node { mid: LinkAddress([2, 0x4e, 0, 0, 0, number]), place: Coordinates { latitude, longitude } }
}

/// 2.2 km to the east: outside the range.
pub(super) const A: Node = node(0xa, 480_000_000, 110_300_000);
/// 220 m to the east, on the way to A.
pub(super) const B: Node = node(0xb, 480_000_000, 110_030_000);
/// 370 m to the west.
pub(super) const C: Node = node(0xc, 480_000_000, 109_950_000);
/// 450 m to the east, nearest to A.
pub(super) const D: Node = node(0xd, 480_000_000, 110_060_000);
/// 700 m to the north.
pub(super) const E: Node = node(0xe, 480_063_000, 110_000_000);

/// Areas: the implementation is in the first, and outside the second, whose centre is A.
pub(super) const AREA1: Area = Area::circle(IUT_PLACE, 900);
pub(super) const AREA2: Area = Area::circle(A.place, 500);

/// The kinds of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Beacon,
    Shb,
    Tsb,
    Gbc(Area),
    Gac(Area),
    Guc(Node),
    LsRequest(LinkAddress),
    LsReply(Node),
}

/// A packet of a station.
#[derive(Debug, Clone)]
pub(super) struct TestPacket {
    pub(super) kind: Kind,
    /// The link-layer source of its frame.
    pub(super) sender: LinkAddress,
    pub(super) source: LongPositionVector,
    pub(super) sequence: u16,
    pub(super) version: u8,
    pub(super) hops: u8,
    pub(super) max_hops: u8,
    pub(super) class: TrafficClass,
    pub(super) lifetime: Duration,
    pub(super) upper: UpperProtocol,
    pub(super) payload: Vec<u8>,
    /// The timestamp of the destination position vector.
    pub(super) destination_timestamp: u32,
}

impl TestPacket {
    /// A packet that a station originates and sends, with an IPv6 packet for all as payload.
    pub(super) fn new(kind: Kind, from: Node, (sequence, timestamp): (u16, u32)) -> TestPacket {
        let is_single = matches!(kind, Kind::Beacon | Kind::Shb);
        let has_payload = !matches!(kind, Kind::Beacon | Kind::LsRequest(_) | Kind::LsReply(_));
        let hops = if is_single { 1 } else { 10 };
        TestPacket {
            kind,
            sender: from.mid,
            source: position(from, timestamp),
            sequence,
            version: VERSION,
            hops,
            max_hops: hops,
            class: TrafficClass(0),
            lifetime: Duration::from_secs(60),
            upper: if has_payload { UpperProtocol::Ipv6 } else { UpperProtocol::Any },
            payload: if has_payload { ipv6_packet(from, sequence) } else { Vec::new() },
            destination_timestamp: timestamp,
        }
    }

    pub(super) fn beacon(from: Node, timestamp: u32) -> TestPacket {
        TestPacket::new(Kind::Beacon, from, (0, timestamp))
    }

    /// What identifies its payload.
    pub(super) fn mark(&self) -> Vec<u8> {
        mark(self.sequence).to_vec()
    }

    pub(super) fn emit(&self) -> Vec<u8> {
        let origin = SequencedSource { sequence: self.sequence, source: self.source };
        let short = |node: Node| ShortPositionVector {
            address: address(node.mid),
            timestamp: Timestamp(self.destination_timestamp),
            place: node.place,
        };
        let extended = match self.kind {
            Kind::Beacon => ExtendedHeader::Beacon { source: self.source },
            Kind::Shb => ExtendedHeader::SingleHop { source: self.source, media: [0; 4] },
            Kind::Tsb => ExtendedHeader::TopoBroadcast(origin),
            Kind::Gbc(area) => ExtendedHeader::GeoBroadcast { origin, area },
            Kind::Gac(area) => ExtendedHeader::GeoAnycast { origin, area },
            Kind::Guc(node) => ExtendedHeader::GeoUnicast { origin, destination: short(node) },
            Kind::LsRequest(sought) => ExtendedHeader::LocationRequest { origin, sought: address(sought) },
            Kind::LsReply(node) => ExtendedHeader::LocationReply { origin, destination: short(node) },
        };
        Packet {
            version: self.version,
            lifetime: Lifetime::of(self.lifetime),
            remaining_hop_limit: self.hops,
            upper_protocol: self.upper,
            traffic_class: self.class,
            flags: 0x80,
            max_hop_limit: self.max_hops,
            extended,
            payload: &self.payload,
        }
        .emit()
    }

    /// Whether a received packet is this one, forwarded.
    pub(super) fn is_copy(&self, packet: &Packet<'_>) -> bool {
        packet.extended.source().address.mid == self.source.address.mid
            && packet.extended.sequence() == Some(self.sequence)
            && packet.remaining_hop_limit < self.hops
    }
}

/// The implementation, as a destination.
pub(super) fn iut() -> Node {
    Node { mid: IUT, place: IUT_PLACE }
}

pub(super) fn address(mid: LinkAddress) -> GeoAddress {
    GeoAddress::new(ItsStationType::PASSENGER_CAR, mid)
}

fn position(node: Node, timestamp: u32) -> LongPositionVector {
    LongPositionVector {
        address: address(node.mid),
        timestamp: Timestamp(timestamp),
        place: node.place,
        accurate: true,
        speed: 0,
        heading: 0,
    }
}

fn mark(sequence: u16) -> [u8; 8] {
    let [high, low] = sequence.to_be_bytes();
    [0xc0, 0xde, 0xfa, 0xce, high, low, 0x77, 0x01]
}

/// A datagram of a station for all nodes of a link.
fn ipv6_packet(from: Node, sequence: u16) -> Vec<u8> {
    ipv6_to(from.mid.link_local(), Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), &mark(sequence))
}

/// A UDP datagram to a port that nobody reads, with this content.
pub(super) fn ipv6_to(source: Ipv6Addr, destination: Ipv6Addr, content: &[u8]) -> Vec<u8> {
    let length = (8 + content.len()) as u16;
    let udp = [&[0x13, 0x88, 0x13, 0x89][..], &length.to_be_bytes(), &[0xab, 0xcd], content].concat();
    ip6::emit(&Header::new(source, destination), protocol::UDP, &udp)
}
