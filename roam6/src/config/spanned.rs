//! A value of a configuration, and where it is written. What reads it says so beside it: as little code as can be, for there
//! is a copy for each kind of value.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// The name under which a place is asked for: begin, end and value are given.
pub(super) const SPANNED: &str = "$placed";

/// A value and its place, in octets of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spanned<T> {
    begin: usize,
    end: usize,
    value: T,
}

impl<T> Spanned<T> {
    /// The place.
    pub(crate) fn span(&self) -> Range<usize> {
        self.begin..self.end
    }

    /// The value.
    pub(crate) fn get_ref(&self) -> &T {
        &self.value
    }

    /// Another value, read from the same place.
    pub(crate) fn with<U>(&self, value: U) -> Spanned<U> {
        Spanned { begin: self.begin, end: self.end, value }
    }

    /// The value without its place.
    pub(crate) fn into_inner(self) -> T {
        self.value
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(SPANNED, SpannedVisitor(PhantomData))
    }
}

struct SpannedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for SpannedVisitor<T> {
    type Value = Spanned<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value and its place")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Spanned<T>, A::Error> {
        match (parts.next_element()?, parts.next_element()?, parts.next_element()?) {
            (Some(begin), Some(end), Some(value)) => Ok(Spanned { begin, end, value }),
            _ => Err(A::Error::custom("a value without a place")),
        }
    }
}
