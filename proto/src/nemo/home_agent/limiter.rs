//! A token bucket: so many a second, and a second's worth at once.

use crate::base::time::Time;

/// Lets through so many events a second.
#[derive(Debug, Clone)]
pub(super) struct Limiter {
    per_second: u64,
    /// Millionths of an event that may still pass.
    tokens: u64,
    filled: Time,
}

impl Limiter {
    /// A full bucket.
    pub(super) fn new(per_second: u64) -> Limiter {
        Limiter { per_second, tokens: per_second * 1_000_000, filled: Time::ZERO }
    }

    /// Whether one more may pass at `now`.
    pub(super) fn pass(&mut self, now: Time) -> bool {
        let span = u64::try_from(now.since(self.filled).as_micros()).unwrap_or(u64::MAX);
        self.filled = now;
        let more = self.tokens.saturating_add(span.saturating_mul(self.per_second));
        self.tokens = more.min(self.per_second * 1_000_000);
        if self.tokens < 1_000_000 {
            return false;
        }
        self.tokens -= 1_000_000;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_the_rate() {
        let mut limiter = Limiter::new(10);
        let passed = |limiter: &mut Limiter, at| (0..100).filter(|_| limiter.pass(Time::from_micros(at))).count();
        assert_eq!(passed(&mut limiter, 0), 10);
        assert_eq!(passed(&mut limiter, 100_000), 1);
        assert_eq!(passed(&mut limiter, 10_000_000), 10);
    }
}
