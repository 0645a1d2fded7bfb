//! Distances and areas on a plane tangent to the earth (WGS 84): EN 302 931 §5 (areas and the function F), EN 302
//! 636-4-1 annexes D to F.

use core::time::Duration;
use roam6_wire::geo::{Area, Coordinates, Shape};

/// Semi-major axis in metres, and the square of the first eccentricity, of WGS 84.
const EQUATOR: f64 = 6_378_137.0;
const ECCENTRICITY: f64 = 0.006_694_379_990_14;
/// A full circle, in tenths of a microdegree.
const FULL_CIRCLE: i64 = 3_600_000_000;
/// Radians in a tenth of a microdegree.
const RADIANS_PER_UNIT: f64 = core::f64::consts::PI / 1_800_000_000.0;

/// The tangent plane at one place. Distances within tens of kilometres are accurate to a thousandth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plane {
    origin: Coordinates,
    /// Metres in a tenth of a microdegree, eastwards and northwards.
    east: f64,
    north: f64,
}

/// Metres east and north of the origin of a plane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offset {
    /// Metres eastwards.
    pub east: f64,
    /// Metres northwards.
    pub north: f64,
}

impl Offset {
    /// Its direction, radians clockwise from north.
    pub fn direction(self) -> f64 {
        self.east.atan2(self.north)
    }
}

impl Plane {
    /// The plane tangent at `origin`.
    pub fn at(origin: Coordinates) -> Plane {
        let (sine, cosine) = (f64::from(origin.latitude) * RADIANS_PER_UNIT).sin_cos();
        let flattened = 1.0 - ECCENTRICITY * sine * sine;
        // Radii of curvature: in the prime vertical, and in the meridian.
        let across = EQUATOR / flattened.sqrt();
        let along = across * (1.0 - ECCENTRICITY) / flattened;
        Plane { origin, east: across * cosine * RADIANS_PER_UNIT, north: along * RADIANS_PER_UNIT }
    }

    /// The point of tangency.
    pub fn origin(&self) -> Coordinates {
        self.origin
    }

    /// The coordinates of `place` on the plane.
    pub fn offset(&self, place: Coordinates) -> Offset {
        let east = i64::from(place.longitude) - i64::from(self.origin.longitude);
        // The shorter direction around the globe.
        let east = match east {
            east if east > FULL_CIRCLE / 2 => east - FULL_CIRCLE,
            east if east < -FULL_CIRCLE / 2 => east + FULL_CIRCLE,
            east => east,
        };
        let north = i64::from(place.latitude) - i64::from(self.origin.latitude);
        Offset { east: east as f64 * self.east, north: north as f64 * self.north }
    }

    /// The squared distance of `place` from the origin, square metres: sufficient to compare, and cheap.
    pub fn square(&self, place: Coordinates) -> f64 {
        let Offset { east, north } = self.offset(place);
        east * east + north * north
    }

    /// The place that is `offset` away from the origin.
    pub fn place(&self, offset: Offset) -> Coordinates {
        let latitude = f64::from(self.origin.latitude) + offset.north / self.north;
        let longitude = f64::from(self.origin.longitude) + offset.east / self.east;
        let half = FULL_CIRCLE as f64 / 2.0;
        let longitude = (longitude + half).rem_euclid(FULL_CIRCLE as f64) - half;
        let limit = f64::from(90 * Coordinates::DEGREE);
        Coordinates { latitude: latitude.clamp(-limit, limit) as i32, longitude: longitude as i32 }
    }
}

/// Metres from one place to another.
pub fn distance(from: Coordinates, to: Coordinates) -> f64 {
    Plane::at(from).square(to).sqrt()
}

/// The angle at a place between the directions to two others, degrees, 0 to 180.
pub fn angle(from: Coordinates, one: Coordinates, other: Coordinates) -> f64 {
    let plane = Plane::at(from);
    let direction = |place| plane.offset(place).direction();
    let turn = (direction(one) - direction(other)).to_degrees().rem_euclid(360.0);
    turn.min(360.0 - turn)
}

/// The place reached from `from` after `span` on a straight line; `speed` in centimetres per second, `heading` in
/// tenths of a degree clockwise from north.
pub fn extrapolate(from: Coordinates, speed: i16, heading: u16, span: Duration) -> Coordinates {
    if speed == 0 || span.is_zero() {
        return from;
    }
    let (sine, cosine) = (f64::from(heading) / 10.0).to_radians().sin_cos();
    let metres = f64::from(speed) / 100.0 * span.as_secs_f64();
    Plane::at(from).place(Offset { east: metres * sine, north: metres * cosine })
}

/// Whether `place` is inside the area or at its border (F ≥ 0).
pub fn contains(area: &Area, place: Coordinates) -> bool {
    area_function(area, place) >= 0.0
}

