//! Several position sources at once. Those that agree are combined by their accuracy; when all receivers are silent, the
//! position is extrapolated from the last one (dead reckoning) for a while, and then a fixed position is used, if there is one.

#![allow(clippy::disallowed_methods, reason = "receivers report in real time")]

use super::{PositionSender, PositionSource, SILENCE_TIMEOUT};
use crate::config::geo::Position;
use core::time::Duration;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roam6_proto::Fix;
use roam6_proto::geo::geometry::{self, Offset, Plane};
use std::time::Instant;

/// How long the position is extrapolated.
const DEAD_RECKONING: Duration = Duration::from_secs(10);
/// Metres of uncertainty that a second of dead reckoning adds, and the share of the extrapolated distance.
const DRIFT: f64 = 1.0;
const DRIFT_OF_DISTANCE: f64 = 0.1;
/// Interval of positions without a receiver.
const INTERVAL: u16 = 500;
/// The uncertainty, in metres, of a source that reports none, when it is compared with others.
const UNKNOWN: f64 = 50.0;

/// The last report of a source.
#[derive(Debug, Clone, Copy)]
struct Observation {
    fix: Option<Fix>,
    at: Instant,
    /// The source is a position in the configuration, which is always valid.
    is_fixed: bool,
}

/// Combines the sources until the event loop has closed its end.
pub(super) fn follow(sources: &[Position], sender: &mut PositionSender) {
    let Ok(mut opened) = sources.iter().map(PositionSource::start).collect::<std::io::Result<Vec<_>>>() else {
        sender.send(None);
        return;
    };
    let begin = Instant::now();
    let mut seen: Vec<Observation> = sources
        .iter()
        .map(|source| Observation { fix: None, at: begin, is_fixed: matches!(source, Position::Fixed(_)) })
        .collect();
    let mut last = None;
    loop {
        let mut is_new = false;
        for (source, seen) in opened.iter_mut().zip(&mut seen) {
            if let Some(fix) = source.take().pop() {
                (seen.fix, seen.at, is_new) = (fix, Instant::now(), true);
            }
        }
        let now = Instant::now();
        let received = combine(&seen, now);
        if let Some(fix) = received {
            last = Some((fix, now));
        }
        // What receivers report is passed on when it comes, everything else at regular intervals.
        if (is_new || received.is_none()) && !sender.send(received.or_else(|| fall_back(&seen, last, now))) {
            return;
        }
        wait(&opened);
    }
}

/// Waits for a report, or for the interval.
fn wait(sources: &[PositionSource]) {
    let mut ready: Vec<PollFd<'_>> =
        sources.iter().filter_map(PositionSource::fd).map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    if ready.is_empty() || poll(&mut ready, PollTimeout::from(INTERVAL)).is_err() {
        std::thread::sleep(Duration::from_millis(INTERVAL.into()));
    }
}

/// The position that the receivers report: the first of them, and all that agree with it, weighted by their accuracy.
fn combine(sources: &[Observation], now: Instant) -> Option<Fix> {
    let current = |source: &Observation| {
        let age = now.saturating_duration_since(source.at);
        let fix = source.fix.filter(|_| !source.is_fixed && age < SILENCE_TIMEOUT)?;
        Some(Fix { place: geometry::extrapolate(fix.place, fix.speed, fix.heading, age), ..fix })
    };
    let fixes: Vec<Fix> = sources.iter().filter_map(current).collect();
    let first = fixes.iter().find(|fix| fix.uncertainty.is_some()).or(fixes.first())?;
    let plane = Plane::at(first.place);
    let radius = |fix: &Fix| fix.uncertainty.map_or(UNKNOWN, |metres| f64::from(metres.max(1)));
    let (mut sum, mut weights) = (Offset { east: 0.0, north: 0.0 }, 0.0);
    for fix in &fixes {
        let offset = plane.offset(fix.place);
        if offset.east.hypot(offset.north) <= radius(first) + radius(fix) {
            let weight = radius(fix).powi(-2);
            (sum.east, sum.north) = (sum.east + weight * offset.east, sum.north + weight * offset.north);
            weights += weight;
        }
    }
    let place = plane.place(Offset { east: sum.east / weights, north: sum.north / weights });
    let uncertainty = first.uncertainty.map(|_| weights.powf(-0.5).ceil() as u32);
    Some(Fix { place, uncertainty, ..*first })
}

