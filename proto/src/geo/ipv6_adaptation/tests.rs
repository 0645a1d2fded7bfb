//! Four virtual links between two stations: a unicast packet is received on the link on which it was sent.

use super::*;
use crate::base::time::Time;
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
    let link = |(number, reach)| VirtualLink::new(format!("gn{number}"), reach);
    let mut adaptation = Ipv6Adaptation::new((0..).zip(reaches).map(link).collect(), 2, &[]);
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

/// A packet with IPv6 at its last hop.
fn of_peer(extended: ExtendedHeader, max_hop_limit: u8, payload: &[u8]) -> Packet<'_> {
    Packet {
        version: VERSION,
        lifetime: Lifetime(0),
        remaining_hop_limit: 1,
        upper_protocol: UpperProtocol::Ipv6,
        traffic_class: TrafficClass(0),
        flags: 0,
        max_hop_limit,
        extended,
        payload,
    }
}

/// The virtual link on which a packet of the peer with this header is received.
fn link_of(adaptation: &mut Ipv6Adaptation, extended: ExtendedHeader, payload: &[u8]) -> Option<u32> {
    let most = if extended.is_single_hop() { 1 } else { 3 };
    let packet = of_peer(extended, most, payload);
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
    let request = adaptation.request(frame(udp(own(), peer())), Some(HERE), |_| None).unwrap();
    // DENM are of class 1, CAM of 2.
    assert_eq!((request.class.id(), request.class.store_carry_forward(), request.lifetime), (3, false, None));
    let (class, lifetime) = (TrafficClass::new(5, true), Some(core::time::Duration::from_secs(5)));
    adaptation.links[0].config.class = class;
    adaptation.links[0].config.lifetime = lifetime;
    let request = adaptation.request(frame(udp(own(), peer())), Some(HERE), |_| None).unwrap();
    assert_eq!((request.class.id(), request.class.store_carry_forward(), request.lifetime), (5, true, lifetime));
}

#[test]
fn flows_differ_by_their_code_points() {
    use crate::contract::config::geo::{FlowParameters, PacketParameters};
    let mut adaptation = adaptation();
    let parameters = PacketParameters {
        class: Some(2),
        store_carry_forward: Some(true),
        lifetime: Some(core::time::Duration::from_secs(1)),
        hops: Some(2),
    };
    adaptation.links[0].config.hops = Some(5);
    adaptation.links[0].config.flows = vec![FlowParameters { dscp: 46, parameters }];
    let of = |dscp: u8| {
        let mut bytes = udp(own(), peer());
        (bytes[0], bytes[1]) = (0x60 | dscp >> 2, dscp << 6);
        let frame = Frame { link: LinkId(10), source: OWN, destination: PEER, ethertype: IPV6, bytes };
        let request = adaptation.request(frame, Some(HERE), |_| None).unwrap();
        (request.class, request.lifetime, request.hops)
    };
    assert_eq!(of(46), (TrafficClass::new(2, true), parameters.lifetime, Some(2)));
    assert_eq!(of(10), (TrafficClass::new(3, false), None, Some(5)));
}

#[test]
fn addresses_have_destinations_of_their_own() {
    let mut adaptation = adaptation();
    let mut put = |text: &str, scope| assert!(adaptation.put(GeoDestination { address: ip(text), scope }));
    put("ff18::1", DestinationScope::Around(300));
    put("ff18::2", DestinationScope::AroundStation { station: PEER, radius: 200 });
    put("ff18::3", DestinationScope::Hops(3));
    put("2001:db8::5", DestinationScope::AroundStation { station: PEER, radius: 200 });
    let to = |text: &str, known: Option<Coordinates>| {
        let bytes = udp(own(), ip(text));
        let frame = Frame { link: LinkId(10), source: OWN, destination: PEER, ethertype: IPV6, bytes };
        adaptation.request(frame, Some(HERE), |station| known.filter(|_| station == PEER)).map(|request| request.to)
    };
    assert_eq!(to("ff18::1", None), Some(TransportType::GeoBroadcast(Area::circle(HERE, 300))));
    assert_eq!(to("ff18::2", Some(THERE)), Some(TransportType::GeoBroadcast(Area::circle(THERE, 200))));
    assert_eq!(to("ff18::2", None), None, "its place is unknown");
    assert_eq!(to("ff18::3", None), Some(TransportType::TopologyBroadcast(3)));
    assert_eq!(to("2001:db8::5", Some(THERE)), Some(TransportType::GeoAnycast(Area::circle(THERE, 200))));
}

