//! Certificates of ITS stations in files, and their signatures (IEEE 1609.2, ETSI TS 103 097).

use p256::ecdsa::signature::Verifier;
use p256::ecdsa::{Signature, VerifyingKey};
use roam6_wire::security::{Certificate, Curve, Message, PublicKey, limits};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads the octets of a certificate in COER from a file.
///
/// # Errors
/// The file cannot be read, or is no certificate.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let what = |why: String| format!("{}: {why}", path.display());
    let mut octets = Vec::new();
    let most = u64::try_from(limits::CERTIFICATE).unwrap_or(u64::MAX);
    let read = File::open(path).and_then(|file| file.take(most.saturating_add(1)).read_to_end(&mut octets));
    read.map_err(|error| what(error.to_string()))?;
    Certificate::parse(&octets).map_err(|error| what(error.to_string()))?;
    Ok(octets)
}

/// Verifies a signature; `None` if one of the curves is not NIST P-256.
pub(crate) fn verify(
    message: &Message,
    key: &PublicKey<'_>,
    signature: &roam6_wire::security::Signature<'_>,
) -> Option<bool> {
    if key.curve != Curve::NistP256 || signature.curve != Curve::NistP256 {
        return None;
    }
    let point = key.point.sec1()?;
    let signature = Signature::from_slice(&[signature.r.x, signature.s].concat());
    let (Ok(key), Ok(signature)) = (VerifyingKey::from_sec1_bytes(&point), signature) else { return Some(false) };
    Some(key.verify(message.octets(), &signature).is_ok())
}
