//! HeaderInfo: IEEE 1609.2 §6.3.9; ETSI TS 103 097 §5.2 says which fields a station may send.

use super::certificate::Certificate;
use super::coer;
use super::curve::PublicKey;
use super::hash::HashedId3;
use super::limits;
use super::permissions::Psid;
use super::region::coordinates;
use crate::geo::Coordinates;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;

/// Presence bits of the preamble.
pub(super) mod field {
    pub(in crate::security) const GENERATION_TIME: u8 = 0x40;
    pub(in crate::security) const EXPIRY_TIME: u8 = 0x20;
    pub(in crate::security) const LOCATION: u8 = 0x10;
    pub(in crate::security) const P2PCD_LEARNING: u8 = 0x08;
    pub(in crate::security) const MISSING_CRL: u8 = 0x04;
    pub(in crate::security) const ENCRYPTION_KEY: u8 = 0x02;
    /// All, and the extension bit.
    pub(in crate::security) const ALL: u8 = 0xfe;
}

/// Extension additions, by their number.
const REQUESTS: usize = 0;
const REQUESTED_CERTIFICATE: usize = 1;

/// The fields of a signed packet that its signature covers beside the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderInfo<'a> {
    /// The service that the packet belongs to (ITS-AID).
    pub psid: Psid,
    /// generationTime: microseconds of TAI since 2004.
    pub generation_time: Option<u64>,
    /// expiryTime: microseconds of TAI since 2004.
    pub expiry_time: Option<u64>,
    /// generationLocation.
    pub location: Option<Location>,
    /// p2pcdLearningRequest: not allowed in ITS packets.
    pub p2pcd_learning_request: Option<HashedId3>,
    /// Whether missingCrlIdentifier is there: not allowed in ITS packets.
    pub has_missing_crl: bool,
    /// Whether encryptionKey is there.
    pub has_encryption_key: bool,
    /// inlineP2pcdRequest: certificates that the sender asks for.
    pub requests: HashedId3List<'a>,
    /// requestedCertificate: the octets of a certificate that somebody asked for; they are a valid encoding.
    requested_certificate: Option<&'a [u8]>,
    /// Extension additions that this release does not know.
    pub unknown_additions: u8,
}

/// A place in three dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// Latitude and longitude.
    pub place: Coordinates,
    /// Decimetres above the WGS 84 ellipsoid, plus 4096.
    pub elevation: u16,
}

impl Location {
    fn read(reader: &mut Reader<'_>) -> Result<Location, Malformed> {
        Ok(Location { place: coordinates(reader)?, elevation: reader.u16()? })
    }
}

/// Short names of certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HashedId3List<'a>(&'a [u8]);

impl HashedId3List<'_> {
    /// The names.
    pub fn iter(&self) -> impl Iterator<Item = HashedId3> {
        self.0.as_chunks().0.iter().map(|octets| HashedId3(*octets))
    }
}

impl<'a> HeaderInfo<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<HeaderInfo<'a>, Malformed> {
        let preamble = coer::preamble(reader, "HeaderInfo preamble", field::ALL)?;
        let has = |bit| preamble & bit != 0;
        let mut header = HeaderInfo {
            psid: Psid::read(reader)?,
            generation_time: has(field::GENERATION_TIME).then(|| reader.u64()).transpose()?,
            expiry_time: has(field::EXPIRY_TIME).then(|| reader.u64()).transpose()?,
            location: has(field::LOCATION).then(|| Location::read(reader)).transpose()?,
            p2pcd_learning_request: has(field::P2PCD_LEARNING).then(|| reader.array()).transpose()?.map(HashedId3),
            has_missing_crl: has(field::MISSING_CRL),
            has_encryption_key: has(field::ENCRYPTION_KEY),
            requests: HashedId3List::default(),
            requested_certificate: None,
            unknown_additions: 0,
        };
        if header.has_missing_crl {
            missing_crl(reader)?;
        }
        if header.has_encryption_key {
            encryption_key(reader)?;
        }
        if has(coer::EXTENDED) {
            header.read_additions(reader)?;
        }
        Ok(header)
    }

    fn read_additions(&mut self, reader: &mut Reader<'a>) -> Result<(), Malformed> {
        for (number, _) in coer::bitmap(reader)?.iter().enumerate().filter(|(_, present)| *present) {
            let mut part = coer::open_type(reader, "HeaderInfo addition")?;
            match number {
                REQUESTS => {
                    let count = coer::count(&mut part, "inlineP2pcdRequest", (0, limits::REQUESTS))?;
                    self.requests = HashedId3List(part.bytes(3 * count)?);
                    part.end()?;
                }
                REQUESTED_CERTIFICATE => {
                    let octets = part.rest();
                    Certificate::parse(octets)?;
                    self.requested_certificate = Some(octets);
                }
                _ => self.unknown_additions = self.unknown_additions.saturating_add(1),
            }
        }
        Ok(())
    }

    /// requestedCertificate: a certificate that somebody asked for.
    pub fn requested_certificate(&self) -> Option<Certificate<'a>> {
        self.requested_certificate.and_then(|octets| Certificate::parse(octets).ok())
    }
}

/// MissingCrlIdentifier (§6.3.16): its additions follow it.
fn missing_crl(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    let preamble = coer::preamble(reader, "missingCrlIdentifier", coer::EXTENDED)?;
    reader.skip(5)?;
    if preamble != 0 {
        coer::skip_additions(reader)?;
    }
    Ok(())
}

/// EncryptionKey (§6.3.18): public, or symmetric with AES-128.
fn encryption_key(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    const WHAT: &str = "encryptionKey";
    let at = reader.position();
    match coer::alternative(reader, WHAT)? {
        0 => public_encryption_key(reader).map(drop),
        1 if coer::alternative(reader, WHAT)? == 0 => reader.skip(16),
        other => Err(Malformed { what: WHAT, at, why: Why::Value(other.into()) }),
    }
}

/// PublicEncryptionKey (§6.3.19), with its symmetric algorithm.
pub(super) fn public_encryption_key<'a>(reader: &mut Reader<'a>) -> Result<PublicKey<'a>, Malformed> {
    let at = reader.position();
    let algorithm = reader.u8()?;
    if algorithm != 0 {
        return Err(Malformed { what: "symmetric algorithm", at, why: Why::Value(algorithm.into()) });
    }
    PublicKey::read_encryption(reader)
}
