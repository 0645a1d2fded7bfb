//! Responder validators: a keyed hash in place of per-initiator state (RFC 5533 §7.10.1, §7.17.1).

use crate::{AddressPair, Entropy, Time};
use core::time::Duration;
use hmac::{Hmac, Mac};
use roam6_wire::shim6::{Fork, Nonce, Tag};
use sha2::Sha256;

/// VALIDATOR_MIN_LIFETIME (RFC 5533 §14).
const VALIDATOR_LIFETIME_SECONDS: u32 = 30;
/// Lifetime of a secret: longer than a validator's, so that two secrets suffice.
const SECRET_LIFETIME: Duration = Duration::from_secs(60);
/// Octets of a validator.
const VALIDATOR_LENGTH: usize = 16;

/// The message exchange that a validator belongs to; it is valid for no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// Answer to an I1.
    R1 {
        /// The initiator's context tag.
        tag: Tag,
        /// ULIDs, ours as `local`.
        ulids: AddressPair,
        /// Of the packet, as we see them.
        locators: AddressPair,
        /// Forked instance.
        fork: Fork,
    },
    /// Answer to a message with an unknown context tag.
    R1bis {
        /// The unknown tag.
        tag: Tag,
        /// Of the packet, as we see them.
        locators: AddressPair,
    },
}

/// Issues and verifies validators.
#[derive(Debug)]
pub(super) struct Validators {
    secret: [u8; 32],
    former_secret: [u8; 32],
    rotated_at: Time,
    /// Random start value of the responder nonce.
    nonce_base: u32,
}

impl Validators {
    /// Starts with a random secret.
    pub(super) fn new(entropy: &mut Entropy) -> Validators {
        let mut validators = Validators {
            secret: [0; 32],
            former_secret: [0; 32],
            rotated_at: Time::ZERO,
            nonce_base: entropy.next_u64() as u32,
        };
        entropy.fill(&mut validators.secret);
        entropy.fill(&mut validators.former_secret);
        validators
    }

    /// Issues a validator for `subject`, with the responder nonce that encodes its time.
    pub(super) fn issue(&mut self, now: Time, subject: Subject, entropy: &mut Entropy) -> (Nonce, Vec<u8>) {
        if now.since(self.rotated_at) >= SECRET_LIFETIME {
            self.former_secret = self.secret;
            entropy.fill(&mut self.secret);
            self.rotated_at = now;
        }
        let nonce = Nonce(self.nonce_base.wrapping_add(seconds(now)));
        (nonce, mac(&self.secret, nonce, subject).unwrap_or_default())
    }

    /// Whether `validator` was issued for `subject` within its lifetime.
    pub(super) fn check(&self, now: Time, nonce: Nonce, subject: Subject, validator: &[u8]) -> bool {
        let issued = nonce.0.wrapping_sub(self.nonce_base);
        let fresh = seconds(now).checked_sub(issued).is_some_and(|age| age <= VALIDATOR_LIFETIME_SECONDS);
        // Validators of the second of the rotation may be of either secret.
        let secrets = [
            (&self.secret, issued >= seconds(self.rotated_at)),
            (&self.former_secret, issued <= seconds(self.rotated_at)),
        ];
        fresh
            && validator.len() == VALIDATOR_LENGTH
            && secrets.into_iter().filter(|(_, used)| *used).any(|(secret, _)| {
                hasher(secret, nonce, subject).is_some_and(|hasher| hasher.verify_truncated_left(validator).is_ok())
            })
    }
}

fn seconds(time: Time) -> u32 {
    (time.as_micros() / 1_000_000) as u32
}

fn mac(secret: &[u8; 32], nonce: Nonce, subject: Subject) -> Option<Vec<u8>> {
    let whole = hasher(secret, nonce, subject)?.finalize().into_bytes();
    whole.get(..VALIDATOR_LENGTH).map(<[u8]>::to_vec)
}

fn hasher(secret: &[u8; 32], nonce: Nonce, subject: Subject) -> Option<Hmac<Sha256>> {
    let mut hasher = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    hasher.update(&nonce.0.to_be_bytes());
    match subject {
        Subject::R1 { tag, ulids, locators, fork } => {
            [ulids.local, ulids.peer, locators.local, locators.peer].iter().for_each(|at| hasher.update(&at.octets()));
            hasher.update(&fork.0.to_be_bytes());
            hasher.update(&tag.bits().to_be_bytes());
            hasher.update(&[1]);
        }
        Subject::R1bis { tag, locators } => {
            [locators.local, locators.peer].iter().for_each(|at| hasher.update(&at.octets()));
            hasher.update(&tag.bits().to_be_bytes());
            hasher.update(&[2]);
        }
    }
    Some(hasher)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(local: &str, peer: &str) -> AddressPair {
        AddressPair { local: local.parse().unwrap(), peer: peer.parse().unwrap() }
    }

    #[test]
    fn a_validator_is_valid_for_30_seconds_and_its_subject_only() {
        let mut entropy = Entropy::seed_from_u64(1);
        let ulids = pair("2001:db8::1", "2001:db8::2");
        let first = Subject::R1 { tag: Tag::from_low_bits(7), ulids, locators: ulids, fork: Fork::NONE };
        for start in [0, 59, 60, 119u64] {
            let mut validators = Validators::new(&mut entropy);
            let at = |seconds: u64| Time::ZERO + Duration::from_secs(start + seconds);
            let (nonce, validator) = validators.issue(at(0), first, &mut entropy);
            assert!(validators.check(at(30), nonce, first, &validator));
            assert!(!validators.check(at(31), nonce, first, &validator), "too old");
            assert!(!validators.check(at(1), Nonce(nonce.0.wrapping_add(1)), first, &validator));
            assert!(!validators.check(at(1), nonce, first, &validator[1..]));
            let other = Subject::R1 { tag: Tag::from_low_bits(8), ulids, locators: ulids, fork: Fork::NONE };
            assert!(!validators.check(at(1), nonce, other, &validator));
            let moved = pair("2001:db8::1", "2001:db8::3");
            let other = Subject::R1 { tag: Tag::from_low_bits(7), ulids, locators: moved, fork: Fork::NONE };
            assert!(!validators.check(at(1), nonce, other, &validator));
            let lost = Subject::R1bis { tag: Tag::from_low_bits(7), locators: ulids };
            assert!(!validators.check(at(1), nonce, lost, &validator));
            validators.issue(at(20), lost, &mut entropy);
            assert!(validators.check(at(25), nonce, first, &validator), "the secret may change meanwhile");
        }
    }
}
