//! The location table (EN 302 636-4-1 §8.1).
//!
//! Bounded and fair: a sender that invents new sources fills only its own share, and no live entry is evicted for
//! another, except that a neighbour replaces a distant station. An entry with an expired position stays as long as
//! packets of its station may still be buffered elsewhere, for duplicate detection.

mod next_hop;
mod receptions;
#[cfg(test)]
mod tests;

use super::dpd::DuplicatePacketDetector;
use super::geometry::{self, Plane};
use super::packet_data_rate::PacketDataRate;
use crate::base::ids::LinkId;
use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use crate::contract::config::geo::Mib;
use crate::contract::view::Trust;
use next_hop::{CachedNextHop, NeighbourPosition};
use receptions::Receptions;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Coordinates, GeoAddress, LongPositionVector, ShortPositionVector, Timestamp};
#[cfg(feature = "geo-security")]
use roam6_wire::security::HashedId8;
use std::collections::{BTreeMap, VecDeque};

pub use next_hop::{Coverage, Origin, PerimeterEdge};

/// Entries at most.
pub const MAX_STATIONS: usize = 4096;
/// Entries learned from one sender's forwarded packets, at most.
pub const MAX_INDIRECT_OF_ONE: usize = 512;

/// Addresses of expired entries remembered at most.
const MAX_FORMER_ADDRESSES: usize = 1024;
/// Milliseconds by which the clock of another station may be ahead: clocks follow satellites, and some stacks omit the
/// leap seconds since 2004. Shorter than itsGnLifetimeLocTE.
const MAX_CLOCK_DIFFERENCE: u32 = 10_000;

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
    /// The next hop of unicast frames to it, if it was received directly, and when it was last.
    pub neighbour: Option<(Hop, Time)>,
    /// By which interfaces it is received directly.
    receptions: Receptions,
    /// Squared distance in square metres at which its frames were received.
    reach: f64,
    /// When the position was last updated.
    pub updated: Time,
    /// Packets received from it, for duplicate detection.
    duplicates: DuplicatePacketDetector,
    /// Secured packets received from it that nobody has verified. Somebody may send a packet without its envelope before it
    /// arrives: that is no duplicate of it.
    #[cfg(feature = "geo-security")]
    unverified_duplicates: DuplicatePacketDetector,
    /// Packets of it that were verified.
    #[cfg(feature = "geo-security")]
    verified_duplicates: DuplicatePacketDetector,
    /// Limits the octets forwarded for it.
    pub packet_data_rate: PacketDataRate,
    /// When its last LS request was answered.
    pub last_ls_reply: Option<Time>,
    /// Until when its packets may still be buffered somewhere.
    pub packets_until: Time,
    /// How far its position is trusted.
    #[cfg(feature = "geo-security")]
    pub trust: Trust,
    /// The signer of its last verified packet, and when that was received.
    #[cfg(feature = "geo-security")]
    pub signer: Option<(HashedId8, Time)>,
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
            station.receptions.record(now, hop);
            let in_use = station.neighbour.map(|(hop, _)| hop);
            station.neighbour = Some((station.receptions.best(now, in_use).unwrap_or(hop), now));
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

    /// Removes entries that have expired, once none of their packets can still be buffered elsewhere.
    pub fn expire(&mut self, now: Time, mib: &Mib) {
        let mut gone = Vec::new();
        for (mid, station) in &mut self.table {
            station.receptions.expire(now, mib.neighbour_lifetime);
            station.select_next_hop(now);
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
        self.refresh_neighbours();
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
}

/// Whether a station with an accurate clock can have sent a position vector of this time at `clock`.
pub(crate) fn is_plausible(time: Timestamp, clock: Timestamp) -> bool {
    !time.is_newer_than(Timestamp(clock.0.wrapping_add(MAX_CLOCK_DIFFERENCE)))
}

impl LocationTableEntry {
    fn new(now: Time, position: &LongPositionVector, introduced_by: LinkAddress) -> LocationTableEntry {
        let (seen, rate) = (DuplicatePacketDetector::default(), PacketDataRate::default());
        LocationTableEntry {
            position: *position,
            neighbour: None,
            receptions: Receptions::default(),
            reach: 0.0,
            updated: now,
            duplicates: seen,
            #[cfg(feature = "geo-security")]
            unverified_duplicates: DuplicatePacketDetector::default(),
            #[cfg(feature = "geo-security")]
            verified_duplicates: DuplicatePacketDetector::default(),
            packet_data_rate: rate,
            last_ls_reply: None,
            packets_until: now,
            #[cfg(feature = "geo-security")]
            trust: Trust::Unsigned,
            #[cfg(feature = "geo-security")]
            signer: None,
            stale: false,
            learned_from: introduced_by,
        }
    }

    /// Its packets that are trusted so far, for duplicate detection.
    pub fn duplicates_mut(&mut self, trust: Trust) -> &mut DuplicatePacketDetector {
        match trust {
            #[cfg(feature = "geo-security")]
            Trust::Unverified => &mut self.unverified_duplicates,
            #[cfg(feature = "geo-security")]
            Trust::Verified => &mut self.verified_duplicates,
            _ => &mut self.duplicates,
        }
    }

    /// Notes how far a packet with this position vector is trusted, and who has signed it.
    #[cfg(feature = "geo-security")]
    pub fn note_trust(&mut self, now: Time, source: &LongPositionVector, (trust, signer): (Trust, Option<HashedId8>)) {
        if self.position.timestamp == source.timestamp {
            self.trust = trust;
        }
        self.signer = signer.map(|signer| (signer, now)).or(self.signer);
    }

    /// Selects another next hop if no interface receives it by the present one any more.
    fn select_next_hop(&mut self, now: Time) {
        if let Some((hop, received)) = self.neighbour.filter(|(hop, _)| !self.receptions.contains(*hop)) {
            self.neighbour = self.receptions.best(now, Some(hop)).map(|other| (other, received));
        }
    }

    /// The place, extrapolated by the speed and heading of its position vector.
    fn place(&self, now: Time) -> Coordinates {
        let LongPositionVector { place, speed, heading, .. } = self.position;
        geometry::extrapolate(place, speed, heading, now.since(self.updated))
    }
}
