//! How a station gets its certificates from a PKI: ETSI TS 102 941 §6.2.3. Keys, random octets and the time come with each call,
//! and so does the function that verifies signatures.
//!
//! ```text
//! station                                         enrolment authority (EA)     authorisation authority (AA)
//!   │── encrypted( signed by canonical key( ────────▶│                            │
//!   │     signed by new key( station, key )))        │                            │
//!   │◀─ encrypted( signed by EA( credential )) ──────│                            │
//!   │── encrypted( signed by new key( key, shared part, ─────────────────────────▶│
//!   │     for EA only: encrypted( signed by credential( hash of shared part ))))  │
//!   │◀─ encrypted( signed by AA( ticket )) ───────────────────────────────────────│
//! ```
//!
//! The response is encrypted with the symmetric key of its request, which only the requester and the authority hold.

pub mod authority;
mod encryption;
mod request;
#[cfg(test)]
mod tests;

use core::fmt;
pub use encryption::Secrets;
use p256::SecretKey;
use p256::ecdsa::signature::Signer;
use p256::ecdsa::{Signature as OwnSignature, SigningKey};
pub use request::{
    AuthorizationParameters, EnrolmentParameters, EnrolmentSigner, Request, authorization_request, enrolment_request,
};
use roam6_wire::Malformed;
use roam6_wire::security::{
    AuthorizationCode, Certificate, Curve, CurvePoint, EnrolmentCode, Message, Psid, PublicKey, Signature, SignedData,
    SignerField, UnsignedData,
};

/// Verifies a signature.
pub type Verify<'a> = &'a dyn Fn(&Message, &PublicKey<'_>, &Signature<'_>) -> bool;

/// By how much the clocks of a station and of an authority may differ, microseconds.
const CLOCK_TOLERANCE: u64 = 300 * 1_000_000;
const OCTETS_OF_COORDINATE: usize = 32;

/// Why a request cannot be made, or an answer is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProvisioningError {
    /// Something is malformed.
    Malformed(Malformed),
    /// The certificate of an authority has no encryption key of NIST P-256.
    NoEncryptionKey,
    /// The message is encrypted for somebody else.
    NotTheRecipient,
    /// The message was changed, or is encrypted with another key.
    Undecryptable,
    /// The message is signed for another service, or has other content.
    WrongContent,
    /// Somebody else has signed the message.
    WrongSigner,
    /// The signature is invalid.
    InvalidSignature,
    /// The clock of the sender is ahead by so many seconds.
    ClockDiffers(i64),
    /// The answer is one to another request.
    OtherRequest,
    /// The enrolment authority has refused the request.
    Enrolment(EnrolmentCode),
    /// The authorisation authority has refused the request.
    Authorization(AuthorizationCode),
    /// The certificate in the answer is wrong, and in what.
    WrongCertificate(&'static str),
}

impl fmt::Display for ProvisioningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            ProvisioningError::Malformed(malformed) => return malformed.fmt(f),
            ProvisioningError::NoEncryptionKey => {
                "the certificate of the authority has no encryption key of NIST P-256"
            }
            ProvisioningError::NotTheRecipient => "the message is encrypted for somebody else",
            ProvisioningError::Undecryptable => "the message cannot be decrypted: it was changed, or has another key",
            ProvisioningError::WrongContent => "the message is no answer to such a request",
            ProvisioningError::WrongSigner => "the message is not signed by the authority",
            ProvisioningError::InvalidSignature => "the signature of the message is invalid",
            ProvisioningError::ClockDiffers(seconds) => {
                return write!(f, "the clock of the other side is {seconds} s ahead of the one here");
            }
            ProvisioningError::OtherRequest => "the answer is one to another request",
            ProvisioningError::Enrolment(code) => return write!(f, "the enrolment authority answers \"{code}\""),
            ProvisioningError::Authorization(code) => {
                return write!(f, "the authorisation authority answers \"{code}\"");
            }
            ProvisioningError::WrongCertificate(what) => return write!(f, "the certificate in the answer {what}"),
        };
        f.write_str(text)
    }
}

impl From<Malformed> for ProvisioningError {
    fn from(malformed: Malformed) -> ProvisioningError {
        ProvisioningError::Malformed(malformed)
    }
}

/// The public key of an encoding by SEC 1 §2.3.3.
fn public_key(sec1: &[u8]) -> Option<PublicKey<'_>> {
    let point = CurvePoint::from_sec1(sec1, OCTETS_OF_COORDINATE)?;
    Some(PublicKey { curve: Curve::NistP256, point })
}

/// The key of NIST P-256 that a message or certificate has.
fn p256_key(key: &PublicKey<'_>) -> Option<p256::PublicKey> {
    let sec1 = (key.curve == Curve::NistP256).then(|| key.point.sec1()).flatten()?;
    p256::PublicKey::from_sec1_bytes(&sec1).ok()
}

/// Signed data of the service of certificate requests. Without a certificate they are signed by the key that they contain.
fn sign(to_be_signed: &[u8], certificate: Option<&Certificate<'_>>, key: &SecretKey) -> Vec<u8> {
    let canonical = certificate.map(Certificate::canonical).unwrap_or_default();
    let message = Message::with_canonical(to_be_signed, &canonical);
    let signature: OwnSignature = SigningKey::from(key).sign(message.octets());
    let (r, s) = signature.split_bytes();
    let signer = certificate.map_or(SignerField::Own, |certificate| SignerField::Digest(certificate.digest()));
    UnsignedData::emit(to_be_signed, signer, (r.into(), s.into()))
}

fn sign_payload(payload: &[u8], its_micros: u64, certificate: Option<&Certificate<'_>>, key: &SecretKey) -> Vec<u8> {
    let data = UnsignedData::new(payload, Psid::CERTIFICATE_REQUEST, its_micros);
    sign(&data.to_be_signed(), certificate, key)
}

/// Reads signed data that are all of `octets`.
fn read_signed(octets: &[u8]) -> Result<SignedData<'_>, ProvisioningError> {
    let signed = SignedData::read_list(octets)?;
    let is_request = signed.header.psid == Psid::CERTIFICATE_REQUEST && signed.length == octets.len();
    if is_request { Ok(signed) } else { Err(ProvisioningError::WrongContent) }
}

/// By how many seconds the clock of the signer is ahead, if that is too much.
fn clock_difference(signed: &SignedData<'_>, its_micros: u64) -> Option<i64> {
    let time = signed.header.generation_time.unwrap_or_default();
    let seconds = |micros: u64| i64::try_from(micros / 1_000_000).unwrap_or(i64::MAX);
    let is_wrong = time.abs_diff(its_micros) > CLOCK_TOLERANCE;
    is_wrong.then(|| seconds(time).saturating_sub(seconds(its_micros)))
}
