//! Certificates to issue: IEEE 1609.2 §6.4.8, in the form of ETSI TS 103 097 §6 and with keys and signatures of NIST P-256.

use super::certificate::{Certificate, CertificateId, IssuerIdentifier, ValidityPeriod, field};
use super::coer;
use super::curve::{Curve, PointForm, PublicKey};
use super::emit;
use super::hash::{HashAlgorithm, HashedId8, Message};
use super::permissions::{Psid, PsidSsp, Ssp};
use crate::codepoint::field_values;
use crate::geo::Coordinates;
use crate::writer::Writer;
use alloc::vec::Vec;

/// A certificate without the signature of its issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsignedCertificate<'a> {
    /// The digest of the issuer's certificate; `None` for a root authority.
    pub issuer: Option<HashedId8>,
    /// Its name.
    pub id: CertificateId<'a>,
    /// When it is valid.
    pub validity: ValidityPeriod,
    /// The circle that it is valid in: centre, and radius in metres; everywhere if absent.
    pub region: Option<(Coordinates, u16)>,
    /// What its holder may sign; 127 permissions at most.
    pub app_permissions: &'a [PsidSsp<'a>],
    /// What its holder may permit in certificates of stations.
    pub issue_permissions: Option<Issuance<'a>>,
    /// The key for messages to its holder, of NIST P-256.
    pub encryption_key: Option<PublicKey<'a>>,
    /// The key of its holder's signatures, of NIST P-256.
    pub key: PublicKey<'a>,
}

/// certIssuePermissions with one group: these services, with any permissions in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issuance<'a> {
    /// The services; 127 at most.
    pub services: &'a [Psid],
    /// minChainLength: 1 for an authority that issues certificates of stations, 2 for its issuer.
    pub min_chain_length: u8,
    /// eeType: whose certificates they are.
    pub holders: EndEntities,
}

field_values! {
    /// eeType (§6.4.30).
    EndEntities {
        /// Certificates of stations: authorisation tickets.
        Application = 0x80,
        /// Enrolment credentials.
        Enrolment = 0x40,
        /// Both.
        Any = 0xC0,
    }
}

impl UnsignedCertificate<'_> {
    /// ToBeSignedCertificate.
    fn write(&self, writer: &mut Writer) {
        let present = |bit, present: bool| if present { bit } else { 0 };
        let preamble = present(field::REGION, self.region.is_some())
            | present(field::APP_PERMISSIONS, !self.app_permissions.is_empty())
            | present(field::ISSUE_PERMISSIONS, self.issue_permissions.is_some())
            | present(field::ENCRYPTION_KEY, self.encryption_key.is_some());
        writer.u8(preamble);
        match self.id {
            CertificateId::None => writer.u8(coer::FIRST + 3),
            CertificateId::Name(name) => {
                writer.u8(coer::FIRST + 1);
                emit::length(writer, name.len());
                writer.bytes(name.as_bytes())
            }
        };
        // cracaId and crlSeries.
        writer.bytes(&[0; 5]);
        self.validity.write(writer);
        if let Some((center, radius)) = self.region {
            writer.u8(coer::FIRST).bytes(&center.latitude.to_be_bytes()).bytes(&center.longitude.to_be_bytes());
            writer.u16(radius);
        }
        if !self.app_permissions.is_empty() {
            write_permissions(writer, self.app_permissions);
        }
        if let Some(issuance) = self.issue_permissions {
            issuance.write(writer);
        }
        if let Some(key) = self.encryption_key {
            key.write_encryption(writer);
        }
        writer.u8(coer::FIRST);
        self.key.write_canonical(writer);
    }

    /// What the issuer signs with SHA-256. `issuer` is its certificate; `None` for a root authority, which signs itself.
    pub fn message(&self, issuer: Option<&Certificate<'_>>) -> Message {
        let mut writer = Writer::new();
        self.write(&mut writer);
        Message::new(HashAlgorithm::Sha256, writer.written(), &issuer.map(Certificate::canonical).unwrap_or_default())
    }

    /// The certificate, with the signature r, s of what [`UnsignedCertificate::message`] returned.
    pub fn emit(&self, (r, s): ([u8; 32], [u8; 32])) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(0x80).u8(super::signed_data::VERSION).u8(0);
        match self.issuer {
            Some(digest) => writer.u8(coer::FIRST).bytes(&digest.0),
            None => writer.u8(coer::FIRST + 1).u8(HashAlgorithm::Sha256.value()),
        };
        self.write(&mut writer);
        writer.u8(coer::FIRST + Curve::NistP256.value()).u8(coer::FIRST + PointForm::XOnly.value());
        writer.bytes(&r).bytes(&s);
        writer.finish()
    }

    /// The issuer, as a certificate names it.
    pub fn issuer(&self) -> IssuerIdentifier {
        self.issuer.map_or(IssuerIdentifier::Own(HashAlgorithm::Sha256), |digest| {
            IssuerIdentifier::Digest(HashAlgorithm::Sha256, digest)
        })
    }
}

impl Issuance<'_> {
    fn write(&self, writer: &mut Writer) {
        // One group, with minChainLength, and with eeType unless it is the default.
        count(writer, 1);
        let has_holders = self.holders != EndEntities::Application;
        writer.u8(if has_holders { 0xa0 } else { 0x80 }).u8(coer::FIRST);
        count(writer, self.services.len());
        for psid in self.services {
            writer.u8(0x80);
            psid.write(writer);
            writer.u8(coer::FIRST + 1);
        }
        writer.u8(1).u8(self.min_chain_length.min(0x7f));
        if has_holders {
            writer.u8(self.holders.value());
        }
    }
}

/// SequenceOfPsidSsp; 127 at most.
pub(super) fn write_permissions(writer: &mut Writer, permissions: &[PsidSsp<'_>]) {
    count(writer, permissions.len());
    permissions.iter().for_each(|permission| write_permission(writer, permission));
}

fn write_permission(writer: &mut Writer, permission: &PsidSsp<'_>) {
    writer.u8(if permission.ssp == Ssp::Absent { 0 } else { 0x80 });
    permission.psid.write(writer);
    match permission.ssp {
        Ssp::Absent => {}
        Ssp::Opaque(octets) => {
            writer.u8(coer::FIRST);
            emit::length(writer, octets.len());
            writer.bytes(octets);
        }
        Ssp::Bitmap(octets) => {
            writer.u8(coer::FIRST + 1);
            emit::length(writer, octets.len() + 1);
            emit::length(writer, octets.len());
            writer.bytes(octets);
        }
    }
}

/// The number of elements of a SEQUENCE OF (X.696 §17).
fn count(writer: &mut Writer, count: usize) {
    writer.u8(1).u8(u8::try_from(count).unwrap_or(u8::MAX));
}
