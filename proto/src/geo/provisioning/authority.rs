//! The other side: what an enrolment authority and an authorisation authority check in requests, and how they answer
//! (ETSI TS 102 941 §6.2.3.2.2, §6.2.3.3.2, §6.2.3.4). For the PKI of a lab, in which both are one program: the question of one
//! to the other (authorizationValidationRequest) is a function call.

use super::encryption::{SymmetricKey, decrypt_as, encrypt_with};
use super::request::{key_tag, request_hash};
use super::{ProvisioningError, Verify, clock_difference, p256_key, public_key, read_signed, sign_payload};
use p256::SecretKey;
use roam6_wire::security::{
    AuthorizationCode, AuthorizationRequest, Certificate, CertificateResponse, EcSignature, EnrolmentCode,
    EnrolmentRequest, HashedId8, ProvisioningMessage, Psid, PsidSsp, PublicKey, SharedRequest, SignedData,
    SignerIdentifier, Ssp, SubjectAttributes,
};
use sha2::{Digest, Sha256};

/// Bits of the permissions of certificate requests (TS 102 941 annex B): to ask for credentials, and for tickets.
const MAY_ASK_FOR_CREDENTIALS: u8 = 0x80;
const MAY_ASK_FOR_TICKETS: u8 = 0x40;

/// An authority, with its keys.
#[derive(Clone, Copy)]
pub struct Authority<'a> {
    /// Its certificate.
    pub certificate: &'a Certificate<'a>,
    /// The key of its signatures.
    pub signing: &'a SecretKey,
    /// The key for messages to it.
    pub decryption: &'a SecretKey,
}

/// What an enrolment authority knows of stations.
pub trait Registry {
    /// The canonical key of a station (SEC 1 §2.3.3), by its identifier.
    fn canonical_key(&self, station: &[u8]) -> Option<Vec<u8>>;
    /// The octets of an enrolment credential that was issued.
    fn credential(&self, digest: HashedId8) -> Option<Vec<u8>>;
}

/// A request that was decrypted.
pub struct Opened {
    plaintext: Vec<u8>,
    key: SymmetricKey,
    hash: [u8; 16],
}

/// What a certificate may be issued for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant<'a> {
    /// Its key.
    pub key: PublicKey<'a>,
    /// What the station wishes and may have.
    pub attributes: SubjectAttributes<'a>,
}

/// An answer to a request for a credential or a ticket: the octets of the certificate, or why there is none.
pub enum Answer<'a> {
    /// To a request for a credential.
    Enrolment(Result<&'a [u8], EnrolmentCode>),
    /// To a request for a ticket.
    Authorization(Result<&'a [u8], AuthorizationCode>),
}

impl Authority<'_> {
    /// Decrypts a request.
    ///
    /// # Errors
    /// It is malformed, or not for this authority. Nobody could decrypt an answer.
    pub fn open(&self, octets: &[u8]) -> Result<Opened, ProvisioningError> {
        let (plaintext, key) = decrypt_as(self.certificate, self.decryption, octets)?;
        Ok(Opened { plaintext, key, hash: request_hash(octets) })
    }

    /// The encrypted answer to a request; `nonce` is random.
    pub fn answer(&self, request: &Opened, answer: &Answer<'_>, nonce: &[u8; 12], its_micros: u64) -> Vec<u8> {
        let (certificate, code) = match answer {
            Answer::Enrolment(Ok(octets)) | Answer::Authorization(Ok(octets)) => (Some(*octets), 0),
            Answer::Enrolment(Err(code)) => (None, code.0),
            Answer::Authorization(Err(code)) => (None, code.0),
        };
        let response = CertificateResponse { request_hash: request.hash, code, certificate };
        let message = match answer {
            Answer::Enrolment(_) => ProvisioningMessage::EnrolmentResponse(response),
            Answer::Authorization(_) => ProvisioningMessage::AuthorizationResponse(response),
        };
        let signed = sign_payload(&message.emit(), its_micros, Some(self.certificate), self.signing);
        encrypt_with(request.key, nonce, &signed)
    }
}

