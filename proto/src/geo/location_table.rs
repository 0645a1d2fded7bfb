//! The location table (EN 302 636-4-1 §8.1).
//!
//! Bounded and fair: a sender that invents new sources fills only its own share, and no live entry is evicted for
//! another, except that a neighbour replaces a distant station. An entry with an expired position stays as long as
//! packets of its station may still be buffered elsewhere, for duplicate detection.

use super::dpd::DuplicatePacketDetector;
use super::geometry::{self, Offset, Plane};
use super::packet_data_rate::PacketDataRate;
use super::planar;
use crate::base::ids::LinkId;
use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use crate::contract::config::geo::Mib;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Coordinates, GeoAddress, LongPositionVector, ShortPositionVector, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// Entries at most.
pub const MAX_STATIONS: usize = 4096;
/// Entries learned from one sender's forwarded packets, at most.
pub const MAX_INDIRECT_OF_ONE: usize = 512;
/// Cached next hops at most.
const MAX_CACHED_NEXT_HOPS: usize = 256;
/// Addresses of expired entries remembered at most.
const MAX_FORMER_ADDRESSES: usize = 1024;
/// Milliseconds by which the clock of another station may be ahead: clocks follow satellites, and some stacks omit the
/// leap seconds since 2004. Shorter than itsGnLifetimeLocTE.
const MAX_CLOCK_DIFFERENCE: u32 = 10_000;
/// Interval at which the positions of neighbours are extrapolated: at 50 m/s they move 10 m.
const EXTRAPOLATION_INTERVAL: Duration = Duration::from_millis(200);

/// The location table, by the link-layer address in each GeoNetworking address.
#[derive(Debug, Clone, Default)]
pub struct LocationTable {
    table: BTreeMap<LinkAddress, LocationTableEntry>,
    /// Entries learned from each sender.
    indirect_entries: VecMap<LinkAddress, usize>,
    /// Neighbours, in the order of the table.
    neighbours: Vec<NeighbourPosition>,
    /// When the positions of the neighbours were last extrapolated.
    extrapolated: Time,
    /// Next hops by target; cleared when a neighbour appears, disappears or moves.
    next_hop_cache: VecMap<(i32, i32), Option<CachedNextHop>>,
    /// The number of stale entries.
    stale: usize,
    /// Addresses of expired entries, the oldest first.
    former_addresses: VecDeque<GeoAddress>,
}

/// An entry of the location table.
#[derive(Debug, Clone)]
pub struct LocationTableEntry {
    /// The latest position vector; speed, heading and accuracy are 0 if it comes from a short position vector.
    pub position: LongPositionVector,
    /// How and when it was received directly.
    pub neighbour: Option<(Hop, Time)>,
    /// Squared distance in square metres at which its frames were received.
    reach: f64,
    /// When the position was last updated.
    pub updated: Time,
    /// Packets received from it, for duplicate detection.
    pub duplicates: DuplicatePacketDetector,
    /// Limits the octets forwarded for it.
    pub packet_data_rate: PacketDataRate,
    /// When its last LS request was answered.
    pub last_ls_reply: Option<Time>,
    /// Until when its packets may still be buffered somewhere.
    pub packets_until: Time,
    /// Whether its position has expired.
    stale: bool,
    learned_from: LinkAddress,
}

/// A next hop: a neighbour by interface and link-layer address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// By this interface.
    pub link: LinkId,
    /// At this link-layer address.
    pub address: LinkAddress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NeighbourPosition {
    mid: LinkAddress,
    /// Its extrapolated place.
    place: Coordinates,
    hop: Hop,
    /// Whether it should be in communication range.
    in_range: bool,
}

/// The result of a search for the next hop.
#[derive(Debug, Clone, Copy)]
struct CachedNextHop {
    mid: LinkAddress,
    hop: Hop,
    /// Squared distance to the target, square metres.
    square: f64,
}

/// The place and communication range of this station, for the search of a next hop.
#[derive(Debug, Clone, Copy)]
pub struct Coverage {
    /// Its place; `None` before the first fix.
    pub place: Option<Coordinates>,
    /// itsGnDefaultMaxCommunicationRange, metres.
    pub range: u32,
}

/// The source and sender of a packet that is forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Its source.
    pub source: LinkAddress,
    /// Link-layer source of the frame.
    pub sender: LinkAddress,
}

impl Origin {
    fn is(self, mid: LinkAddress, hop: Hop) -> bool {
        mid == self.source || hop.address == self.sender
    }
}

/// The effect of a received position vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionUpdate {
    /// The station has become a neighbour.
    Neighbour,
    /// The entry is new.
    New,
    /// The entry existed, or the position vector is older than the entry.
    Known,
    /// The table, or the sender's share of it, is full.
    Full,
    /// Its timestamp is too far in the future, and that of the entry is not: nothing is changed.
    Implausible,
}

