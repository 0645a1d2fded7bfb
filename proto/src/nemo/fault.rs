//! Current faults, with their causes for the operator: each is reported when it begins and when it ends, not on each
//! occurrence, however many a sender provokes.

use crate::contract::view::FaultKind;
use crate::{Time, TokenBucket};
use core::time::Duration;
use roam6_wire::mobility::Status;
use std::collections::BTreeMap;

/// Burst and interval of reports.
const REPORT_BURST: u32 = 10;
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// A changed cause of the same fault is not reported again within this time, unless the peer has told it.
const REPEAT_INTERVAL: Duration = Duration::from_secs(60);

/// What a fault is: for programs by its kind, for people by its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cause {
    kind: FaultKind,
    status: Option<u8>,
    text: String,
}

impl Cause {
    /// A cause of this kind.
    pub(super) fn new(kind: FaultKind, text: impl Into<String>) -> Cause {
        Cause { kind, status: None, text: text.into() }
    }

    /// A refusal with this status.
    pub(super) fn refused(status: Status, text: impl Into<String>) -> Cause {
        Cause { status: Some(status.0), ..Cause::new(FaultKind::Refused, text) }
    }

    /// The same, of another kind.
    pub(super) fn of_kind(self, kind: FaultKind) -> Cause {
        Cause { kind, ..self }
    }

    /// Whether the peer has answered, so that the cause is its own word.
    fn is_answer(&self) -> bool {
        matches!(self.kind, FaultKind::Refused | FaultKind::NotEncrypted)
    }

    /// Its text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// What it is.
    pub kind: FaultKind,
    /// The status of a refusal.
    pub status: Option<u8>,
    /// Which peer rejects or does not answer, why, and the remedy.
    pub cause: String,
    /// When it began.
    pub since: Time,
    last_seen: Time,
    reported: Option<(Time, Cause)>,
}

/// How long signs of another mobile router count, and how long it is remembered after the last one.
const RIVAL_WINDOW: Duration = Duration::from_secs(600);

/// Signs of another mobile router with the same home address and key. One sign may come from a mobile router that has lost its
/// state; several within [`RIVAL_WINDOW`] do not.
#[derive(Debug, Clone, Default)]
pub(super) struct RivalSigns {
    count: u8,
    first: Time,
    last: Time,
    since: Option<Time>,
}

impl RivalSigns {
    /// Records a sign; returns whether it is the one that suffices, of `required` ones.
    pub(super) fn record(&mut self, now: Time, required: u8) -> bool {
        if self.count == 0 || now.since(self.first) >= RIVAL_WINDOW {
            (self.count, self.first) = (0, now);
        }
        let known = self.since(now).is_some();
        (self.count, self.last) = (self.count.saturating_add(1), now);
        if known || self.count < required {
            return false;
        }
        self.since = Some(self.first);
        true
    }

    /// Since when another mobile router is known, unless its last sign is too old.
    pub(super) fn since(&self, now: Time) -> Option<Time> {
        self.since.filter(|_| now.since(self.last) < RIVAL_WINDOW)
    }

    /// The time of the last sign.
    pub(super) fn last(&self) -> Time {
        self.last
    }
}

/// Current faults by key, at most `limit`: the one not seen for the longest time is removed.
#[derive(Debug, Clone)]
pub(super) struct Faults<K> {
    faults: BTreeMap<K, Fault>,
    limit: usize,
    limiter: TokenBucket,
}

impl<K: Ord + Copy> Faults<K> {
    /// No faults.
    pub(super) fn new(limit: usize) -> Faults<K> {
        Faults { faults: BTreeMap::new(), limit, limiter: TokenBucket::new(REPORT_BURST, REPORT_INTERVAL) }
    }

    /// The fault with `key`, if any.
    pub(super) fn get(&self, key: K) -> Option<&Fault> {
        self.faults.get(&key)
    }