impl Opened {
    /// Checks a request for an enrolment credential.
    ///
    /// # Errors
    /// The code of the answer.
    pub fn enrolment(
        &self,
        registry: &dyn Registry,
        its_micros: u64,
        verify: Verify<'_>,
    ) -> Result<Grant<'_>, EnrolmentCode> {
        let outer = read_signed(&self.plaintext).map_err(|_| EnrolmentCode::CANT_PARSE)?;
        let Ok(ProvisioningMessage::EnrolmentRequest(inner)) = ProvisioningMessage::parse(outer.payload) else {
            return Err(EnrolmentCode::BAD_CONTENT_TYPE);
        };
        let inner = read_signed(inner).map_err(|_| EnrolmentCode::BAD_CONTENT_TYPE)?;
        let request = EnrolmentRequest::parse(inner.payload).map_err(|_| EnrolmentCode::INCOMPLETE_REQUEST)?;
        // There is no code for it; the answer has the time.
        if clock_difference(&outer, its_micros).is_some() {
            return Err(EnrolmentCode::DENIED_REQUEST);
        }
        p256_key(&request.keys.verification).ok_or(EnrolmentCode::INVALID_KEYS)?;
        if !is_self_signed(&inner, &request.keys.verification, verify) {
            return Err(EnrolmentCode::INVALID_SIGNATURE);
        }
        check_station(&outer, &request, registry, its_micros, verify)?;
        let permissions = &request.attributes.permissions;
        if request.attributes.has_others || !permissions.iter().all(is_of_a_credential) {
            return Err(EnrolmentCode::DENIED_PERMISSIONS);
        }
        Ok(Grant { key: request.keys.verification, attributes: request.attributes })
    }

    /// Checks a request for an authorisation ticket. `ea` is the enrolment authority that `registry` belongs to.
    ///
    /// # Errors
    /// The code of the answer.
    pub fn authorization(
        &self,
        aa: &Certificate<'_>,
        ea: &Authority<'_>,
        registry: &dyn Registry,
        its_micros: u64,
        verify: Verify<'_>,
    ) -> Result<Grant<'_>, AuthorizationCode> {
        let outer = read_signed(&self.plaintext).map_err(|_| AuthorizationCode::CANT_PARSE)?;
        let Ok(ProvisioningMessage::AuthorizationRequest(request)) = ProvisioningMessage::parse(outer.payload) else {
            return Err(AuthorizationCode::BAD_CONTENT_TYPE);
        };
        let shared = SharedRequest::parse(request.shared).map_err(|_| AuthorizationCode::CANT_PARSE)?;
        if clock_difference(&outer, its_micros).is_some() {
            return Err(AuthorizationCode::OUT_OF_SYNC);
        }
        let key = request.keys.verification;
        let is_bound = key_tag(&request.hmac_key, &request.keys) == shared.key_tag;
        if p256_key(&key).is_none() || !is_bound || !is_self_signed(&outer, &key, verify) {
            return Err(AuthorizationCode::KEYS_DONT_MATCH);
        }
        if shared.enrolment_authority != ea.certificate.digest() {
            return Err(AuthorizationCode::UNKNOWN_EA);
        }
        let groups = aa.issue_permissions.unwrap_or_default();
        let may = |permission: &PsidSsp<'_>| groups.iter().any(|group| group.permits(permission, 1));
        if shared.attributes.has_others || !shared.attributes.permissions.iter().all(may) {
            return Err(AuthorizationCode::AA_DENIED_PERMISSIONS);
        }
        validate(&request, ea, registry, its_micros, verify)?;
        Ok(Grant { key, attributes: shared.attributes })
    }
}

/// Whether data are signed by the key that they contain.
fn is_self_signed(signed: &SignedData<'_>, key: &PublicKey<'_>, verify: Verify<'_>) -> bool {
    signed.signer == SignerIdentifier::Own && verify(&signed.message(None), key, &signed.signature)
}

