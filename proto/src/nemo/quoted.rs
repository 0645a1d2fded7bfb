//! The packet of a tunnel that an ICMPv6 error quotes (RFC 4443 §3, RFC 2473 §8.1).

use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::ip6::protocol;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Octets of a UDP header.
const UDP_HEADER: usize = 8;
/// Octets of an IPv6 header.
const HEADER: usize = 40;
/// Maximum extension headers that are skipped.
const MAX_EXTENSION_HEADERS: usize = 3;

/// A quoted IPv6 packet; its end may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuotedPacket {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Next header of the IPv6 header.
    pub next_header: u8,
    /// Length of the whole packet, octets.
    pub length: u32,
    /// Source and destination of the inner packet of a tunnel; those of IPv4 as IPv4-mapped addresses.
    pub inner: Option<(Ipv6Addr, Ipv6Addr)>,
}

impl QuotedPacket {
    /// Parses a packet from its first octet; `None` if it is not IPv6 or its header is incomplete.
    pub(super) fn parse(packet: &[u8]) -> Option<QuotedPacket> {
        let (header, rest) = packet.split_at_checked(HEADER)?;
        if header.first()? >> 4 != 6 {
            return None;
        }
        let next_header = *header.get(6)?;
        Some(QuotedPacket {
            source: ipv6_at(header, 8)?,
            destination: ipv6_at(header, 24)?,
            next_header,
            length: u32::from(u16::from_be_bytes(*header.get(4..)?.first_chunk()?)) + 40,
            inner: inner(next_header, rest),
        })
    }
}

/// The addresses of the inner packet, in UDP on the port of RFC 5555 or not, after destination options (the encapsulation limit, RFC 2473 §4.1.1) and the
/// header of a first fragment.
fn inner(mut next_header: u8, mut rest: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr)> {
    for _ in 0..MAX_EXTENSION_HEADERS {
        if next_header == protocol::UDP {
            let is_tunnel = rest.get(2..)?.first_chunk() == Some(&DSMIP_PORT.to_be_bytes())
                || rest.first_chunk() == Some(&DSMIP_PORT.to_be_bytes());
            rest = rest.get(UDP_HEADER..).filter(|_| is_tunnel)?;
            next_header = if rest.first()? >> 4 == 4 { protocol::IPV4 } else { protocol::IPV6 };
        }
        let length = match (next_header, rest.first()? >> 4) {
            (protocol::IPV6, 6) => return Some((ipv6_at(rest, 8)?, ipv6_at(rest, 24)?)),
            (protocol::IPV4, 4) => return Some((ipv4_at(rest, 12)?, ipv4_at(rest, 16)?)),
            (protocol::DESTINATION, _) => 8 * (usize::from(*rest.get(1)?) + 1),
            (protocol::FRAGMENT, _) if is_first_fragment(rest)? => 8,
            _ => return None,
        };
        next_header = *rest.first()?;
        rest = rest.get(length..)?;
    }
    None
}

/// Whether the offset of a Fragment header is 0.
fn is_first_fragment(header: &[u8]) -> Option<bool> {
    Some(u16::from_be_bytes(*header.get(2..)?.first_chunk()?) & 0xfff8 == 0)
}

/// The address at that offset, if the octets go so far.
pub(super) fn ipv6_at(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    bytes.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets))
}

fn ipv4_at(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    bytes.get(at..)?.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets).to_ipv6_mapped())
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_wire::ip6::{self, Header};

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    /// A tunnel packet with the given extension headers before an inner IPv6 packet.
    fn tunnelled(next_header: u8, extension_headers: &[u8]) -> Vec<u8> {
        let inner = ip6::emit(&Header::new(ip("2001:db8:f00::1"), ip("2001:db8:9::9")), protocol::UDP, &[0; 8]);
        let outer = Header::new(ip("2001:db8:a::1"), ip("2001:db8::1"));
        ip6::emit(&outer, next_header, &[extension_headers, &inner].concat())
    }

    #[test]
    fn inner_addresses_are_found_behind_encapsulation_limit_and_first_fragment() {
        let expected = Some((ip("2001:db8:f00::1"), ip("2001:db8:9::9")));
        let limit = [protocol::IPV6, 0, 4, 1, 4, 1, 0, 0];
        let first = [protocol::IPV6, 0, 0, 1, 0, 0, 0, 7];
        let later = [protocol::IPV6, 0, 0, 9, 0, 0, 0, 7];
        for (next_header, headers, inner) in [
            (protocol::IPV6, &[][..], expected),
            (protocol::DESTINATION, &limit, expected),
            (protocol::FRAGMENT, &first, expected),
            (protocol::FRAGMENT, &later, None),
            (protocol::UDP, &[], None),
        ] {
            let packet = tunnelled(next_header, headers);
            let quoted = QuotedPacket::parse(&packet).unwrap();
            assert_eq!((quoted.source, quoted.destination), (ip("2001:db8:a::1"), ip("2001:db8::1")));
            assert_eq!((quoted.next_header, quoted.inner), (next_header, inner));
            assert_eq!(usize::try_from(quoted.length).unwrap(), packet.len());
        }
    }

    #[test]
    fn truncated_packets_never_panic() {
        let packet = tunnelled(protocol::DESTINATION, &[protocol::IPV6, 0, 4, 1, 4, 1, 0, 0]);
        for length in 0..packet.len() {
            let quoted = QuotedPacket::parse(&packet[..length]);
            assert_eq!(quoted.is_some(), length >= HEADER);
            assert_eq!(quoted.is_some_and(|quoted| quoted.inner.is_some()), length >= 88, "{length}");
        }
    }
}