/// The position without any receiver: extrapolated, then fixed, then none.
fn fall_back(sources: &[Observation], last: Option<(Fix, Instant)>, now: Instant) -> Option<Fix> {
    let reckoned = last.and_then(|(fix, at)| {
        let age = now.saturating_duration_since(at);
        if age >= DEAD_RECKONING {
            return None;
        }
        let place = geometry::extrapolate(fix.place, fix.speed, fix.heading, age);
        let metres = f64::from(fix.speed.unsigned_abs()) / 100.0 * age.as_secs_f64();
        let drift = age.as_secs_f64() * DRIFT + metres * DRIFT_OF_DISTANCE;
        Some(Fix { place, uncertainty: fix.uncertainty.map(|known| known + drift.ceil() as u32), ..fix })
    });
    reckoned.or_else(|| sources.iter().filter(|source| source.is_fixed).find_map(|source| source.fix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_wire::geo::Coordinates;

    fn seen(north_metres: f64, uncertainty: Option<u32>, at: Instant) -> Observation {
        let origin = Coordinates::from_degrees(48.0, 11.0).unwrap();
        let place = Plane::at(origin).place(Offset { east: 0.0, north: north_metres });
        Observation { fix: Some(Fix { place, uncertainty, speed: 0, heading: 0 }), at, is_fixed: false }
    }

    fn north(fix: Fix) -> f64 {
        Plane::at(Coordinates::from_degrees(48.0, 11.0).unwrap()).offset(fix.place).north.round()
    }

    #[test]
    fn receivers_are_weighted_by_their_accuracy() {
        let now = Instant::now();
        let fix = combine(&[seen(0.0, Some(4), now), seen(8.0, Some(4), now)], now).unwrap();
        assert_eq!((north(fix), fix.uncertainty), (4.0, Some(3)));
        let fix = combine(&[seen(0.0, Some(20), now), seen(10.0, Some(2), now)], now).unwrap();
        assert_eq!((north(fix), fix.uncertainty), (10.0, Some(2)));
        // One that disagrees does not count, nor one that reports no accuracy beside one that does.
        let fix = combine(&[seen(0.0, Some(4), now), seen(500.0, Some(4), now)], now).unwrap();
        assert_eq!((north(fix), fix.uncertainty), (0.0, Some(4)));
        let fix = combine(&[seen(400.0, None, now), seen(0.0, Some(4), now)], now).unwrap();
        assert_eq!(north(fix), 0.0);
        // Without any accuracy the first counts.
        let fix = combine(&[seen(400.0, None, now), seen(0.0, None, now)], now).unwrap();
        assert_eq!((north(fix), fix.uncertainty), (400.0, None));
    }

    #[test]
    fn a_silent_receiver_is_replaced_by_the_next() {
        let then = Instant::now();
        let now = then + Duration::from_secs(4);
        let fix = combine(&[seen(0.0, Some(4), then), seen(90.0, Some(40), now)], now).unwrap();
        assert_eq!((north(fix), fix.uncertainty), (90.0, Some(40)));
        let lost = Observation { fix: None, ..seen(0.0, None, now) };
        assert_eq!(combine(&[lost, seen(0.0, Some(4), then)], now), None);
    }

    #[test]
    fn without_receivers_the_position_is_reckoned_and_then_fixed() {
        let then = Instant::now();
        let moving = Fix { speed: 2_000, ..seen(0.0, Some(5), then).fix.unwrap() };
        let fixed = Observation { is_fixed: true, ..seen(900.0, Some(1), then) };
        let after = |seconds: u64| fall_back(&[fixed], Some((moving, then)), then + Duration::from_secs(seconds));
        let fix = after(5).unwrap();
        assert_eq!((north(fix), fix.uncertainty), (100.0, Some(20)));
        assert_eq!(north(after(10).unwrap()), 900.0);
        assert_eq!(fall_back(&[], Some((moving, then)), then + Duration::from_secs(10)), None);
        assert_eq!(combine(&[fixed], then), None, "it is used last");
    }
}
