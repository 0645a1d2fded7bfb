//! IPv6 in IPv4 encapsulation, with or without UDP: RFC 5555 §4.1, RFC 4213 §3; RFC 791, RFC 768.
//!
//! See <https://www.rfc-editor.org/rfc/rfc5555#section-4.1>.

use crate::checksum::{checksum4, internet_checksum};
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{ip6, udp};
use alloc::vec::Vec;
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

/// The UDP port of home agents (RFC 5555 §2.3.2.2).
pub const DSMIP_PORT: u16 = 4191;
/// Octets of an IPv4 header without options.
pub const HEADER_LENGTH: usize = 20;
/// Time to live of packets roam6 originates.
const DEFAULT_TTL: u8 = 64;

const VERSION: u8 = 4;
const WORD: usize = 4;
const CHECKSUM_AT: usize = 10;
/// Octets of the largest payload.
const MAX_PAYLOAD: usize = u16::MAX as usize - HEADER_LENGTH;
/// More fragments, and the offset of this one.
const FRAGMENT_MASK: u16 = 0x3fff;
/// Flag: routers do not fragment it.
const DONT_FRAGMENT: u16 = 0x4000;

/// An endpoint of a tunnel over IPv4.
///
/// Where an endpoint may be of either family, it is encoded as an IPv6 address: an IPv4-mapped address (RFC 4291
/// §2.5.5.2) with the port in the 16 bits before `ffff`. No node has such an address, and no router forwards it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ipv4Endpoint {
    /// The address.
    pub address: Ipv4Addr,
    /// The UDP port; 0 without UDP.
    pub port: u16,
}

impl Ipv4Endpoint {
    /// The endpoint with the UDP port of RFC 5555.
    pub fn dsmip(address: Ipv4Addr) -> Ipv4Endpoint {
        Ipv4Endpoint { address, port: DSMIP_PORT }
    }

    /// Decodes an endpoint from an IPv6 address; `None` if the address encodes none.
    pub fn from_ipv6(address: Ipv6Addr) -> Option<Ipv4Endpoint> {
        let [0, 0, 0, 0, port, 0xffff, high, low] = address.segments() else { return None };
        let bits = u32::from(high) << 16 | u32::from(low);
        Some(Ipv4Endpoint { address: Ipv4Addr::from_bits(bits), port })
    }

    /// Encodes the endpoint as an IPv6 address.
    pub fn to_ipv6(self) -> Ipv6Addr {
        let mapped = self.address.to_ipv6_mapped().to_bits();
        Ipv6Addr::from_bits(mapped | u128::from(self.port) << 48)
    }

    /// Whether its address is a unicast address that may be source and destination.
    pub fn is_unicast(self) -> bool {
        let address = self.address;
        let reserved = address.octets()[0] >= 240 || address.octets()[0] == 0;
        !(address.is_multicast() || address.is_loopback() || address.is_link_local() || reserved)
    }

    /// Octets of encapsulation overhead: the IPv4 header, and the UDP header if there is a port.
    pub fn overhead(self) -> u32 {
        if self.port == 0 { HEADER_LENGTH as u32 } else { (HEADER_LENGTH + udp::HEADER_LENGTH) as u32 }
    }
}

impl fmt::Display for Ipv4Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            0 => self.address.fmt(f),
            port => write!(f, "{}:{port}", self.address),
        }
    }
}

/// An IPv6 packet in IPv4 encapsulation. Both endpoints have a port (UDP encapsulation), or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encapsulated<'a> {
    /// Source endpoint.
    pub source: Ipv4Endpoint,
    /// Destination endpoint.
    pub destination: Ipv4Endpoint,
    /// Type of Service: DSCP and ECN.
    pub tos: u8,
    /// The IPv6 packet; only its version has been checked.
    pub inner: &'a [u8],
}

