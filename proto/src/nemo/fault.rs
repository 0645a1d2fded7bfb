//! What does not work at present, in words for the operator: each fault is reported when it begins and when it ends, not
//! each time it shows, however many of them somebody provokes.

use crate::base::time::Time;
use crate::base::token_bucket::TokenBucket;
use core::time::Duration;
use std::collections::BTreeMap;

/// Faults reported at once, then one each interval.
const BURST: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(10);
/// The same fault with another explanation is not reported again within this time.
const REPEAT: Duration = Duration::from_secs(60);

/// Something that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// Who refuses or does not answer, why, and what to do about it.
    pub why: String,
    /// When it began.
    pub since: Time,
    seen: Time,
    reported: Option<Time>,
}

/// Current faults by what they are about, at most `limit` of them: the one not seen for longest makes room.
#[derive(Debug, Clone)]
pub(super) struct Faults<K> {
    known: BTreeMap<K, Fault>,
    limit: usize,
    limiter: TokenBucket,
}

impl<K: Ord + Copy> Faults<K> {
    /// None yet.
    pub(super) fn new(limit: usize) -> Faults<K> {
        Faults { known: BTreeMap::new(), limit, limiter: TokenBucket::new(BURST, INTERVAL) }
    }

    /// The fault with `key`, if there is one.
    pub(super) fn find(&self, key: K) -> Option<&Fault> {
        self.known.get(&key)
    }

    /// All faults.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &Fault)> {
        self.known.iter()
    }

    /// Notes a fault; whether it is to be reported.
    pub(super) fn put(&mut self, now: Time, key: K, why: String) -> bool {
        if !self.known.contains_key(&key) && self.known.len() >= self.limit {
            let oldest = self.known.iter().min_by_key(|(_, fault)| fault.seen).map(|(key, _)| *key);
            oldest.and_then(|oldest| self.known.remove(&oldest));
        }
        let fault =
            self.known.entry(key).or_insert_with(|| Fault { why: why.clone(), since: now, seen: now, reported: None });
        let is_new = fault.reported.is_none_or(|at| fault.why != why && now.since(at) >= REPEAT);
        (fault.why, fault.seen) = (why, now);
        if !is_new || !self.limiter.take(now) {
            return false;
        }
        fault.reported = Some(now);
        true
    }

    /// The fault is over; how long it lasted, if it was reported.
    pub(super) fn clear(&mut self, now: Time, key: K) -> Option<Duration> {
        let fault = self.known.remove(&key)?;
        fault.reported.map(|_| now.since(fault.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_fault_is_reported_once_and_its_end_too() {
        let mut faults = Faults::new(4);
        assert!(faults.put(at(1), 7, "refused".to_owned()));
        assert!((2..1000).all(|second| !faults.put(at(second), 7, "refused".to_owned())));
        assert_eq!(faults.find(7).map(|fault| fault.since), Some(at(1)));
        assert_eq!(faults.clear(at(1001), 7), Some(Duration::from_secs(1000)));
        assert_eq!(faults.clear(at(1002), 7), None);
    }

    #[test]
    fn another_explanation_is_reported_once_a_minute() {
        let mut faults = Faults::new(4);
        let reported = (0..120).filter(|second| faults.put(at(*second), 7, format!("reason {}", second % 2))).count();
        assert_eq!(reported, 2);
    }

    #[test]
    fn a_flood_of_faults_fills_neither_memory_nor_the_log() {
        let mut faults = Faults::new(64);
        let reported = (0..100_000_u64)
            .filter(|number| faults.put(Time::from_micros(number * 100), *number, "wrong key".to_owned()))
            .count();
        assert_eq!(faults.iter().count(), 64);
        assert!(reported <= 12, "{reported} lines in ten seconds");
    }
}
