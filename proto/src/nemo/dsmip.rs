//! What the two ends of a binding over an IPv4-only uplink share (RFC 5555 §4).

use crate::contract::input::Packet;
use core::time::Duration;
use roam6_wire::Ipv4Endpoint;
use roam6_wire::ip4::Encapsulated;

#[cfg(test)]
mod tests;

/// How often the mapping of a NAT is refreshed unless somebody knows better (RFC 5555 §6, NATKATIMEOUT).
pub const NATKATIMEOUT: Duration = Duration::from_secs(110);
/// The refresh time that says that there is nothing to refresh (RFC 5555 §3.2.2).
pub(super) const NO_KEEPALIVE: u32 = u32::MAX;

/// Whether a packet is an IPv4 one: an IPv6 packet is carried by it, or it is not for us.
pub(super) fn is_ipv4(packet: &Packet) -> bool {
    packet.bytes.first().is_some_and(|first| first >> 4 == 4)
}

/// The IPv4 packet that carries `inner` between these two.
pub(super) fn encapsulate(source: Ipv4Endpoint, destination: Ipv4Endpoint, inner: &[u8]) -> Vec<u8> {
    Encapsulated { source, destination, tos: 0, inner }.emit()
}
