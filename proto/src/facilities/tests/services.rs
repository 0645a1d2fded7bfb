//! A roadside unit that announces services, and a receiver.

use super::super::service_table::{MAX_ANNOUNCEMENTS, MAX_OF_ONE_STATION};
use super::*;
use crate::contract::config::facilities::{Announcement, MAX_ANNOUNCED, OfferedService, RoutingAdvertisement};
use crate::contract::report::{FacilitiesReport, HostReport};
use core::net::Ipv6Addr;
use roam6_wire::its::saem::Saem;

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn tolls() -> Announcement {
    let served = OfferedService {
        application: 540_801,
        address: Some(ip("2001:db8::1")),
        port: Some(8080),
        context: Some("lane 3".to_owned()),
    };
    let routing = RoutingAdvertisement {
        prefix: "2001:db8:9::/64".parse().unwrap(),
        gateway: ip("fe80::1"),
        dns: vec![ip("2001:db8::53"), ip("2001:db8::54")],
        lifetime: Duration::from_secs(1800),
    };
    let name = Some("A9 km 512".to_owned());
    Announcement { name, interval: Duration::from_secs(1), services: vec![served], routing: Some(routing) }
}

/// The SAMs among the packets to send.
fn announcements(requests: &[PacketRequest]) -> Vec<Saem> {
    let messages = requests.iter().filter_map(|request| Message::parse(&request.payload[4..]).ok());
    messages.filter_map(|message| if let Message::Saem(saem) = message { Some(*saem) } else { None }).collect()
}

/// The one request of a turn that announces.
fn announced(requests: &[PacketRequest]) -> &PacketRequest {
    requests.iter().find(|request| request.payload.starts_with(&2005_u16.to_be_bytes())).unwrap()
}

#[test]
fn a_sam_is_sent_each_interval_and_shown_by_its_receivers() {
    let (mut unit, mut car) = (Car::new(1), Car::new(2));
    unit.facilities.announce(Some(tolls()));
    let first = unit.next_message(0);
    let request = announced(&first);
    assert_eq!((request.to, request.class.0), (TransportType::SingleHop, 3));
    let report = car.receive(1, &unit, request);
    assert_eq!(
        report,
        Some(Report::Facilities(FacilitiesReport::SamReceived { station: 1, services: 1, routing: true }))
    );
    assert_eq!(car.receive(2, &unit, request), None, "nothing new");

    let mut view = car.view(501).services;
    let seen = view.remove(0);
    assert_eq!(
        (seen.station, seen.mid, seen.name.as_deref()),
        (1, Some(unit.position().address.mid), Some("A9 km 512"))
    );
    assert_eq!((seen.interval, seen.age), (Some(Duration::from_secs(1)), Some(Duration::from_millis(499))));
    // The picture of one's own announcement and of another's are of the same values.
    let own = unit.view(501).services.remove(0);
    assert_eq!((own.services, own.routing, own.mid), (seen.services, seen.routing, None));

    assert!(announcements(&unit.next_message(999)).is_empty());
    assert_eq!(announcements(&unit.next_message(1000)).len(), 1);
    assert_eq!(unit.facilities.deadline(Some(&unit.own(1001))), Some(time(2000)));
}

#[test]
fn a_changed_sam_is_sent_at_once_but_at_most_at_10_hz() {
    let (mut unit, mut car) = (Car::new(1), Car::new(2));
    unit.facilities.announce(Some(tolls()));
    let before = announcements(&unit.next_message(0)).remove(0).sam.body.change_count.content;
    unit.facilities.announce(Some(tolls()));
    assert!(announcements(&unit.next_message(500)).is_empty(), "nothing has changed");
    unit.facilities.announce(Some(Announcement { routing: None, ..tolls() }));
    unit.next_message(510);
    unit.facilities.announce(Some(tolls()));
    assert!(announcements(&unit.next_message(609)).is_empty());
    let requests = unit.next_message(610);
    assert_eq!(announcements(&requests)[0].sam.body.change_count.content, before + 2);
    assert!(matches!(
        car.receive(611, &unit, announced(&requests)),
        Some(Report::Facilities(FacilitiesReport::SamReceived { .. }))
    ));

    for _ in 0..16 {
        unit.facilities.announce(None);
        unit.facilities.announce(Some(tolls()));
    }
    assert_eq!(unit.view(620).services[0].content, before + 2, "modulo 16");
    unit.facilities.announce(None);
    assert!(announcements(&unit.next_message(10_000)).is_empty());
}

