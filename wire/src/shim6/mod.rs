//! Shim6: what two hosts with several addresses each tell one another below the transport. RFC 5533 §5, RFC 5534 §5.

pub mod tag;

pub use tag::{Fork, Tag};

/// Next Header value of the Shim6 header, control and payload.
pub const PROTOCOL: u8 = 140;
