//! Limits by time and rate: the packet data rate (annex B.2), the buffer of the location service (§10.3.7.1), LS
//! replies (§10.3.7.3), and the next hop of greedy forwarding (§E.2).

use super::*;

/// A payload of `octets` to all stations within three hops.
fn flood(octets: usize) -> PacketRequest {
    PacketRequest { payload: vec![7; octets], ..data(TransportType::TopologyBroadcast(3)) }
}

/// Frames with a payload that station 2 has sent since the last call.
fn forwarded(air: &mut Air) -> usize {
    air.transmissions().iter().filter(|by| **by == 2).count()
}

#[test]
fn forwarding_resumes_when_the_packet_data_rate_falls() {
    let mut air = Air::row(3, 250.0, &Mib::default());
    for _ in 0..3_000 {
        air.request(1, flood(1_398)).unwrap();
        air.run(MILLISECOND);
    }
    air.run(Duration::from_secs(10));
    air.sent.clear();
    for _ in 0..25 {
        air.request(1, flood(100)).unwrap();
        air.run(Duration::from_secs(1));
    }
    assert_eq!(forwarded(&mut air), 25);
}

#[test]
fn only_the_excess_above_the_packet_data_rate_is_dropped() {
    let mut air = Air::row(3, 250.0, &Mib::default());
    air.run(Duration::from_secs(5));
    // Twice the packet data rate, for 20 s.
    let mut each_second = Vec::new();
    for _ in 0..20 {
        air.sent.clear();
        for _ in 0..200 {
            air.request(1, flood(1_000)).unwrap();
            air.run(5 * MILLISECOND);
        }
        each_second.push(forwarded(&mut air));
    }
    // 100 kB/s are 96 such packets a second; the bucket holds as many at the beginning.
    assert!(each_second.iter().all(|count| *count >= 90), "{each_second:?}");
    assert!(each_second.iter().sum::<usize>() <= 21 * 100, "{each_second:?}");
}

#[test]
fn all_octets_of_a_packet_count_for_the_packet_data_rate() {
    let mib = Mib { max_packet_data_rate: 6_000, in_area: AreaForwarding::Simple, ..Mib::default() };
    let mut air = Air::row(2, 250.0, &mib);
    air.run(Duration::from_secs(5));
    air.sent.clear();
    // Of 60 octets each: 100 a second, and as many at the beginning.
    for _ in 0..1_000 {
        air.request(1, data(TransportType::GeoBroadcast(around(east(400.0), 1_000)))).unwrap();
        air.run(5 * MILLISECOND);
    }
    let count = forwarded(&mut air);
    assert!((590..=602).contains(&count), "{count}");
}

fn wait_for_nine(air: &mut Air, payload: &[u8], seconds: u64) {
    let lifetime = Some(Duration::from_secs(seconds));
    let request = PacketRequest { payload: payload.to_vec(), lifetime, ..data(station(9)) };
    air.request(1, request).unwrap();
}

#[test]
fn ls_buffered_packets_expire_with_their_lifetime() {
    let mut air = Air::row(1, 0.0, &Mib::default());
    air.run(Duration::from_secs(5));
    wait_for_nine(&mut air, b"short", 2);
    wait_for_nine(&mut air, b"long", 30);
    air.run(Duration::from_secs(5));
    air.add(9, east(200.0), &Mib::default());
    air.sent.clear();
    air.run(Duration::from_secs(5));
    assert_eq!(air.stations[&9].delivered, [b"long"]);
    assert!(air.stations[&1].drops.contains(&DropReason::Expired));
    let is_data = |frame: &&Frame| Packet::parse(&frame.bytes).is_ok_and(|packet| packet.payload == b"long");
    let frame = air.sent.iter().map(|(_, frame)| frame).find(is_data).unwrap();
    let left = Packet::parse(&frame.bytes).unwrap().lifetime.duration();
    assert!(left < Duration::from_secs(26), "the time it has waited counts: {left:?}");
}

/// The LS replies that station 2 sends to `count` LS requests within a second.
fn replies(count: u64, askers: impl Fn(u64) -> u8) -> usize {
    let mut air = Air::row(2, 250.0, &Mib::default());
    air.run(Duration::from_secs(5));
    air.sent.clear();
    let place = air.stations[&1].place;
    for number in 0..count {
        let asker = askers(number);
        if !air.stations.contains_key(&asker) {
            air.add(asker, place, &Mib::default());
        }
        let (now, mut out) = (air.now, Outbox::new());
        let router = &mut air.stations.get_mut(&asker).unwrap().router;
        router.send_ls_request(now, GeoAddress::new(ItsStationType::PASSENGER_CAR, mac(2)), &mut out);
        air.carry(asker, out);
        air.run(Duration::from_micros(1_000_000 / count));
    }
    let is_reply = |(by, frame): &&(u8, Frame)| {
        *by == 2 && matches!(Packet::parse(&frame.bytes).unwrap().extended, ExtendedHeader::LocationReply { .. })
    };
    air.sent.iter().filter(is_reply).count()
}

#[test]
fn ls_replies_are_rate_limited_per_requester_and_in_all() {
    let of_one = replies(300, |_| 1);
    assert!((1..=3).contains(&of_one), "{of_one} replies in a second to 300 requests of one station");
    let of_many = replies(200, |number| 10 + u8::try_from(number).unwrap());
    assert!((50..=101).contains(&of_many), "{of_many} replies in a second to one request of each of 200 stations");
}

#[test]
fn an_ls_request_keeps_the_station_type_of_a_former_entry() {
    let mut air = Air::row(2, 250.0, &Mib::default());
    air.run(Duration::from_secs(5));
    air.stations.remove(&2);
    air.run(Duration::from_secs(90));
    air.sent.clear();
    air.request(1, data(TransportType::GeoUnicast(GeoAddress::new(ItsStationType::UNKNOWN, mac(2))))).unwrap();
    let sought = air.sent.iter().find_map(|(_, frame)| match Packet::parse(&frame.bytes).unwrap().extended {
        ExtendedHeader::LocationRequest { sought, .. } => Some(sought),
        _ => None,
    });
    assert_eq!(sought, Some(GeoAddress::new(ItsStationType::PASSENGER_CAR, mac(2))));
}

/// Station 1 sends to station 9, known to all as 2 km to the east. It does not know station 2, which receives the packet.
#[test]
fn a_broadcast_packet_is_not_forwarded_back_to_its_sender() {
    let mib = Mib::default();
    let mut air = Air::row(0, 0.0, &mib);
    air.add(1, east(200.0), &mib);
    air.add(9, east(300.0), &mib);
    air.run(Duration::from_secs(5));
    air.stations.remove(&9);
    air.run(Duration::from_secs(9));
    air.add(2, east(0.0), &mib);
    let now = air.now;
    air.stations.get_mut(&1).unwrap().router.beacon(now, &mut Outbox::new());
    air.run(Duration::from_millis(1));
    let mut out = Outbox::new();
    air.stations.get_mut(&1).unwrap().router.beacon(now, &mut out);
    air.carry(1, out);
    air.stations.get_mut(&1).unwrap().router.remove_neighbour(now, mac(2));
    air.sent.clear();
    air.request(1, data(station(9))).unwrap();
    let hops: Vec<(u8, LinkAddress)> = air.sent.iter().map(|(by, frame)| (*by, frame.destination)).collect();
    assert_eq!(hops, [(1, BROADCAST)], "not handed back");
}
