//! Four virtual links between two stations: a unicast packet is received on the link on which it was sent.

use super::*;
use crate::geo::location_table::Hop;
use roam6_wire::geo::{
    Lifetime, LongPositionVector, SequencedSource, ShortPositionVector, Timestamp, TrafficClass, VERSION,
};
use roam6_wire::icmp6::{Message, NeighbourAdvertisement, NeighbourSolicitation};
use roam6_wire::ip6::protocol;

const OWN: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 1]);
const PEER: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 2]);
const HERE: Coordinates = Coordinates { latitude: 480_000_000, longitude: 110_000_000 };
/// About 370 m to the east.
const THERE: Coordinates = Coordinates { latitude: 480_000_000, longitude: 110_050_000 };
const FAR: Coordinates = Coordinates { latitude: 490_000_000, longitude: 110_000_000 };

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn own() -> Ipv6Addr {
    ip("fe80::ff:fe00:1")
}

fn peer() -> Ipv6Addr {
    ip("fe80::ff:fe00:2")
}

/// gn0 and gn1 are bounded by areas, the larger one first; gn2 by metres around, gn3 by hops. As links 10 to 13.
fn adaptation() -> Ipv6Adaptation {
    let area = |radius| LinkScope::Area(Area::circle(HERE, radius));
    let reaches = [area(1_500), area(1_200), LinkScope::Around(1_000), LinkScope::Hops(3)];
    let link =
        |(number, reach)| VirtualLink { name: format!("gn{number}"), reach, class: VirtualLink::CLASS, lifetime: None };
    let mut adaptation = Ipv6Adaptation::new((0..).zip(reaches).map(link).collect());
    for number in 0..4 {
        let link = LinkId(10 + number);
        adaptation.set_link(&format!("gn{number}"), Some(link));
        for address in [own(), ip(&format!("2001:db8:{number}::1"))] {
            adaptation.set_address(&AddressEvent { link, address, state: AddressState::Preferred });
        }
    }
    adaptation
}

/// A whole packet of one protocol.
fn whole(protocol: u8, source: Ipv6Addr, destination: Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0x60, 0, 0, 0, 0, length, protocol, 255], &source.octets()[..], &destination.octets(), payload].concat()
}

fn udp(source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    whole(protocol::UDP, source, destination, &[0; 8])
}

fn packet(message: &Message, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    whole(protocol::ICMPV6, source, destination, &message.emit(source, destination))
}

fn solicitation(source: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let message = Message::NeighbourSolicitation(NeighbourSolicitation { target, options: Vec::new() });
    let [.., a, b, c] = target.octets();
    let group = Ipv6Addr::from_bits(ip("ff02::1:ff00:0").to_bits() | u128::from(u32::from_be_bytes([0, a, b, c])));
    packet(&message, source, group)
}

fn advertisement(source: Ipv6Addr, destination: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let (router, solicited, overrides) = (false, true, true);
    let options = Vec::new();
    let message = NeighbourAdvertisement { router, solicited, overrides, target, options };
    packet(&Message::NeighbourAdvertisement(message), source, destination)
}

/// The host sends on a link.
fn send(adaptation: &mut Ipv6Adaptation, link: LinkId, destination: LinkAddress, bytes: Vec<u8>) {
    adaptation.observe(&Frame { link, source: OWN, destination, ethertype: IPV6, bytes });
}

/// The virtual link on which a packet of the peer with this header is received.
fn link_of(adaptation: &mut Ipv6Adaptation, extended: ExtendedHeader, payload: &[u8]) -> Option<u32> {
    let most = if extended.is_single_hop() { 1 } else { 3 };
    let packet = Packet {
        version: VERSION,
        lifetime: Lifetime(0),
        remaining_hop_limit: 1,
        upper_protocol: UpperProtocol::Ipv6,
        traffic_class: TrafficClass(0),
        flags: 0,
        max_hop_limit: most,
        extended,
        payload,
    };
    let from = Hop { link: LinkId(1), address: PEER };
    let delivery = Delivery { packet, from, hop_limit_reached: false, permissions: None };
    adaptation.frame(&delivery, OWN, Some(HERE)).map(|frame| frame.link.0)
}

fn origin(place: Coordinates) -> SequencedSource {
    let address = GeoAddress::new(ItsStationType::BUS, PEER);
    let timestamp = Timestamp(1);
    let source = LongPositionVector { address, timestamp, place, accurate: true, speed: 0, heading: 0 };
    SequencedSource { sequence: 1, source }
}

fn unicast(place: Coordinates) -> ExtendedHeader {
    let destination = ShortPositionVector {
        address: GeoAddress::new(ItsStationType::BUS, OWN),
        timestamp: Timestamp(1),
        place: HERE,
    };
    ExtendedHeader::GeoUnicast { origin: origin(place), destination }
}

