//! A value of the configuration with its location.

use core::ops::{Deref, Range};

/// A value and its span, in octets of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spanned<T> {
    begin: usize,
    end: usize,
    value: T,
}

impl<T> Spanned<T> {
    /// The value at this span.
    pub(super) fn new(value: T, span: Range<usize>) -> Spanned<T> {
        Spanned { begin: span.start, end: span.end, value }
    }

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
