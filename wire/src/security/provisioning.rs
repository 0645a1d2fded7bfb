//! Messages by which a station gets its certificates from a PKI: EtsiTs102941Data of ETSI TS 102 941 V2.2.1 annex A (modules
//! EtsiTs102941MessagesCa, TypesEnrolment, TypesAuthorization and BaseTypes).
//!
//! ```text
//! 01          version
//! 80          enrolmentRequest: signed data whose payload is InnerEcRequest
//!               00, length itsId, 01 certificateFormat, PublicKeys, CertificateSubjectAttributes
//! 81 83       enrolmentResponse, authorizationResponse
//!               40, requestHash 16 octets, responseCode, certificate (00 without one)
//! 82          authorizationRequest: InnerAtRequest
//!               00, PublicKeys, hmacKey 32 octets, SharedAtRequest, 80 EcSignature: encrypted data (81: signed data)
//! ```

use super::certificate::{Certificate, CertificateId, ValidityPeriod};
use super::certificate_writer::write_permissions;
use super::coer;
use super::curve::PublicKey;
use super::emit;
use super::encrypted_data::EncryptedData;
use super::hash::HashedId8;
use super::header_info::public_encryption_key;
use super::limits;
use super::permissions::{Permissions, PsidSsp};
use super::region::GeographicRegion;
use super::signed_data::{SignedData, expect};
use crate::codepoint::code_points;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;

/// Version of EtsiTs102941Data.
const VERSION: u8 = 1;
/// CertificateFormat: ts103097v131.
const CERTIFICATE_FORMAT: u8 = 1;
/// Alternatives of EtsiTs102941DataContent.
const ENROLMENT_REQUEST: u8 = 0;
const ENROLMENT_RESPONSE: u8 = 1;
const AUTHORIZATION_REQUEST: u8 = 2;
const AUTHORIZATION_RESPONSE: u8 = 3;
/// Preamble of a response: the certificate is present.
const HAS_CERTIFICATE: u8 = 0x40;

/// Presence bits of the preamble of CertificateSubjectAttributes. certIssuePermissions (0x02) are absent in requests of stations.
mod attribute {
    pub(super) const ID: u8 = 0x40;
    pub(super) const VALIDITY: u8 = 0x20;
    pub(super) const REGION: u8 = 0x10;
    pub(super) const ASSURANCE_LEVEL: u8 = 0x08;
    pub(super) const APP_PERMISSIONS: u8 = 0x04;
    /// All, and the extension bit.
    pub(super) const ALL: u8 = 0xfc;
}

code_points! {
    /// EnrolmentResponseCode.
    EnrolmentCode(u8) as "code" {
        OK = 0, "ok";
        CANT_PARSE = 1, "cantparse";
        BAD_CONTENT_TYPE = 2, "badcontenttype";
        NOT_THE_RECIPIENT = 3, "imnottherecipient";
        UNKNOWN_ENCRYPTION_ALGORITHM = 4, "unknownencryptionalgorithm";
        DECRYPTION_FAILED = 5, "decryptionfailed";
        UNKNOWN_ITS = 6, "unknownits";
        INVALID_SIGNATURE = 7, "invalidsignature";
        INVALID_ENCRYPTION_KEY = 8, "invalidencryptionkey";
        BAD_ITS_STATUS = 9, "baditsstatus";
        INCOMPLETE_REQUEST = 10, "incompleterequest";
        DENIED_PERMISSIONS = 11, "deniedpermissions";
        INVALID_KEYS = 12, "invalidkeys";
        DENIED_REQUEST = 13, "deniedrequest";
    }
}

code_points! {
    /// AuthorizationResponseCode.
    AuthorizationCode(u8) as "code" {
        OK = 0, "ok";
        CANT_PARSE = 1, "its-aa-cantparse";
        BAD_CONTENT_TYPE = 2, "its-aa-badcontenttype";
        NOT_THE_RECIPIENT = 3, "its-aa-imnottherecipient";
        UNKNOWN_ENCRYPTION_ALGORITHM = 4, "its-aa-unknownencryptionalgorithm";
        DECRYPTION_FAILED = 5, "its-aa-decryptionfailed";
        KEYS_DONT_MATCH = 6, "its-aa-keysdontmatch";
        INCOMPLETE_REQUEST = 7, "its-aa-incompleterequest";
        BAD_ENCRYPTION_KEY = 8, "its-aa-invalidencryptionkey";
        OUT_OF_SYNC = 9, "its-aa-outofsyncrequest";
        UNKNOWN_EA = 10, "its-aa-unknownea";
        INVALID_EA = 11, "its-aa-invalidea";
        AA_DENIED_PERMISSIONS = 12, "its-aa-deniedpermissions";
        CANT_REACH_EA = 13, "aa-ea-cantreachea";
        EA_CANT_PARSE = 14, "ea-aa-cantparse";
        EA_BAD_CONTENT_TYPE = 15, "ea-aa-badcontenttype";
        EA_NOT_THE_RECIPIENT = 16, "ea-aa-imnottherecipient";
        EA_UNKNOWN_ENCRYPTION_ALGORITHM = 17, "ea-aa-unknownencryptionalgorithm";
        EA_DECRYPTION_FAILED = 18, "ea-aa-decryptionfailed";
        INVALID_AA = 19, "invalidaa";
        INVALID_AA_SIGNATURE = 20, "invalidaasignature";
        WRONG_EA = 21, "wrongea";
        UNKNOWN_ITS = 22, "unknownits";
        INVALID_SIGNATURE = 23, "invalidsignature";
        INVALID_ENCRYPTION_KEY = 24, "invalidencryptionkey";
        DENIED_PERMISSIONS = 25, "deniedpermissions";
        TOO_MANY_CERTIFICATES = 26, "deniedtoomanycerts";
    }
}

