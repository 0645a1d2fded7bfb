//! Elliptic curve points, public keys and signatures: IEEE 1609.2 §6.3.28 to §6.3.38, §6.4.38.

use super::coer;
use crate::codepoint::field_values;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;
use core::fmt;

field_values! {
    /// The curve of a key or signature, in the order of both CHOICEs.
    Curve {
        /// NIST P-256.
        NistP256 = 0,
        /// Brainpool P256r1 (RFC 5639).
        BrainpoolP256r1 = 1,
        /// Brainpool P384r1 (RFC 5639).
        BrainpoolP384r1 = 2,
        /// NIST P-384.
        NistP384 = 3,
    }
}

impl Curve {
    /// Octets of a coordinate.
    pub fn length(self) -> usize {
        match self {
            Curve::NistP256 | Curve::BrainpoolP256r1 => 32,
            Curve::BrainpoolP384r1 | Curve::NistP384 => 48,
        }
    }

    /// Whether the alternative lies behind the extension mark: its value is then an open type.
    fn is_extension(self) -> bool {
        self.length() == 48
    }

    /// Reads the curve of a CHOICE, and what follows for it.
    fn read<'a>(reader: &mut Reader<'a>, what: &'static str) -> Result<(Curve, Reader<'a>, bool), Malformed> {
        let at = reader.position();
        let number = coer::alternative(reader, what)?;
        let unknown = Malformed { what, at, why: Why::Value((coer::FIRST + number).into()) };
        let curve = Curve::from_value(number).ok_or(unknown)?;
        let is_extension = curve.is_extension();
        Ok((curve, if is_extension { coer::open_type(reader, what)? } else { reader.clone() }, is_extension))
    }

    /// Writes the alternative with a value of `length` octets.
    fn write(self, writer: &mut Writer, length: usize) {
        writer.u8(coer::FIRST + self.value());
        if self.is_extension() {
            super::emit::length(writer, length);
        }
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Curve::NistP256 => "NIST P-256",
            Curve::BrainpoolP256r1 => "Brainpool P256r1",
            Curve::BrainpoolP384r1 => "Brainpool P384r1",
            Curve::NistP384 => "NIST P-384",
        })
    }
}

field_values! {
    /// The form of a point. The form `fill` (1) is not allowed.
    PointForm {
        /// The x coordinate alone.
        XOnly = 0,
        /// Compressed, y is even.
        CompressedY0 = 2,
        /// Compressed, y is odd.
        CompressedY1 = 3,
        /// Both coordinates.
        Uncompressed = 4,
    }
}

/// A point of a curve, as received; nobody has checked that it is on the curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurvePoint<'a> {
    /// Its form.
    pub form: PointForm,
    /// The x coordinate.
    pub x: &'a [u8],
    /// The y coordinate of an uncompressed point; empty otherwise.
    pub y: &'a [u8],
}

impl<'a> CurvePoint<'a> {
    /// Reads a point with coordinates of `length` octets.
    pub(super) fn read(reader: &mut Reader<'a>, length: usize) -> Result<CurvePoint<'a>, Malformed> {
        const WHAT: &str = "curve point";
        let at = reader.position();
        let number = coer::alternative(reader, WHAT)?;
        let unknown = Malformed { what: WHAT, at, why: Why::Value((coer::FIRST + number).into()) };
        let form = PointForm::from_value(number).ok_or(unknown)?;
        let x = reader.bytes(length)?;
        let y = if form == PointForm::Uncompressed { reader.bytes(length)? } else { &[] };
        Ok(CurvePoint { form, x, y })
    }

    /// The compressed form of an uncompressed point; any other as it is.
    fn compressed(self) -> CurvePoint<'a> {
        let form = match (self.form, self.y.last()) {
            (PointForm::Uncompressed, Some(last)) if last & 1 == 1 => PointForm::CompressedY1,
            (PointForm::Uncompressed, _) => PointForm::CompressedY0,
            (other, _) => other,
        };
        CurvePoint { form, x: self.x, y: &[] }
    }