impl<'a> Encapsulated<'a> {
    /// Parses an IPv4 packet. Options and link padding after the total length are skipped.
    ///
    /// # Errors
    /// [`Malformed`] for fragments, wrong checksums, other protocols than IPv6 and UDP, and what is not IPv6 inside.
    pub fn parse(bytes: &'a [u8]) -> Result<Encapsulated<'a>, Malformed> {
        let (header, mut body) = Header::read(bytes)?;
        let ports = match header.protocol {
            ip6::protocol::IPV6 => (0, 0),
            ip6::protocol::UDP => read_ports(&mut body, (header.source, header.destination))?,
            other => return Err(Malformed { what: "IPv4 protocol", at: 9, why: Why::Value(other.into()) }),
        };
        let at = body.position();
        let inner = body.rest();
        match inner.first().map(|first| first >> 4) {
            Some(6) => {}
            Some(version) => return Err(Malformed { what: "inner version", at, why: Why::Value(version.into()) }),
            None => return Err(Malformed { what: "inner packet", at, why: Why::Short { has: 0, needs: 1 } }),
        }
        let end = |address, port| Ipv4Endpoint { address, port };
        let (source, destination) = (end(header.source, ports.0), end(header.destination, ports.1));
        Ok(Encapsulated { source, destination, tos: header.tos, inner })
    }

    /// Emits the IPv4 packet with its checksums; a payload beyond the length field is truncated. Routers may fragment
    /// it, so that no IPv6 packet is lost for a smaller MTU (RFC 4213 §3.2).
    pub fn emit(&self) -> Vec<u8> {
        self.emit_with(0)
    }

    /// The same as a packet that routers drop if it is longer than the MTU of a link (RFC 791 §2.3): a probe.
    pub fn emit_unfragmentable(&self) -> Vec<u8> {
        self.emit_with(DONT_FRAGMENT)
    }

    fn emit_with(&self, flags: u16) -> Vec<u8> {
        let (source, destination) = (self.source.address, self.destination.address);
        let header = |protocol| Header { source, destination, tos: self.tos, protocol };
        if self.source.port == 0 {
            return header(ip6::protocol::IPV6).emit_with(flags, self.inner);
        }
        let inner = self.inner.get(..MAX_PAYLOAD - udp::HEADER_LENGTH).unwrap_or(self.inner);
        let sum = |datagram: &[u8]| checksum4(source, destination, ip6::protocol::UDP, datagram);
        header(ip6::protocol::UDP).emit_with(flags, &udp::emit((self.source.port, self.destination.port), inner, sum))
    }
}

/// The IPv4 header of a packet that is no fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Type of Service: DSCP and ECN.
    pub tos: u8,
    /// The protocol of the payload.
    pub protocol: u8,
}

impl Header {
    /// Parses a packet: its header and payload. Options and link padding after the total length are skipped.
    ///
    /// # Errors
    /// [`Malformed`] for fragments and a wrong checksum of the header.
    pub fn parse(bytes: &[u8]) -> Result<(Header, &[u8]), Malformed> {
        Header::read(bytes).map(|(header, mut body)| (header, body.rest()))
    }

    fn read(bytes: &[u8]) -> Result<(Header, Reader<'_>), Malformed> {
        let (header, body) = split_header(bytes)?;
        let mut reader = Reader::new("IPv4 header", header);
        reader.skip(1)?;
        let tos = reader.u8()?;
        reader.skip(4)?;
        if reader.u16()? & FRAGMENT_MASK != 0 {
            return Err(Malformed { what: "IPv4 fragment", at: 6, why: Why::Misplaced });
        }
        reader.skip(1)?;
        let protocol = reader.u8()?;
        reader.skip(2)?;
        Ok((Header { source: reader.address4()?, destination: reader.address4()?, tos, protocol }, body))
    }

    /// Emits a packet; a payload beyond the length field is truncated.
    pub fn emit(&self, payload: &[u8]) -> Vec<u8> {
        self.emit_with(0, payload)
    }

    fn emit_with(&self, flags: u16, payload: &[u8]) -> Vec<u8> {
        let payload = payload.get(..MAX_PAYLOAD).unwrap_or(payload);
        let length = u16::try_from(payload.len() + HEADER_LENGTH).unwrap_or(u16::MAX);
        let mut header = Writer::new();
        header.u8(VERSION << 4 | (HEADER_LENGTH / WORD) as u8).u8(self.tos).u16(length).u16(0).u16(flags);
        header.u8(DEFAULT_TTL).u8(self.protocol).u16(0).address4(self.source).address4(self.destination);
        let mut packet = header.finish_with_checksum(CHECKSUM_AT, internet_checksum);
        packet.extend(payload);
        packet
    }
}

/// The header with its options, and the payload by the total length.
fn split_header(bytes: &[u8]) -> Result<(&[u8], Reader<'_>), Malformed> {
    let mut reader = Reader::new("IPv4 header", bytes);
    let first = reader.u8()?;
    if first >> 4 != VERSION {
        return Err(Malformed { what: "IP version", at: 0, why: Why::Value(u64::from(first >> 4)) });
    }
    let needs = usize::from(first & 0xf) * WORD;
    if needs < HEADER_LENGTH {
        return Err(Malformed { what: "IPv4 header", at: 0, why: Why::Length { has: needs, needs: HEADER_LENGTH } });
    }
    let header = Reader::new("IPv4 header", bytes).bytes(needs)?;
    reader.skip(1)?;
    let total = usize::from(reader.u16()?);
    let Some(length) = total.checked_sub(needs) else {
        return Err(Malformed { what: "IPv4 total length", at: 2, why: Why::Length { has: total, needs } });
    };
    if internet_checksum(header) != 0 {
        return Err(Malformed { what: "IPv4 header", at: CHECKSUM_AT, why: Why::Checksum });
    }
    reader.skip(needs - WORD)?;
    Ok((header, reader.part("IPv4 payload", length)?))
}