/// The payload of a signed message between a station and an authority: EtsiTs102941Data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProvisioningMessage<'a> {
    /// InnerEcRequestSignedForPop: signed data whose payload is an [`EnrolmentRequest`].
    EnrolmentRequest(&'a [u8]),
    /// InnerEcResponse.
    EnrolmentResponse(CertificateResponse<'a>),
    /// InnerAtRequest.
    AuthorizationRequest(AuthorizationRequest<'a>),
    /// InnerAtResponse.
    AuthorizationResponse(CertificateResponse<'a>),
}

impl<'a> ProvisioningMessage<'a> {
    /// Parses a payload.
    ///
    /// # Errors
    /// [`Malformed`] if it is none, or content of another kind.
    pub fn parse(payload: &'a [u8]) -> Result<ProvisioningMessage<'a>, Malformed> {
        const WHAT: &str = "content of EtsiTs102941Data";
        let mut reader = Reader::new("EtsiTs102941Data", payload);
        expect(&mut reader, "version of EtsiTs102941Data", VERSION)?;
        let at = reader.position();
        let message = match coer::alternative(&mut reader, WHAT)? {
            ENROLMENT_REQUEST => ProvisioningMessage::EnrolmentRequest(signed(&mut reader)?),
            ENROLMENT_RESPONSE => ProvisioningMessage::EnrolmentResponse(CertificateResponse::read(&mut reader)?),
            AUTHORIZATION_REQUEST => {
                ProvisioningMessage::AuthorizationRequest(AuthorizationRequest::read(&mut reader)?)
            }
            AUTHORIZATION_RESPONSE => {
                ProvisioningMessage::AuthorizationResponse(CertificateResponse::read(&mut reader)?)
            }
            other => return Err(Malformed { what: WHAT, at, why: Why::Value((coer::FIRST + other).into()) }),
        };
        reader.end()?;
        Ok(message)
    }

    /// The payload.
    pub fn emit(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(VERSION);
        match self {
            ProvisioningMessage::EnrolmentRequest(signed) => {
                writer.u8(coer::FIRST + ENROLMENT_REQUEST).bytes(signed);
            }
            ProvisioningMessage::EnrolmentResponse(response) => {
                response.write(writer.u8(coer::FIRST + ENROLMENT_RESPONSE));
            }
            ProvisioningMessage::AuthorizationRequest(request) => {
                request.write(writer.u8(coer::FIRST + AUTHORIZATION_REQUEST));
            }
            ProvisioningMessage::AuthorizationResponse(response) => {
                response.write(writer.u8(coer::FIRST + AUTHORIZATION_RESPONSE));
            }
        }
        writer.finish()
    }
}

/// The octets of signed data at the end of a message.
fn signed<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let at = reader.position();
    let octets = reader.rest();
    let signed = SignedData::read_list(octets)?;
    if signed.length != octets.len() {
        let why = Why::Length { has: octets.len(), needs: signed.length };
        return Err(Malformed { what: "signed data", at, why });
    }
    Ok(octets)
}

/// InnerEcRequest: asks an enrolment authority for an enrolment credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolmentRequest<'a> {
    /// The identifier of the station: the canonical one, or the digest of its present credential.
    pub station: &'a [u8],
    /// The keys of the credential.
    pub keys: PublicKeys<'a>,
    /// What the credential shall have.
    pub attributes: SubjectAttributes<'a>,
}

impl<'a> EnrolmentRequest<'a> {
    /// Parses the payload of the inner signed data.
    ///
    /// # Errors
    /// [`Malformed`] if it is none.
    pub fn parse(payload: &'a [u8]) -> Result<EnrolmentRequest<'a>, Malformed> {
        const WHAT: &str = "InnerEcRequest";
        let mut reader = Reader::new(WHAT, payload);
        let preamble = coer::preamble(&mut reader, WHAT, coer::EXTENDED)?;
        let station = coer::octets(&mut reader, "itsId", limits::STATION_ID)?;
        expect(&mut reader, "certificateFormat", CERTIFICATE_FORMAT)?;
        let keys = PublicKeys::read(&mut reader)?;
        let attributes = SubjectAttributes::read(&mut reader)?;
        skip_additions(&mut reader, preamble)?;
        reader.end()?;
        Ok(EnrolmentRequest { station, keys, attributes })
    }

    /// The payload; of the identifier [`limits::STATION_ID`] octets at most.
    pub fn emit(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        let station = self.station.get(..limits::STATION_ID).unwrap_or(self.station);
        writer.u8(0);
        emit::length(&mut writer, station.len());
        writer.bytes(station).u8(CERTIFICATE_FORMAT);
        self.keys.write(&mut writer);
        self.attributes.write(&mut writer);
        writer.finish()
    }
}

/// PublicKeys: those of the certificate that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKeys<'a> {
    /// The key of signatures.
    pub verification: PublicKey<'a>,
    /// The key for messages to the holder.
    pub encryption: Option<PublicKey<'a>>,
}

impl<'a> PublicKeys<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<PublicKeys<'a>, Malformed> {
        let preamble = coer::preamble(reader, "PublicKeys preamble", 0x80)?;
        let verification = PublicKey::read(reader)?;
        let encryption = (preamble != 0).then(|| public_encryption_key(reader)).transpose()?;
        Ok(PublicKeys { verification, encryption })
    }

    fn write(&self, writer: &mut Writer) {
        writer.u8(if self.encryption.is_some() { 0x80 } else { 0 });
        writer.bytes(&self.concatenated());
    }

    /// What keyTag is about: both keys, each encoded for itself (§6.2.3.3.1).
    pub fn concatenated(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.verification.write(&mut writer);
        if let Some(key) = self.encryption {
            key.write_encryption(&mut writer);
        }
        writer.finish()
    }
}

/// CertificateSubjectAttributes: what a certificate shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectAttributes<'a> {
    /// When it shall be valid; the authority chooses if absent.
    pub validity: Option<ValidityPeriod>,
    /// What its holder may sign; 32 permissions at most.
    pub permissions: Vec<PsidSsp<'a>>,
    /// Whether a name, a region or an assurance level is asked for too. They are never written.
    pub has_others: bool,
}