/// The header of what the peer sends to all on its link of the same configuration.
fn multicast(link: u32) -> ExtendedHeader {
    match link {
        10 => ExtendedHeader::GeoBroadcast { origin: origin(THERE), area: Area::circle(HERE, 1_500) },
        11 => ExtendedHeader::GeoBroadcast { origin: origin(THERE), area: Area::circle(HERE, 1_200) },
        12 => ExtendedHeader::GeoBroadcast { origin: origin(THERE), area: Area::circle(THERE, 1_000) },
        _ => ExtendedHeader::TopoBroadcast(origin(THERE)),
    }
}

#[test]
fn a_neighbour_advertisement_arrives_on_the_solicited_link() {
    let mut adaptation = adaptation();
    for link in [13, 10, 12, 11] {
        for target in [peer(), ip("2001:db8:77::2")] {
            send(&mut adaptation, LinkId(link), multicast_address(target), solicitation(own(), target));
            let answer = advertisement(target, own(), target);
            assert_eq!(link_of(&mut adaptation, unicast(THERE), &answer), Some(link), "{target}");
        }
        // What follows, in either direction.
        send(&mut adaptation, LinkId(link), PEER, udp(own(), peer()));
        assert_eq!(link_of(&mut adaptation, unicast(THERE), &udp(peer(), own())), Some(link));
    }
}

#[test]
fn packets_of_a_soliciting_neighbour_arrive_on_its_link() {
    for link in 10..14 {
        let mut adaptation = adaptation();
        assert_eq!(link_of(&mut adaptation, multicast(link), &solicitation(peer(), own())), Some(link));
        assert_eq!(link_of(&mut adaptation, unicast(THERE), &udp(peer(), own())), Some(link));
        // Packets of the peer do not change a link that this host has used.
        send(&mut adaptation, LinkId(link), PEER, udp(own(), peer()));
        link_of(&mut adaptation, multicast(23 - link), &solicitation(peer(), own()));
        assert_eq!(link_of(&mut adaptation, unicast(THERE), &udp(peer(), own())), Some(link));
    }
}

#[test]
fn the_destination_address_selects_the_virtual_link() {
    let mut adaptation = adaptation();
    for number in 0..4 {
        let packet = udp(ip("2001:db8:77::2"), ip(&format!("2001:db8:{number}::1")));
        assert_eq!(link_of(&mut adaptation, unicast(FAR), &packet), Some(10 + number));
    }
    let (link, address) = (LinkId(13), ip("2001:db8:3::1"));
    adaptation.set_address(&AddressEvent { link, address, state: AddressState::Removed });
    assert_eq!(link_of(&mut adaptation, unicast(FAR), &udp(peer(), address)), Some(12), "no longer there");
}

#[test]
fn virtual_link_selection_falls_back_to_area_prefix_and_tvl() {
    let mut adaptation = adaptation();
    let elsewhere = ip("2001:db8:3::99");
    // The smallest of those that hold it.
    assert_eq!(link_of(&mut adaptation, unicast(THERE), &udp(peer(), elsewhere)), Some(12));
    adaptation.set_link("gn2", None);
    assert_eq!(link_of(&mut adaptation, unicast(THERE), &udp(peer(), elsewhere)), Some(11));
    assert_eq!(link_of(&mut adaptation, unicast(FAR), &udp(peer(), elsewhere)), Some(13), "by prefix");
    adaptation.set_link("gn2", Some(LinkId(12)));
    assert_eq!(link_of(&mut adaptation, unicast(FAR), &udp(peer(), ip("2001:db8:99::1"))), Some(12));
}

#[test]
fn the_link_selection_memory_is_bounded() {
    let mut adaptation = adaptation();
    for number in 0..10_000_u32 {
        let [a, b, c, d] = number.to_be_bytes();
        let station = LinkAddress([2, 1, a, b, c, d]);
        send(&mut adaptation, LinkId(11), station, udp(own(), peer()));
        send(
            &mut adaptation,
            LinkId(11),
            multicast_address(peer()),
            solicitation(own(), Ipv6Addr::from_bits(u128::from(number))),
        );
    }
    assert_eq!(adaptation.link_selection.remembered(), (crate::geo::link_selection::MAX_REMEMBERED, 512));
}

#[test]
fn packets_have_the_class_and_lifetime_of_their_link() {
    let mut adaptation = adaptation();
    let frame = |bytes| Frame { link: LinkId(10), source: OWN, destination: PEER, ethertype: IPV6, bytes };
    let request = adaptation.request(frame(udp(own(), peer())), Some(HERE)).unwrap();
    // DENM are of class 1, CAM of 2.
    assert_eq!((request.class.id(), request.class.store_carry_forward(), request.lifetime), (3, false, None));
    let (class, lifetime) = (TrafficClass::new(5, true), Some(core::time::Duration::from_secs(5)));
    adaptation.links[0].config.class = class;
    adaptation.links[0].config.lifetime = lifetime;
    let request = adaptation.request(frame(udp(own(), peer())), Some(HERE)).unwrap();
    assert_eq!((request.class.id(), request.class.store_carry_forward(), request.lifetime), (5, true, lifetime));
}
