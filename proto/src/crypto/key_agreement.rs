//! A new shared key of a mobile router and its home agent: ephemeral elliptic curve Diffie-Hellman on P-256 (SP 800-56A
//! §6.1.2.2), and HKDF with SHA-256 (RFC 5869), salted with the key that authenticates the exchange.

use crate::base::hex;
use crate::base::rng::Entropy;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use roam6_wire::HomeAddress;
use roam6_wire::mobility::key_exchange::POINT_LENGTH;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;

/// Octets of a new key: as many as the hash of its authenticator has.
pub const KEY_LENGTH: usize = 20;

const INFO: &[u8] = b"roam6 key exchange 1";
/// Octets of a private key.
const SECRET_LENGTH: usize = 32;

/// A public key in compressed form; not known to be on the curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point(pub [u8; POINT_LENGTH]);

/// The private key of one exchange.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EphemeralSecret(#[serde(with = "hex")] Vec<u8>);

/// What a new key is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Agreement<'a> {
    /// The secret that authenticates the exchange.
    pub authenticated_by: &'a [u8],
    /// The home address.
    pub home: HomeAddress,
    /// The mobile router's public key.
    pub router: Point,
    /// The home agent's public key.
    pub agent: Point,
    /// The SPI of the new key.
    pub spi: u32,
}

impl EphemeralSecret {
    /// A new private key.
    pub fn generate(entropy: &mut Entropy) -> EphemeralSecret {
        let mut octets = [0; SECRET_LENGTH];
        loop {
            entropy.fill(&mut octets);
            // All but one of 2^32 numbers are keys.
            if p256::SecretKey::from_slice(&octets).is_ok() {
                return EphemeralSecret(octets.to_vec());
            }
        }
    }

    /// Its public key; `None` if it is none, as one from a damaged file.
    pub fn point(&self) -> Option<Point> {
        let encoded = self.key()?.public_key().to_encoded_point(true);
        encoded.as_bytes().try_into().ok().map(Point)
    }

    /// The new key that this private key and the other end's public key give; `None` if that is not on the curve. The
    /// caller says by `is_agent` whose private key this is.
    pub fn agree(&self, agreement: &Agreement<'_>, is_agent: bool) -> Option<[u8; KEY_LENGTH]> {
        let theirs = if is_agent { agreement.router } else { agreement.agent };
        let shared = self.shared_with(&theirs)?;
        let home = agreement.home.0.octets();
        let spi = agreement.spi.to_be_bytes();
        let info = [INFO, &home, &agreement.router.0, &agreement.agent.0, &spi];
        let mut key = [0; KEY_LENGTH];
        shared
            .extract::<Sha256>(Some(agreement.authenticated_by))
            .expand_multi_info(&info, &mut key)
            .is_ok()
            .then_some(key)
    }

    /// What this private key and the other end's public key have in common; `None` if that is not on the curve.
    pub(super) fn shared_with(&self, theirs: &Point) -> Option<p256::ecdh::SharedSecret> {
        let theirs = p256::PublicKey::from_sec1_bytes(&theirs.0).ok()?;
        Some(p256::ecdh::diffie_hellman(self.key()?.to_nonzero_scalar(), theirs.as_affine()))
    }

    #[cfg(test)]
    pub(super) fn from_hex(text: &str) -> Option<EphemeralSecret> {
        hex::decode(text).map(EphemeralSecret)
    }

    fn key(&self) -> Option<p256::SecretKey> {
        p256::SecretKey::from_slice(&self.0).ok()
    }
}

impl Point {
    /// Whether it is on the curve.
    pub fn is_on_curve(&self) -> bool {
        p256::PublicKey::from_sec1_bytes(&self.0).is_ok()
    }
}

impl fmt::Debug for EphemeralSecret {
    /// Never shows the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EphemeralSecret")
    }
}

impl Serialize for Point {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        hex::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Point {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Point, D::Error> {
        let octets = hex::deserialize(deserializer)?;
        let point = octets.try_into().map(Point);
        point.map_err(|_| serde::de::Error::custom(format!("a point has {POINT_LENGTH} octets")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> EphemeralSecret {
        EphemeralSecret(hex::decode(text).unwrap())
    }

    fn agreement(router: &EphemeralSecret, agent: &EphemeralSecret) -> Agreement<'static> {
        Agreement {
            authenticated_by: b"0123456789abcdefghij",
            home: HomeAddress("2001:db8::100".parse().unwrap()),
            router: router.point().unwrap(),
            agent: agent.point().unwrap(),
            spi: 0x1234_5678,
        }
    }

    /// The private keys and public keys are those of RFC 5903 §8.1; the key was made by OpenSSL.
    #[test]
    fn golden_key() {
        let router = secret("c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433");
        let agent = secret("c6ef9c5d78ae012a011164acb397ce2088685d8f06bf9be0b283ab46476bee53");
        let both = agreement(&router, &agent);
        let points = [both.router, both.agent].map(|point| hex::encode(&point.0));
        assert_eq!(points[0], "03dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c3772581180");
        assert_eq!(points[1], "03d12dfb5289c8d4f81208b70270398c342296970a0bccb74c736fc7554494bf63");
        let key = router.agree(&both, false).unwrap();
        assert_eq!(hex::encode(&key), "38ad84c792b8f1f615b6b870bc6df8c9ed34e8ff");
        assert_eq!(agent.agree(&both, true), Some(key));
    }

    #[test]
    fn every_part_of_the_agreement_counts() {
        let mut entropy = Entropy::seed_from_u64(1);
        let [router, agent, other] = core::array::from_fn(|_| EphemeralSecret::generate(&mut entropy));
        let both = agreement(&router, &agent);
        let key = router.agree(&both, false);
        assert!(key.is_some() && key == agent.agree(&both, true));
        let home = HomeAddress("2001:db8::101".parse().unwrap());
        for changed in [
            Agreement { authenticated_by: b"another", ..both },
            Agreement { home, ..both },
            Agreement { spi: 256, ..both },
            Agreement { router: other.point().unwrap(), ..both },
            Agreement { agent: other.point().unwrap(), ..both },
        ] {
            assert_ne!(router.agree(&changed, false), key);
        }
        assert_ne!(other.agree(&both, false), key);
    }

    #[test]
    fn points_off_the_curve_and_no_keys_are_refused() {
        let router = EphemeralSecret::generate(&mut Entropy::seed_from_u64(1));
        let both = agreement(&router, &router);
        let mut octets = both.agent.0;
        for off in [[0; POINT_LENGTH], [0xff; POINT_LENGTH], {
            octets[0] = 4;
            octets
        }] {
            assert_eq!(router.agree(&Agreement { agent: Point(off), ..both }, false), None, "{off:?}");
        }
        for text in ["", "00", &"00".repeat(32), &"ff".repeat(32), &"01".repeat(33)] {
            assert!(secret(text).point().is_none() && secret(text).agree(&both, false).is_none(), "{text}");
        }
        assert_eq!(format!("{router:?}"), "EphemeralSecret");
    }
}
