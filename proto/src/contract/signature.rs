//! Signatures that the host makes and verifies: an engine has no time for elliptic curves and holds no private keys, and a
//! recording needs neither to be replayed. Without the feature `geo-security` nothing is signed or verified, and none of the
//! types has a value.

use serde::{Deserialize, Serialize};

/// A signature to verify. The host answers with exactly one [`VerificationResult`], in the order of the requests.
#[cfg(feature = "geo-security")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationRequest {
    /// Returned in the result; never used again.
    pub id: u64,
    /// The signature algorithm.
    pub algorithm: SignatureAlgorithm,
    /// The public key: a point (SEC 1 §2.3.3), uncompressed with the curves of NIST.
    #[serde(with = "crate::base::hex")]
    pub key: Vec<u8>,
    /// What ECDSA hashes and signs.
    #[serde(with = "crate::base::hex")]
    pub message: Vec<u8>,
    /// The signature: r and s, of the same length.
    #[serde(with = "crate::base::hex")]
    pub signature: Vec<u8>,
}

/// Signature algorithms that the host knows.
#[cfg(feature = "geo-security")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignatureAlgorithm {
    /// ECDSA with NIST P-256 and SHA-256.
    EcdsaP256Sha256,
    /// ECDSA with NIST P-384 and SHA-384.
    EcdsaP384Sha384,
    /// ECDSA with Brainpool P256r1 (RFC 5639) and SHA-256.
    EcdsaBrainpoolP256r1Sha256,
    /// ECDSA with Brainpool P384r1 (RFC 5639) and SHA-384.
    EcdsaBrainpoolP384r1Sha384,
}

/// Whether a signature is valid.
#[cfg(feature = "geo-security")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationResult {
    /// That of the request.
    pub id: u64,
    /// Whether the signature is valid; `false` too if the host could not verify it.
    pub valid: bool,
}

/// A message to sign with ECDSA, NIST P-256 and SHA-256. The host answers with exactly one [`SigningResult`], in the order of
/// the requests.
#[cfg(feature = "geo-security")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningRequest {
    /// Returned in the result; never used again.
    pub id: u64,
    /// The digest of the certificate whose key signs (HashedId8).
    #[serde(with = "crate::base::hex")]
    pub certificate: Vec<u8>,
    /// What ECDSA hashes and signs.
    #[serde(with = "crate::base::hex")]
    pub message: Vec<u8>,
}

/// A signature.
#[cfg(feature = "geo-security")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningResult {
    /// That of the request.
    pub id: u64,
    /// r and s, of the same length; empty if the host could not sign.
    #[serde(with = "crate::base::hex")]
    pub signature: Vec<u8>,
}

/// A message to sign: there is none.
#[cfg(not(feature = "geo-security"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SigningRequest {}

/// A signature: there is none.
#[cfg(not(feature = "geo-security"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SigningResult {}

/// A signature to verify: there is none.
#[cfg(not(feature = "geo-security"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerificationRequest {}

/// Whether a signature is valid: there is none.
#[cfg(not(feature = "geo-security"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerificationResult {}
