//! Certificates of ITS stations in files, and their signatures (IEEE 1609.2, ETSI TS 103 097).

use roam6_proto::geo::security::verification_request;
use roam6_wire::security::{Certificate, Message, PublicKey, Signature, limits};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds of UTC from 1970 to the epoch of ITS times, 2004, less the leap seconds since then, which TAI counts.
pub(crate) const ITS_EPOCH: u64 = 1_072_915_200 - 5;

/// Seconds of TAI since 2004.
#[allow(clippy::disallowed_methods, reason = "validity of files, not a decision of an engine")]
pub(crate) fn its_now() -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    unix.saturating_sub(ITS_EPOCH)
}

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

/// Whether a signature is valid.
pub(crate) fn verify(message: &Message, key: &PublicKey<'_>, signature: &Signature<'_>) -> bool {
    let request = verification_request(message, key, signature);
    request.is_ok_and(|request| roam6_linux::signature::verify(&request).valid)
}
