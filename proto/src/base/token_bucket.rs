//! Token bucket rate limiter (RFC 6275 §11.8, RFC 4861 §6.2.6).

use crate::base::time::Time;
use core::time::Duration;

/// A token bucket: a burst, then one token each interval.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    burst: u32,
    interval: Duration,
    /// The time at which the bucket is full again.
    full_at: Time,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens, refilled by one token each `interval`.
    pub fn new(burst: u32, interval: Duration) -> TokenBucket {
        TokenBucket { burst, interval, full_at: Time::ZERO }
    }

    /// Takes a token; returns whether there was one.
    pub fn take(&mut self, now: Time) -> bool {
        if self.next_token() > now {
            return false;
        }
        self.full_at = self.full_at.max(now) + self.interval;
        true
    }

    /// The time at which the next token is available.
    pub fn next_token(&self) -> Time {
        self.full_at - self.interval * self.burst.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_one_each_interval() {
        let mut limiter = TokenBucket::new(3, Duration::from_millis(333));
        let start = Time::from_micros(5_000_000);
        assert!(limiter.take(start) && limiter.take(start) && limiter.take(start));
        assert!(!limiter.take(start));
        assert_eq!(limiter.next_token(), start + Duration::from_millis(333));
        assert!(limiter.take(start + Duration::from_millis(333)));
        assert!(!limiter.take(start + Duration::from_millis(334)));
    }
}
