//! The timers of an engine, keyed by their purpose; the earliest deadline is found in constant time.

use crate::base::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Timers keyed by `K`; setting a key again moves its timer.
#[derive(Debug, Clone)]
pub struct TimerQueue<K> {
    by_time: BTreeSet<(Time, K)>,
    by_key: BTreeMap<K, Time>,
}

impl<K> Default for TimerQueue<K> {
    fn default() -> Self {
        TimerQueue { by_time: BTreeSet::new(), by_key: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> TimerQueue<K> {
    /// No timers.
    pub fn new() -> TimerQueue<K> {
        TimerQueue::default()
    }

    /// Sets the timer of `key` to `at`; replaces its former deadline.
    pub fn set(&mut self, key: K, at: Time) {
        if let Some(old) = self.by_key.insert(key.clone(), at) {
            self.by_time.remove(&(old, key.clone()));
        }
        self.by_time.insert((at, key));
    }

    /// Stops the timer of `key`, if it runs.
    pub fn cancel(&mut self, key: &K) {
        if let Some(old) = self.by_key.remove(key) {
            self.by_time.remove(&(old, key.clone()));
        }
    }

    /// The deadline of the timer of `key`.
    pub fn deadline_of(&self, key: &K) -> Option<Time> {
        self.by_key.get(key).copied()
    }

    /// The earliest deadline.
    pub fn deadline(&self) -> Option<Time> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes one timer that has expired by `now`, the earliest first.
    pub fn pop_expired(&mut self, now: Time) -> Option<K> {
        if self.deadline()? > now {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    /// Every timer, the earliest first.
    pub fn iter(&self) -> impl Iterator<Item = (Time, &K)> {
        self.by_time.iter().map(|(at, key)| (*at, key))
    }

    /// The number of running timers.
    pub fn len(&self) -> usize {
        self.by_time.len()
    }

    /// Whether no timer runs.
    pub fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rescheduled_timer_fires_once_and_only_when_due() {
        let mut agenda = TimerQueue::new();
        agenda.set("a", Time::from_micros(10));
        agenda.set("b", Time::from_micros(20));
        agenda.set("a", Time::from_micros(30));
        assert_eq!(agenda.deadline(), Some(Time::from_micros(20)));
        assert_eq!(agenda.pop_expired(Time::from_micros(19)), None);
        assert_eq!(agenda.pop_expired(Time::from_micros(40)), Some("b"));
        assert_eq!(agenda.pop_expired(Time::from_micros(40)), Some("a"));
        assert_eq!(agenda.pop_expired(Time::from_micros(40)), None);
        assert!(agenda.is_empty());
    }
}
