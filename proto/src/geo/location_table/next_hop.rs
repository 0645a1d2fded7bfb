//! The next hop of a packet: the search among neighbours for greedy forwarding (EN 302 636-4-1 annex E.2), for perimeter
//! forwarding, and for the destination itself.

use super::{Hop, LocationTable, LocationTableEntry};
use crate::base::time::Time;
use crate::geo::geometry::{Offset, Plane};
use crate::geo::planar;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::Coordinates;

/// Cached next hops at most.
const MAX_CACHED_NEXT_HOPS: usize = 256;
/// Interval at which the positions of neighbours are extrapolated: at 50 m/s they move 10 m.
const EXTRAPOLATION_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NeighbourPosition {
    pub(super) mid: LinkAddress,
    /// Its extrapolated place.
    place: Coordinates,
    hop: Hop,
    /// Whether it should be in communication range.
    in_range: bool,
}

/// The result of a search for the next hop.
#[derive(Debug, Clone, Copy)]
pub(super) struct CachedNextHop {
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

/// The edge of the perimeter at which the search for the next hop begins.
#[derive(Debug, Clone, Copy)]
pub enum PerimeterEdge {
    /// Perimeter mode begins here: the direction of the goal.
    Goal(Coordinates),
    /// The edge to the neighbour that has sent the packet.
    Sender(LinkAddress),
}

impl LocationTable {
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
        self.extrapolate_neighbours(now, own);
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
        self.extrapolate_neighbours(now, own);
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
        self.extrapolate_neighbours(now, own);
        let at = self.neighbours.binary_search_by_key(&mid, |near| near.mid).ok()?;
        self.neighbours.get(at).filter(|near| near.in_range).map(|near| near.hop)
    }

    /// Extrapolates the position of each neighbour. The standard uses the last received position, which is up to a beacon
    /// interval old, so that the neighbour that seems to make most progress is often out of range.
    fn extrapolate_neighbours(&mut self, now: Time, own: Coverage) {
        if now.since(self.extrapolated) < EXTRAPOLATION_INTERVAL {
            return;
        }
        let plane = own.place.map(Plane::at);
        let most = f64::from(own.range) * f64::from(own.range);
        for near in &mut self.neighbours {
            let Some(station) = self.table.get(&near.mid) else { continue };
            near.place = station.place(now);
            let away = plane.map_or(0.0, |plane| plane.square(near.place));
            // Some radios reach farther than configured: a neighbour is in range up to the distance from which a frame
            // of it was received.
            near.in_range = away <= station.reach.max(most);
        }
        self.extrapolated = now;
        self.next_hop_cache.clear();
    }

    /// Whether there is any neighbour.
    pub fn has_neighbours(&self) -> bool {
        !self.neighbours.is_empty()
    }

    /// Removes next hops that are unreachable, or all of an interface that is gone. A station that another interface receives
    /// remains a neighbour.
    pub fn remove_neighbours(&mut self, now: Time, is_lost: impl Fn(Hop) -> bool) {
        for station in self.table.values_mut() {
            station.receptions.forget(&is_lost);
            station.select_next_hop(now);
        }
        self.refresh_neighbours();
    }

    /// Removes stations that are no neighbours any more, and takes over the next hops of the others.
    pub(super) fn refresh_neighbours(&mut self) {
        let table = &self.table;
        let mut changed = false;
        self.neighbours.retain_mut(|near| {
            let station = table.get(&near.mid).filter(|station| !station.stale);
            let hop = station.and_then(|station| station.neighbour).map(|(hop, _)| hop);
            changed |= hop != Some(near.hop);
            near.hop = hop.unwrap_or(near.hop);
            hop.is_some()
        });
        if changed {
            self.next_hop_cache.clear();
        }
    }

    /// A neighbour received directly is in range; whether one known from forwarded packets is, stays unknown.
    pub(super) fn update_neighbour(&mut self, now: Time, mid: LinkAddress, direct: bool) {
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
