//! IPv6 packets with the extension headers of Mobile IPv6 and tunnelling: destination options, type 2 routing header.
//! RFC 8200 §3 and §4, RFC 6275 §6.3 and §6.4, RFC 2473 §4.1.1 and §5.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Version| Traffic Class |              Flow Label               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        Payload Length         |  Next Header  |   Hop Limit   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Source Address (16 octets)                                   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Destination Address (16 octets)                              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! See <https://www.rfc-editor.org/rfc/rfc8200#section-3>.

use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::{Alignment, Writer, low};
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::ops::Deref;

/// Values of the Next Header field.
pub mod protocol {
    /// Hop-by-hop options, only right after the IPv6 header.
    pub const HOP_BY_HOP: u8 = 0;
    /// IPv4 in IPv6.
    pub const IPV4: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv6 in IPv6.
    pub const IPV6: u8 = 41;
    /// Routing header.
    pub const ROUTING: u8 = 43;
    /// Fragment header.
    pub const FRAGMENT: u8 = 44;
    /// Encapsulating Security Payload.
    pub const ESP: u8 = 50;
    /// Authentication Header.
    pub const AUTHENTICATION: u8 = 51;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// Nothing follows.
    pub const NONE: u8 = 59;
    /// Destination options.
    pub const DESTINATION: u8 = 60;
    /// Mobility Header.
    pub const MOBILITY: u8 = 135;
}

/// Octets of the fixed header.
pub const HEADER_LENGTH: usize = 40;
/// The minimum link MTU of IPv6, octets (RFC 8200 §5).
pub const MINIMUM_MTU: u32 = 1280;
/// Extension headers walked in one packet.
pub const MAX_EXTENSION_HEADERS: usize = 8;
/// Options, padding aside, read in one extension header.
pub const MAX_OPTIONS: usize = 16;
/// Hop limit of packets roam6 originates.
pub const DEFAULT_HOP_LIMIT: u8 = 64;

const PAD1: u8 = 0;
const PADN: u8 = 1;
const TUNNEL_ENCAPSULATION_LIMIT: u8 = 4;
const HOME_ADDRESS: u8 = 201;
const ROUTING_TYPE_2: u8 = 2;
const HOME_ADDRESS_ALIGNMENT: Alignment = Alignment::new(8, 6);

/// A received packet: its headers and its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The parsed headers.
    pub header: Header,
    /// Protocol of the payload: the first Next Header value that is not parsed here.
    pub protocol: u8,
    /// Everything after the parsed headers, without link padding.
    pub payload: &'a [u8],
    /// Offset of the payload in the packet.
    pub payload_at: usize,
}

/// Gives direct access to the fields of the headers.
impl Deref for Datagram<'_> {
    type Target = Header;

    fn deref(&self) -> &Header {
        &self.header
    }
}

