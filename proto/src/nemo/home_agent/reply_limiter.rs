//! Rate limits of answers to updates that change nothing: forged, replayed and rejected ones, whose copies an attacker
//! may send. Status 146 is authenticated (RFC 4285 §5.1.1), so that any host could make this home agent sign and send
//! at line rate.

use crate::base::token_bucket::BucketLevel;
use crate::{Entropy, Time, TokenBucket};
use core::time::Duration;
use roam6_wire::HomeAddress;

/// Burst of answers for one home address.
const BURST: u32 = 5;
/// Interval of answers for one home address after the burst.
const INTERVAL: Duration = Duration::from_secs(1);
/// Answers to forged updates per second, for all home addresses together.
const FORGED_PER_SECOND: u32 = 100;
/// Number of buckets, so large that a flood for a few home addresses rarely hits another's bucket.
const BUCKETS: usize = 4096;

/// Rate limits of answers. Forged updates have their own, so that a flood of them does not affect answers to holders
/// of the key.
#[derive(Debug)]
pub(super) struct ReplyLimiter {
    forged: HashedBuckets,
    forged_total: TokenBucket,
    authentic: HashedBuckets,
}

/// Token buckets, selected by a hash of the home address.
#[derive(Debug, Default)]
struct HashedBuckets {
    /// Makes it unpredictable which home addresses share a bucket.
    seed: u64,
    /// The level of each bucket; empty before the first use.
    levels: Vec<BucketLevel>,
}

impl Default for ReplyLimiter {
    fn default() -> ReplyLimiter {
        let forged_in_all = TokenBucket::per_second(FORGED_PER_SECOND);
        ReplyLimiter {
            forged: HashedBuckets::default(),
            forged_total: forged_in_all,
            authentic: HashedBuckets::default(),
        }
    }
}

impl ReplyLimiter {
    /// Whether an update for `home` with a wrong authenticator may be answered.
    pub(super) fn allow_forged(&mut self, now: Time, home: HomeAddress, entropy: &mut Entropy) -> bool {
        self.forged.allow(now, home, entropy) && self.forged_total.take(now)
    }

    /// Whether an authentic update that is stale or rejected may be answered.
    pub(super) fn allow_authentic(&mut self, now: Time, home: HomeAddress, entropy: &mut Entropy) -> bool {
        self.authentic.allow(now, home, entropy)
    }
}

impl HashedBuckets {
    fn allow(&mut self, now: Time, home: HomeAddress, entropy: &mut Entropy) -> bool {
        if self.levels.is_empty() {
            self.seed = entropy.next_u64();
            self.levels.resize(BUCKETS, BucketLevel::default());
        }
        let bits = home.0.to_bits();
        let mixed = ((bits ^ bits >> 64) as u64 ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let at = usize::try_from(mixed).unwrap_or(0) % BUCKETS;
        self.levels.get_mut(at).is_some_and(|level| level.take(now, INTERVAL, INTERVAL * BURST))
    }
}
