//! The error type of all parsers: what is wrong, at which octet, and why.

use core::fmt;

/// A parse error.
///
/// Prints as `option 41 at 22: length 7, needs 16`: enough to find the octet in a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// The header, message, field or option that is wrong, in the standard's own term.
    pub what: &'static str,
    /// Offset of it in octets from the start of what was parsed.
    pub at: usize,
    /// What is wrong with it.
    pub why: Why,
}

/// The kinds of parse errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The bytes end too early: `has` octets are there, `needs` are required.
    Short {
        /// Octets present.
        has: usize,
        /// Octets required.
        needs: usize,
    },
    /// A length field has the value `has`, the standard requires `needs`.
    Length {
        /// Value of the length field.
        has: usize,
        /// Value that the standard requires (the least, if several are allowed).
        needs: usize,
    },
    /// A field has a value that the standard forbids.
    Value(u64),
    /// The checksum does not verify.
    Checksum,
    /// An element is repeated, or in the wrong place.
    Misplaced,
    /// More elements than the named limit.
    TooMany(usize),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: ", self.what, self.at)?;
        match self.why {
            Why::Short { has, needs } => write!(f, "{has} octets, needs {needs}"),
            Why::Length { has, needs } => write!(f, "length {has}, needs {needs}"),
            Why::Value(value) => write!(f, "value {value} not allowed"),
            Why::Checksum => write!(f, "checksum does not verify"),
            Why::Misplaced => write!(f, "not allowed here"),
            Why::TooMany(limit) => write!(f, "more than {limit}"),
        }
    }
}

impl core::error::Error for Malformed {}
