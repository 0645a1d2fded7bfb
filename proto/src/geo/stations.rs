//! The location table: who is where, who is near, and what was heard of each (EN 302 636-4-1 §8.1).
//!
//! Bounded, and fair: a sender that names ever new sources fills its own share and no more, and no entry that is alive
//! is given up for another, except that a neighbour takes the place of who is far away.

use super::config::Mib;
use super::geometry::Plane;
use super::rate::Rate;
use super::seen::Seen;
use crate::input::LinkId;
use crate::time::Time;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{LongPosition, Place, ShortPosition};
use std::collections::BTreeMap;

/// Stations known at once.
pub const MAX_STATIONS: usize = 4096;
/// Stations known by one sender's word only.
pub const MAX_INTRODUCED: usize = 512;

/// The location table, by the link-layer address in each station's GeoNetworking address.
#[derive(Debug, Clone, Default)]
pub struct Stations {
    table: BTreeMap<LinkAddress, Station>,
    /// How many each sender has introduced.
    introduced: BTreeMap<LinkAddress, usize>,
    /// What the choice of a next hop looks at, in the order of the table.
    near: Vec<Near>,
}

/// An entry of the location table.
#[derive(Debug, Clone)]
pub struct Station {
    /// Its latest position vector; speed, heading and accuracy are 0 if it was learnt from a short one.
    pub position: LongPosition,
    /// Heard directly, and when.
    pub near: Option<(Hop, Time)>,
    /// When the position was last renewed.
    pub heard: Time,
    /// Packets received of it.
    pub seen: Seen,
    /// What it sends.
    pub rate: Rate,
    introduced_by: LinkAddress,
}

/// How a neighbour is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// By this interface.
    pub link: LinkId,
    /// At this link-layer address.
    pub address: LinkAddress,
}

#[derive(Debug, Clone, Copy)]
struct Near {
    mid: LinkAddress,
    place: Place,
    hop: Hop,
}

/// What hearing of a station has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It is a neighbour now, and was not before.
    Neighbour,
    /// It was not known before.
    New,
    /// Known already, or older than what is known.
    Known,
    /// The table, or the sender's share of it, is full.
    Full,
}

impl Stations {
    /// Hears a source's position from a frame that came by `hop`; `direct` if the source itself sent the frame and says
    /// so by a packet of one hop.
    pub fn put(&mut self, now: Time, position: &LongPosition, hop: Hop, direct: bool) -> Heard {
        let mid = position.address.mid;
        let is_new = !self.table.contains_key(&mid);
        if is_new && !self.make_room(hop.address, direct) {
            return Heard::Full;
        }
        let station = self.table.entry(mid).or_insert_with(|| Station::new(now, position, hop.address));
        if position.timestamp.is_newer_than(station.position.timestamp) {
            (station.position, station.heard) = (*position, now);
        }
        let was_near = station.near.is_some();
        if direct {
            station.near = Some((hop, now));
        }
        let is_near = station.near.is_some();
        if is_new {
            *self.introduced.entry(hop.address).or_default() += 1;
        }
        if is_near {
            self.renew_near(mid);
        }
        match (is_new, was_near, is_near) {
            (_, false, true) => Heard::Neighbour,
            (true, _, _) => Heard::New,
            (false, _, _) => Heard::Known,
        }
    }

    /// Learns where a packet's destination is said to be; only of a station that is known already.
    pub fn learn(&mut self, now: Time, position: &ShortPosition) {
        let Some(station) = self.table.get_mut(&position.address.mid) else { return };
        if station.near.is_none() && position.timestamp.is_newer_than(station.position.timestamp) {
            let ShortPosition { address, timestamp, place } = *position;
            station.position = LongPosition { address, timestamp, place, accurate: false, speed: 0, heading: 0 };
            station.heard = now;
        }
    }

    /// The station of this address.
    pub fn find(&self, mid: LinkAddress) -> Option<&Station> {
        self.table.get(&mid)
    }

    /// The same, to be changed.
    pub fn find_mut(&mut self, mid: LinkAddress) -> Option<&mut Station> {
        self.table.get_mut(&mid)
    }

    /// The station that sends with this link-layer address: mostly it is in the station's address too.
    pub fn sender(&self, address: LinkAddress) -> Option<&Station> {
        let found = self.table.get(&address);
        found.or_else(|| self.near.iter().find(|near| near.hop.address == address).and_then(|near| self.find(near.mid)))
    }