    /// All faults.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &Fault)> {
        self.faults.iter()
    }

    /// Records a fault; returns whether it is to be reported.
    pub(super) fn record(&mut self, now: Time, key: K, why: Cause) -> bool {
        if !self.faults.contains_key(&key) && self.faults.len() >= self.limit {
            let oldest = self.faults.iter().min_by_key(|(_, fault)| fault.last_seen).map(|(key, _)| *key);
            oldest.and_then(|oldest| self.faults.remove(&oldest));
        }
        let fault = self.faults.entry(key).or_insert_with(|| Fault {
            kind: why.kind.clone(),
            status: None,
            cause: why.text.clone(),
            since: now,
            last_seen: now,
            reported: None,
        });
        let is_new = fault.reported.as_ref().is_none_or(|(at, reported)| {
            let answers = why.is_answer() && !reported.is_answer();
            reported.text != why.text && (answers || now.since(*at) >= REPEAT_INTERVAL)
        });
        (fault.kind, fault.status) = (why.kind.clone(), why.status);
        (fault.cause, fault.last_seen) = (why.text.clone(), now);
        if !is_new || !self.limiter.take(now) {
            return false;
        }
        fault.reported = Some((now, why));
        true
    }

    /// Ends a fault; returns its duration if it was reported.
    pub(super) fn clear(&mut self, now: Time, key: K) -> Option<Duration> {
        let fault = self.faults.remove(&key)?;
        fault.reported.map(|_| now.since(fault.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(text: &str) -> Cause {
        Cause::new(FaultKind::Unanswered, text)
    }

    fn at(seconds: u64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn cause_that_the_peer_tells_is_reported_at_once_and_others_later() {
        let refusal = || Cause::refused(Status::INSUFFICIENT_RESOURCES, "refused");
        let mut faults = Faults::new(4);
        assert!(faults.record(at(1), 7, cause("no answer")));
        assert!(faults.record(at(2), 7, refusal()));
        assert!(!faults.record(at(3), 7, refusal()));
        assert!(!faults.record(at(4), 7, cause("no answer")), "too early");
        assert!(!faults.record(at(61), 7, cause("no answer")), "too early");
        assert!(faults.record(at(62), 7, cause("no answer")), "though it is not new");
    }

    #[test]
    fn fault_and_its_end_are_reported_once() {
        let mut faults = Faults::new(4);
        assert!(faults.record(at(1), 7, cause("refused")));
        assert!((2..1000).all(|second| !faults.record(at(second), 7, cause("refused"))));
        assert_eq!(faults.get(7).map(|fault| fault.since), Some(at(1)));
        assert_eq!(faults.clear(at(1001), 7), Some(Duration::from_secs(1000)));
        assert_eq!(faults.clear(at(1002), 7), None);
    }

    #[test]
    fn several_signs_of_a_rival_within_ten_minutes_suffice() {
        let mut signs = RivalSigns::default();
        assert_eq!([1, 700, 1000, 1310].map(|second| signs.record(at(second), 3)), [false; 4], "too far apart");
        assert_eq!(signs.since(at(1310)), None);
        assert!(!signs.record(at(1320), 3) && signs.record(at(1330), 3) && !signs.record(at(1340), 3));
        assert_eq!((signs.since(at(1939)), signs.since(at(1940))), (Some(at(1310)), None));
        assert!(!signs.record(at(1950), 3), "the count restarts");
    }

    #[test]
    fn changed_cause_is_reported_once_a_minute() {
        let mut faults = Faults::new(4);
        let reported =
            (0..120).filter(|second| faults.record(at(*second), 7, cause(&format!("reason {}", second % 2)))).count();
        assert_eq!(reported, 2);
    }

    #[test]
    fn faults_are_bounded_in_memory_and_log() {
        let mut faults = Faults::new(64);
        let reported = (0..100_000_u64)
            .filter(|number| faults.record(Time::from_micros(number * 100), *number, cause("wrong key")))
            .count();
        assert_eq!(faults.iter().count(), 64);
        assert!(reported <= 12, "{reported} lines in ten seconds");
    }
}
