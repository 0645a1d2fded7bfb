//! `roam6 geo cert enrol`, `authorize`, `register` and `serve`: certificates from a PKI by HTTP (ETSI TS 102 941), and the PKI of
//! a lab.

pub(super) mod args;
mod client;
mod http;
mod server;
mod stations;
#[cfg(test)]
mod tests;

pub(super) use client::{authorize, enrol};
pub(super) use server::serve;
pub(super) use stations::register;

use crate::certificate::verify;
use crate::exit::Failure;
use crate::files;
use p256::SecretKey;
use roam6_wire::security::{Message, PublicKey, Signature};
use rsa::rand_core::OsRng;
use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds of TAI since 2004.
#[allow(clippy::disallowed_methods, reason = "a command of the user, not an engine")]
fn its_micros() -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = crate::certificate::ITS_EPOCH.saturating_mul(1_000_000);
    u64::try_from(unix.as_micros()).unwrap_or(u64::MAX).saturating_sub(epoch)
}

/// Random octets.
fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut octets = [0; N];
    files::random(&mut octets)?;
    Ok(octets)
}

fn random_key() -> SecretKey {
    SecretKey::random(&mut OsRng)
}

fn is_valid(message: &Message, key: &PublicKey<'_>, signature: &Signature<'_>) -> bool {
    verify(message, key, signature)
}