/// The ports of a UDP datagram; leaves the UDP payload in `body`. A checksum of zero means none.
fn read_ports(body: &mut Reader<'_>, (source, destination): (Ipv4Addr, Ipv4Addr)) -> Result<(u16, u16), Malformed> {
    let at = body.position();
    let header = udp::Header::read(body)?;
    if header.ports.0 == 0 || header.ports.1 == 0 {
        return Err(Malformed { what: "UDP port", at, why: Why::Value(0) });
    }
    if header.checksum != 0 && checksum4(source, destination, ip6::protocol::UDP, header.datagram) != 0 {
        return Err(Malformed { what: "UDP header", at: at + udp::CHECKSUM_AT, why: Why::Checksum });
    }
    *body = header.payload;
    Ok(header.ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNER: &[u8] = &[0x60, 1, 2, 3, 4];

    fn endpoint(text: &str, port: u16) -> Ipv4Endpoint {
        Ipv4Endpoint { address: text.parse().unwrap(), port }
    }

    fn encapsulated(ports: (u16, u16)) -> Encapsulated<'static> {
        let (source, destination) = (endpoint("192.0.2.1", ports.0), endpoint("198.51.100.2", ports.1));
        Encapsulated { source, destination, tos: 0xb8, inner: INNER }
    }

    #[test]
    fn ipv4_encapsulation_round_trips_and_checksums_cover_it() {
        for one in [encapsulated((40_000, DSMIP_PORT)), encapsulated((0, 0))] {
            let bytes = one.emit();
            assert_eq!(Encapsulated::parse(&bytes), Ok(one));
            let padded = [&bytes[..], &[0; 9]].concat();
            assert_eq!(Encapsulated::parse(&padded), Ok(one));
            let unfragmentable = one.emit_unfragmentable();
            assert_eq!((bytes[6], unfragmentable[6], &bytes[12..]), (0, 0x40, &unfragmentable[12..]));
            assert_eq!(Encapsulated::parse(&unfragmentable), Ok(one));
            let covered = if one.source.port == 0 { HEADER_LENGTH } else { bytes.len() };
            for at in 0..covered {
                let mut wrong = bytes.clone();
                wrong[at] ^= 4;
                assert!(Encapsulated::parse(&wrong).is_err(), "octet {at}");
            }
            assert!((0..bytes.len()).all(|short| Encapsulated::parse(&bytes[..short]).is_err()));
        }
    }

    #[test]
    fn zero_udp_checksum_is_accepted_and_fragments_are_refused() {
        let mut bytes = encapsulated((1, 2)).emit();
        bytes[26..28].fill(0);
        assert!(Encapsulated::parse(&bytes).is_ok());
        for flags in [0x20_u8, 0x00] {
            bytes[6..8].copy_from_slice(&[flags, u8::from(flags == 0)]);
            bytes[10..12].fill(0);
            let sum = internet_checksum(&bytes[..20]);
            bytes[CHECKSUM_AT..12].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(Encapsulated::parse(&bytes).unwrap_err().what, "IPv4 fragment");
        }
    }

    #[test]
    fn an_ipv4_endpoint_is_encoded_as_a_mapped_address_with_port() {
        let end = endpoint("192.0.2.33", DSMIP_PORT);
        assert_eq!(end.to_ipv6(), "::105f:ffff:c000:221".parse::<Ipv6Addr>().unwrap());
        assert_eq!(Ipv4Endpoint::from_ipv6(end.to_ipv6()), Some(end));
        assert_eq!(Ipv4Endpoint { port: 0, ..end }.to_ipv6(), end.address.to_ipv6_mapped());
        for other in ["::", "::1", "2001:db8::ffff:c000:221", "::1:0:105f:ffff:c000:221", "64:ff9b::c000:221"] {
            assert_eq!(Ipv4Endpoint::from_ipv6(other.parse().unwrap()), None, "{other}");
        }
        assert_eq!((end.overhead(), Ipv4Endpoint { port: 0, ..end }.overhead()), (28, 20));
        assert_eq!(end.to_string(), "192.0.2.33:4191");
    }

    #[test]
    fn only_unicast_ipv4_endpoints_are_valid() {
        for wrong in ["0.0.0.0", "127.0.0.1", "169.254.1.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"] {
            assert!(!endpoint(wrong, 1).is_unicast(), "{wrong}");
        }
        assert!(endpoint("10.0.0.1", 1).is_unicast());
    }
}