impl<'a> SubjectAttributes<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<SubjectAttributes<'a>, Malformed> {
        const WHAT: &str = "CertificateSubjectAttributes";
        let at = reader.position();
        let preamble = coer::preamble(reader, WHAT, attribute::ALL)?;
        let has = |bit| preamble & bit != 0;
        if !has(attribute::APP_PERMISSIONS) {
            return Err(Malformed { what: WHAT, at, why: Why::Value(preamble.into()) });
        }
        let id = has(attribute::ID).then(|| CertificateId::read(reader)).transpose()?;
        let validity = has(attribute::VALIDITY).then(|| ValidityPeriod::read(reader)).transpose()?;
        let region = has(attribute::REGION).then(|| GeographicRegion::read(reader)).transpose()?;
        let level = has(attribute::ASSURANCE_LEVEL).then(|| reader.u8()).transpose()?;
        let permissions = Permissions::read(reader)?.iter().collect();
        skip_additions(reader, preamble)?;
        let has_others = id.is_some() || region.is_some() || level.is_some();
        Ok(SubjectAttributes { validity, permissions, has_others })
    }

    fn write(&self, writer: &mut Writer) {
        let validity = if self.validity.is_some() { attribute::VALIDITY } else { 0 };
        writer.u8(attribute::APP_PERMISSIONS | validity);
        if let Some(validity) = self.validity {
            validity.write(writer);
        }
        write_permissions(writer, self.permissions.get(..limits::PERMISSIONS).unwrap_or(&self.permissions));
    }
}

/// InnerAtRequest: asks an authorisation authority for an authorisation ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationRequest<'a> {
    /// The keys of the ticket.
    pub keys: PublicKeys<'a>,
    /// The key of keyTag.
    pub hmac_key: [u8; 32],
    /// The octets of a [`SharedRequest`], which the enrolment authority sees too.
    pub shared: &'a [u8],
    /// The signature of the enrolment credential for them.
    pub signature: EcSignature<'a>,
}

