//! IPv6 packets as routers treat them: headers, parsed and built apart from the codecs under test (RFC 8200, RFC 2473
//! §5.1), and packets of hosts by the codecs. For IPv4 see [`crate::net::ipv4::packet`].

pub use crate::net::header::{Header, ICMPV6, IPV6, MOBILITY, UDP};
use crate::net::ipv4::packet as ipv4;
use roam6_proto::contract::config::encryption::{MAX_WIREGUARD_DEVICES, WIREGUARD_PORT};
use roam6_proto::contract::item::{Encap, TunnelPath};
use roam6_proto::crypto::path_esp::AssociationKey;
use roam6_proto::crypto::wireguard::PresharedKey;
use roam6_wire::icmp6::{self, Message, NeighbourOption, NeighbourSolicitation};
use roam6_wire::ip6::Datagram;
use roam6_wire::udp::Udp;
use roam6_wire::{Ipv4Endpoint, LinkAddress};
use std::net::Ipv6Addr;

/// The port of RFC 5555.
const TUNNEL_PORT: u16 = 4191;
/// Octets of an IPv6 header.
pub const HEADER: usize = 40;
const HOP_LIMIT: u8 = 64;
const ESP: u8 = 50;

impl Header {
    /// Parses the header; `None` if the packet is malformed.
    pub fn parse(packet: &[u8]) -> Option<Header> {
        if ipv4::is(packet) {
            return ipv4::header(packet);
        }
        let (header, payload) = packet.split_at_checked(HEADER)?;
        let [version, _, _, _, high, low, next, hop_limit, ..] = *header else { return None };
        if version >> 4 != 6 || usize::from(u16::from_be_bytes([high, low])) != payload.len() {
            return None;
        }
        let address = |at: usize| -> Option<Ipv6Addr> {
            let octets: [u8; 16] = header.get(at..at.checked_add(16)?)?.try_into().ok()?;
            Some(octets.into())
        };
        Some(Header { source: address(8)?, destination: address(24)?, next, hop_limit })
    }
}

/// The octets after the header.
pub fn payload(packet: &[u8]) -> &[u8] {
    let header = if ipv4::is(packet) { ipv4::HEADER } else { HEADER };
    packet.get(header..).unwrap_or_default()
}

/// A packet of a tunnel: source, destination, the ports of UDP over IPv6, and the inner packet.
pub type Tunnelled<'a> = (Ipv6Addr, Ipv6Addr, Option<(u16, u16)>, &'a [u8]);

/// Takes a packet of a tunnel apart.
pub fn decapsulate(packet: &[u8]) -> Option<Tunnelled<'_>> {
    if ipv4::is(packet) {
        return ipv4::decapsulate(packet)
            .map(|(source, destination, inner)| (source.to_ipv6(), destination.to_ipv6(), None, inner));
    }
    let header = Header::parse(packet)?;
    let (ports, inner) = match (header.next, payload(packet).split_first_chunk::<8>()) {
        (UDP, Some((&[a, b, c, d, ..], inner))) => {
            (Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))), inner)
        }
        _ => (None, payload(packet)),
    };
    Some((header.source, header.destination, ports, inner))
}

/// Whether it is a packet in UDP on the port of RFC 5555 that is no signalling.
pub fn is_data_in_udp(packet: &[u8]) -> bool {
    let Some((_, _, Some((_, TUNNEL_PORT)), inner)) = decapsulate(packet) else { return false };
    Header::parse(inner).is_some_and(|header| header.next != MOBILITY && header.next != ESP)
}

/// The ports of devices that encrypt.
const WIREGUARD_PORTS: core::ops::Range<u16> = WIREGUARD_PORT..WIREGUARD_PORT + MAX_WIREGUARD_DEVICES;

/// What stands in place of encryption: whoever has another key takes the packet for a foreign one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// Of WireGuard: the preshared key.
    Wireguard(PresharedKey),
    /// Of ESP: the key of the association.
    Esp(AssociationKey),
}

/// The key and the inner packet of an encrypted packet.
pub fn unseal(packet: &[u8]) -> Option<(Seal, &[u8])> {
    if !ipv4::is(packet) && Header::parse(packet)?.next == ESP {
        let (key, inner) = payload(packet).split_first_chunk()?;
        return Some((Seal::Esp(AssociationKey(*key)), inner));
    }
    let (_, _, ports, payload) = decapsulate(packet)?;
    let (key, inner) = payload.split_first_chunk()?;
    ports.filter(|(_, to)| WIREGUARD_PORTS.contains(to)).map(|_| (Seal::Wireguard(PresharedKey(*key)), inner))
}

/// Whether it is an encrypted packet.
pub fn is_sealed(packet: &[u8]) -> bool {
    unseal(packet).is_some()
}

