//! IPv6 packets in UDP over IPv6, where networks pass neither protocol 135 nor 41: as RFC 5555 §4.1 does over IPv4, on the
//! same port. The checksum may be zero, since the inner packet has its own (RFC 6935 §5, RFC 6936 §5).

use crate::checksum::checksum;
use crate::ip6::{self, Datagram, Header, protocol};
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::udp;
use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv6Addr;

/// Octets of the outer headers.
pub const OVERHEAD: u32 = (ip6::HEADER_LENGTH + udp::HEADER_LENGTH) as u32;

/// A UDP endpoint over IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Endpoint {
    /// The address.
    pub address: Ipv6Addr,
    /// The UDP port.
    pub port: u16,
}

impl fmt::Display for Ipv6Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]:{}", self.address, self.port)
    }
}

/// An IPv6 packet in UDP over IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encapsulated6<'a> {
    /// Source endpoint.
    pub source: Ipv6Endpoint,
    /// Destination endpoint.
    pub destination: Ipv6Endpoint,
    /// The IPv6 packet; only its version has been checked.
    pub inner: &'a [u8],
}

impl<'a> Encapsulated6<'a> {
    /// Parses an IPv6 packet without extension headers.
    ///
    /// # Errors
    /// [`Malformed`] for extension headers, other protocols than UDP, wrong checksums, and what is not IPv6 inside.
    pub fn parse(bytes: &'a [u8]) -> Result<Encapsulated6<'a>, Malformed> {
        let datagram = Datagram::parse(bytes)?;
        if datagram.protocol != protocol::UDP || datagram.payload_at != ip6::HEADER_LENGTH {
            let why = Why::Value(datagram.protocol.into());
            return Err(Malformed { what: "UDP encapsulation over IPv6", at: 6, why });
        }
        let (source, destination) = (datagram.source, datagram.destination);
        let at = ip6::HEADER_LENGTH;
        let mut header = udp::Header::read(&mut Reader::new("UDP header", datagram.payload))?;
        if header.ports.0 == 0 || header.ports.1 == 0 {
            return Err(Malformed { what: "UDP port", at, why: Why::Value(0) });
        }
        if header.checksum != 0 && checksum(source, destination, protocol::UDP, header.datagram) != 0 {
            return Err(Malformed { what: "UDP header", at: at + udp::CHECKSUM_AT, why: Why::Checksum });
        }
        let inner = header.payload.rest();
        match inner.first().map(|first| first >> 4) {
            Some(6) => {}
            version => {
                let why = Why::Value(version.unwrap_or_default().into());
                return Err(Malformed { what: "inner version", at: at + udp::HEADER_LENGTH, why });
            }
        }
        let end = |address, port| Ipv6Endpoint { address, port };
        Ok(Encapsulated6 { source: end(source, header.ports.0), destination: end(destination, header.ports.1), inner })
    }

    /// Emits the packet with its checksum; a payload beyond the length field is truncated.
    pub fn emit(&self) -> Vec<u8> {
        let (source, destination) = (self.source.address, self.destination.address);
        let most = usize::from(u16::MAX) - udp::HEADER_LENGTH;
        let inner = self.inner.get(..most).unwrap_or(self.inner);
        let sum = |datagram: &[u8]| checksum(source, destination, protocol::UDP, datagram);
        let datagram = udp::emit((self.source.port, self.destination.port), inner, sum);
        ip6::emit(&Header::new(source, destination), protocol::UDP, &datagram)
    }
}

/// The destination port of a packet in UDP over IPv6 without extension headers.
pub fn destination_port(bytes: &[u8]) -> Option<u16> {
    let is_udp = bytes.get(6) == Some(&protocol::UDP);
    bytes.get(ip6::HEADER_LENGTH + 2..)?.first_chunk().map(|port| u16::from_be_bytes(*port)).filter(|_| is_udp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip4::DSMIP_PORT;

    fn end(text: &str, port: u16) -> Ipv6Endpoint {
        Ipv6Endpoint { address: text.parse().unwrap(), port }
    }

    #[test]
    fn golden_octets_with_and_without_a_checksum() {
        let inner = ip6::emit(&Header::new("2001:db8::100".parse().unwrap(), "2001:db8::1".parse().unwrap()), 59, &[]);
        let (source, destination) = (end("2001:db8:a::1", 40_000), end("2001:db8::1", DSMIP_PORT));
        let carried = Encapsulated6 { source, destination, inner: &inner };
        let mut packet = carried.emit();
        let head = [0x60, 0, 0, 0, 0, 48, 17, 64];
        assert_eq!(packet[..8], head);
        assert_eq!(packet[40..46], [0x9c, 0x40, 0x10, 0x5f, 0, 48]);
        assert_eq!((packet.len(), destination_port(&packet)), (88, Some(4191)));
        assert_eq!(Encapsulated6::parse(&packet), Ok(carried));
        packet[47] ^= 1;
        assert!(Encapsulated6::parse(&packet).is_err(), "a wrong checksum");
        packet[46..48].fill(0);
        assert_eq!(Encapsulated6::parse(&packet), Ok(carried), "no checksum");
        packet[48] = 0x45;
        assert!(Encapsulated6::parse(&packet).is_err(), "not IPv6 inside");
    }

    #[test]
    fn what_is_cut_short_or_has_extension_headers_is_refused() {
        let (source, destination) = (end("2001:db8:a::1", 4191), end("2001:db8::1", 4191));
        let packet = Encapsulated6 { source, destination, inner: &[0x60] }.emit();
        for length in 0..packet.len() {
            assert!(Encapsulated6::parse(&packet[..length]).is_err(), "{length}");
        }
        let header = Header::new(source.address, destination.address).with_home_address("2001:db8::5".parse().unwrap());
        assert!(Encapsulated6::parse(&ip6::emit(&header, protocol::UDP, &packet[40..])).is_err());
        assert!(Encapsulated6::parse(&ip6::emit(&header, 59, &[0; 8])).is_err());
    }
}
