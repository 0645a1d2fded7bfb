//! What names an application: ITS-AID (ISO 17419), PSID (IEEE Std 1609.12). A CHOICE within a CHOICE (VarLengthNumber),
//! whose first bits say how many octets the number takes: one to four.

use rasn::prelude::*;

/// VarLengthNumber: one octet.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(choice, automatic_tags)]
pub enum Number {
    /// It is this.
    #[rasn(value("0..=127"))]
    Content(u8),
    /// It takes more.
    Extension(Ext1),
}

/// Two octets.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(choice, automatic_tags)]
pub enum Ext1 {
    /// It is this.
    #[rasn(value("128..=16511"))]
    Content(u16),
    /// It takes more.
    Extension(Ext2),
}

/// Three octets.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(choice, automatic_tags)]
pub enum Ext2 {
    /// It is this.
    #[rasn(value("16512..=2113663"))]
    Content(u32),
    /// It takes four; larger numbers are not assigned yet.
    #[rasn(value("2113664..=270549119", extensible))]
    Extension(u32),
}

impl From<u32> for Number {
    fn from(number: u32) -> Number {
        match (u8::try_from(number), u16::try_from(number)) {
            (Ok(short @ 0..=127), _) => Number::Content(short),
            (_, Ok(short @ 128..=16_511)) => Number::Extension(Ext1::Content(short)),
            _ if number <= 2_113_663 => Number::Extension(Ext1::Extension(Ext2::Content(number))),
            _ => Number::Extension(Ext1::Extension(Ext2::Extension(number))),
        }
    }
}

impl From<Number> for u32 {
    fn from(number: Number) -> u32 {
        match number {
            Number::Content(number) => number.into(),
            Number::Extension(Ext1::Content(number)) => number.into(),
            Number::Extension(Ext1::Extension(Ext2::Content(number) | Ext2::Extension(number))) => number,
        }
    }
}
