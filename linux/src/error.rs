//! The error type of this crate: the operation, and the kernel's error message.

use core::fmt;
use std::io;

/// What could not be done, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    what: String,
    why: String,
}

impl Error {
    /// `what` (and where) could not be done because of `why`.
    pub fn new(what: impl fmt::Display, why: impl fmt::Display) -> Error {
        Error { what: what.to_string(), why: why.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl core::error::Error for Error {}

/// Adds the operation to an error.
pub(crate) trait Context<T> {
    /// The error, as one of `what`.
    fn context(self, what: impl fmt::Display) -> Result<T, Error>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, what: impl fmt::Display) -> Result<T, Error> {
        self.map_err(|error| Error::new(what, error))
    }
}

impl<T> Context<T> for nix::Result<T> {
    fn context(self, what: impl fmt::Display) -> Result<T, Error> {
        self.map_err(|error| Error::new(what, error.desc()))
    }
}
