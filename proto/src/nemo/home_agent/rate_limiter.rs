//! A token bucket with a rate per second, and a burst of one second.

use crate::base::time::Time;

/// Limits events to a rate per second.
#[derive(Debug, Clone)]
pub(super) struct RateLimiter {
    per_second: u64,
    /// Tokens in millionths.
    tokens: u64,
    filled_at: Time,
}

impl RateLimiter {
    /// A full bucket.
    pub(super) fn new(per_second: u64) -> RateLimiter {
        RateLimiter { per_second, tokens: per_second * 1_000_000, filled_at: Time::ZERO }
    }

    /// Takes a token at `now`, if there is one.
    pub(super) fn allow(&mut self, now: Time) -> bool {
        let span = u64::try_from(now.since(self.filled_at).as_micros()).unwrap_or(u64::MAX);
        self.filled_at = now;
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
    fn rate_limiter_allows_a_burst_then_the_rate() {
        let mut limiter = RateLimiter::new(10);
        let passed = |limiter: &mut RateLimiter, at| (0..100).filter(|_| limiter.allow(Time::from_micros(at))).count();
        assert_eq!(passed(&mut limiter, 0), 10);
        assert_eq!(passed(&mut limiter, 100_000), 1);
        assert_eq!(passed(&mut limiter, 10_000_000), 10);
    }
}
