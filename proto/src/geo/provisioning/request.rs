//! The requests of a station, and the answers to them.

use super::encryption::{SymmetricKey, decrypt_with, encrypt_for};
use super::{
    ProvisioningError, Secrets, Verify, clock_difference, p256_key, public_key, read_signed, sign, sign_payload,
};
use hmac::{Hmac, Mac};
use p256::SecretKey;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use roam6_wire::security::{
    AuthorizationCode, AuthorizationRequest, Certificate, CertificateResponse, EcSignature, EnrolmentCode,
    EnrolmentRequest, HashedId8, IssuerIdentifier, ProvisioningMessage, Psid, PsidSsp, PublicKeys, SharedRequest,
    SignerIdentifier, Ssp, SubjectAttributes, UnsignedData, ValidityPeriod,
};
use sha2::{Digest, Sha256};

/// What the holder of an enrolment credential may sign (TS 102 941 annex B): requests for credentials and for tickets.
const CREDENTIAL: PsidSsp<'static> = PsidSsp { psid: Psid::CERTIFICATE_REQUEST, ssp: Ssp::Bitmap(&[1, 0xc0]) };

/// A request that waits for its answer.
#[derive(Debug, Clone)]
pub struct Request {
    /// The octets to send.
    pub octets: Vec<u8>,
    kind: Kind,
    key: SymmetricKey,
    /// The hashes by which answers name the request: that of the encrypted message, and that of the signed data in it. The standard
    /// says the latter, and authorities that are in use the former.
    hashes: [[u8; 16]; 2],
    /// The key that the certificate is asked for.
    public: p256::PublicKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Enrolment,
    Authorization,
}

/// Who signs a request for an enrolment credential.
#[derive(Clone, Copy)]
pub enum EnrolmentSigner<'a> {
    /// A station with this identifier that has no credential yet, with its canonical key.
    Station(&'a [u8], &'a SecretKey),
    /// The holder of a credential, with its key.
    Credential(&'a Certificate<'a>, &'a SecretKey),
}

/// A request for an enrolment credential (§6.2.3.2.1).
pub struct EnrolmentParameters<'a> {
    /// The enrolment authority.
    pub authority: &'a Certificate<'a>,
    /// The requester.
    pub signer: EnrolmentSigner<'a>,
    /// The new key.
    pub key: &'a SecretKey,
    /// The time: microseconds of TAI since 2004.
    pub its_micros: u64,
}

/// A request for an authorisation ticket (§6.2.3.3.1).
pub struct AuthorizationParameters<'a> {
    /// The authorisation authority.
    pub authority: &'a Certificate<'a>,
    /// The enrolment authority that knows the station.
    pub enrolment_authority: &'a Certificate<'a>,
    /// The enrolment credential and its key.
    pub credential: (&'a Certificate<'a>, &'a SecretKey),
    /// The new key.
    pub key: &'a SecretKey,
    /// What the ticket shall permit.
    pub permissions: &'a [PsidSsp<'a>],
    /// When it shall be valid; the authority chooses if absent.
    pub validity: Option<ValidityPeriod>,
    /// The time: microseconds of TAI since 2004.
    pub its_micros: u64,
}

/// Makes a request for an enrolment credential.
///
/// # Errors
/// The authority has no key to encrypt for.
pub fn enrolment_request(
    parameters: &EnrolmentParameters<'_>,
    secrets: &Secrets,
) -> Result<Request, ProvisioningError> {
    let (point, its_micros) = (parameters.key.public_key().to_encoded_point(true), parameters.its_micros);
    let (certificate, signing_key) = match parameters.signer {
        EnrolmentSigner::Station(_, key) => (None, key),
        EnrolmentSigner::Credential(certificate, key) => (Some(certificate), key),
    };
    let digest = certificate.map(Certificate::digest);
    let station = match (&digest, parameters.signer) {
        (Some(HashedId8(digest)), _) => digest,
        (None, EnrolmentSigner::Station(station, _)) => station,
        (None, EnrolmentSigner::Credential(..)) => &[],
    };
    let inner = EnrolmentRequest {
        station,
        keys: public_keys(point.as_bytes())?,
        attributes: SubjectAttributes { validity: None, permissions: vec![CREDENTIAL], has_others: false },
    };
    let inner = sign_payload(&inner.emit(), its_micros, None, parameters.key);
    let payload = ProvisioningMessage::EnrolmentRequest(&inner).emit();
    let signed = sign_payload(&payload, its_micros, certificate, signing_key);
    Request::new(Kind::Enrolment, parameters.authority, parameters.key, secrets, &signed)
}

