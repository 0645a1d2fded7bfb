//! The track of a vehicle over a plane: places at known times, with straight motion at constant speed between them.

use core::time::Duration;
use roam6_proto::Time;
use roam6_proto::geo::geometry::Offset;

/// A track; the vehicle is stationary before its first and after its last time.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    first: (Time, Offset),
    /// Later times, in order.
    rest: Vec<(Time, Offset)>,
}

/// Speed and heading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Velocity {
    /// Metres per second.
    pub speed: f64,
    /// Degrees clockwise from north, from 0 to below 360; 0 without motion.
    pub heading: f64,
}

impl Track {
    /// A vehicle that is stationary at `place` until it [moves](Track::drive_to).
    pub fn standing(place: Offset) -> Track {
        Track::from(Time::ZERO, place)
    }

    /// A vehicle that starts from `place` at `begin`.
    pub fn from(begin: Time, place: Offset) -> Track {
        Track { first: (begin, place), rest: Vec::new() }
    }

    /// Moves on to `place` at `speed` metres per second; stationary if that is not positive.
    #[must_use]
    pub fn drive_to(mut self, place: Offset, speed: f64) -> Track {
        let (time, from) = self.last();
        if speed > 0.0 {
            let seconds = (distance(from, place) / speed).min(1e9);
            self.rest.push((time + Duration::from_secs_f64(seconds), place));
        }
        self
    }

    /// Stands for a while.
    #[must_use]
    pub fn pause(mut self, span: Duration) -> Track {
        let (time, place) = self.last();
        self.rest.push((time + span, place));
        self
    }

    /// The time and place of its final stop.
    pub fn last(&self) -> (Time, Offset) {
        self.rest.last().copied().unwrap_or(self.first)
    }

    /// The place at `now`.
    pub fn at(&self, now: Time) -> Offset {
        let Some((from, to)) = self.leg(now) else {
            return if now < self.first.0 { self.first.1 } else { self.last().1 };
        };
        let share = now.since(from.0).as_secs_f64() / to.0.since(from.0).as_secs_f64();
        let between = |from: f64, to: f64| from + (to - from) * share;
        Offset { east: between(from.1.east, to.1.east), north: between(from.1.north, to.1.north) }
    }

    /// The motion at `now`.
    pub fn motion(&self, now: Time) -> Velocity {
        let Some((from, to)) = self.leg(now) else { return Velocity { speed: 0.0, heading: 0.0 } };
        let speed = distance(from.1, to.1) / to.0.since(from.0).as_secs_f64();
        let turned = Offset { east: to.1.east - from.1.east, north: to.1.north - from.1.north }.direction();
        Velocity { speed, heading: turned.to_degrees().rem_euclid(360.0) }
    }

    /// The distinct times before and after `now`; `None` before the first and from the last on.
    fn leg(&self, now: Time) -> Option<((Time, Offset), (Time, Offset))> {
        let next = self.rest.partition_point(|(time, _)| *time <= now);
        let from = next.checked_sub(1).map_or(Some(self.first), |last| self.rest.get(last).copied())?;
        let to = *self.rest.get(next)?;
        (now >= from.0).then_some((from, to))
    }
}

/// Distance in metres.
pub fn distance(one: Offset, other: Offset) -> f64 {
    (one.east - other.east).hypot(one.north - other.north)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(east: f64, north: f64) -> Offset {
        Offset { east, north }
    }

    fn seconds(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_track_interpolates_between_its_places() {
        let track = Track::from(seconds(10), at(0.0, 0.0))
            .drive_to(at(0.0, 100.0), 20.0)
            .pause(Duration::from_secs(5))
            .drive_to(at(-60.0, 100.0), 10.0);
        for (time, place, speed, heading) in [
            (0, at(0.0, 0.0), 0.0, 0.0),
            (10, at(0.0, 0.0), 20.0, 0.0),
            (12, at(0.0, 40.0), 20.0, 0.0),
            (17, at(0.0, 100.0), 0.0, 0.0),
            (23, at(-30.0, 100.0), 10.0, 270.0),
            (26, at(-60.0, 100.0), 0.0, 0.0),
            (99, at(-60.0, 100.0), 0.0, 0.0),
        ] {
            let (place_then, motion) = (track.at(seconds(time)), track.motion(seconds(time)));
            assert!(distance(place_then, place) < 1e-6, "{time} s: {place_then:?}");
            assert!(
                (motion.speed - speed).abs() < 1e-6 && (motion.heading - heading).abs() < 1e-6,
                "{time} s: {motion:?}"
            );
        }
        assert_eq!(track.last(), (seconds(26), at(-60.0, 100.0)));
    }

    #[test]
    fn a_standing_track_has_one_place() {
        let track =
            Track::standing(at(1.0, 2.0)).drive_to(at(1.0, 2.0), 5.0).pause(Duration::ZERO).drive_to(at(9.0, 9.0), 0.0);
        assert_eq!((track.at(Time::ZERO), track.at(seconds(5))), (at(1.0, 2.0), at(1.0, 2.0)));
        assert_eq!(track.motion(seconds(1)), Velocity { speed: 0.0, heading: 0.0 });
    }
}
