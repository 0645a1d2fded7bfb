//! Tests of the location table and of the search for the next hop.

use super::*;
use crate::base::ids::LinkId;
use core::time::Duration;
use roam6_wire::geo::ItsStationType as Kind;

/// This station's time.
const CLOCK: Timestamp = Timestamp(0);

fn mid(number: usize) -> LinkAddress {
    let [.., a, b] = number.to_be_bytes();
    LinkAddress([2, 0, 0, 0, a, b])
}

fn position(number: usize, timestamp: u32, latitude: i32) -> LongPositionVector {
    LongPositionVector {
        address: GeoAddress::new(Kind::PASSENGER_CAR, mid(number)),
        timestamp: Timestamp(timestamp),
        place: Coordinates { latitude, longitude: 0 },
        accurate: true,
        speed: 0,
        heading: 0,
    }
}

fn hop(number: usize) -> Hop {
    Hop { link: LinkId(1), address: mid(number) }
}

#[test]
fn one_sender_cannot_fill_the_location_table() {
    let mut stations = LocationTable::default();
    for number in 100..100 + 2 * MAX_INDIRECT_OF_ONE {
        let updated = stations.update(Time::ZERO, &position(number, 1, 0), (hop(1), false), None, CLOCK);
        assert_eq!(updated == PositionUpdate::Full, number >= 100 + MAX_INDIRECT_OF_ONE);
    }
    assert_eq!(stations.update(Time::ZERO, &position(2, 1, 0), (hop(2), true), None, CLOCK), PositionUpdate::Neighbour);
}

#[test]
fn in_a_full_location_table_a_neighbour_replaces_a_distant_station() {
    let mut stations = LocationTable::default();
    for number in 0..MAX_STATIONS {
        stations.update(Time::ZERO, &position(100 + number, 1, 0), (hop(number % 50), false), None, CLOCK);
    }
    assert_eq!(stations.len(), MAX_STATIONS);
    assert_eq!(
        stations.update(Time::ZERO, &position(60_000, 1, 0), (hop(60_000), false), None, CLOCK),
        PositionUpdate::Full
    );
    assert_eq!(
        stations.update(Time::ZERO, &position(60_000, 1, 0), (hop(60_000), true), None, CLOCK),
        PositionUpdate::Neighbour
    );
    assert_eq!(stations.len(), MAX_STATIONS);
}

#[test]
fn an_older_position_vector_is_ignored_and_entries_expire() {
    let (mut stations, mib) = (LocationTable::default(), Mib::default());
    stations.update(Time::ZERO, &position(1, 10, 5), (hop(1), true), None, CLOCK);
    stations.update(Time::ZERO, &position(1, 9, 6), (hop(1), true), None, CLOCK);
    assert_eq!(stations.find(mid(1)).unwrap().position.place.latitude, 5);
    let later = Time::ZERO + mib.neighbour_lifetime;
    stations.expire(later - Duration::from_millis(1), &mib);
    assert!(stations.has_neighbours());
    stations.expire(later, &mib);
    assert!(!stations.has_neighbours() && !stations.is_empty());
    stations.expire(Time::ZERO + mib.lifetime_loc_te, &mib);
    assert!(stations.is_empty() && stations.indirect_entries.is_empty());
}

#[test]
fn duplicate_detection_outlives_the_location_table_entry() {
    let (mut stations, mib) = (LocationTable::default(), Mib::default());
    stations.update(Time::ZERO, &position(1, 10, 5), (hop(1), true), None, CLOCK);
    let station = stations.find_mut(mid(1)).unwrap();
    station.packets_until = Time::ZERO + Duration::from_secs(60);
    assert!(station.duplicates.insert(7, Timestamp(10), true));
    stations.expire(Time::ZERO + mib.lifetime_loc_te, &mib);
    assert!(stations.find(mid(1)).is_none() && stations.len() == 1);
    // A copy of its packet arrives over another path, with the old position vector.
    let later = Time::ZERO + Duration::from_secs(50);
    assert_eq!(stations.update(later, &position(1, 10, 5), (hop(2), false), None, CLOCK), PositionUpdate::Known);
    assert!(!stations.find_mut(mid(1)).unwrap().duplicates.insert(7, Timestamp(10), false));
    stations.expire(later + mib.lifetime_loc_te, &mib);
    assert!(stations.is_empty() && stations.indirect_entries.is_empty() && stations.stale == 0);
}

const OWN: Coverage = Coverage { place: Some(Coordinates { latitude: 0, longitude: 0 }), range: 1000 };

#[test]
fn greedy_forwarding_finds_the_nearest_neighbour_after_it_moved() {
    let mut stations = LocationTable::default();
    for (number, latitude) in [(1, 1_000), (2, 2_000), (3, 3_000)] {
        stations.update(Time::ZERO, &position(number, 1, latitude), (hop(number), true), None, CLOCK);
    }
    let target = Plane::at(Coordinates { latitude: 10_000, longitude: 0 });
    let nearest = |stations: &mut LocationTable| stations.greedy_next_hop(Time::ZERO, &target, OWN, None).unwrap().0;
    assert_eq!(nearest(&mut stations), hop(3));
    stations.update(Time::ZERO, &position(1, 2, 9_000), (hop(1), false), None, CLOCK);
    assert_eq!(nearest(&mut stations), hop(1));
    stations.remove_neighbours(Time::ZERO, |lost| lost == hop(1));
    assert_eq!(nearest(&mut stations), hop(3));
}

