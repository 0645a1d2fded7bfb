//! Parsers and emitters of every header, message and option that roam6 uses.
//!
//! One file for each protocol, in one order: purpose, values, `parse`, `emit`, helpers, tests.
//! A parser takes untrusted bytes and returns a value or [`Malformed`]; it never panics. An unassigned
//! code point has an `Unknown` variant, so it survives a round trip. Emitting never fails.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod address;
pub mod checksum;
mod codepoint;
pub mod dhcp6;
pub mod domain;
pub mod fragment;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
pub mod geo;
pub mod icmp4;
pub mod icmp6;
pub mod ip4;
pub mod ip6;
#[cfg(feature = "its")]
pub mod its;
pub mod malformed;
pub mod mnpp;
pub mod mobility;
mod portal;
pub mod reader;
pub mod relay;
#[cfg(feature = "geo-security")]
pub mod security;
pub mod shim6;
mod text;
pub mod udp;
pub mod udp6;
pub mod writer;

pub use address::{Bid, CareOfAddress, Fid, HomeAddress, LinkAddress, Prefix, Sequence};
pub use domain::DomainName;
pub use ip4::Ipv4Endpoint;
pub use malformed::{Malformed, Why};
pub use portal::PortalUri;
pub use reader::Reader;
pub use udp6::Ipv6Endpoint;
pub use writer::Writer;
