//! Bounds of security parameter indices.

/// Smallest SPI that is not reserved (RFC 4285 §5.1, RFC 4303 §2.1).
pub(crate) const MIN_SPI: u32 = 256;
pub(crate) const HINT_SPI: &str = "an SPI is 256 or more; lower numbers are reserved";
