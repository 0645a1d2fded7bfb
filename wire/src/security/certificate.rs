//! Certificates: IEEE 1609.2 §6.4.2 to §6.4.16, with the restrictions of ETSI TS 103 097 §6: explicit, and named by their
//! digest or by a text.

use super::coer;
use super::curve::{Curve, PublicKey, Signature};
use super::hash::{HashAlgorithm, HashedId8, Message};
use super::header_info::public_encryption_key;
use super::limits;
use super::permissions::{GroupPermissionsList, Permissions};
use super::region::GeographicRegion;
use crate::codepoint::field_values;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;
use core::ops::Range;

/// Version of the structure.
const VERSION: u8 = 3;

/// Presence bits of the preamble of ToBeSignedCertificate.
pub(super) mod field {
    pub(in crate::security) const REGION: u8 = 0x40;
    pub(in crate::security) const ASSURANCE_LEVEL: u8 = 0x20;
    pub(in crate::security) const APP_PERMISSIONS: u8 = 0x10;
    pub(in crate::security) const ISSUE_PERMISSIONS: u8 = 0x08;
    pub(in crate::security) const REQUEST_PERMISSIONS: u8 = 0x04;
    pub(in crate::security) const REQUEST_ROLLOVER: u8 = 0x02;
    pub(in crate::security) const ENCRYPTION_KEY: u8 = 0x01;
}

/// A certificate, as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate<'a> {
    octets: &'a [u8],
    /// The certificate's issuer.
    pub issuer: IssuerIdentifier,
    /// Its name.
    pub id: CertificateId<'a>,
    /// cracaId and crlSeries: both 0 in certificates of ITS stations.
    pub crl: ([u8; 3], u16),
    /// When it is valid.
    pub validity: ValidityPeriod,
    /// Where it is valid; everywhere if absent.
    pub region: Option<GeographicRegion<'a>>,
    /// assuranceLevel.
    pub assurance_level: Option<u8>,
    /// appPermissions: what its holder may sign.
    pub app_permissions: Permissions<'a>,
    /// certIssuePermissions: what its holder may permit in certificates of others.
    pub issue_permissions: Option<GroupPermissionsList<'a>>,
    /// certRequestPermissions: what its holder may ask for.
    pub request_permissions: Option<GroupPermissionsList<'a>>,
    /// canRequestRollover.
    pub can_request_rollover: bool,
    /// The key for messages to its holder.
    pub encryption_key: Option<PublicKey<'a>>,
    /// The key of its holder's signatures.
    pub verification_key: PublicKey<'a>,
    /// The signature of its issuer.
    pub signature: Signature<'a>,
    spans: Spans,
}

/// Where the parts are that the canonical form or the signature is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Spans {
    to_be_signed: Range<usize>,
    encryption_key: Range<usize>,
    verification_key: Range<usize>,
    signature: Range<usize>,
}

/// The issuer of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IssuerIdentifier {
    /// The holder itself: a root authority.
    Own(HashAlgorithm),
    /// The authority whose certificate has this digest, made with this algorithm.
    Digest(HashAlgorithm, HashedId8),
}

/// The name of the holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateId<'a> {
    /// None: a station.
    None,
    /// The name of an authority.
    Name(&'a str),
}

field_values! {
    /// Units of the duration of a certificate.
    TimeUnit {
        /// Microseconds.
        Microseconds = 0,
        /// Milliseconds.
        Milliseconds = 1,
        /// Seconds.
        Seconds = 2,
        /// Minutes.
        Minutes = 3,
        /// Hours.
        Hours = 4,
        /// Sixty hours.
        SixtyHours = 5,
        /// Years of 31556952 seconds.
        Years = 6,
    }
}

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidityPeriod {
    /// The start: seconds of TAI since 2004.
    pub start: u32,
    /// Unit of the duration.
    pub unit: TimeUnit,
    /// The duration in this unit.
    pub duration: u16,
}

impl ValidityPeriod {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<ValidityPeriod, Malformed> {
        let start = reader.u32()?;
        let at = reader.position();
        let number = coer::alternative(reader, "duration")?;
        let unknown = Malformed { what: "duration", at, why: Why::Value((coer::FIRST + number).into()) };
        let unit = TimeUnit::from_value(number).ok_or(unknown)?;
        Ok(ValidityPeriod { start, unit, duration: reader.u16()? })
    }

    pub(super) fn write(self, writer: &mut Writer) {
        writer.u32(self.start).u8(coer::FIRST + self.unit.value()).u16(self.duration);
    }