/// The edge of the perimeter at which the search for the next hop begins.
#[derive(Debug, Clone, Copy)]
pub enum PerimeterEdge {
    /// Perimeter mode begins here: the direction of the goal.
    Goal(Coordinates),
    /// The edge to the neighbour that has sent the packet.
    Sender(LinkAddress),
}

impl LocationTable {
    /// Updates the entry of a source from its position vector, received from `hop`; `direct` if the source itself has
    /// sent the frame, as a single-hop packet shows. `own` is the place of this station, `clock` its time.
    ///
    /// The newer position vector wins (annex C.2). One from the future never replaces one that is not, and is replaced
    /// by it; after itsGnLifetimeLocTE any position vector renews the entry (§8.1.3).
    pub fn update(
        &mut self,
        now: Time,
        position: &LongPositionVector,
        (hop, direct): (Hop, bool),
        own: Option<Coordinates>,
        clock: Timestamp,
    ) -> PositionUpdate {
        let mid = position.address.mid;
        let is_new = !self.table.contains_key(&mid);
        if is_new && !self.make_room(hop.address, direct) {
            return PositionUpdate::Full;
        }
        let station = self.table.entry(mid).or_insert_with(|| LocationTableEntry::new(now, position, hop.address));
        let plausible = |time| is_plausible(time, clock);
        let revived = std::mem::take(&mut station.stale);
        self.stale -= usize::from(revived);
        let moved = match (plausible(position.timestamp), plausible(station.position.timestamp)) {
            _ if revived => true,
            (true, false) => true,
            (false, true) => return PositionUpdate::Implausible,
            _ => position.timestamp.is_newer_than(station.position.timestamp),
        };
        if moved {
            (station.position, station.updated) = (*position, now);
        }
        let was_near = station.neighbour.is_some();
        if direct {
            station.neighbour = Some((hop, now));
            station.reach = own.map_or(0.0, |own| Plane::at(own).square(station.position.place));
        }
        let is_near = station.neighbour.is_some();
        if is_new {
            *self.indirect_entries.entry(hop.address).or_default() += 1;
        }
        if is_near && (moved || direct) {
            self.update_neighbour(now, mid, direct);
        }
        match (is_new, was_near, is_near) {
            (_, false, true) => PositionUpdate::Neighbour,
            (true, _, _) => PositionUpdate::New,
            (false, _, _) => PositionUpdate::Known,
        }
    }

    /// Updates a known station from a short position vector. `clock` is the time of this station.
    pub fn learn_short(&mut self, now: Time, position: &ShortPositionVector, clock: Timestamp) {
        let Some(station) = self.find_mut(position.address.mid) else { return };
        let is_newer = position.timestamp.is_newer_than(station.position.timestamp);
        if station.neighbour.is_none() && is_newer && is_plausible(position.timestamp, clock) {
            let ShortPositionVector { address, timestamp, place } = *position;
            station.position = LongPositionVector { address, timestamp, place, accurate: false, speed: 0, heading: 0 };
            station.updated = now;
        }
    }

    /// The entry of this address.
    pub fn find(&self, mid: LinkAddress) -> Option<&LocationTableEntry> {
        self.table.get(&mid).filter(|station| !station.stale)
    }

    /// The entry of this address, mutable.
    pub fn find_mut(&mut self, mid: LinkAddress) -> Option<&mut LocationTableEntry> {
        self.table.get_mut(&mid).filter(|station| !station.stale)
    }

    /// The GeoNetworking address of a station with an entry, or with a former one.
    pub fn address(&self, mid: LinkAddress) -> Option<GeoAddress> {
        let entry = self.table.get(&mid).map(|station| station.position.address);
        entry.or_else(|| self.former_addresses.iter().rev().find(|address| address.mid == mid).copied())
    }

    /// The neighbour with this link-layer address, which is usually the one in its GeoNetworking address.
    pub fn neighbour_by_address(&self, address: LinkAddress) -> Option<&LocationTableEntry> {
        let found = self.find(address);
        found.or_else(|| {
            self.neighbours.iter().find(|near| near.hop.address == address).and_then(|near| self.find(near.mid))
        })
    }

    /// Greedy forwarding: the neighbour in range nearest to the origin of `target`, and its squared distance in square
    /// metres; without the source and sender in `from`.
    pub fn greedy_next_hop(
        &mut self,
        now: Time,
        target: &Plane,
        own: Coverage,
        from: Option<Origin>,
    ) -> Option<(Hop, f64)> {
        if now.since(self.extrapolated) >= EXTRAPOLATION_INTERVAL {
            self.extrapolate_neighbours(now, own);
        }
        let Coordinates { latitude, longitude } = target.origin();
        let known = self.next_hop_cache.get(&(latitude, longitude)).copied();
        let nearest = known.unwrap_or_else(|| self.search(target, None));
        if known.is_none() {
            if self.next_hop_cache.len() >= MAX_CACHED_NEXT_HOPS {
                self.next_hop_cache.clear();
            }
            self.next_hop_cache.insert((latitude, longitude), nearest);
        }
        let comes_back = nearest.zip(from).is_some_and(|(nearest, from)| from.is(nearest.mid, nearest.hop));
        let found = if comes_back { self.search(target, from) } else { nearest };
        found.map(|found| (found.hop, found.square))
    }