#[test]
fn a_silent_sam_expires_after_five_intervals() {
    for (interval, expiry) in [(1_000, 5_000), (100, 5_000), (5_000, 25_000)] {
        let (mut unit, mut car) = (Car::new(1), Car::new(2));
        let interval = Duration::from_millis(interval);
        unit.facilities.announce(Some(Announcement { interval, ..tolls() }));
        let requests = unit.next_message(0);
        car.receive(0, &unit, announced(&requests));
        car.next_message(expiry - 1);
        assert_eq!(car.view(expiry - 1).services.len(), 1, "{interval:?}");
        car.next_message(expiry);
        assert!(car.view(expiry).services.is_empty(), "{interval:?}");
    }
}

#[test]
fn one_station_cannot_fill_the_service_table() {
    let mut car = Car::new(250);
    let mut receive_sam = |mid: u8, announcement: u8| {
        let mut unit = Car::new(mid);
        unit.facilities.announce(Some(tolls()));
        let request = announced(&unit.next_message(0)).clone();
        let mut bytes = request.payload.to_vec();
        // Behind BTP, the header and the version: the number of the announcement.
        bytes[4 + 7] = announcement << 4;
        let report = car.receive(1, &unit, &PacketRequest { payload: bytes, ..request });
        (
            matches!(report, Some(Report::Facilities(FacilitiesReport::SamReceived { .. }))),
            car.facilities.services().iter().count(),
        )
    };
    let of_one: Vec<bool> = (0..16).map(|announcement| receive_sam(1, announcement).0).collect();
    assert_eq!(of_one.iter().filter(|taken| **taken).count(), MAX_OF_ONE_STATION);
    for mid in 2..=u8::MAX {
        for announcement in 0..4 {
            receive_sam(mid, announcement);
        }
    }
    assert_eq!(receive_sam(0, 0), (false, MAX_ANNOUNCEMENTS));
}

#[test]
fn the_largest_sam_fits_in_a_packet() {
    let mut unit = Car::new(1);
    let mut all = tolls();
    all.name = Some("n".repeat(32));
    let most = OfferedService { application: 270_549_119, context: Some("c".repeat(31)), ..all.services[0].clone() };
    all.services = vec![most; MAX_ANNOUNCED];
    unit.facilities.announce(Some(all));
    let requests = unit.next_message(0);
    let octets = announced(&requests).payload.len();
    assert!((1000..=1398).contains(&octets), "{octets} octets, and a packet takes 1398 (itsGnMaxSduSize)");
}

#[test]
fn truncated_sams_and_other_ports_are_counted() {
    let (mut unit, mut car) = (Car::new(1), Car::new(2));
    unit.facilities.announce(Some(tolls()));
    let requests = unit.next_message(0);
    let request = announced(&requests);
    for length in 4..request.payload.len() {
        let cut = PacketRequest { payload: request.payload[..length].to_vec(), ..request.clone() };
        let report = car.receive(1, &unit, &cut);
        assert!(
            matches!(report, Some(Report::Host(HostReport::Dropped { reason: DropReason::Malformed, .. }))),
            "{length}: {report:?}"
        );
    }
    let mut payload = request.payload.to_vec();
    payload[1] = 0xd1;
    let report = car.receive(1, &unit, &PacketRequest { payload, ..request.clone() });
    assert!(matches!(report, Some(Report::Host(HostReport::Dropped { reason: DropReason::NotForUs, .. }))));
    assert!(car.view(2).services.is_empty());
}