    /// The end: seconds of TAI since 2004, a part of a second counts as none.
    pub fn end(&self) -> u64 {
        let duration = u64::from(self.duration);
        let seconds = match self.unit {
            TimeUnit::Microseconds => duration / 1_000_000,
            TimeUnit::Milliseconds => duration / 1_000,
            TimeUnit::Seconds => duration,
            TimeUnit::Minutes => duration * 60,
            TimeUnit::Hours => duration * 3_600,
            TimeUnit::SixtyHours => duration * 216_000,
            TimeUnit::Years => duration * 31_556_952,
        };
        u64::from(self.start) + seconds
    }

    /// Whether it includes this time: seconds of TAI since 2004.
    pub fn includes(&self, time: u64) -> bool {
        (u64::from(self.start)..self.end()).contains(&time)
    }
}

impl<'a> Certificate<'a> {
    /// Parses a certificate that is all of `octets`.
    ///
    /// # Errors
    /// [`Malformed`] if it is none, or one that ETSI TS 103 097 does not allow.
    pub fn parse(octets: &'a [u8]) -> Result<Certificate<'a>, Malformed> {
        let mut reader = Reader::new("certificate", octets);
        let certificate = Certificate::read(&mut reader)?;
        reader.end()?;
        Ok(certificate)
    }

    /// Reads a certificate.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Certificate<'a>, Malformed> {
        let start = reader.clone();
        let expect = |reader: &mut Reader<'a>, what, expected: u8| {
            let at = reader.position();
            let has = reader.u8()?;
            if has == expected { Ok(()) } else { Err(Malformed { what, at, why: Why::Value(has.into()) }) }
        };
        // The signature is there.
        expect(reader, "certificate preamble", 0x80)?;
        expect(reader, "certificate version", VERSION)?;
        // Explicit: with a key. Implicit certificates have none.
        expect(reader, "certificate type", 0)?;
        let issuer = IssuerIdentifier::read(reader)?;
        let mut parts = Spans::default();
        let at = |reader: &Reader<'a>| reader.position() - start.position();
        let to_be_signed = at(reader);
        let mut certificate = Certificate::read_to_be_signed(reader, issuer, &mut parts, &at)?;
        parts.to_be_signed = to_be_signed..at(reader);
        let signature = at(reader);
        certificate.signature = Signature::read(reader)?;
        parts.signature = signature..at(reader);
        certificate.octets = coer::between(&start, reader);
        if certificate.octets.len() > limits::CERTIFICATE {
            let why = Why::TooMany(limits::CERTIFICATE);
            return Err(Malformed { what: "certificate octets", at: start.position(), why });
        }
        certificate.spans = parts;
        Ok(certificate)
    }

    /// Reads ToBeSignedCertificate; the signature is not yet known.
    fn read_to_be_signed(
        reader: &mut Reader<'a>,
        issuer: IssuerIdentifier,
        parts: &mut Spans,
        at: &impl Fn(&Reader<'a>) -> usize,
    ) -> Result<Certificate<'a>, Malformed> {
        let preamble = reader.u8()?;
        let has = |bit| preamble & bit != 0;
        let id = CertificateId::read(reader)?;
        let crl = (reader.array()?, reader.u16()?);
        let validity = ValidityPeriod::read(reader)?;
        let region = has(field::REGION).then(|| GeographicRegion::read(reader)).transpose()?;
        let assurance_level = has(field::ASSURANCE_LEVEL).then(|| reader.u8()).transpose()?;
        let app_permissions = has(field::APP_PERMISSIONS).then(|| Permissions::read(reader)).transpose()?;
        let mut group = |bit| has(bit).then(|| GroupPermissionsList::read(reader)).transpose();
        let issue_permissions = group(field::ISSUE_PERMISSIONS)?;
        let request_permissions = group(field::REQUEST_PERMISSIONS)?;
        let mut encryption_key = None;
        if has(field::ENCRYPTION_KEY) {
            // The symmetric algorithm before it stays as it is.
            let start = at(reader) + 1;
            encryption_key = Some(public_encryption_key(reader)?);
            parts.encryption_key = start..at(reader);
        }
        let kind_at = reader.position();
        let kind = coer::alternative(reader, "verifyKeyIndicator")?;
        if kind != 0 {
            let why = Why::Value((coer::FIRST + kind).into());
            return Err(Malformed { what: "verifyKeyIndicator", at: kind_at, why });
        }
        let start = at(reader);
        let verification_key = PublicKey::read(reader)?;
        parts.verification_key = start..at(reader);
        if has(coer::EXTENDED) {
            coer::skip_additions(reader)?;
        }
        let none = Signature { curve: Curve::NistP256, r: verification_key.point, s: &[] };
        Ok(Certificate {
            octets: &[],
            issuer,
            id,
            crl,
            validity,
            region,
            assurance_level,
            app_permissions: app_permissions.unwrap_or_default(),
            issue_permissions,
            request_permissions,
            can_request_rollover: has(field::REQUEST_ROLLOVER),
            encryption_key,
            verification_key,
            signature: none,
            spans: Spans::default(),
        })
    }

    /// The octets of the certificate, as received.
    pub fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// The canonical form (§6.4.3), in which points of keys are compressed and r is an x coordinate.
    pub fn canonical(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.write_canonical(&mut writer, 0..self.spans.signature.start);
        self.signature.write_canonical(&mut writer);
        writer.finish()
    }

    /// Writes the canonical form of a part of the certificate before its signature.
    fn write_canonical(&self, writer: &mut Writer, part: Range<usize>) {
        let octets = |range: Range<usize>| self.octets.get(range).unwrap_or_default();
        let mut from = part.start;
        let keys = [
            (self.encryption_key, &self.spans.encryption_key),
            (Some(self.verification_key), &self.spans.verification_key),
        ];
        for (key, span) in keys {
            if let Some(key) = key {
                writer.bytes(octets(from..span.start));
                key.write_canonical(writer);
                from = span.end;
            }
        }
        writer.bytes(octets(from..part.end));
    }

    /// The hash algorithm of the digest: that of the key's strength (§6.4.3).
    pub fn hash_algorithm(&self) -> HashAlgorithm {
        match self.verification_key.curve {
            Curve::NistP256 | Curve::BrainpoolP256r1 => HashAlgorithm::Sha256,
            Curve::BrainpoolP384r1 | Curve::NistP384 => HashAlgorithm::Sha384,
        }
    }

    /// The digest: the last eight octets of the hash of the canonical form.
    pub fn digest(&self) -> HashedId8 {
        HashedId8::of(self.hash_algorithm(), &self.canonical())
    }

    /// What the signature of the certificate is about. `issuer` is the certificate of its issuer; `None` for a root, which
    /// signs itself.
    pub fn message(&self, issuer: Option<&Certificate<'_>>) -> Message {
        let algorithm = match self.issuer {
            IssuerIdentifier::Own(algorithm) | IssuerIdentifier::Digest(algorithm, _) => algorithm,
        };
        let mut writer = Writer::new();
        self.write_canonical(&mut writer, self.spans.to_be_signed.clone());
        let signer = issuer.map(Certificate::canonical).unwrap_or_default();
        Message::new(algorithm, writer.written(), &signer)
    }
}