/// EcSignature: signed data with an external payload, the [`SharedRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EcSignature<'a> {
    /// Encrypted for the enrolment authority, so that the authorisation authority does not know the station.
    Encrypted(&'a [u8]),
    /// As they are.
    Plain(&'a [u8]),
}

impl<'a> AuthorizationRequest<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<AuthorizationRequest<'a>, Malformed> {
        let preamble = coer::preamble(reader, "InnerAtRequest", coer::EXTENDED)?;
        let keys = PublicKeys::read(reader)?;
        let hmac_key = reader.array()?;
        let start = reader.clone();
        SharedRequest::read(reader)?;
        let shared = coer::between(&start, reader);
        let at = reader.position();
        let signature = match coer::alternative(reader, "ecSignature")? {
            0 => {
                let start = reader.clone();
                EncryptedData::read(reader)?;
                EcSignature::Encrypted(coer::between(&start, reader))
            }
            1 => {
                let octets = reader.rest();
                SignedData::read_external(octets)?;
                EcSignature::Plain(octets)
            }
            other => {
                let why = Why::Value((coer::FIRST + other).into());
                return Err(Malformed { what: "ecSignature", at, why });
            }
        };
        skip_additions(reader, preamble)?;
        Ok(AuthorizationRequest { keys, hmac_key, shared, signature })
    }

    fn write(&self, writer: &mut Writer) {
        writer.u8(0);
        self.keys.write(writer);
        writer.bytes(&self.hmac_key).bytes(self.shared);
        match self.signature {
            EcSignature::Encrypted(octets) => writer.u8(coer::FIRST).bytes(octets),
            EcSignature::Plain(octets) => writer.u8(coer::FIRST + 1).bytes(octets),
        };
    }
}

/// SharedAtRequest: the part of a request for a ticket that both authorities see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedRequest<'a> {
    /// The digest of the enrolment authority that knows the station.
    pub enrolment_authority: HashedId8,
    /// The HMAC of the keys.
    pub key_tag: [u8; 16],
    /// What the ticket shall have.
    pub attributes: SubjectAttributes<'a>,
}

impl<'a> SharedRequest<'a> {
    /// Parses a request.
    ///
    /// # Errors
    /// [`Malformed`] if it is none.
    pub fn parse(octets: &'a [u8]) -> Result<SharedRequest<'a>, Malformed> {
        let mut reader = Reader::new("SharedAtRequest", octets);
        let request = SharedRequest::read(&mut reader)?;
        reader.end()?;
        Ok(request)
    }

    fn read(reader: &mut Reader<'a>) -> Result<SharedRequest<'a>, Malformed> {
        let preamble = coer::preamble(reader, "SharedAtRequest", coer::EXTENDED)?;
        let (enrolment_authority, key_tag) = (HashedId8::read(reader)?, reader.array()?);
        expect(reader, "certificateFormat", CERTIFICATE_FORMAT)?;
        let attributes = SubjectAttributes::read(reader)?;
        skip_additions(reader, preamble)?;
        Ok(SharedRequest { enrolment_authority, key_tag, attributes })
    }

    /// The octets.
    pub fn emit(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(0).bytes(&self.enrolment_authority.0).bytes(&self.key_tag).u8(CERTIFICATE_FORMAT);
        self.attributes.write(&mut writer);
        writer.finish()
    }
}

/// InnerEcResponse or InnerAtResponse, which differ in the meaning of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateResponse<'a> {
    /// The first octets of the SHA-256 hash of the request.
    pub request_hash: [u8; 16],
    /// An [`EnrolmentCode`] or [`AuthorizationCode`]; 0 if the request is granted.
    pub code: u8,
    /// The octets of the certificate, there if the request is granted; they are a valid encoding.
    pub certificate: Option<&'a [u8]>,
}

impl<'a> CertificateResponse<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<CertificateResponse<'a>, Malformed> {
        const WHAT: &str = "responseCode";
        let preamble = coer::preamble(reader, "response", coer::EXTENDED | HAS_CERTIFICATE)?;
        let (request_hash, at) = (reader.array()?, reader.position());
        let code = coer::enumerated(reader, WHAT)?;
        let has_certificate = preamble & HAS_CERTIFICATE != 0;
        if has_certificate != (code == 0) {
            return Err(Malformed { what: WHAT, at, why: Why::Value(code.into()) });
        }
        let certificate = has_certificate.then(|| Certificate::read(reader)).transpose()?;
        skip_additions(reader, preamble)?;
        Ok(CertificateResponse { request_hash, code, certificate: certificate.map(|certificate| certificate.octets()) })
    }

    fn write(&self, writer: &mut Writer) {
        writer.u8(if self.certificate.is_some() { HAS_CERTIFICATE } else { 0 });
        writer.bytes(&self.request_hash).u8(self.code).bytes(self.certificate.unwrap_or_default());
    }
}

/// Additions of later releases, which are not known here.
fn skip_additions(reader: &mut Reader<'_>, preamble: u8) -> Result<(), Malformed> {
    if preamble & coer::EXTENDED != 0 {
        coer::skip_additions(reader)?;
    }
    Ok(())
}
