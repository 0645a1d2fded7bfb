//! Network mobility: NEMO Basic Support (RFC 3963) on Mobile IPv6 (RFC 6275) with multiple care-of addresses (RFC
//! 5648), and over IPv4-only networks (RFC 5555).

pub mod dsmip;
mod fault;
pub mod home_agent;
mod ipsec;
#[cfg(test)]
mod key_exchange_tests;
pub mod mobile_router;
mod quoted;

use crate::contract::config::nemo::{Authentication, InvitationId, SharedKey};
use crate::contract::item::KeySource;
use core::time::Duration;
use sha2::{Digest, Sha256};

/// Option code of a link-layer address that is the mobile node's own (RFC 5648 §5.6.3).
const LLA_CODE_MOBILE_NODE: u8 = 2;

/// How long the routes of a lost path are kept for packets still in transit (RFC 6275 §11.5.5, smooth handover).
pub const OLD_PATH_LIFETIME: Duration = Duration::from_secs(5);

/// Text by which people compare a key at both ends: 80 bits of its digest.
fn fingerprint(key: &SharedKey) -> String {
    let digest = Sha256::new().chain_update(b"roam6 key fingerprint").chain_update(key.spi.to_be_bytes());
    let digest = digest.chain_update(&key.secret).finalize();
    let groups =
        digest.chunks(2).take(5).map(|pair| pair.iter().map(|octet| format!("{octet:02x}")).collect::<String>());
    groups.collect::<Vec<_>>().join("-")
}

/// The secret that the preshared keys of encrypted paths are made of; `None` without authentication.
fn path_secret(authentication: &Authentication) -> Option<Vec<u8>> {
    match authentication {
        Authentication::None => None,
        Authentication::SharedKey(key) => Some(key.secret.clone()),
        Authentication::Ipsec(pair) => Some([&*pair.to_home_agent.key, &*pair.to_mobile_router.key].concat()),
    }
}

/// What the record of an exchanged key belongs to, if it is the key of a file.
fn key_source(key: &SharedKey) -> KeySource {
    let digest = Sha256::new().chain_update(key.spi.to_be_bytes()).chain_update(&key.secret).finalize();
    KeySource(InvitationId(digest.first_chunk().copied().unwrap_or_default()))
}