/// Encapsulates `inner` for a path. In place of encryption stands the key, which for WireGuard is as long as its header and tag.
pub fn encapsulate_path(path: &TunnelPath, inner: &[u8]) -> Vec<u8> {
    let header = Header { source: path.local, destination: path.remote, next: UDP, hop_limit: HOP_LIMIT };
    match path.encap {
        Encap::Native => encapsulate(path.local, path.remote, inner),
        Encap::Udp { local, remote } => udp(header, (local, remote), inner),
        Encap::Wireguard(peer) => {
            // Without a port the kernel learns it; no NAT of these worlds changes it.
            let own = peer.device.port();
            let port = if peer.port == 0 { own } else { peer.port };
            udp(header, (own, port), &[&peer.preshared_key.0, inner].concat())
        }
        Encap::Esp(pair) => {
            let key = pair.keys.map_or(AssociationKey([0; 20]), |keys| keys.outbound);
            build(Header { next: ESP, ..header }, &[&key.0, inner].concat())
        }
    }
}

/// The upper-layer protocol and its octets, behind options and routing headers; `None` for a later fragment.
pub fn upper_layer(packet: &[u8]) -> Option<(u8, &[u8])> {
    let mut next = Header::parse(packet)?.next;
    let mut rest = payload(packet);
    while matches!(next, 0 | 43 | 60) {
        let [following, length, ..] = *rest else { return None };
        rest = rest.get((usize::from(length).checked_add(1)?).checked_mul(8)?..)?;
        next = following;
    }
    Some((next, rest))
}

/// Builds a packet with addresses, hop limit and next header of `header`.
pub fn build(header: Header, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, length[0], length[1], header.next, header.hop_limit];
    packet.extend(header.source.octets());
    packet.extend(header.destination.octets());
    packet.extend(payload);
    packet
}

/// Encapsulates `inner` between two tunnel ends.
pub fn encapsulate(source: Ipv6Addr, destination: Ipv6Addr, inner: &[u8]) -> Vec<u8> {
    match (Ipv4Endpoint::from_ipv6(source), Ipv4Endpoint::from_ipv6(destination)) {
        (Some(source), Some(destination)) => ipv4::encapsulate(source, destination, inner),
        _ => build(Header { source, destination, next: IPV6, hop_limit: HOP_LIMIT }, inner),
    }
}

/// Decrements the hop limit; `false` if it is exhausted.
pub fn decrement_hop_limit(packet: &mut [u8]) -> bool {
    if ipv4::is(packet) {
        return ipv4::decrement_ttl(packet);
    }
    match packet.get_mut(7) {
        Some(hops) if *hops > 1 => {
            *hops -= 1;
            true
        }
        _ => false,
    }
}

/// Builds an ICMPv6 packet.
pub fn icmp6(header: Header, message: &Message) -> Vec<u8> {
    build(Header { next: ICMPV6, ..header }, &message.emit(header.source, header.destination))
}

/// Builds a packet of neighbour discovery.
pub fn on_link(source: Ipv6Addr, destination: Ipv6Addr, message: &Message) -> Vec<u8> {
    icmp6(Header { source, destination, next: ICMPV6, hop_limit: icmp6::ON_LINK_HOP_LIMIT }, message)
}

/// Builds a Neighbour Solicitation from the interface `own`, or for duplicate address detection without.
pub fn solicitation(source: Ipv6Addr, target: Ipv6Addr, own: Option<LinkAddress>) -> Vec<u8> {
    let options = own.map(NeighbourOption::SourceLinkAddress).into_iter().collect();
    let message = Message::NeighbourSolicitation(NeighbourSolicitation { target, options });
    on_link(source, icmp6::solicited_node(target), &message)
}

/// The ICMPv6 message of a packet.
pub fn parse_icmp6(packet: &[u8]) -> Option<Message> {
    Message::parse(&Datagram::parse(packet).ok()?).ok()
}

/// Builds a UDP packet.
pub fn udp(header: Header, (source, destination): (u16, u16), payload: &[u8]) -> Vec<u8> {
    let datagram = Udp { source, destination, payload }.emit(header.source, header.destination);
    build(Header { next: UDP, ..header }, &datagram)
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_wire::icmp6::Echo;

    const HEADER_OF_TEST: Header =
        Header { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST, next: UDP, hop_limit: 2 };

    #[test]
    fn a_built_header_is_parsed_again() {
        let packet = build(HEADER_OF_TEST, b"abc");
        assert_eq!(Header::parse(&packet), Some(HEADER_OF_TEST));
        assert_eq!(payload(&packet), b"abc");
        assert_eq!(Header::parse(packet.split_last().unwrap().1), None);
        let outer = encapsulate(HEADER_OF_TEST.source, HEADER_OF_TEST.destination, &packet);
        assert_eq!(upper_layer(&outer), Some((IPV6, &packet[..])));
    }

    #[test]
    fn the_hop_limit_is_decremented_to_zero() {
        let mut packet = build(HEADER_OF_TEST, b"");
        assert!(decrement_hop_limit(&mut packet));
        assert!(!decrement_hop_limit(&mut packet));
    }

    #[test]
    fn an_echo_request_has_the_icmpv6_checksum() {
        let echo = Message::EchoRequest(Echo { identifier: 0, sequence: 1, data: Vec::new() });
        let packet = icmp6(HEADER_OF_TEST, &echo);
        assert_eq!(payload(&packet), [128, 0, 0x7f, 0xba, 0, 0, 0, 1]);
        assert_eq!(parse_icmp6(&packet), Some(echo));
    }
}
