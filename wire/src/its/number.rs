//! Application identifiers: ITS-AID (ISO 17419), PSID (IEEE Std 1609.12). A VarLengthNumber is a CHOICE within a
//! CHOICE; its first bits select a length of one to four octets.

use super::asn1::asn1;
use rasn::prelude::*;

asn1! {
    /// VarLengthNumber: one octet.
    #[derive(Copy)]
    choice Number {
        /// The value.
        Content(u8) [value("0..=127")],
        /// A longer number.
        Extension(Ext1),
    }

    /// Two octets.
    #[derive(Copy)]
    choice Ext1 {
        /// The value.
        Content(u16) [value("128..=16511")],
        /// A longer number.
        Extension(Ext2),
    }

    /// Three octets.
    #[derive(Copy)]
    choice Ext2 {
        /// The value.
        Content(u32) [value("16512..=2113663")],
        /// Four octets; larger numbers are not assigned yet.
        Extension(u32) [value("2113664..=270549119", extensible)],
    }
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
