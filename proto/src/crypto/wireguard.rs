//! Keys of WireGuard: its own are made and kept by the host, and its sessions are the kernel's. Made here is the preshared key,
//! by HKDF with SHA-256 (RFC 5869) from the key that mobile router and home agent share: so a session is made by those who have
//! that key, whatever becomes of the elliptic curve.

use crate::base::hex;
use hkdf::Hkdf;
use roam6_wire::Bid;
use roam6_wire::mobility::wireguard::PUBLIC_KEY_LENGTH;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// Octets of a fingerprint.
const FINGERPRINT_LENGTH: usize = 16;
const INFO: &[u8] = b"roam6 wireguard 1";

/// The public key of a WireGuard device (RFC 7748 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; PUBLIC_KEY_LENGTH]);

/// The key that both ends of a session have beside those of their devices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PresharedKey(pub [u8; PUBLIC_KEY_LENGTH]);

impl PresharedKey {
    /// The preshared key of the path with this BID; `shared` is what authenticates its registration.
    pub fn derive(shared: &[u8], bid: Bid, router: &PublicKey, agent: &PublicKey) -> Option<PresharedKey> {
        let mut key = [0; PUBLIC_KEY_LENGTH];
        let info = [INFO, &bid.0.to_be_bytes(), &router.0, &agent.0];
        Hkdf::<Sha256>::new(None, shared).expand_multi_info(&info, &mut key).ok()?;
        Some(PresharedKey(key))
    }
}

/// What tells the keys of a host from those of another one, and from others of the same host.
pub fn fingerprint<'a>(renewals: u64, keys: impl Iterator<Item = &'a PublicKey>) -> String {
    let mut hash = Sha256::new_with_prefix(renewals.to_be_bytes());
    keys.for_each(|PublicKey(key)| hash.update(key));
    hex::encode(hash.finalize().get(..FINGERPRINT_LENGTH).unwrap_or_default())
}

impl fmt::Debug for PresharedKey {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresharedKey")
    }
}

/// Both are written as hexadecimal digits.
macro_rules! impl_serde {
    ($kind:ident) => {
        impl Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                hex::serialize(&self.0, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$kind, D::Error> {
                let octets = hex::deserialize(deserializer)?.try_into();
                octets.map($kind).map_err(|_| serde::de::Error::custom("a key has 32 octets"))
            }
        }
    };
}
impl_serde!(PublicKey);
impl_serde!(PresharedKey);

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by OpenSSL: `openssl kdf -keylen 32 -kdfopt digest:SHA2-256 -kdfopt hexkey:... -kdfopt hexinfo:... HKDF`.
    #[test]
    fn golden_preshared_key() {
        let key = PresharedKey::derive(b"0123456789abcdefghij", Bid(1), &PublicKey([1; 32]), &PublicKey([2; 32]));
        assert_eq!(hex::encode(&key.unwrap().0), "df4947b4918b3cc54dacbb1be400e9530c2a99a71f416072a3fc200fee7c21f7");
        assert_eq!(format!("{key:?}"), "Some(PresharedKey)");
    }

    #[test]
    fn every_part_counts() {
        let (router, agent) = (PublicKey([1; 32]), PublicKey([2; 32]));
        let key = PresharedKey::derive(b"a", Bid(1), &router, &agent);
        for other in [
            PresharedKey::derive(b"b", Bid(1), &router, &agent),
            PresharedKey::derive(b"a", Bid(2), &router, &agent),
            PresharedKey::derive(b"a", Bid(1), &agent, &router),
            PresharedKey::derive(b"a", Bid(1), &router, &router),
        ] {
            assert_ne!(other, key);
        }
    }
}
