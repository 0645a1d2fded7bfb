//! Ieee1609Dot2Data with encrypted content: EncryptedData of IEEE 1609.2 §6.3, the keys of AES-128 in CCM (§5.3.8) either known
//! to both sides or encrypted for the recipient by ECIES (§5.3.5); EtsiTs103097Data-Encrypted of ETSI TS 103 097 §5.3.
//!
//! ```text
//! 03        version
//! 82        encryptedData
//! 01 01     number of recipients, then of each
//! 80        pskRecipInfo: HashedId8 of the symmetric key
//! 82        certRecipInfo: HashedId8 of the certificate | 80 curve, point v | c, 16 octets | t, 16 octets
//! 83        signedDataRecipInfo: the same, with the hash of the signed data that had the key
//! 80        aes128ccm: nonce, 12 octets | length, ciphertext with its tag of 16 octets
//! ```

use super::coer;
use super::curve::{Curve, CurvePoint};
use super::emit;
use super::hash::HashedId8;
use super::limits;
use super::signed_data::{ENCRYPTED, VERSION, expect};
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;

/// Alternatives of RecipientInfo.
const PRESHARED_KEY: u8 = 0;
const CERTIFICATE: u8 = 2;
const SIGNED_DATA: u8 = 3;
/// Octets of the tag at the end of a ciphertext.
const TAG: usize = 16;

/// Encrypted data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptedData<'a> {
    /// Who can decrypt them; [`limits::RECIPIENTS`] at most.
    pub recipients: Vec<Recipient<'a>>,
    /// The nonce.
    pub nonce: [u8; 12],
    /// The ciphertext and its tag.
    pub ciphertext: &'a [u8],
}

/// RecipientInfo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient<'a> {
    /// A holder of the symmetric key with this hash (pskRecipInfo).
    PresharedKey(HashedId8),
    /// The holder of the certificate with this digest.
    Certificate(HashedId8, WrappedKey<'a>),
    /// Who has signed data with an encryption key, of which this is the digest.
    SignedData(HashedId8, WrappedKey<'a>),
}

/// A symmetric key that is encrypted for its recipient: EciesP256EncryptedKey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrappedKey<'a> {
    /// The curve of the recipient's key.
    pub curve: Curve,
    /// v: the ephemeral public key of the sender.
    pub point: CurvePoint<'a>,
    /// c: the encrypted key.
    pub key: [u8; 16],
    /// t: its tag.
    pub tag: [u8; 16],
}

impl<'a> EncryptedData<'a> {
    /// Parses encrypted data that are all of `octets`.
    ///
    /// # Errors
    /// [`Malformed`] if they are none, or have recipients or algorithms that messages of ETSI TS 102 941 do not have.
    pub fn parse(octets: &'a [u8]) -> Result<EncryptedData<'a>, Malformed> {
        let mut reader = Reader::new("encrypted data", octets);
        let data = EncryptedData::read(&mut reader)?;
        reader.end()?;
        Ok(data)
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<EncryptedData<'a>, Malformed> {
        expect(reader, "security version", VERSION)?;
        expect(reader, "security content", coer::FIRST + ENCRYPTED)?;
        let count = coer::count(reader, "recipients", (1, limits::RECIPIENTS))?;
        let recipients = (0..count).map(|_| Recipient::read(reader)).collect::<Result<_, _>>()?;
        expect(reader, "symmetric algorithm", coer::FIRST)?;
        let (nonce, at) = (reader.array()?, reader.position());
        let ciphertext = coer::octets(reader, "ciphertext", limits::PROVISIONING)?;
        if ciphertext.len() < TAG {
            let why = Why::Length { has: ciphertext.len(), needs: TAG };
            return Err(Malformed { what: "ciphertext", at, why });
        }
        Ok(EncryptedData { recipients, nonce, ciphertext })
    }

    /// The octets; recipients beyond [`limits::RECIPIENTS`] are left out.
    pub fn emit(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        let recipients = self.recipients.get(..limits::RECIPIENTS).unwrap_or(&self.recipients);
        writer.u8(VERSION).u8(coer::FIRST + ENCRYPTED).u8(1).u8((recipients.len() & 0x7f) as u8);
        recipients.iter().for_each(|recipient| recipient.write(&mut writer));
        writer.u8(coer::FIRST).bytes(&self.nonce);
        emit::length(&mut writer, self.ciphertext.len());
        writer.bytes(self.ciphertext);
        writer.finish()
    }
}

impl<'a> Recipient<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Recipient<'a>, Malformed> {
        const WHAT: &str = "recipient";
        let at = reader.position();
        let kind = coer::alternative(reader, WHAT)?;
        Ok(match kind {
            PRESHARED_KEY => Recipient::PresharedKey(HashedId8::read(reader)?),
            CERTIFICATE => Recipient::Certificate(HashedId8::read(reader)?, WrappedKey::read(reader)?),
            SIGNED_DATA => Recipient::SignedData(HashedId8::read(reader)?, WrappedKey::read(reader)?),
            other => return Err(Malformed { what: WHAT, at, why: Why::Value((coer::FIRST + other).into()) }),
        })
    }

    fn write(&self, writer: &mut Writer) {
        let (kind, digest, wrapped) = match self {
            Recipient::PresharedKey(digest) => (PRESHARED_KEY, digest, None),
            Recipient::Certificate(digest, wrapped) => (CERTIFICATE, digest, Some(wrapped)),
            Recipient::SignedData(digest, wrapped) => (SIGNED_DATA, digest, Some(wrapped)),
        };
        writer.u8(coer::FIRST + kind).bytes(&digest.0);
        if let Some(wrapped) = wrapped {
            writer.u8(coer::FIRST + wrapped.curve.value());
            wrapped.point.write(writer);
            writer.bytes(&wrapped.key).bytes(&wrapped.tag);
        }
    }
}

impl<'a> WrappedKey<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<WrappedKey<'a>, Malformed> {
        const WHAT: &str = "encrypted key";
        let at = reader.position();
        let number = coer::alternative(reader, WHAT)?;
        // Only the curves of 256 bits are defined without an extension.
        let curve = Curve::from_value(number).filter(|curve| curve.length() == 32);
        let unknown = Malformed { what: WHAT, at, why: Why::Value((coer::FIRST + number).into()) };
        let curve = curve.ok_or(unknown)?;
        let point = CurvePoint::read(reader, curve.length())?;
        Ok(WrappedKey { curve, point, key: reader.array()?, tag: reader.array()? })
    }
}
