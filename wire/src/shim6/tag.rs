//! Context tags and forked instance identifiers.
//! RFC 5533 §4.4 and §5.15.7.

use crate::text::refusal;
use core::fmt;

/// A context tag: 47 bits, chosen by the receiver of the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "u64", into = "u64"))]
pub struct Tag(u64);

impl Tag {
    /// Bits of a tag.
    pub const BITS: u32 = 47;

    /// A tag; `None` if `bits` has more than 47.
    pub const fn new(bits: u64) -> Option<Tag> {
        if bits >> Tag::BITS == 0 { Some(Tag(bits)) } else { None }
    }

    /// A tag of the low 47 of `bits`: of a header field without its P bit, or of random bits.
    pub const fn from_low_bits(bits: u64) -> Tag {
        Tag(bits & ((1 << Tag::BITS) - 1))
    }

    /// The tag as a number below 2^47.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl From<Tag> for u64 {
    fn from(tag: Tag) -> u64 {
        tag.0
    }
}

refusal! {
    /// The number has more than 47 bits.
    TagTooLong: "a context tag has 47 bits"
}

impl TryFrom<u64> for Tag {
    type Error = TagTooLong;

    fn try_from(bits: u64) -> Result<Tag, TagTooLong> {
        Tag::new(bits).ok_or(TagTooLong)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

/// Forked instance identifier: distinguishes the contexts of one ULID pair.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Fork(pub u32);

impl Fork {
    /// The context that is not forked.
    pub const NONE: Fork = Fork(0);
}

impl fmt::Display for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_47_bits() {
        assert_eq!(Tag::new(1 << 47), None);
        assert_eq!(Tag::from_low_bits(u64::MAX), Tag::new((1 << 47) - 1).unwrap());
        assert_eq!(Tag::from_low_bits(0x1234_5678_9abc).to_string(), "123456789abc");
    }
}
