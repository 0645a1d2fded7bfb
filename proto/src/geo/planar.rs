//! The right-hand rule on a planar subgraph of the neighbours, for perimeter forwarding: GPSR (Karp and Kung, MobiCom
//! 2000) on the Gabriel graph (Gabriel and Sokal 1969).

use super::geometry::Offset;
use core::f64::consts::TAU;

/// The first neighbour counterclockwise of the direction `begin`, radians, as seen from this station; one exactly in
/// that direction comes last. Only edges of the Gabriel graph are considered.
pub(super) fn next_edge(neighbours: &[Offset], begin: f64) -> Option<usize> {
    let lines = neighbours.iter().enumerate().filter(|(_, end)| is_gabriel_edge(neighbours, **end));
    let turned = lines.map(|(index, end)| (index, (begin - end.direction()).rem_euclid(TAU)));
    let turned = turned.map(|(index, angle)| (index, if angle < 1e-9 { TAU } else { angle }));
    turned.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(index, _)| index)
}

/// Whether the edge to `end` is in the Gabriel graph: no neighbour is in the circle that has the edge as its diameter.
fn is_gabriel_edge(neighbours: &[Offset], end: Offset) -> bool {
    let square = |east: f64, north: f64| east * east + north * north;
    let (east, north) = (end.east / 2.0, end.north / 2.0);
    let radius = square(east, north);
    radius > 0.0
        && neighbours.iter().all(|other| square(other.east - east, other.north - north) >= radius * (1.0 - 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(east: f64, north: f64) -> Offset {
        Offset { east, north }
    }

    #[test]
    fn the_right_hand_rule_takes_the_incoming_edge_last() {
        let around = [at(0.0, 100.0), at(100.0, 0.0), at(-100.0, 0.0)];
        let from = |place| next_edge(&around, Offset::direction(place));
        assert_eq!([from(at(1.0, 1.0)), from(at(1.0, -1.0)), from(at(-1.0, -1.0))], [Some(0), Some(1), Some(1)]);
        assert_eq!(from(at(0.0, 100.0)), Some(2));
        assert_eq!((next_edge(&around[..1], at(0.0, 50.0).direction()), next_edge(&[], 0.0)), (Some(0), None));
    }

    #[test]
    fn edges_outside_the_gabriel_graph_are_left_out() {
        // The second is within the circle between this station and the first.
        let near = [at(0.0, 100.0), at(10.0, 50.0)];
        assert_eq!(next_edge(&near, at(-1.0, 100.0).direction()), Some(1));
        assert_eq!(next_edge(&[at(0.0, 0.0)], 0.0), None);
    }
}