    /// The neighbour nearest to `target`, and the square of its distance in square metres.
    pub fn nearest(&self, target: &Plane) -> Option<(Hop, f64)> {
        let distances = self.near.iter().map(|near| (near.hop, target.square(near.place)));
        distances.min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// Whether there is any neighbour.
    pub fn has_neighbours(&self) -> bool {
        !self.near.is_empty()
    }

    /// Forgets who has not been heard of for too long.
    pub fn expire(&mut self, now: Time, mib: &Mib) {
        let gone: Vec<LinkAddress> = self
            .table
            .iter()
            .filter(|(_, station)| now.since(station.heard) >= mib.lifetime_loc_te)
            .map(|(mid, _)| *mid)
            .collect();
        for mid in gone {
            self.drop(mid);
        }
        for station in self.table.values_mut() {
            station.near = station.near.filter(|(_, heard)| now.since(*heard) < mib.neighbour_lifetime);
        }
        let table = &self.table;
        self.near.retain(|near| table.get(&near.mid).is_some_and(|station| station.near.is_some()));
    }

    /// A neighbour that cannot be reached any longer, or all behind an interface that is gone.
    pub fn lose(&mut self, is_lost: impl Fn(Hop) -> bool) {
        for station in self.table.values_mut() {
            station.near = station.near.filter(|(hop, _)| !is_lost(*hop));
        }
        self.near.retain(|near| !is_lost(near.hop));
    }

    /// Every station.
    pub fn iter(&self) -> impl Iterator<Item = &Station> {
        self.table.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    fn make_room(&mut self, sender: LinkAddress, direct: bool) -> bool {
        let share = self.introduced.get(&sender).copied().unwrap_or(0);
        if share >= MAX_INTRODUCED {
            return false;
        }
        if self.table.len() < MAX_STATIONS {
            return true;
        }
        let farthest = self.table.iter().filter(|(_, station)| station.near.is_none());
        let oldest = farthest.min_by_key(|(_, station)| station.heard).map(|(mid, _)| *mid);
        match oldest {
            Some(mid) if direct => self.drop(mid),
            _ => return false,
        }
        true
    }

    fn drop(&mut self, mid: LinkAddress) {
        let Some(station) = self.table.remove(&mid) else { return };
        self.near.retain(|near| near.mid != mid);
        if let Some(count) = self.introduced.get_mut(&station.introduced_by) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.introduced.remove(&station.introduced_by);
            }
        }
    }

    fn renew_near(&mut self, mid: LinkAddress) {
        let Some(Station { position, near: Some((hop, _)), .. }) = self.table.get(&mid) else { return };
        let near = Near { mid, place: position.place, hop: *hop };
        match self.near.binary_search_by_key(&mid, |near| near.mid) {
            Ok(at) => self.near.splice(at..=at, [near]).for_each(drop),
            Err(at) => self.near.insert(at, near),
        }
    }
}

impl Station {
    fn new(now: Time, position: &LongPosition, introduced_by: LinkAddress) -> Station {
        let (seen, rate) = (Seen::default(), Rate::default());
        Station { position: *position, near: None, heard: now, seen, rate, introduced_by }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use roam6_wire::geo::{GeoAddress, Station as Kind, Timestamp};

    fn mid(number: usize) -> LinkAddress {
        let [.., a, b] = number.to_be_bytes();
        LinkAddress([2, 0, 0, 0, a, b])
    }

    fn position(number: usize, timestamp: u32, latitude: i32) -> LongPosition {
        LongPosition {
            address: GeoAddress::new(Kind::PASSENGER_CAR, mid(number)),
            timestamp: Timestamp(timestamp),
            place: Place { latitude, longitude: 0 },
            accurate: true,
            speed: 0,
            heading: 0,
        }
    }

    fn hop(number: usize) -> Hop {
        Hop { link: LinkId(1), address: mid(number) }
    }

    #[test]
    fn one_sender_cannot_fill_the_table() {
        let mut stations = Stations::default();
        for number in 100..100 + 2 * MAX_INTRODUCED {
            let heard = stations.put(Time::ZERO, &position(number, 1, 0), hop(1), false);
            assert_eq!(heard == Heard::Full, number >= 100 + MAX_INTRODUCED);
        }
        assert_eq!(stations.put(Time::ZERO, &position(2, 1, 0), hop(2), true), Heard::Neighbour);
    }

    #[test]
    fn in_a_full_table_a_neighbour_takes_the_place_of_who_is_far() {
        let mut stations = Stations::default();
        for number in 0..MAX_STATIONS {
            stations.put(Time::ZERO, &position(100 + number, 1, 0), hop(number % 50), false);
        }
        assert_eq!(stations.len(), MAX_STATIONS);
        assert_eq!(stations.put(Time::ZERO, &position(60_000, 1, 0), hop(60_000), false), Heard::Full);
        assert_eq!(stations.put(Time::ZERO, &position(60_000, 1, 0), hop(60_000), true), Heard::Neighbour);
        assert_eq!(stations.len(), MAX_STATIONS);
    }

    #[test]
    fn an_older_position_changes_nothing_and_silence_ends_it_all() {
        let (mut stations, mib) = (Stations::default(), Mib::default());
        stations.put(Time::ZERO, &position(1, 10, 5), hop(1), true);
        stations.put(Time::ZERO, &position(1, 9, 6), hop(1), true);
        assert_eq!(stations.find(mid(1)).unwrap().position.place.latitude, 5);
        let later = Time::ZERO + mib.neighbour_lifetime;
        stations.expire(later - Duration::from_millis(1), &mib);
        assert!(stations.has_neighbours());
        stations.expire(later, &mib);
        assert!(!stations.has_neighbours() && !stations.is_empty());
        stations.expire(Time::ZERO + mib.lifetime_loc_te, &mib);
        assert!(stations.is_empty() && stations.introduced.is_empty());
    }

    #[test]
    fn the_nearest_neighbour_to_the_target_is_found_after_it_moved() {
        let mut stations = Stations::default();
        for (number, latitude) in [(1, 1_000), (2, 2_000), (3, 3_000)] {
            stations.put(Time::ZERO, &position(number, 1, latitude), hop(number), true);
        }
        let target = Plane::at(Place { latitude: 10_000, longitude: 0 });
        assert_eq!(stations.nearest(&target).unwrap().0, hop(3));
        stations.put(Time::ZERO, &position(1, 2, 9_000), hop(1), false);
        assert_eq!(stations.nearest(&target).unwrap().0, hop(1));
        stations.lose(|lost| lost == hop(1));
        assert_eq!(stations.nearest(&target).unwrap().0, hop(3));
    }
}