#[test]
fn greedy_forwarding_skips_a_neighbour_driving_out_of_range() {
    let mut stations = LocationTable::default();
    // 990 m to the north and going on northwards at 10 m/s; 500 m to the north and standing.
    let leaving = LongPositionVector { speed: 1_000, ..position(1, 1, 89_500) };
    stations.update(Time::ZERO, &leaving, (hop(1), true), None, CLOCK);
    stations.update(Time::ZERO, &position(2, 1, 45_200), (hop(2), true), None, CLOCK);
    let target = Plane::at(Coordinates { latitude: 1_000_000, longitude: 0 });
    let later = Time::ZERO + Duration::from_secs(2);
    assert_eq!(stations.greedy_next_hop(Time::ZERO, &target, OWN, None).unwrap().0, hop(1));
    assert_eq!(stations.greedy_next_hop(later, &target, OWN, None).unwrap().0, hop(2));
    assert_eq!(
        (stations.direct_next_hop(later, mid(1), OWN), stations.direct_next_hop(later, mid(2), OWN)),
        (None, Some(hop(2)))
    );
    stations.update(later, &LongPositionVector { speed: 0, ..position(1, 2, 89_500) }, (hop(1), true), None, CLOCK);
    assert_eq!(stations.greedy_next_hop(later, &target, OWN, None).unwrap().0, hop(1));
}

#[test]
fn greedy_forwarding_skips_a_standing_neighbour_left_behind() {
    let mut stations = LocationTable::default();
    let vantage = |latitude| Coverage { place: Some(Coordinates { latitude, longitude: 0 }), range: 1000 };
    // Heard over 990 m, and over 1110 m: as far as that it is reached.
    for (number, latitude) in [(1, 89_500), (2, 100_000)] {
        stations.update(Time::ZERO, &position(number, 1, latitude), (hop(number), true), OWN.place, CLOCK);
    }
    let mut reached = |seconds: u64, latitude| {
        let later = Time::ZERO + Duration::from_secs(seconds);
        [1, 2].map(|number| stations.direct_next_hop(later, mid(number), vantage(latitude)).is_some())
    };
    assert_eq!(reached(1, 0), [true, true]);
    assert_eq!(reached(2, -500), [true, false]);
    assert_eq!(reached(3, -1_000), [false, false]);
    let later = Time::ZERO + Duration::from_secs(3);
    stations.update(later, &position(1, 2, 89_500), (hop(2), false), OWN.place, CLOCK);
    assert_eq!(
        stations.direct_next_hop(later, mid(1), vantage(-1_000)),
        None,
        "a forwarded packet does not extend its range"
    );
}

/// The interface by which unicast frames leave to station 1.
fn interface_to(stations: &LocationTable) -> u32 {
    let (hop, _) = stations.find(mid(1)).and_then(|station| station.neighbour).expect("a neighbour");
    hop.link.0
}

/// Station 1 sends a CAM every 100 ms, from the first to the second number; each is received by the interfaces that `is_heard_by` says.
fn receive_cams(stations: &mut LocationTable, numbers: std::ops::Range<u32>, is_heard_by: impl Fn(u32, u32) -> bool) {
    for number in numbers {
        let at = Time::ZERO + Duration::from_millis(u64::from(number) * 100);
        for link in (1..=2).filter(|link| is_heard_by(*link, number)) {
            let hop = Hop { link: LinkId(link), address: mid(1) };
            stations.update(at, &position(1, number, 0), (hop, true), None, CLOCK);
        }
    }
}

#[test]
fn unicast_leaves_by_the_interface_that_receives_the_neighbour_best() {
    let mut stations = LocationTable::default();
    receive_cams(&mut stations, 0..50, |_, _| true);
    assert_eq!(interface_to(&stations), 1, "of two that receive all frames the first stays");
    receive_cams(&mut stations, 50..150, |link, number| link == 2 || number % 3 == 0);
    assert_eq!(interface_to(&stations), 2, "the first loses two frames of three");
    receive_cams(&mut stations, 150..160, |link, number| link == 1 || number % 10 != 5);
    assert_eq!(interface_to(&stations), 2, "a single loss changes nothing");
    receive_cams(&mut stations, 160..200, |link, _| link == 1);
    assert_eq!(interface_to(&stations), 1, "the second is silent");
}

#[test]
fn a_neighbour_that_another_interface_receives_outlives_the_removal_of_one() {
    let mut stations = LocationTable::default();
    receive_cams(&mut stations, 0..10, |link, _| link == 1);
    receive_cams(&mut stations, 10..12, |link, _| link == 2);
    assert_eq!(interface_to(&stations), 1);
    let now = Time::ZERO + Duration::from_millis(1200);
    stations.remove_neighbours(now, |hop| hop.link == LinkId(1));
    assert!(stations.has_neighbours());
    assert_eq!(stations.direct_next_hop(now, mid(1), OWN).map(|hop| hop.link), Some(LinkId(2)));
    stations.remove_neighbours(now, |hop| hop.link == LinkId(2));
    assert!(!stations.has_neighbours());
}

#[test]
fn an_interface_that_receives_nothing_for_the_lifetime_of_a_neighbour_is_not_used() {
    let (mut stations, mib) = (LocationTable::default(), Mib::default());
    receive_cams(&mut stations, 0..101, |link, _| link == 1);
    let later = Time::ZERO + Duration::from_secs(10) + mib.neighbour_lifetime;
    let hop = Hop { link: LinkId(2), address: mid(1) };
    stations.update(later, &position(1, 101, 0), (hop, true), None, CLOCK);
    assert_eq!(interface_to(&stations), 1, "one frame against many");
    stations.expire(later, &mib);
    assert_eq!(interface_to(&stations), 2);
}