impl<'a> Datagram<'a> {
    /// Parses a packet through hop-by-hop options, destination options and routing headers.
    ///
    /// Anything else is payload: fragments, ESP and unknown headers. Link padding beyond the payload length is removed.
    ///
    /// # Errors
    /// [`Malformed`] with the offset that a Parameter Problem would point at.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new("IPv6 header", bytes);
        let first = reader.u32()?;
        if first >> 28 != 6 {
            return Err(Malformed { what: "IP version", at: 0, why: Why::Value(u64::from(first >> 28)) });
        }
        let payload_length = reader.u16()?;
        let protocol = reader.u8()?;
        let hop_limit = reader.u8()?;
        let header = Header {
            hop_limit,
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0xf_ffff,
            ..Header::new(reader.address()?, reader.address()?)
        };
        let mut datagram = Datagram { header, protocol, payload: &[], payload_at: HEADER_LENGTH };
        if datagram.source.is_multicast() {
            return Err(Malformed { what: "source address", at: 8, why: Why::Misplaced });
        }
        let mut body = reader.part("IPv6 payload", payload_length.into())?;
        datagram.read_extension_headers(&mut body)?;
        datagram.payload_at = body.position();
        datagram.payload = body.rest();
        Ok(datagram)
    }

    fn read_extension_headers(&mut self, body: &mut Reader<'a>) -> Result<(), Malformed> {
        for walked in 0..=MAX_EXTENSION_HEADERS {
            let what = match self.protocol {
                protocol::HOP_BY_HOP if walked == 0 => "hop-by-hop options",
                protocol::HOP_BY_HOP => return Err(body.malformed(Why::Misplaced)),
                protocol::DESTINATION => "destination options",
                protocol::ROUTING => "routing header",
                _ => return Ok(()),
            };
            let kind = self.protocol;
            let at = body.position();
            self.protocol = body.u8()?;
            let units = body.u8()?;
            let mut header = body.part(what, usize::from(units) * 8 + 6)?;
            match kind {
                protocol::ROUTING => self.read_routing(&mut header, units, at)?,
                _ => self.read_options(&mut header, kind == protocol::DESTINATION)?,
            }
        }
        Err(body.malformed(Why::TooMany(MAX_EXTENSION_HEADERS)))
    }

    fn read_routing(&mut self, header: &mut Reader<'_>, units: u8, at: usize) -> Result<(), Malformed> {
        let kind = header.u8()?;
        let segments_left = header.u8()?;
        match (kind, segments_left) {
            // With no segments left a routing header of any type is ignored (RFC 8200 §4.4).
            (_, 0) => Ok(()),
            (ROUTING_TYPE_2, 1) if units == 2 && self.routing_home.is_none() => {
                header.skip(4)?;
                let home = header.address()?;
                if !is_valid_home_address(home) {
                    return Err(Malformed { what: "routing header home address", at: at + 8, why: Why::Misplaced });
                }
                self.header.routing_home = Some(home);
                Ok(())
            }
            (ROUTING_TYPE_2, 1) if units != 2 => {
                Err(Malformed { what: "routing header", at: at + 1, why: Why::Length { has: units.into(), needs: 2 } })
            }
            (ROUTING_TYPE_2, 1) => Err(Malformed { what: "routing header", at, why: Why::Misplaced }),
            (ROUTING_TYPE_2, left) => {
                Err(Malformed { what: "segments left", at: at + 3, why: Why::Value(left.into()) })
            }
            (other, _) => Err(Malformed { what: "routing type", at: at + 2, why: Why::Value(other.into()) }),
        }
    }

    fn read_options(&mut self, header: &mut Reader<'_>, for_destination: bool) -> Result<(), Malformed> {
        let mut read = 0;
        while !header.is_empty() {
            let at = header.position();
            let kind = header.u8()?;
            if kind == PAD1 {
                continue;
            }
            let length = header.u8()?;
            let mut option = header.part("option", length.into())?;
            if kind == PADN {
                continue;
            }
            read += 1;
            if read > MAX_OPTIONS {
                return Err(Malformed { what: "options", at, why: Why::TooMany(MAX_OPTIONS) });
            }
            match kind {
                TUNNEL_ENCAPSULATION_LIMIT if for_destination => {
                    self.header.encapsulation_limit = Some(option.u8()?);
                    option.end()?;
                }
                HOME_ADDRESS if for_destination => {
                    let home = option.address()?;
                    option.end()?;
                    if self.home_address.is_some() || !is_valid_home_address(home) {
                        return Err(Malformed { what: "Home Address option", at, why: Why::Misplaced });
                    }
                    self.header.home_address = Some(home);
                }
                // The two highest bits specify whether an unknown option may be skipped (RFC 8200 §4.2).
                skippable if skippable >> 6 == 0 => {}
                other => return Err(Malformed { what: "option type", at, why: Why::Value(other.into()) }),
            }
        }
        Ok(())
    }
}

/// Whether an address is a routable unicast address, as a home address must be (RFC 6275 §6.3, §6.4).
fn is_valid_home_address(address: Ipv6Addr) -> bool {
    !(address.is_multicast() || address.is_unspecified() || address.is_loopback() || address.is_unicast_link_local())
}

/// IPv6 header and Mobile IPv6 extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Source in the IPv6 header: the care-of address when away.
    pub source: Ipv6Addr,
    /// Destination in the IPv6 header: the care-of address when the peer is away.
    pub destination: Ipv6Addr,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Home Address option (RFC 6275 §6.3). The receiver has to check that a binding exists (RFC 6275 §9.3.1).
    pub home_address: Option<Ipv6Addr>,
    /// Home address in a type 2 routing header with one segment left (RFC 6275 §6.4).
    pub routing_home: Option<Ipv6Addr>,
    /// Tunnel Encapsulation Limit option (RFC 2473 §4.1.1).
    pub encapsulation_limit: Option<u8>,
}

