//! IPv4 packets as routers and NATs treat them (RFC 791, RFC 768, RFC 3022, RFC 4213 §3).

use crate::net::header::{Header, IPV6, UDP};
use roam6_wire::Ipv4Endpoint;
use roam6_wire::checksum::internet_checksum;
use roam6_wire::icmp4::{self, Message};
use roam6_wire::ip4::{self, Encapsulated};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Octets of a header; headers with options are not supported.
pub const HEADER: usize = 20;
/// Offsets of the TTL, the checksum, and the addresses, source first.
const TTL: usize = 8;
const CHECKSUM: usize = 10;
const ADDRESSES: usize = 12;

/// Whether the version field says IPv4.
pub fn is(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 4)
}

/// Parses the header, with IPv4-mapped addresses; `None` if the packet or its checksum is wrong.
pub fn header(packet: &[u8]) -> Option<Header> {
    let header: &[u8; HEADER] = packet.first_chunk()?;
    let [0x45, _, high, low, _, _, _, _, hop_limit, next, ..] = *header else { return None };
    if usize::from(u16::from_be_bytes([high, low])) != packet.len() || internet_checksum(header) != 0 {
        return None;
    }
    let address = |at: usize| packet.get(at..)?.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets));
    let (source, destination) = (address(ADDRESSES)?, address(ADDRESSES + 4)?);
    Some(Header { source: source.to_ipv6_mapped(), destination: destination.to_ipv6_mapped(), next, hop_limit })
}

/// Decapsulates: the inner packet and the tunnel ends.
pub fn decapsulate(packet: &[u8]) -> Option<(Ipv4Endpoint, Ipv4Endpoint, &[u8])> {
    let header = header(packet)?;
    let payload = packet.get(HEADER..)?;
    let (ports, inner) = match header.next {
        IPV6 => ((0, 0), payload),
        UDP => {
            let [a, b, c, d, _, _, _, _, inner @ ..] = payload else { return None };
            ((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])), inner)
        }
        _ => return None,
    };
    let end = |address: Ipv6Addr, port| Some(Ipv4Endpoint { address: address.to_ipv4_mapped()?, port });
    Some((end(header.source, ports.0)?, end(header.destination, ports.1)?, inner))
}

/// Encapsulates `inner`: in UDP, or in IPv4 directly if the ends have no ports.
pub fn encapsulate(source: Ipv4Endpoint, destination: Ipv4Endpoint, inner: &[u8]) -> Vec<u8> {
    Encapsulated { source, destination, tos: 0, inner }.emit()
}

/// The ICMPv4 message of a packet, if it is one, and the addresses.
pub fn icmp4(packet: &[u8]) -> Option<(ip4::Header, Message)> {
    let (header, payload) = ip4::Header::parse(packet).ok().filter(|(header, _)| header.protocol == icmp4::PROTOCOL)?;
    Some((header, Message::parse(payload).ok()?))
}

/// Decrements the TTL; `false` if it is exhausted.
pub fn decrement_ttl(packet: &mut [u8]) -> bool {
    match packet.get_mut(TTL) {
        Some(hops) if *hops > 1 => *hops -= 1,
        _ => return false,
    }
    write_checksum(packet);
    true
}

/// The packet with other ends, as a NAT forwards it (RFC 3022 §4.1).
pub fn translate(packet: &[u8], source: Ipv4Endpoint, destination: Ipv4Endpoint) -> Option<Vec<u8>> {
    let (_, _, inner) = decapsulate(packet)?;
    let mut translated = encapsulate(source, destination, inner);
    *translated.get_mut(TTL)? = *packet.get(TTL)?;
    write_checksum(&mut translated);
    Some(translated)
}

fn write_checksum(packet: &mut [u8]) {
    let Some(header) = packet.first_chunk_mut::<HEADER>() else { return };
    header[CHECKSUM..CHECKSUM + 2].fill(0);
    let sum = internet_checksum(header).to_be_bytes();
    header[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Ipv4Endpoint = Ipv4Endpoint { address: Ipv4Addr::new(10, 0, 0, 2), port: 4191 };
    const THERE: Ipv4Endpoint = Ipv4Endpoint { address: Ipv4Addr::new(203, 0, 113, 1), port: 4191 };
    const OUTSIDE: Ipv4Endpoint = Ipv4Endpoint { address: Ipv4Addr::new(198, 51, 100, 1), port: 40_000 };

    #[test]
    fn the_codec_parses_udp_encapsulation_after_nat() {
        let inner = [0x60, 1, 2, 3, 4];
        let mut packet = translate(&encapsulate(HERE, THERE, &inner), OUTSIDE, THERE).unwrap();
        assert!(decrement_ttl(&mut packet));
        let read = Encapsulated::parse(&packet).unwrap();
        assert_eq!((read.source, read.destination, read.inner), (OUTSIDE, THERE, &inner[..]));
        assert_eq!(decapsulate(&packet), Some((OUTSIDE, THERE, &inner[..])));
    }

    #[test]
    fn without_ports_the_inner_packet_follows_the_ipv4_header() {
        let plain = |end: Ipv4Endpoint| Ipv4Endpoint { port: 0, ..end };
        let packet = encapsulate(plain(HERE), plain(THERE), &[0x60]);
        assert_eq!(packet.len(), HEADER + 1);
        assert_eq!(Encapsulated::parse(&packet).unwrap().source, plain(HERE));
    }

    #[test]
    fn a_malformed_ipv4_header_is_rejected() {
        let mut packet = encapsulate(HERE, THERE, &[0x60]);
        packet[15] ^= 1;
        assert_eq!(header(&packet), None);
    }
}
