//! A timer queue for few timers.

use super::Map;
use crate::base::time::Time;

/// Timers keyed by `K`, as in the larger [`Agenda`](crate::base::timers::Agenda); finds the earliest deadline by a linear search.
#[derive(Debug, Clone)]
pub struct Agenda<K>(Map<K, Time>);

impl<K> Default for Agenda<K> {
    fn default() -> Self {
        Agenda(Map::new())
    }
}

impl<K: Ord + Clone> Agenda<K> {
    /// Sets the timer of `key` to `at`; replaces its former deadline.
    pub fn put(&mut self, key: K, at: Time) {
        self.0.insert(key, at);
    }

    /// Stops the timer of `key`, if it runs.
    pub fn drop(&mut self, key: &K) {
        self.0.remove(key);
    }

    /// The deadline of the timer of `key`.
    pub fn find(&self, key: &K) -> Option<Time> {
        self.0.get(key).copied()
    }

    /// The earliest deadline.
    pub fn deadline(&self) -> Option<Time> {
        self.0.values().min().copied()
    }

    /// Removes one timer that has expired by `now`, the earliest first.
    pub fn expire(&mut self, now: Time) -> Option<K> {
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
    fn timers_end_as_in_the_larger_agenda() {
        let mut entropy = Entropy::from_number(2);
        let (mut few, mut many) = (Agenda::default(), crate::base::timers::Agenda::new());
        for now in (0..5000).map(Time::from_micros) {
            let (key, at) = (entropy.below(12), Time::from_micros(now.as_micros() + entropy.below(20)));
            if entropy.below(3) == 0 {
                few.drop(&key);
                many.drop(&key);
            } else {
                few.put(key, at);
                many.put(key, at);
            }
            assert_eq!((few.find(&key), few.deadline()), (many.find(&key), many.deadline()));
            assert_eq!(few.expire(now), many.expire(now));
        }
    }
}
