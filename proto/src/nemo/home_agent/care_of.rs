//! Which addresses are valid as care-of addresses (RFC 6275 §6.1.7, §9.5.1).

use super::HomeAgent;
use roam6_wire::{Ipv4Endpoint, Prefix};
use std::net::Ipv6Addr;

/// Reserved subnet anycast addresses of a prefix with EUI-64 identifiers: the last 128 identifiers (RFC 2526 §2).
const ANYCAST_IDENTIFIERS: u64 = 0xfdff_ffff_ffff_ff80;

/// Whether the address is a global or unique local unicast address.
pub(super) fn is_routable_unicast(address: Ipv6Addr) -> bool {
    let special = address.is_multicast() || address.is_unspecified() || address.is_loopback();
    !(special || address.is_unicast_link_local() || Ipv4Endpoint::from_ipv6(address).is_some())
}

/// Whether the address leads to IPv4 or is discarded: IPv4-compatible (RFC 4291 §2.5.5.1), translated (RFC 6052 §2.1),
/// discard-only (RFC 6666), 6to4 (RFC 7526).
fn is_ipv4_or_discard(address: Ipv6Addr) -> bool {
    matches!(
        address.segments(),
        [0, 0, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x100, 0, 0, 0, ..] | [0x2002, ..]
    )
}

/// Whether the address is an anycast address of the routers or home agents of a home link.
fn is_anycast_of(prefix: Prefix, address: Ipv6Addr) -> bool {
    let identifier = address.to_bits() as u64;
    let reserved = prefix.length() <= 64 && identifier >= ANYCAST_IDENTIFIERS && identifier >> 56 == 0xfd;
    prefix.contains(address) && (address == prefix.address() || reserved)
}

impl HomeAgent {
    /// Whether `address` may be a care-of address: unicast, and neither this host's nor an anycast address of home
    /// agents.
    pub(super) fn is_valid_care_of(&self, address: Ipv6Addr) -> bool {
        let anycast = self.config.home_prefixes.iter().any(|prefix| is_anycast_of(*prefix, address));
        let own = address == self.config.address || self.home_link.is_own_address(address);
        is_routable_unicast(address) && !(own || anycast || is_ipv4_or_discard(address))
    }

    /// Whether `end` may be an IPv4 care-of address.
    pub(super) fn is_valid_ipv4_care_of(&self, end: Ipv4Endpoint) -> bool {
        let own = self.config.ipv4.is_some_and(|service| service.address == end.address);
        end.is_unicast() && !own && !self.home_link.is_own_address(end.address.to_ipv6_mapped())
    }
}