impl Header {
    /// A plain header with hop limit 64.
    pub fn new(source: Ipv6Addr, destination: Ipv6Addr) -> Header {
        Header {
            source,
            destination,
            hop_limit: DEFAULT_HOP_LIMIT,
            traffic_class: 0,
            flow_label: 0,
            home_address: None,
            routing_home: None,
            encapsulation_limit: None,
        }
    }

    /// With a Home Address option.
    pub fn with_home_address(self, home: Ipv6Addr) -> Header {
        Header { home_address: Some(home), ..self }
    }

    /// With a type 2 routing header.
    pub fn with_routing_home(self, home: Ipv6Addr) -> Header {
        Header { routing_home: Some(home), ..self }
    }

    /// With another hop limit.
    pub fn with_hop_limit(self, hop_limit: u8) -> Header {
        Header { hop_limit, ..self }
    }

    /// With a Tunnel Encapsulation Limit option.
    pub fn with_encapsulation_limit(self, limit: u8) -> Header {
        Header { encapsulation_limit: Some(limit), ..self }
    }

    /// Source address for the upper layers and their checksums: the home address, if there is one (RFC 6275 §6.1.1).
    pub fn real_source(&self) -> Ipv6Addr {
        self.home_address.unwrap_or(self.source)
    }

    /// Final destination, for the upper layers and their checksums.
    pub fn real_destination(&self) -> Ipv6Addr {
        self.routing_home.unwrap_or(self.destination)
    }
}

/// A whole packet: IPv6 header, type 2 routing header, destination options, payload (order of RFC 6275 §6.3 and §6.4).
///
/// A payload beyond the length field (65 535 octets with the extension headers) is truncated.
pub fn emit(header: &Header, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let has_options = header.home_address.is_some() || header.encapsulation_limit.is_some();
    let after_routing = if has_options { protocol::DESTINATION } else { protocol };
    let first = if header.routing_home.is_some() { protocol::ROUTING } else { after_routing };

    let mut extensions = Writer::new();
    if let Some(home) = header.routing_home {
        extensions.u8(after_routing).u8(2).u8(ROUTING_TYPE_2).u8(1).zeros(4).address(home);
    }
    if has_options {
        extensions.bytes(&destination_options(header, protocol));
    }
    let extensions = extensions.finish();
    let room = usize::from(u16::MAX) - extensions.len();
    let payload = payload.get(..room).unwrap_or(payload);
    let length = u16::try_from(extensions.len() + payload.len()).unwrap_or(u16::MAX);

    let mut packet = Writer::new();
    packet
        .u32(6 << 28 | u32::from(header.traffic_class) << 20 | header.flow_label & 0xf_ffff)
        .u16(length)
        .u8(first)
        .u8(header.hop_limit)
        .address(header.source)
        .address(header.destination)
        .bytes(&extensions)
        .bytes(payload);
    packet.finish()
}

/// `inner`, a whole packet, in an IPv6 tunnel packet (RFC 2473 §5); an IPv4 packet keeps its own protocol number.
pub fn encapsulate(outer: &Header, inner: &[u8]) -> Vec<u8> {
    let version = inner.first().map_or(6, |octet| octet >> 4);
    emit(outer, if version == 4 { protocol::IPV4 } else { protocol::IPV6 }, inner)
}

fn destination_options(header: &Header, next: u8) -> Vec<u8> {
    let mut options = Writer::new();
    options.u8(next).u8(0);
    if let Some(limit) = header.encapsulation_limit {
        options.u8(TUNNEL_ENCAPSULATION_LIMIT).u8(1).u8(limit);
    }
    if let Some(home) = header.home_address {
        options.align(HOME_ADDRESS_ALIGNMENT).u8(HOME_ADDRESS).u8(16).address(home);
    }
    options.align(Alignment::new(8, 0));
    let units = low(options.position() / 8 - 1);
    options.set(1, &[units]);
    options.finish()
}
