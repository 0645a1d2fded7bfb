//! How often updates that change nothing are answered: forged ones, copies of old ones, and refused ones, whose copies
//! are as good as the first. Status 146 is signed (RFC 4285 §5.1.1), so that anybody could have this home agent sign and
//! send as fast as packets come.

use super::limiter::Limiter;
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
pub(super) struct Unproven {
    forged: Buckets,
    forged_in_all: Limiter,
    authentic: Buckets,
}

/// A token bucket for each home address, in bounded room.
#[derive(Debug, Default)]
struct Buckets {
    /// Nobody outside knows which home addresses share a bucket.
    seed: u64,
    /// When each bucket will be full again; empty before the first use.
    full_at: Vec<Time>,
}

impl Default for Unproven {
    fn default() -> Unproven {
        let forged_in_all = Limiter::new(FORGED_PER_SECOND);
        Unproven { forged: Buckets::default(), forged_in_all, authentic: Buckets::default() }
    }
}

impl Unproven {
    /// Whether an update in the name of `home` may be answered, whose authenticator is wrong.
    pub(super) fn pass_forged(&mut self, now: Time, home: HomeAddress, entropy: &mut Entropy) -> bool {
        self.forged.pass(now, home, entropy) && self.forged_in_all.pass(now)
    }

    /// Whether one may be answered that is authentic, yet too old or refused.
    pub(super) fn pass_authentic(&mut self, now: Time, home: HomeAddress, entropy: &mut Entropy) -> bool {
        self.authentic.pass(now, home, entropy)
    }
}

impl Buckets {
    fn pass(&mut self, now: Time, home: HomeAddress, entropy: &mut Entropy) -> bool {
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
