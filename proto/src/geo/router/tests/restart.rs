//! Stations that restart, stations whose clock or position is wrong, and two stations with one link-layer address
//! (EN 302 636-4-1 §8.1.3, §10.2.1.5, annex A).

use super::*;
use crate::contract::engine::Engine;
use crate::contract::input::Input;
use crate::contract::item::{EthertypeSubscription, Item, VirtualInterface};
use crate::geo::GeoStation;
use roam6_wire::geo::{ETHERTYPE, Lifetime, LongPositionVector, SequencedSource, Timestamp, VERSION};

/// Milliseconds in an hour.
const HOUR: u32 = 3_600_000;

/// The position vector of a station now, so many milliseconds of its clock ahead of the right time.
pub(super) fn position(air: &Air, number: u8, place: Coordinates, ahead: u32) -> LongPositionVector {
    let right = air.stations.values().next().unwrap().router.its_time(air.now) as u32;
    LongPositionVector {
        address: GeoAddress::new(ItsStationType::PASSENGER_CAR, mac(number)),
        timestamp: Timestamp(right.wrapping_add(ahead)),
        place,
        accurate: true,
        speed: 0,
        heading: 0,
    }
}

/// A broadcast frame of another station.
pub(super) fn frame(sender: u8, extended: ExtendedHeader, hops: u8) -> Frame {
    let (upper, payload): (_, &[u8]) = if matches!(extended, ExtendedHeader::Beacon { .. }) {
        (UpperProtocol::Any, b"")
    } else {
        (UpperProtocol::BtpB, b"data")
    };
    let (lifetime, class) = (Lifetime::of(Duration::from_secs(60)), TrafficClass(0));
    let packet = Packet {
        version: VERSION,
        lifetime,
        remaining_hop_limit: hops,
        upper_protocol: upper,
        traffic_class: class,
        flags: 0x80,
        max_hop_limit: hops,
        extended,
        payload,
    };
    Frame { link: LINK, source: mac(sender), destination: BROADCAST, ethertype: ETHERTYPE, bytes: packet.emit() }
}

/// Lets station `number` receive a frame.
pub(super) fn receive(air: &mut Air, number: u8, frame: &Frame) {
    let (now, mut out) = (air.now, Outbox::new());
    let peer = air.stations.get_mut(&number).unwrap();
    if let Some(delivery) = peer.router.receive(now, frame, &mut out) {
        peer.delivered.push(delivery.packet.payload.to_vec());
    }
    air.carry(number, out);
}

fn known_place(air: &Air, of: u8, at: u8) -> Option<Coordinates> {
    air.stations[&at].router.location_table().find(mac(of)).map(|station| station.position.place)
}

/// The station restarts without state; its sequence numbers start at 0 (§8.3).
fn restart(air: &mut Air, number: u8, mib: &Mib) {
    let place = air.stations[&number].place;
    air.add(number, place, mib);
    air.stations.get_mut(&number).unwrap().router.sequence = 0;
}

#[test]
fn a_restarted_station_may_reuse_its_sequence_numbers() {
    let mib = Mib::default();
    for silence in [Duration::from_secs(1), Duration::from_secs(25)] {
        let mut air = Air::row(3, 250.0, &mib);
        restart(&mut air, 1, &mib);
        for run in 1..=3 {
            air.run(Duration::from_secs(5));
            for _ in 0..60 {
                air.request(1, data(TransportType::TopologyBroadcast(5))).unwrap();
                air.run(Duration::from_millis(100));
            }
            let received = |number| air.delivered().iter().filter(|by| **by == number).count();
            assert_eq!((received(2), received(3)), (60 * run, 60 * run), "run {run}, {silence:?} of silence");
            restart(&mut air, 1, &mib);
            air.stations.get_mut(&1).unwrap().router.links.clear();
            air.run(silence);
            restart(&mut air, 1, &mib);
        }
    }
}

