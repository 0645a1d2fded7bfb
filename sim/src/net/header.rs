//! What headers of IPv6 and IPv4 have in common in the simulator: fields, protocol numbers and the checksum.

pub use roam6_wire::ip6::protocol::{ICMPV6, IPV6, MOBILITY, UDP};
use std::net::Ipv6Addr;

/// The fields of an IPv6 header on which the simulator acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Next header.
    pub next: u8,
    /// Hop limit.
    pub hop_limit: u8,
}

/// The Internet checksum of the concatenated parts, of which only the last may have an odd length (RFC 1071).
pub(crate) fn sum(parts: &[&[u8]]) -> u16 {
    let words = |octets: &[u8]| -> u64 {
        let (pairs, odd) = octets.as_chunks::<2>();
        let whole: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
        whole + odd.first().map_or(0, |last| u64::from(*last) << 8)
    };
    let mut sum: u64 = parts.iter().map(|part| words(part)).sum();
    while sum >> 16 != 0 {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(u16::try_from(sum).unwrap_or(0))
}
