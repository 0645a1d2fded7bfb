//! The only source of randomness of an engine: a generator with a given seed, so that a run can be reproduced.

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{CryptoRng, RngCore, SeedableRng};

/// A cryptographically secure generator with a given seed.
#[derive(Debug, Clone)]
pub struct Entropy(ChaCha12Rng);

impl Entropy {
    /// A generator with this seed; the daemon takes the seed from the kernel.
    pub fn from_seed(seed: [u8; 32]) -> Entropy {
        Entropy(ChaCha12Rng::from_seed(seed))
    }

    /// A generator with a short seed, for the simulator and tests.
    pub fn seed_from_u64(seed: u64) -> Entropy {
        Entropy(ChaCha12Rng::seed_from_u64(seed))
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 to `bound - 1`; 0 when `bound` is 0. The bias is below 2^-32 for bounds up to 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        u64::try_from((u128::from(self.next_u64()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// A new generator seeded by this one, for a part of the engine.
    pub fn fork(&mut self) -> Entropy {
        let mut seed = [0; 32];
        self.fill(&mut seed);
        Entropy::from_seed(seed)
    }

    /// Another generator that consumes no output of this one, so that recordings stay valid when a part of an engine begins
    /// to need random numbers.
    pub(crate) fn independent(&self) -> Entropy {
        let mut other = self.0.clone();
        other.set_stream(1);
        Entropy(other)
    }

    /// The generator as the traits of cryptographic crates.
    pub(crate) fn rng(&mut self) -> &mut (impl RngCore + CryptoRng + use<>) {
        &mut self.0
    }

    /// Fills `bytes` with random octets.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}