    /// The point as SEC 1 §2.3.3 encodes it; `None` if only x is known.
    pub fn sec1(self) -> Option<Vec<u8>> {
        (self.form != PointForm::XOnly).then(|| [&[self.form.value()], self.x, self.y].concat())
    }

    /// The point of an encoding by SEC 1 §2.3.3 of `length` octets for each coordinate.
    pub fn from_sec1(octets: &'a [u8], length: usize) -> Option<CurvePoint<'a>> {
        let (form, coordinates) = octets.split_first()?;
        let form = PointForm::from_value(*form).filter(|form| *form != PointForm::XOnly)?;
        let (x, y) = coordinates.split_at_checked(length)?;
        let has_y = if form == PointForm::Uncompressed { length } else { 0 };
        (y.len() == has_y).then_some(CurvePoint { form, x, y })
    }

    fn x_only(self) -> CurvePoint<'a> {
        CurvePoint { form: PointForm::XOnly, x: self.x, y: &[] }
    }

    pub(super) fn write(self, writer: &mut Writer) {
        writer.u8(coer::FIRST + self.form.value()).bytes(self.x).bytes(self.y);
    }

    fn length(self) -> usize {
        1 + self.x.len() + self.y.len()
    }
}

/// A public key for signatures or encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey<'a> {
    /// Its curve.
    pub curve: Curve,
    /// The point.
    pub point: CurvePoint<'a>,
}

impl<'a> PublicKey<'a> {
    /// Reads a PublicVerificationKey.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<PublicKey<'a>, Malformed> {
        let (curve, mut part, is_extension) = Curve::read(reader, "verification key")?;
        let point = CurvePoint::read(&mut part, curve.length())?;
        finish(reader, part, is_extension)?;
        Ok(PublicKey { curve, point })
    }

    /// Reads a BasePublicEncryptionKey; only the curves of 256 bits have one.
    pub(super) fn read_encryption(reader: &mut Reader<'a>) -> Result<PublicKey<'a>, Malformed> {
        let at = reader.position();
        let key = PublicKey::read(reader)?;
        if key.curve.is_extension() {
            let why = Why::Value((coer::FIRST + key.curve.value()).into());
            return Err(Malformed { what: "encryption key", at, why });
        }
        Ok(key)
    }

    /// Writes the key with its point as it is.
    pub(super) fn write(self, writer: &mut Writer) {
        self.curve.write(writer, self.point.length());
        self.point.write(writer);
    }

    /// Writes a PublicEncryptionKey (§6.4.24) of AES-128 in CCM.
    pub(super) fn write_encryption(self, writer: &mut Writer) {
        writer.u8(0);
        self.write(writer);
    }

    /// Writes the key in canonical form: the point is compressed.
    pub(super) fn write_canonical(self, writer: &mut Writer) {
        let point = self.point.compressed();
        self.curve.write(writer, point.length());
        point.write(writer);
    }
}

/// A signature. Of r only the x coordinate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature<'a> {
    /// Its curve.
    pub curve: Curve,
    /// The point r.
    pub r: CurvePoint<'a>,
    /// The integer s.
    pub s: &'a [u8],
}

impl<'a> Signature<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Signature<'a>, Malformed> {
        let (curve, mut part, is_extension) = Curve::read(reader, "signature")?;
        let r = CurvePoint::read(&mut part, curve.length())?;
        let s = part.bytes(curve.length())?;
        finish(reader, part, is_extension)?;
        Ok(Signature { curve, r, s })
    }

    /// Writes the signature in canonical form: r is its x coordinate.
    pub(super) fn write_canonical(self, writer: &mut Writer) {
        let r = self.r.x_only();
        self.curve.write(writer, r.length() + self.s.len());
        r.write(writer);
        writer.bytes(self.s);
    }
}

/// Ends the value of an alternative that was read from `part`.
fn finish<'a>(reader: &mut Reader<'a>, part: Reader<'a>, is_extension: bool) -> Result<(), Malformed> {
    if is_extension {
        return part.end();
    }
    *reader = part;
    Ok(())
}
