//! DSMIPv6 encapsulation, common to home agent and mobile router (RFC 5555 §4).

use crate::contract::input::Packet;
use core::time::Duration;
use roam6_wire::ip4::Encapsulated;
use roam6_wire::{Ipv4Endpoint, icmp4};

#[cfg(test)]
mod tests;

/// Default interval of NAT keepalives (RFC 5555 §6, NATKATIMEOUT).
pub const NATKATIMEOUT: Duration = Duration::from_secs(110);
/// The refresh time that means that no keepalives are needed (RFC 5555 §3.2.2).
pub(super) const NO_KEEPALIVE: u32 = u32::MAX;

/// Whether a packet is IPv4: one that encapsulates IPv6, or is not for this role.
pub(super) fn is_ipv4(packet: &Packet) -> bool {
    packet.bytes.first().is_some_and(|first| first >> 4 == 4)
}

/// Whether an IPv4 packet is an ICMPv4 message.
pub(super) fn is_icmp4(packet: &Packet) -> bool {
    const PROTOCOL_AT: usize = 9;
    packet.bytes.get(PROTOCOL_AT) == Some(&icmp4::PROTOCOL)
}

/// Encapsulates `inner` in IPv4, with UDP if the ports are not 0.
pub(super) fn encapsulate(source: Ipv4Endpoint, destination: Ipv4Endpoint, inner: &[u8]) -> Vec<u8> {
    Encapsulated { source, destination, tos: 0, inner }.emit()
}
