//! IPv4 packets, parsed and built apart from the codecs under test (RFC 791, RFC 768, RFC 4213 §3).

use crate::net::header::{Header, IPV6, UDP, sum};
use roam6_wire::Ipv4Endpoint;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Octets of a header; headers with options are not supported.
pub const HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const HOP_LIMIT: u8 = 64;
/// Offset of the addresses, source first, and of the UDP checksum.
const ADDRESSES: usize = 12;
const UDP_SUM: usize = HEADER + 6;

/// Whether the version field says IPv4.
pub fn is(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 4)
}

/// Parses the header, with IPv4-mapped addresses; `None` if the packet or its checksum is wrong.
pub fn header(packet: &[u8]) -> Option<Header> {
    let header: &[u8; HEADER] = packet.first_chunk()?;
    let [0x45, _, high, low, _, _, _, _, hop_limit, next, ..] = *header else { return None };
    if usize::from(u16::from_be_bytes([high, low])) != packet.len() || sum(&[header]) != 0 {
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
    encapsulate_with(source, destination, inner, HOP_LIMIT)
}

fn encapsulate_with(source: Ipv4Endpoint, destination: Ipv4Endpoint, inner: &[u8], hop_limit: u8) -> Vec<u8> {
    let udp = source.port != 0;
    let length = HEADER + if udp { UDP_HEADER } else { 0 } + inner.len();
    let [high, low] = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    let next = if udp { UDP } else { IPV6 };
    let mut packet = vec![0x45, 0, high, low, 0, 0, 0, 0, hop_limit, next, 0, 0];
    packet.extend(source.address.octets());
    packet.extend(destination.address.octets());
    if udp {
        let length = u16::try_from(length - HEADER).unwrap_or(u16::MAX);
        packet.extend([source.port, destination.port, length, 0].into_iter().flat_map(u16::to_be_bytes));
    }
    packet.extend(inner);
    write_checksums(&mut packet, udp);
    packet
}

/// Decrements the TTL; `false` if it is exhausted.
pub fn decrement_ttl(packet: &mut [u8]) -> bool {
    match packet.get_mut(8) {
        Some(hops) if *hops > 1 => *hops -= 1,
        _ => return false,
    }
    write_header_checksum(packet);
    true
}

/// The packet with other ends, as a NAT forwards it (RFC 3022 §4.1).
pub fn translate(packet: &[u8], source: Ipv4Endpoint, destination: Ipv4Endpoint) -> Option<Vec<u8>> {
    let (_, _, inner) = decapsulate(packet)?;
    Some(encapsulate_with(source, destination, inner, header(packet)?.hop_limit))
}

fn write_checksums(packet: &mut [u8], udp: bool) {
    write_header_checksum(packet);
    if !udp {
        return;
    }
    let (addresses, datagram) = (packet.get(ADDRESSES..HEADER), packet.get(HEADER..));
    let (Some(addresses), Some(datagram)) = (addresses, datagram) else { return };
    let length = u16::try_from(datagram.len()).unwrap_or(u16::MAX).to_be_bytes();
    let sum = match sum(&[addresses, &[0, UDP], &length, datagram]) {
        0 => u16::MAX,
        sum => sum,
    };
    put(packet, UDP_SUM, sum);
}

fn write_header_checksum(packet: &mut [u8]) {
    put(packet, 10, 0);
    let sum = sum(&[packet.get(..HEADER).unwrap_or_default()]);
    put(packet, 10, sum);
}

fn put(packet: &mut [u8], at: usize, number: u16) {
    if let Some(field) = packet.get_mut(at..at + 2) {
        field.copy_from_slice(&number.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_wire::ip4::Encapsulated;

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
