//! A timer queue for few timers.

use crate::base::time::Time;
use crate::base::vec_map::VecMap;

/// Timers keyed by `K`, as in the larger [`Agenda`](crate::base::timers::Agenda); finds the earliest deadline by a linear search.
#[derive(Debug, Clone)]
pub struct SmallTimerQueue<K>(VecMap<K, Time>);

impl<K> Default for SmallTimerQueue<K> {
    fn default() -> Self {
        SmallTimerQueue(VecMap::new())
    }
}

impl<K: Ord + Clone> SmallTimerQueue<K> {
    /// Sets the timer of `key` to `at`; replaces its former deadline.
    pub fn set(&mut self, key: K, at: Time) {
        self.0.insert(key, at);
    }

    /// Stops the timer of `key`, if it runs.
    pub fn cancel(&mut self, key: &K) {
        self.0.remove(key);
    }

    /// The deadline of the timer of `key`.
    pub fn deadline_of(&self, key: &K) -> Option<Time> {
        self.0.get(key).copied()
    }

    /// The earliest deadline.
    pub fn deadline(&self) -> Option<Time> {
        self.0.values().min().copied()
    }

    /// Removes one timer that has expired by `now`, the earliest first.
    pub fn pop_expired(&mut self, now: Time) -> Option<K> {
        let (key, at) = self.0.iter().min_by_key(|(_, at)| **at)?;
        let key = (*at <= now).then(|| key.clone())?;
        self.0.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Entropy;

    #[test]
    fn small_timer_queue_matches_timer_queue() {
        let mut entropy = Entropy::seed_from_u64(2);
        let (mut few, mut many) = (SmallTimerQueue::default(), crate::base::timers::TimerQueue::new());
        for now in (0..5000).map(Time::from_micros) {
            let (key, at) = (entropy.below(12), Time::from_micros(now.as_micros() + entropy.below(20)));
            if entropy.below(3) == 0 {
                few.cancel(&key);
                many.cancel(&key);
            } else {
                few.set(key, at);
                many.set(key, at);
            }
            assert_eq!((few.deadline_of(&key), few.deadline()), (many.deadline_of(&key), many.deadline()));
            assert_eq!(few.pop_expired(now), many.pop_expired(now));
        }
    }
}