/// Whether the station that has signed a request for a credential is known.
fn check_station(
    outer: &SignedData<'_>,
    request: &EnrolmentRequest<'_>,
    registry: &dyn Registry,
    its_micros: u64,
    verify: Verify<'_>,
) -> Result<(), EnrolmentCode> {
    let is_signed = match outer.signer {
        SignerIdentifier::Own => {
            let octets = registry.canonical_key(request.station).ok_or(EnrolmentCode::UNKNOWN_ITS)?;
            let key = public_key(&octets).ok_or(EnrolmentCode::UNKNOWN_ITS)?;
            verify(&outer.message(None), &key, &outer.signature)
        }
        SignerIdentifier::Digest(digest) if digest.0 == request.station => {
            let octets = registry.credential(digest).ok_or(EnrolmentCode::UNKNOWN_ITS)?;
            let credential = Certificate::parse(&octets).map_err(|_| EnrolmentCode::UNKNOWN_ITS)?;
            if !is_usable(&credential, MAY_ASK_FOR_CREDENTIALS, its_micros) {
                return Err(EnrolmentCode::BAD_ITS_STATUS);
            }
            verify(&outer.message(Some(&credential)), &credential.verification_key, &outer.signature)
        }
        SignerIdentifier::Digest(_) | SignerIdentifier::Certificate(_) => {
            return Err(EnrolmentCode::BAD_CONTENT_TYPE);
        }
    };
    if is_signed { Ok(()) } else { Err(EnrolmentCode::INVALID_SIGNATURE) }
}

/// What the enrolment authority checks of a request for a ticket: its credential has signed the shared part.
fn validate(
    request: &AuthorizationRequest<'_>,
    ea: &Authority<'_>,
    registry: &dyn Registry,
    its_micros: u64,
    verify: Verify<'_>,
) -> Result<(), AuthorizationCode> {
    // A station that does not encrypt it discloses its credential to the authorisation authority.
    let EcSignature::Encrypted(encrypted) = request.signature else {
        return Err(AuthorizationCode::EA_BAD_CONTENT_TYPE);
    };
    let (octets, _) = decrypt_as(ea.certificate, ea.decryption, encrypted).map_err(|error| match error {
        ProvisioningError::NotTheRecipient => AuthorizationCode::WRONG_EA,
        ProvisioningError::Malformed(_) => AuthorizationCode::EA_CANT_PARSE,
        _ => AuthorizationCode::EA_DECRYPTION_FAILED,
    })?;
    let signed = SignedData::read_external(&octets).map_err(|_| AuthorizationCode::EA_CANT_PARSE)?;
    let SignerIdentifier::Digest(digest) = signed.signer else {
        return Err(AuthorizationCode::EA_BAD_CONTENT_TYPE);
    };
    let octets = registry.credential(digest).ok_or(AuthorizationCode::UNKNOWN_ITS)?;
    let credential = Certificate::parse(&octets).map_err(|_| AuthorizationCode::UNKNOWN_ITS)?;
    let is_about = signed.payload == Sha256::digest(request.shared).as_slice();
    let message = signed.message(Some(&credential));
    if !is_about || !verify(&message, &credential.verification_key, &signed.signature) {
        return Err(AuthorizationCode::INVALID_SIGNATURE);
    }
    if !is_usable(&credential, MAY_ASK_FOR_TICKETS, its_micros) {
        return Err(AuthorizationCode::DENIED_PERMISSIONS);
    }
    Ok(())
}

/// Whether a credential is valid now, and permits such requests.
fn is_usable(credential: &Certificate<'_>, bit: u8, its_micros: u64) -> bool {
    let has_bit = |permission: PsidSsp<'_>| {
        permission.psid == Psid::CERTIFICATE_REQUEST
            && matches!(permission.ssp, Ssp::Bitmap([1, bits, ..]) if bits & bit != 0)
    };
    credential.validity.includes(its_micros / 1_000_000) && credential.app_permissions.iter().any(has_bit)
}

/// Whether a permission is one that enrolment credentials have.
fn is_of_a_credential(permission: &PsidSsp<'_>) -> bool {
    let allowed = MAY_ASK_FOR_CREDENTIALS | MAY_ASK_FOR_TICKETS;
    permission.psid == Psid::CERTIFICATE_REQUEST
        && matches!(permission.ssp, Ssp::Bitmap([1, bits]) if bits & !allowed == 0)
}
