//! What headers of IPv6 and IPv4 have in common in the simulator.

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
