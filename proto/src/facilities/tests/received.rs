//! Messages that are only received: of vulnerable road users, of collective perception, and of infrastructure. Their octets
//! are the golden vectors of the codecs.

use super::super::message_table::MAX_MESSAGES;
use super::*;
use crate::base::hex;
use roam6_wire::geo::btp::{Btp, SourceOrInfo, port};

/// A packet with the vector `name` to this port.
fn packet(name: &str, port: u16) -> PacketRequest {
    let mut vectors = include_str!("../../../../wire/tests/wire/vectors/its-received.tsv").lines();
    let octets = vectors.find_map(|line| line.strip_prefix(name)?.strip_prefix('\t')).unwrap();
    let message = hex::decode(octets).unwrap();
    let payload = Btp { destination: port, source_or_info: SourceOrInfo::Information(0), payload: &message }.emit();
    PacketRequest { payload, ..Car::new(1).next_message(0).remove(0) }
}

fn infrastructure() -> [PacketRequest; 3] {
    [packet("mapem", port::MAPEM), packet("spatem", port::SPATEM), packet("ivim", port::IVIM)]
}

fn is_dropped(report: Option<&Report>, expected: DropReason) -> bool {
    matches!(report, Some(Report::Host(HostReport::Dropped { reason, .. })) if *reason == expected)
}

#[test]
fn a_vulnerable_road_user_is_in_the_ldm_for_three_of_its_intervals() {
    let (sender, mut receiver) = (Car::new(1), Car::new(2));
    assert_eq!(receiver.receive(1, &sender, &packet("vam-worker", port::VAM)), None);
    let seen = receiver.view(1).ldm.stations;
    assert_eq!((seen[0].station, seen[0].kind.as_str()), (4711, "pedestrian (road worker)"));
    assert_eq!((seen[0].speed, seen[0].heading, seen[0].length), (Some(139), Some(900), None));
    assert_eq!(seen[0].place, Coordinates { latitude: 480_000_001, longitude: 110_000_002 });
    assert_eq!(receiver.receive(2, &sender, &packet("vam-pedestrian", port::VAM)), None);
    assert_eq!(receiver.view(2).ldm.stations[0].kind, "pedestrian", "the latest message counts");
    receiver.next_message(14_990);
    assert_eq!(receiver.view(14_990).ldm.stations.len(), 1);
    receiver.next_message(15_003);
    assert!(receiver.view(15_003).ldm.stations.is_empty());
}

#[test]
fn a_vam_over_several_hops_is_not_for_the_ldm() {
    let far = PacketRequest { to: TransportType::GeoBroadcast(area()), ..packet("vam-worker", port::VAM) };
    let mut receiver = Car::new(2);
    let report = receiver.receive(1, &Car::new(1), &far);
    assert!(is_dropped(report.as_ref(), DropReason::NotForUs), "{report:?}");
    assert!(receiver.view(1).ldm.stations.is_empty());
}

#[test]
fn messages_about_the_surroundings_are_counted_signed_or_not() {
    let (sender, mut receiver) = (Car::new(1), Car::new(2));
    for (millis, permissions) in [(1, None), (2, Some([0; 3]))] {
        let cpm = packet("cpm-objects", port::CPM);
        for request in infrastructure().iter().chain([&cpm]) {
            assert_eq!(receiver.receive_permitted(millis, sender.position(), request, permissions), None);
        }
    }
    let seen = receiver.view(102).ldm.messages;
    let kinds: Vec<&str> = seen.iter().map(|row| row.kind.as_str()).collect();
    assert_eq!(kinds, ["SPATEM", "MAPEM", "IVIM", "CPM"]);
    for row in &seen {
        let age = Duration::from_millis(100);
        assert_eq!((row.station, row.mid, row.count, row.age), (4711, sender.position().address.mid, 2, age));
        let place = Coordinates { latitude: 480_000_001, longitude: 110_000_002 };
        let content = (row.place, row.heading, row.objects);
        let expected = if row.kind == "CPM" { (Some(place), Some(1800), Some(40)) } else { (None, None, None) };
        assert_eq!(content, expected, "{}", row.kind);
    }
    receiver.next_message(5_003);
    assert!(receiver.view(5_003).ldm.messages.is_empty());
}

#[test]
fn an_older_message_and_one_at_the_port_of_another_change_nothing() {
    let mut receiver = Car::new(2);
    let request = packet("mapem", port::MAPEM);
    let at = |timestamp| LongPositionVector { timestamp: Timestamp(timestamp), ..Car::new(1).position() };
    assert_eq!(receiver.receive_from(1, at(100), &request), None);
    let report = receiver.receive_from(2, at(99), &request);
    assert!(is_dropped(report.as_ref(), DropReason::Replayed), "{report:?}");
    for (name, port) in
        [("mapem", port::SPATEM), ("ivim", port::CPM), ("cpm-vehicle", port::VAM), ("vam-worker", port::CAM)]
    {
        let report = receiver.receive_from(3, at(101), &packet(name, port));
        assert!(is_dropped(report.as_ref(), DropReason::NotForUs), "{name}: {report:?}");
    }
    let view = receiver.view(4).ldm;
    assert_eq!((view.messages.len(), view.messages[0].count, view.stations.len()), (1, 1, 0));
}

#[test]
fn the_table_of_messages_is_bounded() {
    let mut receiver = Car::new(2);
    let request = packet("spatem", port::SPATEM);
    for number in 0..=MAX_MESSAGES {
        let mut source = Car::new(1).position();
        let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
        source.address = GeoAddress::new(ItsStationType::ROADSIDE_UNIT, LinkAddress([2, 1, 0, 0, high, low]));
        let report = receiver.receive_from(1, source, &request);
        let is_full = matches!(report, Some(Report::Host(HostReport::TableFull { .. })));
        assert_eq!(is_full, number == MAX_MESSAGES, "{report:?}");
    }
    assert_eq!(receiver.view(2).ldm.messages.len(), MAX_MESSAGES);
}
