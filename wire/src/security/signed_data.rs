//! Ieee1609Dot2Data with signed content: IEEE 1609.2 §6.3.2 to §6.3.8, §6.3.24; EtsiTs103097Data-Signed of ETSI TS 103 097
//! §5.2.
//!
//! ```text
//! 03        version
//! 81        signedData
//! 00        hash algorithm: SHA-256
//!   40        payload: data present                                    | ToBeSignedData
//!   03 80 L   version, unsecuredData, length: the inner packet follows |
//!   40 01 24  HeaderInfo: preamble, psid, times, place                 |
//! 80        signer: 80 digest, 81 certificate
//! 80 80     signature: curve, form of r; then r and s
//! ```

use super::certificate::Certificate;
use super::coer;
use super::curve::Signature;
use super::hash::{HashAlgorithm, HashedId8, Message};
use super::header_info::HeaderInfo;
use super::limits;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;

/// Version of the structure.
pub(super) const VERSION: u8 = 3;
/// Alternatives of Ieee1609Dot2Content.
pub(super) const UNSECURED: u8 = 0;
pub(super) const SIGNED: u8 = 1;
pub(super) const ENCRYPTED: u8 = 2;
/// Preamble of SignedDataPayload: data, without a hash of external data.
pub(super) const DATA_PRESENT: u8 = 0x40;
/// The same without data and with the hash.
pub(super) const HASH_PRESENT: u8 = 0x20;

/// Signed data, as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedData<'a> {
    /// The payload: the packet from its Common Header. Of an external payload its SHA-256 hash.
    pub payload: &'a [u8],
    /// What is signed beside the payload.
    pub header: HeaderInfo<'a>,
    /// The algorithm of the hash that is signed.
    pub hash: HashAlgorithm,
    /// The signer.
    pub signer: SignerIdentifier<'a>,
    /// The signature.
    pub signature: Signature<'a>,
    /// Octets of the envelope with all it contains.
    pub length: usize,
    to_be_signed: &'a [u8],
}

/// SignerIdentifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignerIdentifier<'a> {
    /// The certificate with this digest.
    Digest(HashedId8),
    /// The octets of this certificate; they are a valid encoding.
    Certificate(&'a [u8]),
    /// None: signed by the key that the data contain.
    Own,
}

impl<'a> SignedData<'a> {
    /// Reads signed data from the beginning of `octets`; what follows is left alone.
    ///
    /// # Errors
    /// [`Malformed`] if they are none, or such as ETSI TS 103 097 does not allow.
    pub fn read(octets: &'a [u8]) -> Result<SignedData<'a>, Malformed> {
        SignedData::read_limited(octets, limits::ENVELOPE)
    }

    /// Reads signed data that do not come from the air: lists of authorities, which are longer than frames.
    ///
    /// # Errors
    /// As [`SignedData::read`].
    pub fn read_list(octets: &'a [u8]) -> Result<SignedData<'a>, Malformed> {
        SignedData::read_limited(octets, limits::LIST)
    }

    /// Reads signed data with an external payload that are all of `octets` (SignedExternalPayload of ETSI TS 103 097 §5.2): they
    /// have its SHA-256 hash.
    ///
    /// # Errors
    /// As [`SignedData::read`].
    pub fn read_external(octets: &'a [u8]) -> Result<SignedData<'a>, Malformed> {
        let mut reader = Reader::new("signed data", octets);
        let signed = SignedData::read_with(&mut reader, limits::LIST, |reader| {
            expect(reader, "SignedDataPayload", HASH_PRESENT)?;
            expect(reader, "hash of the payload", coer::FIRST)?;
            reader.bytes(HashAlgorithm::Sha256.length())
        })?;
        reader.end()?;
        Ok(signed)
    }

    fn read_limited(octets: &'a [u8], most: usize) -> Result<SignedData<'a>, Malformed> {
        SignedData::read_with(&mut Reader::new("signed data", octets), most, |reader| {
            expect(reader, "SignedDataPayload", DATA_PRESENT)?;
            expect(reader, "payload version", VERSION)?;
            expect(reader, "payload content", coer::FIRST + UNSECURED)?;
            coer::octets(reader, "payload", most)
        })
    }

    fn read_with(
        reader: &mut Reader<'a>,
        most: usize,
        read_payload: impl FnOnce(&mut Reader<'a>) -> Result<&'a [u8], Malformed>,
    ) -> Result<SignedData<'a>, Malformed> {
        expect(reader, "security version", VERSION)?;
        expect(reader, "security content", coer::FIRST + SIGNED)?;
        let hash = HashAlgorithm::read(reader)?;
        let start = reader.clone();
        let payload = read_payload(reader)?;
        let header = HeaderInfo::read(reader)?;
        let to_be_signed = coer::between(&start, reader);
        let signer = SignerIdentifier::read(reader)?;
        let signature = Signature::read(reader)?;
        let length = reader.position();
        if length > most {
            return Err(Malformed { what: "envelope octets", at: 0, why: Why::TooMany(most) });
        }
        Ok(SignedData { payload, header, hash, signer, signature, length, to_be_signed })
    }

    /// The octets that are signed, as received.
    pub fn to_be_signed(&self) -> &'a [u8] {
        self.to_be_signed
    }

    /// What the signature is about, if `signer` is the certificate of the signer; `None`: signed by itself.
    pub fn message(&self, signer: Option<&Certificate<'_>>) -> Message {
        let signer = signer.map(Certificate::canonical).unwrap_or_default();
        Message::new(self.hash, self.to_be_signed, &signer)
    }
}

impl<'a> SignerIdentifier<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<SignerIdentifier<'a>, Malformed> {
        const WHAT: &str = "signer";
        let at = reader.position();
        match coer::alternative(reader, WHAT)? {
            0 => HashedId8::read(reader).map(SignerIdentifier::Digest),
            1 => {
                // Exactly one (TS 103 097 §5.2).
                coer::count(reader, "signer certificates", (1, 1))?;
                Certificate::read(reader).map(|certificate| SignerIdentifier::Certificate(certificate.octets()))
            }
            2 => Ok(SignerIdentifier::Own),
            other => Err(Malformed { what: WHAT, at, why: Why::Value((coer::FIRST + other).into()) }),
        }
    }

    /// The certificate, if the envelope contains it.
    pub fn certificate(&self) -> Option<Certificate<'a>> {
        match self {
            SignerIdentifier::Certificate(octets) => Certificate::parse(octets).ok(),
            SignerIdentifier::Digest(_) | SignerIdentifier::Own => None,
        }
    }

    /// The digest of the signer's certificate; `None` without one.
    pub fn digest(&self) -> Option<HashedId8> {
        match self {
            SignerIdentifier::Digest(digest) => Some(*digest),
            SignerIdentifier::Certificate(_) => self.certificate().map(|certificate| certificate.digest()),
            SignerIdentifier::Own => None,
        }
    }
}

/// Reads an octet that has one value only.
pub(super) fn expect(reader: &mut Reader<'_>, what: &'static str, expected: u8) -> Result<(), Malformed> {
    let at = reader.position();
    let has = reader.u8()?;
    if has == expected { Ok(()) } else { Err(Malformed { what, at, why: Why::Value(has.into()) }) }
}