#[test]
fn a_timestamp_from_the_future_is_replaced_by_the_right_one() {
    for hops in [1, 5] {
        let mut air = Air::row(1, 0.0, &Mib::default());
        let extended = |source, sequence| match hops {
            1 => ExtendedHeader::Beacon { source },
            _ => ExtendedHeader::TopoBroadcast(SequencedSource { sequence, source }),
        };
        let wrong = position(&air, 9, east(500.0), HOUR);
        receive(&mut air, 1, &frame(9, extended(wrong, 1), hops));
        for second in 1..45_u16 {
            air.run(Duration::from_secs(1));
            let right = position(&air, 9, east(100.0), 0);
            receive(&mut air, 1, &frame(9, extended(right, 1 + second), hops));
            assert_eq!(known_place(&air, 9, 1), Some(east(100.0)), "after {second} s, {hops} hops");
        }
    }
}

#[test]
fn one_forged_timestamp_does_not_move_a_known_station() {
    let mut air = Air::row(1, 0.0, &Mib::default());
    let right = position(&air, 9, east(100.0), 0);
    receive(&mut air, 1, &frame(9, ExtendedHeader::Beacon { source: right }, 1));
    for ahead in [60_000, HOUR, 20 * 24 * HOUR] {
        let forged = position(&air, 9, east(900.0), ahead);
        receive(&mut air, 1, &frame(8, ExtendedHeader::Beacon { source: forged }, 1));
        assert_eq!(known_place(&air, 9, 1), Some(east(100.0)));
        assert_eq!(air.stations.get_mut(&1).unwrap().drops.pop(), Some(DropReason::Implausible));
    }
}

#[test]
fn stations_are_followed_with_the_own_clock_an_hour_slow() {
    let mut air = Air::row(1, 0.0, &Mib::default());
    for second in 0..30_u8 {
        let place = east(100.0 + f64::from(second));
        let source = position(&air, 9, place, HOUR);
        receive(&mut air, 1, &frame(9, ExtendedHeader::Beacon { source }, 1));
        assert_eq!(known_place(&air, 9, 1), Some(place));
        air.run(Duration::from_secs(1));
    }
}

#[test]
fn an_expired_location_table_entry_accepts_any_timestamp() {
    let mut air = Air::row(1, 0.0, &Mib::default());
    let origin = |source, sequence| ExtendedHeader::TopoBroadcast(SequencedSource { sequence, source });
    // Forwarded packets with a clock eight seconds ahead, which is tolerated; then with the correct time.
    let early = position(&air, 9, east(500.0), 8_000);
    receive(&mut air, 1, &frame(8, origin(early, 1), 5));
    let right = position(&air, 9, east(100.0), 0);
    air.run(Duration::from_secs(21));
    assert_eq!(known_place(&air, 9, 1), None);
    receive(&mut air, 1, &frame(8, origin(right, 2), 5));
    assert_eq!(known_place(&air, 9, 1), Some(east(100.0)));
}

#[test]
fn an_implausibly_distant_neighbour_is_rejected() {
    let mut air = Air::row(1, 0.0, &Mib::default());
    let source = position(&air, 9, east(1_000_000.0), 0);
    receive(&mut air, 1, &frame(9, ExtendedHeader::Beacon { source }, 1));
    assert_eq!(known_place(&air, 9, 1), None);
    assert_eq!(air.stations[&1].drops, [DropReason::Implausible]);
    // By several hops a packet may have come from there.
    let extended = ExtendedHeader::TopoBroadcast(SequencedSource { sequence: 1, source });
    receive(&mut air, 1, &frame(8, extended, 5));
    assert!(known_place(&air, 9, 1).is_some());
}

/// What the first station sends from now on: source MID and link-layer source of its next beacon.
fn beacon_of_the_first(air: &mut Air) -> (LinkAddress, LinkAddress) {
    air.sent.clear();
    air.run(Duration::from_secs(5));
    let of_first = |(by, frame): &&(u8, Frame)| *by == 1 && frame.destination == BROADCAST;
    let (_, frame) = air.sent.iter().find(of_first).unwrap();
    (Packet::parse(&frame.bytes).unwrap().extended.source().address.mid, frame.source)
}

