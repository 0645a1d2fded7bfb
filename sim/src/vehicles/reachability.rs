//! Reachability as an omniscient observer computes it: the reference for what the stations deliver.

use crate::net::radio::StationId;
use crate::net::track::distance;
use roam6_proto::geo::geometry::Offset;
use std::collections::{BTreeMap, BTreeSet};

/// The graph of stations in range of one another at one moment.
#[derive(Debug, Clone)]
pub struct Graph {
    places: BTreeMap<StationId, Offset>,
    near: BTreeMap<StationId, Vec<StationId>>,
}

impl Graph {
    /// The graph of stations at these places with a communication range in metres.
    pub fn new(places: BTreeMap<StationId, Offset>, range: f64) -> Graph {
        let near = |place: Offset, id: StationId| {
            let others = places.iter().filter(|(other, there)| **other != id && distance(place, **there) <= range);
            others.map(|(other, _)| *other).collect()
        };
        let near = places.iter().map(|(id, place)| (*id, near(*place, *id))).collect();
        Graph { places, near }
    }

    /// The stations.
    pub fn stations(&self) -> impl Iterator<Item = StationId> {
        self.places.keys().copied()
    }

    /// Where a station is.
    pub fn place(&self, id: StationId) -> Option<Offset> {
        self.places.get(&id).copied()
    }

    /// The neighbours of a station.
    pub fn near(&self, id: StationId) -> &[StationId] {
        self.near.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Hops to every station reachable through stations of which `passes` holds, without the first.
    pub fn flood_hops(&self, from: StationId, passes: impl Fn(StationId) -> bool) -> BTreeMap<StationId, u32> {
        let mut hops = BTreeMap::from([(from, 0)]);
        let mut front = vec![from];
        for hop in 1.. {
            let passing = front.iter().filter(|id| **id == from || passes(**id));
            let next: BTreeSet<StationId> = passing.flat_map(|id| self.near(*id)).copied().collect();
            front = next.into_iter().filter(|id| !hops.contains_key(id)).collect();
            hops.extend(front.iter().map(|id| (*id, hop)));
            if front.is_empty() {
                break;
            }
        }
        hops
    }

    /// The path of greedy forwarding to `goal`, without its first station, up to a station of which `ends` holds;
    /// `None` at a local minimum. A neighbour of which `ends` holds is taken first.
    pub fn greedy(&self, from: StationId, goal: Offset, ends: impl Fn(StationId) -> bool) -> Option<Vec<StationId>> {
        let mut path = Vec::new();
        let mut here = from;
        while !ends(here) {
            let near = self.near(here);
            let best = near.iter().copied().find(|id| self.place(*id) == Some(goal) && ends(*id)).or_else(|| {
                let away = |id: &StationId| self.place(*id).map_or(f64::INFINITY, |place| distance(place, goal));
                near.iter().copied().min_by(|one, other| away(one).total_cmp(&away(other)))
            })?;
            if distance(self.place(best)?, goal) >= distance(self.place(here)?, goal) {
                return None;
            }
            path.push(best);
            here = best;
        }
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(metres: &[f64]) -> Graph {
        let places = (0..).zip(metres).map(|(id, east)| (StationId(id), Offset { east: *east, north: 0.0 }));
        Graph::new(places.collect(), 300.0)
    }

    #[test]
    fn flooding_counts_hops_between_forwarders() {
        let graph = row(&[0.0, 250.0, 500.0, 750.0, 2_000.0]);
        let hops = graph.flood_hops(StationId(0), |_| true);
        assert_eq!(hops.values().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(graph.flood_hops(StationId(0), |id| id != StationId(2)).len(), 3);
    }

    #[test]
    fn greedy_forwarding_ends_at_a_local_minimum() {
        let graph = row(&[0.0, 250.0, 500.0, 750.0, 2_000.0]);
        let goal = |id: u32| graph.place(StationId(id)).unwrap();
        let path = graph.greedy(StationId(0), goal(3), |id| id == StationId(3));
        assert_eq!(path, Some(vec![StationId(1), StationId(2), StationId(3)]));
        assert_eq!(graph.greedy(StationId(0), goal(4), |id| id == StationId(4)), None);
    }
}
