//! The right-hand rule on a planar part of the graph of neighbours, by which packets go round gaps: GPSR (Karp and Kung,
//! MobiCom 2000) on the Gabriel graph (Gabriel and Sokal 1969).

use super::geometry::Offset;
use core::f64::consts::TAU;

/// Which of the neighbours at these places, seen from this station, is the first counterclockwise of the direction
/// `begin`; one that lies right there is the last. Lines that would cross others are left out.
pub(super) fn next(neighbours: &[Offset], begin: f64) -> Option<usize> {
    let lines = neighbours.iter().enumerate().filter(|(_, end)| is_line(neighbours, **end));
    let turned = lines.map(|(index, end)| (index, (begin - end.direction()).rem_euclid(TAU)));
    let turned = turned.map(|(index, angle)| (index, if angle < 1e-9 { TAU } else { angle }));
    turned.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(index, _)| index)
}

/// Whether nobody is in the circle that has the line to `end` as its diameter: every such line, and no other that
/// crosses it, is in the graph of all stations.
fn is_line(neighbours: &[Offset], end: Offset) -> bool {
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
    fn it_turns_counterclockwise_and_goes_back_last() {
        let around = [at(0.0, 100.0), at(100.0, 0.0), at(-100.0, 0.0)];
        let from = |place| next(&around, Offset::direction(place));
        assert_eq!([from(at(1.0, 1.0)), from(at(1.0, -1.0)), from(at(-1.0, -1.0))], [Some(0), Some(1), Some(1)]);
        assert_eq!(from(at(0.0, 100.0)), Some(2));
        assert_eq!((next(&around[..1], at(0.0, 50.0).direction()), next(&[], 0.0)), (Some(0), None));
    }

    #[test]
    fn lines_that_would_cross_are_left_out() {
        // The second is on the way to the first.
        let near = [at(0.0, 100.0), at(10.0, 50.0)];
        assert_eq!(next(&near, at(-1.0, 100.0).direction()), Some(1));
        assert_eq!(next(&[at(0.0, 0.0)], 0.0), None);
    }
}
