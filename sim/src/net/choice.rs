//! Random choices of scenarios and attackers.

use roam6_proto::Entropy;

/// Choices by a generator of random numbers.
pub(crate) trait Choice {
    /// A number from `least` to `most`, both included.
    fn between(&mut self, least: u64, most: u64) -> u64;
    /// True once in so many times.
    fn one_in(&mut self, times: u64) -> bool;
    /// An index below `count`; 0 if there is none.
    fn index(&mut self, count: usize) -> usize;
    /// One of these.
    fn pick<T: Clone>(&mut self, all: &[T]) -> Option<T>;
    /// From 0 to less than `bound`.
    fn fraction(&mut self, bound: f64) -> f64;
}

impl Choice for Entropy {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap_or(0)
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let index = self.index(all.len());
        all.get(index).cloned()
    }

    fn fraction(&mut self, bound: f64) -> f64 {
        self.below(1 << 32) as f64 / (1_u64 << 32) as f64 * bound
    }
}
