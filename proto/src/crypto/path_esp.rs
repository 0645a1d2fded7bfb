//! Keys of the ESP associations that carry the data of a path: ephemeral elliptic curve Diffie-Hellman on P-256 (SP 800-56A
//! §6.1.2.2), and HKDF with SHA-256 (RFC 5869), salted with the key that mobile router and home agent share. So who learns that
//! key later cannot read what was recorded, and who breaks the curve needs the key too. Each path and direction has a key of its
//! own, for AES-GCM (RFC 4106): no nonce is used twice with a key, whatever the two ends count.

use super::key_agreement::{EphemeralSecret, Point};
use crate::base::rng::Entropy;
use roam6_wire::mobility::EspKey;
use roam6_wire::mobility::esp::FIRST_SPI;
use roam6_wire::{Bid, HomeAddress};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;

/// Octets of a key: that of AES-128, and the salt of the nonces (RFC 4106 §8.1).
pub const KEY_LENGTH: usize = 20;

const INFO: &[u8] = b"roam6 esp 1";

/// What one end tells the other: the SPI by which it receives, and its ephemeral public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EspEnd {
    /// The SPI.
    pub spi: u32,
    /// The public key.
    pub point: Point,
}

/// What the keys of a path are bound to.
#[derive(Debug, Clone, Copy)]
pub struct EspAgreement<'a> {
    /// The secret that authenticates the registration.
    pub authenticated_by: &'a [u8],
    /// The home address.
    pub home: HomeAddress,
    /// The path.
    pub bid: Bid,
    /// The mobile router.
    pub router: EspEnd,
    /// The home agent.
    pub agent: EspEnd,
}

/// The key of an association, with the salt behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AssociationKey(pub [u8; KEY_LENGTH]);

/// The keys of both directions of a path, as one end uses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EspKeys {
    /// Of what is received.
    pub inbound: AssociationKey,
    /// Of what is sent.
    pub outbound: AssociationKey,
}

impl From<&EspKey> for EspEnd {
    fn from(option: &EspKey) -> EspEnd {
        EspEnd { spi: option.spi, point: Point(option.point) }
    }
}

impl EspEnd {
    /// A new private key, and what is told of it: its public key, and a random SPI that is not reserved (RFC 4303 §2.1).
    pub fn generate(entropy: &mut Entropy) -> Option<(EphemeralSecret, EspEnd)> {
        let secret = EphemeralSecret::generate(entropy);
        let random = entropy.below((1 << 32) - u64::from(FIRST_SPI));
        let spi = u32::try_from(random).ok()?.checked_add(FIRST_SPI)?;
        let end = EspEnd { spi, point: secret.point()? };
        Some((secret, end))
    }

    /// The option that tells it; `answers` is the SPI of the offer that it answers, 0 for an offer.
    pub fn option(&self, bid: Bid, answers: u32) -> EspKey {
        EspKey { bid, spi: self.spi, answers, point: self.point.0 }
    }
}

impl EspKeys {
    /// The keys that this private key and the other end's public key give; `None` if that is not on the curve. The caller says by
    /// `is_agent` whose private key this is.
    pub fn agree(secret: &EphemeralSecret, agreement: &EspAgreement<'_>, is_agent: bool) -> Option<EspKeys> {
        let theirs = if is_agent { agreement.router.point } else { agreement.agent.point };
        let shared = secret.shared_with(&theirs)?.extract::<Sha256>(Some(agreement.authenticated_by));
        let derive = |direction: u8| {
            let EspAgreement { home, bid, router, agent, .. } = agreement;
            let (home, bid) = (home.0.octets(), bid.0.to_be_bytes());
            let (of_router, of_agent) = (router.spi.to_be_bytes(), agent.spi.to_be_bytes());
            let info = [
                INFO,
                &home,
                &bid,
                &of_router,
                &router.point.0,
                &of_agent,
                &agent.point.0,
                core::slice::from_ref(&direction),
            ];
            let mut key = [0; KEY_LENGTH];
            shared.expand_multi_info(&info, &mut key).ok().map(|()| AssociationKey(key))
        };
        let (to_agent, to_router) = (derive(0)?, derive(1)?);
        Some(match is_agent {
            true => EspKeys { inbound: to_agent, outbound: to_router },
            false => EspKeys { inbound: to_router, outbound: to_agent },
        })
    }
}

impl fmt::Debug for AssociationKey {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AssociationKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hex;

    fn end(spi: u32, secret: &EphemeralSecret) -> EspEnd {
        EspEnd { spi, point: secret.point().unwrap() }
    }

    fn agreement(router: &EphemeralSecret, agent: &EphemeralSecret) -> EspAgreement<'static> {
        EspAgreement {
            authenticated_by: b"0123456789abcdefghij",
            home: HomeAddress("2001:db8::100".parse().unwrap()),
            bid: Bid(1),
            router: end(0x1111, router),
            agent: end(0x2222, agent),
        }
    }

    /// The private keys are those of RFC 5903 §8.1; the keys were made of its shared secret by HMAC alone, in Python.
    #[test]
    fn golden_keys() {
        let router =
            EphemeralSecret::from_hex("c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433").unwrap();
        let agent =
            EphemeralSecret::from_hex("c6ef9c5d78ae012a011164acb397ce2088685d8f06bf9be0b283ab46476bee53").unwrap();
        let both = agreement(&router, &agent);
        let ours = EspKeys::agree(&router, &both, false).unwrap();
        assert_eq!(hex::encode(&ours.outbound.0), "c0f1c4573d7109e1d12230c5e67dbee25bca850d");
        assert_eq!(hex::encode(&ours.inbound.0), "83296280b9ba5f9d488443517dc603c097a203c1");
        let theirs = EspKeys::agree(&agent, &both, true).unwrap();
        assert_eq!((theirs.inbound, theirs.outbound), (ours.outbound, ours.inbound));
        assert_eq!(format!("{:?}", ours.inbound), "AssociationKey");
    }

    #[test]
    fn every_part_counts() {
        let mut entropy = Entropy::seed_from_u64(1);
        let [router, agent, other] = core::array::from_fn(|_| EphemeralSecret::generate(&mut entropy));
        let both = agreement(&router, &agent);
        let keys = EspKeys::agree(&router, &both, false).unwrap();
        let home = HomeAddress("2001:db8::101".parse().unwrap());
        for changed in [
            EspAgreement { authenticated_by: b"another", ..both },
            EspAgreement { home, ..both },
            EspAgreement { bid: Bid(2), ..both },
            EspAgreement { router: end(0x1112, &router), ..both },
            EspAgreement { agent: end(0x2223, &agent), ..both },
            EspAgreement { router: end(0x1111, &other), ..both },
            EspAgreement { agent: end(0x2222, &other), ..both },
        ] {
            let others = EspKeys::agree(&router, &changed, false).unwrap();
            assert!(others.inbound != keys.inbound && others.outbound != keys.outbound, "{changed:?}");
        }
        assert_ne!(EspKeys::agree(&other, &both, false), Some(keys));
        assert_ne!(keys.inbound, keys.outbound);
    }

    #[test]
    fn point_off_the_curve_is_refused() {
        let secret = EphemeralSecret::generate(&mut Entropy::seed_from_u64(1));
        let both = agreement(&secret, &secret);
        let off = EspEnd { point: Point([0xff; 33]), ..both.agent };
        assert_eq!(EspKeys::agree(&secret, &EspAgreement { agent: off, ..both }, false), None);
        assert!(!off.point.is_on_curve() && both.agent.point.is_on_curve());
    }
}
