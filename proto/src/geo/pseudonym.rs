//! When a station changes its pseudonym: the strategy of ETSI TR 103 415 §4.2.3.2. The first change is at the start of a trip,
//! which is the start of the node; the second after a random distance, and each further one after a minimum distance and a
//! random time, so that observers cannot predict it. A pseudonym is not changed while it is locked.

use super::geometry;
use crate::base::rng::Entropy;
use crate::base::time::Time;
use core::time::Duration;
use roam6_wire::geo::Coordinates;

/// Metres to the second change, at least and at most.
const SECOND_CHANGE: (u64, u64) = (800, 1_500);
/// Metres to each further change, at least.
const FURTHER_CHANGE: u64 = 800;
/// Time to each further change, at least and at most.
const FURTHER_TIME: (Duration, Duration) = (Duration::from_secs(120), Duration::from_secs(360));
/// The longest lock (ETSI TS 102 723-8).
pub const MAX_LOCK: Duration = Duration::from_secs(255);

/// Decides when the pseudonym changes.
#[derive(Debug)]
pub struct PseudonymSchedule {
    entropy: Entropy,
    /// Metres until the next change is due.
    remaining: f64,
    not_before: Time,
    last: Option<Coordinates>,
    locked_until: Time,
    /// A change was ordered.
    is_ordered: bool,
}

impl PseudonymSchedule {
    /// The schedule of a trip that begins now, with a new pseudonym.
    pub fn new(mut entropy: Entropy) -> PseudonymSchedule {
        let (least, most) = SECOND_CHANGE;
        let remaining = (least + entropy.below(most - least)) as f64;
        PseudonymSchedule {
            entropy,
            remaining,
            not_before: Time::ZERO,
            last: None,
            locked_until: Time::ZERO,
            is_ordered: false,
        }
    }

    /// The station is at this place.
    pub fn set_place(&mut self, place: Coordinates) {
        if let Some(last) = self.last.replace(place) {
            self.remaining -= geometry::distance(last, place);
        }
    }

    /// Changes the pseudonym at the next opportunity.
    pub fn order(&mut self) {
        self.is_ordered = true;
    }

    /// Keeps the pseudonym for this time, [`MAX_LOCK`] at most; zero ends a lock.
    pub fn lock(&mut self, now: Time, span: Duration) {
        self.locked_until = now + span.min(MAX_LOCK);
    }

    /// Whether the pseudonym changes now.
    pub fn is_due(&self, now: Time) -> bool {
        let is_due = self.remaining <= 0.0 && now >= self.not_before;
        (is_due || self.is_ordered) && now >= self.locked_until
    }

    /// The pseudonym was changed.
    pub fn note_changed(&mut self, now: Time) {
        let (least, most) = FURTHER_TIME;
        let spread = u64::try_from((most - least).as_micros()).unwrap_or(u64::MAX);
        self.not_before = now + least + Duration::from_micros(self.entropy.below(spread));
        self.remaining = FURTHER_CHANGE as f64;
        self.is_ordered = false;
    }

    /// When the next change may be due without a further movement.
    pub fn deadline(&self, now: Time) -> Option<Time> {
        let waits = self.remaining <= 0.0 || self.is_ordered;
        let at = if self.is_ordered { self.locked_until } else { self.not_before.max(self.locked_until) };
        Some(at).filter(|at| waits && *at > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drives east at 20 m/s for an hour; the times and distances between changes.
    fn drive(seed: u64, lock: Option<u64>) -> Vec<(u64, f64)> {
        let mut schedule = PseudonymSchedule::new(Entropy::seed_from_u64(seed));
        let origin = Coordinates::from_degrees(48.0, 11.0).unwrap();
        let plane = geometry::Plane::at(origin);
        let (mut changes, mut last) = (Vec::new(), 0);
        for second in 0..3_600_u64 {
            let now = Time::from_micros(second * 1_000_000);
            if lock == Some(second) {
                schedule.lock(now, Duration::from_secs(10_000));
            }
            schedule.set_place(plane.place(geometry::Offset { east: 20.0 * second as f64, north: 0.0 }));
            if schedule.is_due(now) {
                schedule.note_changed(now);
                changes.push((second, 20.0 * (second - last) as f64));
                last = second;
            }
        }
        changes
    }

    #[test]
    fn changes_follow_distance_and_random_times() {
        for seed in 0..50 {
            let changes = drive(seed, None);
            let [(_, first), further @ ..] = changes.as_slice() else { panic!("no change") };
            assert!((800.0..1_530.0).contains(first), "{first}");
            assert!(further.len() >= 9, "{}", further.len());
            let mut before = changes[0].0;
            for (at, metres) in further {
                assert!((120..=361).contains(&(at - before)) && *metres >= 800.0, "{at} {metres}");
                before = *at;
            }
        }
        assert_ne!(drive(1, None), drive(2, None));
    }

    #[test]
    fn a_lock_postpones_a_change_by_its_length_at_most() {
        let (due, _) = drive(3, None)[0];
        let (locked, _) = drive(3, Some(due - 1))[0];
        assert_eq!(locked, due - 1 + MAX_LOCK.as_secs());
    }

    #[test]
    fn a_station_that_stands_changes_when_ordered_only() {
        let mut schedule = PseudonymSchedule::new(Entropy::seed_from_u64(1));
        let at = |seconds: u64| Time::from_micros(seconds * 1_000_000);
        schedule.set_place(Coordinates::from_degrees(48.0, 11.0).unwrap());
        assert!(!schedule.is_due(at(100_000)));
        assert_eq!(schedule.deadline(at(0)), None);
        schedule.lock(at(0), Duration::from_secs(10));
        schedule.order();
        assert_eq!((schedule.is_due(at(9)), schedule.deadline(at(9))), (false, Some(at(10))));
        assert!(schedule.is_due(at(10)));
    }
}