#[test]
fn a_duplicate_link_layer_address_is_detected_and_replaced() {
    for of_sender in [false, true] {
        let mut air = Air::row(1, 0.0, &Mib::default());
        air.run(Duration::from_secs(5));
        // The same MID and sender; or the sender alone, under a MID of its own making.
        let source = position(&air, if of_sender { 9 } else { 1 }, east(100.0), 0);
        receive(&mut air, 1, &frame(1, ExtendedHeader::Beacon { source }, 1));
        let (mid, sender) = beacon_of_the_first(&mut air);
        assert_ne!(mid, mac(1));
        assert_eq!(sender, mid);
        // What is sent to the new address is for this station, and to the former one no longer.
        let source = position(&air, 8, east(100.0), 0);
        let extended = ExtendedHeader::SingleHop { source, media: [0; 4] };
        for (destination, count) in [(mid, 1), (mac(1), 1)] {
            receive(&mut air, 1, &Frame { destination, ..frame(8, extended, 1) });
            assert_eq!(air.delivered().len(), count);
        }
    }
}

#[test]
fn own_frames_that_return_are_no_duplicate_address() {
    let mut air = Air::row(1, 0.0, &Mib::default());
    air.run(Duration::from_secs(12));
    for (_, echo) in air.sent.clone() {
        receive(&mut air, 1, &echo);
    }
    assert_eq!(air.stations[&1].router.address().mid, mac(1));
}

#[test]
fn recorded_own_frames_are_no_duplicate_address() {
    let mut air = Air::row(1, 0.0, &Mib::default());
    air.run(Duration::from_secs(120));
    let recorded = air.sent.clone();
    assert!(recorded.len() > 20, "{}", recorded.len());
    // Played back an hour later, and to the station after a restart.
    air.run(Duration::from_secs(3_600));
    recorded.iter().for_each(|(_, frame)| receive(&mut air, 1, frame));
    restart(&mut air, 1, &Mib::default());
    recorded.iter().for_each(|(_, frame)| receive(&mut air, 1, frame));
    assert_eq!(air.stations[&1].router.address().mid, mac(1));
}

#[test]
fn interfaces_and_virtual_links_get_the_new_address() {
    let scope = crate::contract::config::geo::LinkScope::Around(500);
    let link = crate::contract::config::geo::VirtualLink::new("gn0", scope);
    let config = crate::contract::config::geo::GeoConfig {
        interfaces: ["radio0".to_owned()].into(),
        station: ItsStationType::BUS,
        virtual_links: vec![link],
        advertised_links: 0,
        destinations: Vec::new(),
        facilities: None,
        mib: Mib::default(),
        security: crate::contract::config::geo::SecurityConfig::default(),
    };
    let mut station = GeoStation::new(config, Entropy::seed_from_u64(1));
    let event = LinkEvent { link: LINK, name: "radio0".to_owned(), address: Some(mac(1)), up: true, mtu: 1500 };
    let source = position(&Air::row(1, 0.0, &Mib::default()), 1, east(100.0), 0);
    let mut out = Outbox::new();
    for input in
        [Input::Link(event.clone()), Input::Frame(frame(1, ExtendedHeader::Beacon { source }, 1)), Input::Link(event)]
    {
        station.handle(Time::from_micros(1), &input, &mut out);
    }
    let new = station.router().address().mid;
    let items: Vec<Item> =
        out.drain().filter_map(|output| if let Output::Put(put) = output { Some(put.item) } else { None }).collect();
    let subscription =
        |address| Item::EthertypeSubscription(EthertypeSubscription { link: LINK, ethertype: ETHERTYPE, address });
    let made = |address| Item::VirtualInterface(VirtualInterface { name: "gn0".to_owned(), address, mtu: 1398 });
    assert_eq!(items, [subscription(None), made(mac(1)), made(new), subscription(Some(new))]);
}
