//! A value of the configuration with its location. The code is minimal, because it is instantiated for each type of value.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, Range};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// The newtype name that requests a location: the deserializer yields start, end and value.
pub(super) const SPANNED: &str = "$placed";

/// A value and its span, in octets of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spanned<T> {
    begin: usize,
    end: usize,
    value: T,
}

impl<T> Spanned<T> {
    /// The span.
    pub(crate) fn span(&self) -> Range<usize> {
        self.begin..self.end
    }

    /// Another value with the same span.
    pub(crate) fn with<U>(&self, value: U) -> Spanned<U> {
        Spanned { begin: self.begin, end: self.end, value }
    }

    /// The value without its span.
    pub(crate) fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
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