    /// Searches all neighbours.
    fn search(&self, target: &Plane, from: Option<Origin>) -> Option<CachedNextHop> {
        let is_other =
            |near: &&NeighbourPosition| near.in_range && !from.is_some_and(|from| from.is(near.mid, near.hop));
        let chosen = |near: &NeighbourPosition| CachedNextHop {
            mid: near.mid,
            hop: near.hop,
            square: target.square(near.place),
        };
        let distances = self.neighbours.iter().filter(is_other).map(chosen);
        distances.min_by(|one, other| one.square.total_cmp(&other.square))
    }

    /// Perimeter forwarding: the first neighbour counterclockwise of `from` in the planar subgraph.
    pub fn perimeter_next_hop(&mut self, now: Time, own: Coverage, from: PerimeterEdge) -> Option<Hop> {
        if now.since(self.extrapolated) >= EXTRAPOLATION_INTERVAL {
            self.extrapolate_neighbours(now, own);
        }
        let plane = Plane::at(own.place?);
        let begin = match from {
            PerimeterEdge::Goal(place) => plane.offset(place).direction(),
            PerimeterEdge::Sender(address) => {
                let sender = self.neighbours.iter().find(|near| near.hop.address == address)?;
                plane.offset(sender.place).direction()
            }
        };
        let near: Vec<_> = self.neighbours.iter().filter(|near| near.in_range).collect();
        let offsets: Vec<Offset> = near.iter().map(|near| plane.offset(near.place)).collect();
        near.get(planar::next_edge(&offsets, begin)?).map(|near| near.hop)
    }

    /// The neighbour with this address, if it should still be in range.
    pub fn direct_next_hop(&mut self, now: Time, mid: LinkAddress, own: Coverage) -> Option<Hop> {
        if now.since(self.extrapolated) >= EXTRAPOLATION_INTERVAL {
            self.extrapolate_neighbours(now, own);
        }
        let at = self.neighbours.binary_search_by_key(&mid, |near| near.mid).ok()?;
        self.neighbours.get(at).filter(|near| near.in_range).map(|near| near.hop)
    }

    /// Puts every neighbour where it should be by now. The standard has no such step, and looks at where they were: up to
    /// a beacon's interval ago, so that the one that seems farthest on is often the one that is out of range.
    fn extrapolate_neighbours(&mut self, now: Time, own: Coverage) {
        let plane = own.place.map(Plane::at);
        let most = f64::from(own.range) * f64::from(own.range);
        for near in &mut self.neighbours {
            let Some(station) = self.table.get(&near.mid) else { continue };
            near.place = station.place(now);
            let away = plane.map_or(0.0, |plane| plane.square(near.place));
            // Some radios reach farther than they are said to: as far off as it was heard, it can be reached.
            near.in_range = away <= station.reach.max(most);
        }
        self.extrapolated = now;
        self.next_hop_cache.clear();
    }

    /// Whether there is any neighbour.
    pub fn has_neighbours(&self) -> bool {
        !self.neighbours.is_empty()
    }

    /// Removes entries that have expired, once none of their packets can still be buffered elsewhere.
    pub fn expire(&mut self, now: Time, mib: &Mib) {
        let mut gone = Vec::new();
        for (mid, station) in &mut self.table {
            station.neighbour = station.neighbour.filter(|(_, heard)| now.since(*heard) < mib.neighbour_lifetime);
            if now.since(station.updated) < mib.lifetime_loc_te {
                continue;
            }
            if !std::mem::replace(&mut station.stale, true) {
                self.stale += 1;
            }
            if station.packets_until <= now {
                gone.push(*mid);
            }
        }
        for mid in gone {
            self.drop(mid);
        }
        let (table, before) = (&self.table, self.neighbours.len());
        self.neighbours
            .retain(|near| table.get(&near.mid).is_some_and(|station| station.neighbour.is_some() && !station.stale));
        if self.neighbours.len() < before {
            self.next_hop_cache.clear();
        }
    }

    /// Removes neighbours that are unreachable, or all of an interface that is gone.
    pub fn remove_neighbours(&mut self, is_lost: impl Fn(Hop) -> bool) {
        for station in self.table.values_mut() {
            station.neighbour = station.neighbour.filter(|(hop, _)| !is_lost(*hop));
        }
        self.neighbours.retain(|near| !is_lost(near.hop));
        self.next_hop_cache.clear();
    }