/// Makes a request for an authorisation ticket: `for_ea` and `for_aa` are what is random in the messages to both authorities.
///
/// # Errors
/// An authority has no key to encrypt for.
pub fn authorization_request(
    parameters: &AuthorizationParameters<'_>,
    (for_ea, for_aa): (&Secrets, &Secrets),
    hmac_key: [u8; 32],
) -> Result<Request, ProvisioningError> {
    let point = parameters.key.public_key().to_encoded_point(true);
    let keys = public_keys(point.as_bytes())?;
    let shared = SharedRequest {
        enrolment_authority: parameters.enrolment_authority.digest(),
        key_tag: key_tag(&hmac_key, &keys),
        attributes: SubjectAttributes {
            validity: parameters.validity,
            permissions: parameters.permissions.to_vec(),
            has_others: false,
        },
    };
    let shared = shared.emit();
    let (credential, credential_key) = parameters.credential;
    let hash = Sha256::digest(&shared).into();
    let to_be_signed = UnsignedData::external(&hash, Psid::CERTIFICATE_REQUEST, parameters.its_micros);
    let by_credential = sign(&to_be_signed, Some(credential), credential_key);
    let encrypted = encrypt_for(parameters.enrolment_authority, for_ea, &by_credential)?;
    let signature = EcSignature::Encrypted(&encrypted);
    let message = AuthorizationRequest { keys, hmac_key, shared: &shared, signature };
    let payload = ProvisioningMessage::AuthorizationRequest(message).emit();
    let signed = sign_payload(&payload, parameters.its_micros, None, parameters.key);
    Request::new(Kind::Authorization, parameters.authority, parameters.key, for_aa, &signed)
}

fn public_keys(point: &[u8]) -> Result<PublicKeys<'_>, ProvisioningError> {
    let verification = public_key(point).ok_or(ProvisioningError::WrongContent)?;
    Ok(PublicKeys { verification, encryption: None })
}

/// The HMAC of the keys, by which the enrolment authority binds them without knowing them.
pub(super) fn key_tag(hmac_key: &[u8; 32], keys: &PublicKeys<'_>) -> [u8; 16] {
    let mut tag = [0; 16];
    if let Ok(mac) = <Hmac<Sha256> as Mac>::new_from_slice(hmac_key) {
        let mac = mac.chain_update(keys.concatenated()).finalize().into_bytes();
        tag.iter_mut().zip(mac).for_each(|(to, from)| *to = from);
    }
    tag
}

/// The hash by which an answer names a request.
pub(super) fn request_hash(octets: &[u8]) -> [u8; 16] {
    let hash: [u8; 32] = Sha256::digest(octets).into();
    hash.first_chunk().copied().unwrap_or_default()
}

impl Request {
    fn new(
        kind: Kind,
        authority: &Certificate<'_>,
        key: &SecretKey,
        secrets: &Secrets,
        signed: &[u8],
    ) -> Result<Request, ProvisioningError> {
        let octets = encrypt_for(authority, secrets, signed)?;
        let hashes = [request_hash(&octets), request_hash(signed)];
        Ok(Request { octets, kind, key: secrets.key(), hashes, public: key.public_key() })
    }

    /// Opens the answer of the authority that the request was made for: the octets of the certificate.
    ///
    /// # Errors
    /// The answer is not one of the authority to this request, or a refusal, or its certificate is not the one that was asked for.
    pub fn open(
        &self,
        answer: &[u8],
        authority: &Certificate<'_>,
        its_micros: u64,
        verify: Verify<'_>,
    ) -> Result<Vec<u8>, ProvisioningError> {
        let plaintext = decrypt_with(self.key, answer)?;
        let signed = read_signed(&plaintext)?;
        if signed.signer != SignerIdentifier::Digest(authority.digest()) {
            return Err(ProvisioningError::WrongSigner);
        }
        if !verify(&signed.message(Some(authority)), &authority.verification_key, &signed.signature) {
            return Err(ProvisioningError::InvalidSignature);
        }
        if let Some(seconds) = clock_difference(&signed, its_micros) {
            return Err(ProvisioningError::ClockDiffers(seconds));
        }
        let response = self.response(ProvisioningMessage::parse(signed.payload)?)?;
        if !self.hashes.contains(&response.request_hash) {
            return Err(ProvisioningError::OtherRequest);
        }
        let Some(octets) = response.certificate else {
            return Err(match self.kind {
                Kind::Enrolment => ProvisioningError::Enrolment(EnrolmentCode(response.code)),
                Kind::Authorization => ProvisioningError::Authorization(AuthorizationCode(response.code)),
            });
        };
        self.check(&Certificate::parse(octets)?, authority, its_micros, verify)?;
        Ok(octets.to_vec())
    }

    fn response<'a>(&self, message: ProvisioningMessage<'a>) -> Result<CertificateResponse<'a>, ProvisioningError> {
        match (self.kind, message) {
            (Kind::Enrolment, ProvisioningMessage::EnrolmentResponse(response))
            | (Kind::Authorization, ProvisioningMessage::AuthorizationResponse(response)) => Ok(response),
            _ => Err(ProvisioningError::WrongContent),
        }
    }

    fn check(
        &self,
        certificate: &Certificate<'_>,
        authority: &Certificate<'_>,
        its_micros: u64,
        verify: Verify<'_>,
    ) -> Result<(), ProvisioningError> {
        let wrong = |what| Err(ProvisioningError::WrongCertificate(what));
        if p256_key(&certificate.verification_key) != Some(self.public) {
            return wrong("is not for the key that was sent");
        }
        let is_issuer = |digest| digest == authority.digest();
        if !matches!(certificate.issuer, IssuerIdentifier::Digest(_, digest) if is_issuer(digest)) {
            return wrong("is not of the authority that was asked");
        }
        if !verify(&certificate.message(Some(authority)), &authority.verification_key, &certificate.signature) {
            return wrong("has an invalid signature");
        }
        if certificate.validity.end() <= its_micros / 1_000_000 {
            return wrong("has expired already");
        }
        Ok(())
    }
}