impl IssuerIdentifier {
    fn read(reader: &mut Reader<'_>) -> Result<IssuerIdentifier, Malformed> {
        const WHAT: &str = "issuer";
        let at = reader.position();
        Ok(match coer::alternative(reader, WHAT)? {
            0 => IssuerIdentifier::Digest(HashAlgorithm::Sha256, HashedId8::read(reader)?),
            1 => IssuerIdentifier::Own(HashAlgorithm::read(reader)?),
            2 => {
                let mut part = coer::open_type(reader, WHAT)?;
                let digest = HashedId8::read(&mut part)?;
                part.end()?;
                IssuerIdentifier::Digest(HashAlgorithm::Sha384, digest)
            }
            other => {
                return Err(Malformed { what: WHAT, at, why: Why::Value((coer::FIRST + other).into()) });
            }
        })
    }
}

impl<'a> CertificateId<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<CertificateId<'a>, Malformed> {
        const WHAT: &str = "certificate id";
        let at = reader.position();
        match coer::alternative(reader, WHAT)? {
            1 => {
                let octets = coer::octets(reader, WHAT, limits::NAME)?;
                let wrong = |error: core::str::Utf8Error| Malformed {
                    what: WHAT,
                    at,
                    why: Why::Length { has: octets.len(), needs: error.valid_up_to() },
                };
                core::str::from_utf8(octets).map(CertificateId::Name).map_err(wrong)
            }
            3 => Ok(CertificateId::None),
            other => Err(Malformed { what: WHAT, at, why: Why::Value((coer::FIRST + other).into()) }),
        }
    }
}
