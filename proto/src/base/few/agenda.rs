//! Timers of which few run.

use super::Map;
use crate::base::time::Time;

/// Timers keyed by `K`, as in the larger [`Agenda`](crate::base::timers::Agenda); the nearest is looked for among all.
#[derive(Debug, Clone)]
pub struct Agenda<K>(Map<K, Time>);

impl<K> Default for Agenda<K> {
    fn default() -> Self {
        Agenda(Map::new())
    }
}

impl<K: Ord + Clone> Agenda<K> {
    /// Sets the timer of `key` to `at`, whatever it was.
    pub fn put(&mut self, key: K, at: Time) {
        self.0.insert(key, at);
    }

    /// Stops the timer of `key`, if it runs.
    pub fn drop(&mut self, key: &K) {
        self.0.remove(key);
    }

    /// When the timer of `key` ends.
    pub fn find(&self, key: &K) -> Option<Time> {
        self.0.get(key).copied()
    }

    /// The nearest end of a timer.
    pub fn deadline(&self) -> Option<Time> {
        self.0.values().min().copied()
    }

    /// Takes out one timer that has ended by `now`, the earliest first.
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
