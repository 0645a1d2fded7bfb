//! Signed data to send: IEEE 1609.2 §6.3.4, with the fields of a header that ETSI TS 103 097 §7.1 asks for.

use super::coer;
use super::curve::{Curve, PointForm};
use super::hash::{HashAlgorithm, HashedId3, HashedId8};
use super::header_info::{Location, field};
use super::limits;
use super::permissions::Psid;
use super::signed_data::{DATA_PRESENT, HASH_PRESENT, SIGNED, UNSECURED, VERSION};
use crate::writer::Writer;
use alloc::vec::Vec;

/// Data to be signed with SHA-256 and NIST P-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsignedData<'a> {
    /// The packet from its Common Header, at most 65535 octets.
    pub payload: &'a [u8],
    /// The service.
    pub psid: Psid,
    /// Microseconds of TAI since 2004.
    pub generation_time: u64,
    /// The place, where the profile asks for it.
    pub location: Option<Location>,
    /// inlineP2pcdRequest: certificates that the sender asks for; [`limits::REQUESTS`](super::limits::REQUESTS) at most.
    pub requests: &'a [HashedId3],
    /// requestedCertificate: a certificate that somebody has asked for.
    pub requested_certificate: Option<&'a [u8]>,
}

/// Octets of an envelope around the payload with the largest psid that roam6 signs for, if it names its signer by a digest
/// (GEO_SEC of EN 302 636-6-1 §8.2).
pub const DIGEST_OVERHEAD: usize = 98;
/// Unused bits of the extension bitmap of HeaderInfo: two additions, as in IEEE 1609.2-2016. Some stations encode a header again
/// before they verify it, and know no wider one.
const UNUSED_BITS: u8 = 6;

/// How the signer is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignerField<'a> {
    /// By the digest of its certificate.
    Digest(HashedId8),
    /// By its certificate.
    Certificate(&'a [u8]),
    /// Not at all: by the key that the data contain.
    Own,
}

impl<'a> UnsignedData<'a> {
    /// Data of a service with the one field that all have.
    pub fn new(payload: &'a [u8], psid: Psid, generation_time: u64) -> UnsignedData<'a> {
        UnsignedData { payload, psid, generation_time, location: None, requests: &[], requested_certificate: None }
    }

    /// The octets to be signed.
    pub fn to_be_signed(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        let payload = self.payload.get(..usize::from(u16::MAX)).unwrap_or(self.payload);
        writer.u8(DATA_PRESENT).u8(VERSION).u8(coer::FIRST + UNSECURED);
        length(&mut writer, payload.len());
        writer.bytes(payload);
        let present = |bit, present: bool| if present { bit } else { 0 };
        let is_extended = !self.requests.is_empty() || self.requested_certificate.is_some();
        writer.u8(field::GENERATION_TIME
            | present(field::LOCATION, self.location.is_some())
            | present(coer::EXTENDED, is_extended));
        self.psid.write(&mut writer);
        writer.u64(self.generation_time);
        if let Some(Location { place, elevation }) = self.location {
            writer.bytes(&place.latitude.to_be_bytes()).bytes(&place.longitude.to_be_bytes()).u16(elevation);
        }
        if is_extended {
            self.write_additions(&mut writer);
        }
        writer.finish()
    }

    /// The octets to be signed for a payload that is elsewhere and has this SHA-256 hash (§6.3.7; SignedExternalPayload of ETSI
    /// TS 103 097 §5.2).
    pub fn external(hash: &[u8; 32], psid: Psid, generation_time: u64) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(HASH_PRESENT).u8(coer::FIRST).bytes(hash).u8(field::GENERATION_TIME);
        psid.write(&mut writer);
        writer.u64(generation_time);
        writer.finish()
    }

    fn write_additions(&self, writer: &mut Writer) {
        let requests = self.requests.get(..limits::REQUESTS).unwrap_or(self.requests);
        let bits =
            if requests.is_empty() { 0 } else { 0x80 } | if self.requested_certificate.is_some() { 0x40 } else { 0 };
        writer.u8(2).u8(UNUSED_BITS).u8(bits);
        if let Ok(count @ 1..) = u8::try_from(requests.len()) {
            length(writer, 2 + 3 * requests.len());
            writer.u8(1).u8(count);
            requests.iter().for_each(|request| {
                writer.bytes(&request.0);
            });
        }
        if let Some(octets) = self.requested_certificate {
            length(writer, octets.len());
            writer.bytes(octets);
        }
    }

    /// The envelope, with the signature r, s of what [`UnsignedData::to_be_signed`] returned.
    pub fn emit(to_be_signed: &[u8], signer: SignerField<'_>, (r, s): ([u8; 32], [u8; 32])) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(VERSION).u8(coer::FIRST + SIGNED).u8(HashAlgorithm::Sha256.value()).bytes(to_be_signed);
        match signer {
            SignerField::Digest(digest) => writer.u8(coer::FIRST).bytes(&digest.0),
            SignerField::Certificate(octets) => writer.u8(coer::FIRST + 1).u8(1).u8(1).bytes(octets),
            SignerField::Own => writer.u8(coer::FIRST + 2),
        };
        writer.u8(coer::FIRST + Curve::NistP256.value()).u8(coer::FIRST + PointForm::XOnly.value());
        writer.bytes(&r).bytes(&s);
        writer.finish()
    }
}

/// Length determinant (X.696 §8.6).
pub(super) fn length(writer: &mut Writer, length: usize) {
    match u16::try_from(length).unwrap_or(u16::MAX) {
        short @ 0..0x80 => writer.u8((short & 0xff) as u8),
        byte @ 0x80..=0xff => writer.u8(0x81).u8((byte & 0xff) as u8),
        long => writer.u8(0x82).u16(long),
    };
}