/// The function F: 1 in the middle, positive inside, 0 at the border, negative outside (EN 302 931 §5).
fn area_function(area: &Area, place: Coordinates) -> f64 {
    let Offset { east, north } = Plane::at(area.center).offset(place);
    // An azimuth turns clockwise from north, and a lies in its direction.
    let (sine, cosine) = f64::from(area.angle).to_radians().sin_cos();
    let (along, across) = (east * sine + north * cosine, east * cosine - north * sine);
    let (a, b) = (f64::from(area.a), f64::from(area.b));
    let square = |length: f64, axis: f64| (length / axis) * (length / axis);
    match area.shape {
        Shape::Circle => 1.0 - square(along, a) - square(across, a),
        Shape::Ellipse => 1.0 - square(along, a) - square(across, b),
        Shape::Rectangle => (1.0 - square(along, a)).min(1.0 - square(across, b)),
    }
}

/// Square metres of the area (EN 302 636-4-1 §B.3).
pub fn square_metres(area: &Area) -> f64 {
    let (a, b) = (f64::from(area.a), f64::from(area.b));
    match area.shape {
        Shape::Circle => core::f64::consts::PI * a * a,
        Shape::Ellipse => core::f64::consts::PI * a * b,
        Shape::Rectangle => 4.0 * a * b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(latitude: f64, longitude: f64) -> Coordinates {
        Coordinates::from_degrees(latitude, longitude).unwrap()
    }

    /// Figures of the inverse problem on the ellipsoid, from the tables of WGS 84.
    #[test]
    fn a_degree_has_the_length_of_the_wgs84_ellipsoid() {
        for (from, to, metres) in [
            (place(0.0, 0.0), place(0.0, 0.01), 1_113.195),
            (place(0.0, 0.0), place(0.01, 0.0), 1_105.743),
            (place(60.0, 10.0), place(60.0, 10.01), 558.003),
            (place(-45.0, 179.995), place(-45.0, -179.995), 788.468),
        ] {
            let found = distance(from, to);
            assert!((found - metres).abs() < 0.02, "{from} to {to}: {found} m, not {metres} m");
        }
    }

    #[test]
    fn offset_and_place_are_inverse() {
        let plane = Plane::at(place(48.8, 179.9999));
        for (east, north) in [(0.0, 0.0), (250.0, -40.0), (-12_000.0, 3.0)] {
            let there = plane.offset(plane.place(Offset { east, north }));
            assert!((there.east - east).abs() < 0.02 && (there.north - north).abs() < 0.02, "{there:?}");
        }
    }

    #[test]
    fn a_moving_station_is_extrapolated() {
        let here = place(48.0, 11.0);
        let went = |speed, heading| Plane::at(here).offset(extrapolate(here, speed, heading, Duration::from_secs(3)));
        for (speed, heading, east, north) in
            [(2000, 0, 0.0, 60.0), (2000, 900, 60.0, 0.0), (-1000, 1800, 0.0, 30.0), (0, 700, 0.0, 0.0)]
        {
            let there = went(speed, heading);
            assert!((there.east - east).abs() < 0.02 && (there.north - north).abs() < 0.02, "{there:?}");
        }
    }

    #[test]
    fn an_angle_turns_the_long_side_clockwise_from_north() {
        let center = place(48.0, 11.0);
        let plane = Plane::at(center);
        let at = |east, north| plane.place(Offset { east, north });
        for shape in [Shape::Rectangle, Shape::Ellipse] {
            let east_west = Area { shape, center, a: 300, b: 50, angle: 90 };
            assert!(contains(&east_west, at(290.0, 0.0)) && !contains(&east_west, at(0.0, 290.0)), "{shape:?}");
            let north_east = Area { angle: 45, ..east_west };
            assert!(contains(&north_east, at(200.0, 200.0)) && !contains(&north_east, at(-200.0, 200.0)), "{shape:?}");
        }
        let corner = Area { shape: Shape::Rectangle, center, a: 300, b: 50, angle: 0 };
        assert!(
            contains(&corner, at(49.0, 299.0)) && !contains(&Area { shape: Shape::Ellipse, ..corner }, at(49.0, 299.0))
        );
        assert!(
            contains(&Area::circle(center, 100), at(70.0, 70.0))
                && !contains(&Area::circle(center, 100), at(72.0, 72.0))
        );
    }

    #[test]
    fn a_circle_of_1784_metres_has_ten_square_kilometres() {
        let circle = |radius| square_metres(&Area::circle(place(0.0, 0.0), radius));
        assert!(circle(1784) < 1e7 && circle(1785) > 1e7);
        let rectangle = Area { shape: Shape::Rectangle, center: place(0.0, 0.0), a: 2500, b: 1000, angle: 0 };
        assert_eq!(square_metres(&rectangle), 1e7);
    }
}