    /// The entries whose position is valid.
    pub fn iter(&self) -> impl Iterator<Item = &LocationTableEntry> {
        self.table.values().filter(|station| !station.stale)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    fn make_room(&mut self, sender: LinkAddress, direct: bool) -> bool {
        let share = self.indirect_entries.get(&sender).copied().unwrap_or(0);
        if share >= MAX_INDIRECT_OF_ONE {
            return self.stale > 0 && self.evict(|station| station.stale && station.learned_from == sender);
        }
        self.table.len() < MAX_STATIONS
            || self.stale > 0 && self.evict(|station| station.stale)
            || direct && self.evict(|station| station.neighbour.is_none())
    }

    /// Evicts the entry updated longest ago among those that may go; `false` if there is none.
    fn evict(&mut self, may_go: impl Fn(&LocationTableEntry) -> bool) -> bool {
        let all = self.table.iter().filter(|(_, station)| may_go(station));
        let oldest = all.min_by_key(|(_, station)| station.updated).map(|(mid, _)| *mid);
        oldest.inspect(|mid| self.drop(*mid)).is_some()
    }

    fn drop(&mut self, mid: LinkAddress) {
        let Some(station) = self.table.remove(&mid) else { return };
        if self.former_addresses.len() >= MAX_FORMER_ADDRESSES {
            self.former_addresses.pop_front();
        }
        self.former_addresses.push_back(station.position.address);
        self.stale -= usize::from(station.stale);
        if station.neighbour.is_some() {
            self.neighbours.retain(|near| near.mid != mid);
            self.next_hop_cache.clear();
        }
        if let Some(count) = self.indirect_entries.get_mut(&station.learned_from) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.indirect_entries.remove(&station.learned_from);
            }
        }
    }

    /// A neighbour received directly is in range; whether one known from forwarded packets is, stays unknown.
    fn update_neighbour(&mut self, now: Time, mid: LinkAddress, direct: bool) {
        let Some(station) = self.table.get(&mid) else { return };
        let Some((hop, _)) = station.neighbour else { return };
        let at = self.neighbours.binary_search_by_key(&mid, |near| near.mid);
        let was_in_range = at.is_ok_and(|at| self.neighbours.get(at).is_some_and(|near| near.in_range));
        let near = NeighbourPosition { mid, place: station.place(now), hop, in_range: direct || was_in_range };
        match at {
            Ok(at) if self.neighbours.get(at) == Some(&near) => return,
            Ok(at) => self.neighbours.splice(at..=at, [near]).for_each(drop),
            Err(at) => self.neighbours.insert(at, near),
        }
        self.next_hop_cache.clear();
    }
}

/// Whether a station with an accurate clock can have sent a position vector of this time at `clock`.
fn is_plausible(time: Timestamp, clock: Timestamp) -> bool {
    !time.is_newer_than(Timestamp(clock.0.wrapping_add(MAX_CLOCK_DIFFERENCE)))
}

impl LocationTableEntry {
    fn new(now: Time, position: &LongPositionVector, introduced_by: LinkAddress) -> LocationTableEntry {
        let (seen, rate) = (DuplicatePacketDetector::default(), PacketDataRate::default());
        LocationTableEntry {
            position: *position,
            neighbour: None,
            reach: 0.0,
            updated: now,
            duplicates: seen,
            packet_data_rate: rate,
            last_ls_reply: None,
            packets_until: now,
            stale: false,
            learned_from: introduced_by,
        }
    }

    /// The place, extrapolated by the speed and heading of its position vector.
    fn place(&self, now: Time) -> Coordinates {
        let LongPositionVector { place, speed, heading, .. } = self.position;
        geometry::extrapolate(place, speed, heading, now.since(self.updated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let heard = stations.update(Time::ZERO, &position(number, 1, 0), (hop(1), false), None, CLOCK);
            assert_eq!(heard == PositionUpdate::Full, number >= 100 + MAX_INDIRECT_OF_ONE);
        }
        assert_eq!(
            stations.update(Time::ZERO, &position(2, 1, 0), (hop(2), true), None, CLOCK),
            PositionUpdate::Neighbour
        );
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
        // Its packet comes by another way, with the position of then.
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
        let nearest =
            |stations: &mut LocationTable| stations.greedy_next_hop(Time::ZERO, &target, OWN, None).unwrap().0;
        assert_eq!(nearest(&mut stations), hop(3));
        stations.update(Time::ZERO, &position(1, 2, 9_000), (hop(1), false), None, CLOCK);
        assert_eq!(nearest(&mut stations), hop(1));
        stations.remove_neighbours(|lost| lost == hop(1));
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
            "what others relay of it proves no reach"
        );
    }
}
