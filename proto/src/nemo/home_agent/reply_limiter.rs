//! How often updates that change nothing are answered: forged ones, copies of old ones, and refused ones, whose copies
//! are as good as the first. Status 146 is signed (RFC 4285 §5.1.1), so that anybody could have this home agent sign and
//! send as fast as packets come.

use super::rate_limiter::RateLimiter;
use crate::base::rng::Entropy;
use crate::base::time::Time;
use core::time::Duration;
use roam6_wire::HomeAddress;

/// Answers in the name of one home address, at once.
const BURST: u32 = 5;
/// Between answers in the name of one home address after that.
const INTERVAL: Duration = Duration::from_secs(1);
/// Answers to forged updates each second, of all home addresses together.
const FORGED_PER_SECOND: u64 = 100;
/// Buckets; home addresses that share one are more than a flood in the name of a few can reach.
const BUCKETS: usize = 4096;

/// Limits of answers. Forged updates have their own: a flood of them leaves the answers of who has the key alone.
#[derive(Debug)]
pub(super) struct ReplyLimiter {
    forged: HashedBuckets,
    forged_total: RateLimiter,
    authentic: HashedBuckets,
}

/// A token bucket for each home address, in bounded room.
#[derive(Debug, Default)]
struct HashedBuckets {
    /// Nobody outside knows which home addresses share a bucket.
    seed: u64,
    /// When each bucket will be full again; empty before the first use.
    full_at: Vec<Time>,
}

impl Default for ReplyLimiter {
    fn default() -> ReplyLimiter {
        let forged_in_all = RateLimiter::new(FORGED_PER_SECOND);
        ReplyLimiter {
            forged: HashedBuckets::default(),
            forged_total: forged_in_all,
            authentic: HashedBuckets::default(),
        }
    }
}

impl ReplyLimiter {
    /// Whether an update in the name of `home` may be answered, whose authenticator is wrong.
    pub(super) fn allow_forged(&mut self, now: Time, home: HomeAddress, entropy: &mut Entropy) -> bool {
        self.forged.allow(now, home, entropy) && self.forged_total.allow(now)
    }

    /// Whether one may be answered that is authentic, yet too old or refused.
    pub(super) fn allow_authentic(&mut self, now: Time, home: HomeAddress, entropy: &mut Entropy) -> bool {
        self.authentic.allow(now, home, entropy)
    }
}

impl HashedBuckets {
    fn allow(&mut self, now: Time, home: HomeAddress, entropy: &mut Entropy) -> bool {
        if self.full_at.is_empty() {
            self.seed = entropy.next_u64();
            self.full_at.resize(BUCKETS, Time::ZERO);
        }
        let bits = home.0.to_bits();
        let mixed = ((bits ^ bits >> 64) as u64 ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let at = usize::try_from(mixed).unwrap_or(0) % BUCKETS;
        let Some(full_at) = self.full_at.get_mut(at) else { return false };
        let full = (*full_at).max(now) + INTERVAL;
        if full > now + INTERVAL * BURST {
            return false;
        }
        *full_at = full;
        true
    }
}
