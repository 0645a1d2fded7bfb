//! Signed data to send: IEEE 1609.2 §6.3.4, with the fields of a header that ETSI TS 103 097 §7.1 asks for.

use super::coer;
use super::curve::{Curve, PointForm};
use super::hash::{HashAlgorithm, HashedId8};
use super::header_info::Location;
use super::permissions::Psid;
use super::signed_data::{DATA_PRESENT, SIGNED, UNSECURED, VERSION};
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
}

/// How the signer is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignerField<'a> {
    /// By the digest of its certificate.
    Digest(HashedId8),
    /// By its certificate.
    Certificate(&'a [u8]),
}

impl UnsignedData<'_> {
    /// The octets to be signed.
    pub fn to_be_signed(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        let payload = self.payload.get(..usize::from(u16::MAX)).unwrap_or(self.payload);
        writer.u8(DATA_PRESENT).u8(VERSION).u8(coer::FIRST + UNSECURED);
        length(&mut writer, payload.len());
        writer.bytes(payload);
        // generationTime is present, and generationLocation.
        writer.u8(if self.location.is_some() { 0x50 } else { 0x40 });
        self.psid.write(&mut writer);
        writer.u64(self.generation_time);
        if let Some(Location { place, elevation }) = self.location {
            writer.bytes(&place.latitude.to_be_bytes()).bytes(&place.longitude.to_be_bytes()).u16(elevation);
        }
        writer.finish()
    }

    /// The envelope, with the signature r, s of what [`UnsignedData::to_be_signed`] returned.
    pub fn emit(to_be_signed: &[u8], signer: SignerField<'_>, (r, s): ([u8; 32], [u8; 32])) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(VERSION).u8(coer::FIRST + SIGNED).u8(HashAlgorithm::Sha256.value()).bytes(to_be_signed);
        match signer {
            SignerField::Digest(digest) => writer.u8(coer::FIRST).bytes(&digest.0),
            SignerField::Certificate(octets) => writer.u8(coer::FIRST + 1).u8(1).u8(1).bytes(octets),
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
