//! Token bucket rate limiters (RFC 6275 §11.8, RFC 4861 §6.2.6).

use crate::base::time::Time;
use core::time::Duration;

/// The fill level of a bucket, as the time at which it is full again: for tables of buckets with common limits. Costs and
/// capacities are the times in which they are refilled.
#[derive(Debug, Default, Clone, Copy)]
pub struct BucketLevel {
    full_at: Time,
}

impl BucketLevel {
    /// Whether tokens of this `cost` are left.
    pub fn has(self, now: Time, cost: Duration, capacity: Duration) -> bool {
        self.full_at.max(now) + cost <= now + capacity
    }

    /// Takes tokens of this `cost`, even if fewer are left.
    pub fn charge(&mut self, now: Time, cost: Duration) {
        self.full_at = self.full_at.max(now) + cost;
    }

    /// Takes tokens of this `cost`; returns whether so many were left.
    pub fn take(&mut self, now: Time, cost: Duration, capacity: Duration) -> bool {
        let has = self.has(now, cost, capacity);
        if has {
            self.charge(now, cost);
        }
        has
    }
}

/// A token bucket: a burst, then one token each interval.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    burst: u32,
    interval: Duration,
    level: BucketLevel,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens, refilled by one token each `interval`.
    pub fn new(burst: u32, interval: Duration) -> TokenBucket {
        TokenBucket { burst: burst.max(1), interval, level: BucketLevel::default() }
    }

    /// A full bucket of as many tokens as are refilled each second.
    pub fn per_second(rate: u32) -> TokenBucket {
        TokenBucket::new(rate, Duration::from_secs(1) / rate.max(1))
    }

    /// Takes a token; returns whether there was one.
    pub fn take(&mut self, now: Time) -> bool {
        self.level.take(now, self.interval, self.interval * self.burst)
    }

    /// Takes so many tokens; returns whether there were so many. More than the burst are taken from a full bucket.
    pub fn take_many(&mut self, now: Time, tokens: u32) -> bool {
        self.level.take(now, self.interval * tokens, self.interval * self.burst.max(tokens))
    }

    /// Whether there is a token.
    pub fn has(&self, now: Time) -> bool {
        self.level.has(now, self.interval, self.interval * self.burst)
    }

    /// The time at which the next token is available.
    pub fn next_token(&self) -> Time {
        self.level.full_at - self.interval * (self.burst - 1)
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
        assert!(!limiter.has(start) && limiter.has(start + Duration::from_millis(333)));
        assert!(limiter.take(start + Duration::from_millis(333)));
        assert!(!limiter.take(start + Duration::from_millis(334)));
    }

    #[test]
    fn many_tokens_are_taken_at_once() {
        let mut bucket = TokenBucket::new(3, Duration::from_millis(100));
        let at = |millis: u64| Time::from_micros(millis * 1_000);
        assert!(bucket.take_many(at(0), 2) && !bucket.take_many(at(0), 2) && bucket.take_many(at(100), 2));
        assert!(!bucket.take_many(at(300), 5) && bucket.take_many(at(400), 5));
        assert!(!bucket.take(at(500)) && bucket.take(at(700)));
    }

    #[test]
    fn a_rate_passes_a_second_of_tokens_then_the_rate() {
        let mut bucket = TokenBucket::per_second(10);
        let passed = |bucket: &mut TokenBucket, at| (0..100).filter(|_| bucket.take(Time::from_micros(at))).count();
        assert_eq!(passed(&mut bucket, 0), 10);
        assert_eq!(passed(&mut bucket, 100_000), 1);
        assert_eq!(passed(&mut bucket, 10_000_000), 10);
    }
}