#[test]
fn an_identifier_resolves_an_address() {
    let mut adaptation = adaptation();
    let solicit = |source, target| Frame {
        link: LinkId(13),
        source: OWN,
        destination: multicast_address(target),
        ethertype: IPV6,
        bytes: solicitation(source, target),
    };
    assert_eq!(adaptation.resolve(&solicit(own(), peer())), None, "by default neighbours are solicited");
    adaptation.links[3].config.resolves_by_identifier = true;
    let answer = adaptation.resolve(&solicit(own(), peer())).unwrap();
    assert_eq!((answer.source, answer.destination, answer.link), (PEER, OWN, LinkId(13)));
    let datagram = roam6_wire::ip6::Datagram::parse(&answer.bytes).unwrap();
    let message = Message::parse(&datagram).unwrap();
    assert!(message.check_on_link(&datagram).is_ok());
    let Message::NeighbourAdvertisement(advertised) = message else { panic!("{message:?}") };
    assert_eq!((advertised.target, advertised.solicited), (peer(), true));
    // Duplicate address detection, and identifiers that hold no link-layer address.
    assert_eq!(adaptation.resolve(&solicit(Ipv6Addr::UNSPECIFIED, peer())), None);
    assert_eq!(adaptation.resolve(&solicit(own(), ip("2001:db8:3::99"))), None);
}

/// A Router Advertisement of the peer, broadcast to an area.
fn advertise(adaptation: &mut Ipv6Adaptation, now: u64, area: Area, lifetime: u16) -> AdvertisementEffect {
    let router = roam6_wire::icmp6::RouterAdvertisement { hop_limit: 64, lifetime, ..Default::default() };
    let payload = packet(&Message::RouterAdvertisement(router), peer(), ip("ff02::1"));
    let packet = of_peer(ExtendedHeader::GeoBroadcast { origin: origin(THERE), area }, 1, &payload);
    adaptation.receive_advertisement(Time::from_micros(now * 1_000_000), &packet, OWN)
}

#[test]
fn router_advertisements_create_and_remove_virtual_links() {
    let mut adaptation = adaptation();
    let area = Area::circle(HERE, 700);
    let at = |seconds: u64| Time::from_micros(seconds * 1_000_000);
    assert_eq!(advertise(&mut adaptation, 1, area, 0), AdvertisementEffect::None);
    assert_eq!(advertise(&mut adaptation, 1, area, 30), AdvertisementEffect::Created);
    adaptation.set_link("gnra0", Some(LinkId(20)));
    let held = adaptation.take_held(LinkId(20)).unwrap();
    assert_eq!((held.link, held.source, held.destination.0[0]), (LinkId(20), PEER, 0x33));
    assert_eq!(adaptation.take_held(LinkId(20)), None);
    // Another advertisement extends it; other areas have links of their own, as many as may be.
    assert_eq!(advertise(&mut adaptation, 20, area, 30), AdvertisementEffect::None);
    assert_eq!(advertise(&mut adaptation, 20, Area::circle(HERE, 600), 5), AdvertisementEffect::Created);
    assert_eq!(advertise(&mut adaptation, 20, Area::circle(HERE, 500), 5), AdvertisementEffect::Refused);
    assert_eq!(advertise(&mut adaptation, 20, Area::circle(HERE, 1_500), 5), AdvertisementEffect::None, "configured");
    assert_eq!(adaptation.expire_links(at(26), Some(HERE)), ["gnra1"]);
    assert_eq!(adaptation.deadline(), Some(at(50)));
    // Outside for a while, but not for long.
    assert!(adaptation.expire_links(at(30), Some(FAR)).is_empty());
    assert!(adaptation.expire_links(at(34), Some(HERE)).is_empty());
    assert!(adaptation.expire_links(at(36), Some(FAR)).is_empty());
    assert_eq!(adaptation.deadline(), Some(at(41)));
    assert_eq!(adaptation.expire_links(at(41), Some(FAR)), ["gnra0"]);
    // Withdrawn by its router.
    assert_eq!(advertise(&mut adaptation, 50, area, 30), AdvertisementEffect::Created);
    assert_eq!(advertise(&mut adaptation, 51, area, 0), AdvertisementEffect::Withdrawn);
    assert_eq!(adaptation.expire_links(at(51), Some(HERE)), ["gnra0"]);
    assert_eq!(adaptation.names().count(), 4);
}
