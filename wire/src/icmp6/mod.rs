//! ICMPv6: errors, echo, MLD, neighbour discovery, home agent address discovery, mobile prefix discovery.
//! RFC 4443, RFC 3810 §5, RFC 4861 §4, RFC 6275 §6.5 to §6.8, RFC 3963 §7.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Type      |     Code      |           Checksum            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Message Body ...                                             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! See <https://www.rfc-editor.org/rfc/rfc4443#section-2.1>, <https://www.rfc-editor.org/rfc/rfc4861#section-4>.

pub mod mld;
pub mod neighbour;
pub mod option;

pub use mld::MulticastAddressRecord;
pub use neighbour::{NeighbourAdvertisement, NeighbourSolicitation, RouterAdvertisement, RouterSolicitation};
pub use option::{NeighbourOption, RouterPreference};

use crate::checksum::checksum;
use crate::codepoint::set_bits;
use crate::ip6::{Datagram, MINIMUM_MTU, protocol};
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// Values of the Type field.
pub mod kind {
    /// Destination Unreachable.
    pub const DESTINATION_UNREACHABLE: u8 = 1;
    /// Packet Too Big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time Exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter Problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo Request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo Reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Multicast Listener Query.
    pub const LISTENER_QUERY: u8 = 130;
    /// Multicast Listener Report of version 1.
    pub const LISTENER_REPORT_1: u8 = 131;
    /// Multicast Listener Done.
    pub const LISTENER_DONE: u8 = 132;
    /// Router Solicitation.
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// Router Advertisement.
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// Neighbour Solicitation.
    pub const NEIGHBOUR_SOLICITATION: u8 = 135;
    /// Neighbour Advertisement.
    pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
    /// Redirect.
    pub const REDIRECT: u8 = 137;
    /// Multicast Listener Report of version 2.
    pub const LISTENER_REPORT: u8 = 143;
    /// Home Agent Address Discovery Request.
    pub const HOME_AGENT_REQUEST: u8 = 144;
    /// Home Agent Address Discovery Reply.
    pub const HOME_AGENT_REPLY: u8 = 145;
    /// Mobile Prefix Solicitation.
    pub const MOBILE_PREFIX_SOLICITATION: u8 = 146;
    /// Mobile Prefix Advertisement.
    pub const MOBILE_PREFIX_ADVERTISEMENT: u8 = 147;
}

/// Octets of the invoking packet an error carries, so that the error fits the minimum MTU (RFC 4443 §2.4).
pub const MAX_INVOKING: usize = MINIMUM_MTU as usize - 48;
/// Home agents one discovery reply carries, so that it fits the minimum MTU (RFC 6275 §10.5.1).
pub const MAX_HOME_AGENTS: usize = (MINIMUM_MTU as usize - 48) / 16;
/// Hop limit that proves a packet was not forwarded (RFC 4861 §6.1).
pub const ON_LINK_HOP_LIMIT: u8 = 255;
/// All-nodes multicast address.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All-routers multicast address.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

const CHECKSUM_AT: usize = 2;
const FLAG_MANAGED: u16 = 0x8000;
const FLAG_OTHER: u16 = 0x4000;
const FLAG_ROUTER: u16 = 0x8000;

/// An ICMPv6 message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Destination Unreachable.
    DestinationUnreachable {
        /// Why (RFC 4443 §3.1).
        code: u8,
        /// As much of the packet that caused it as fits; see [`MAX_INVOKING`].
        invoking: Vec<u8>,
    },
    /// Packet Too Big.
    PacketTooBig {
        /// MTU of the next-hop link, octets.
        mtu: u32,
        /// The invoking packet, as much as fits.
        invoking: Vec<u8>,
    },
    /// Time Exceeded.
    TimeExceeded {
        /// 0: hop limit, 1: fragment reassembly.
        code: u8,
        /// The invoking packet, as much as fits.
        invoking: Vec<u8>,
    },
    /// Parameter Problem.
    ParameterProblem {
        /// 0: erroneous field, 1: unrecognized Next Header, 2: unrecognized option.
        code: u8,
        /// Offset of the error in the invoking packet, octets.
        pointer: u32,
        /// The invoking packet, as much as fits.
        invoking: Vec<u8>,
    },
    /// Echo Request.
    EchoRequest(Echo),
    /// Echo Reply.
    EchoReply(Echo),
    /// Multicast Listener Report, version 2 (RFC 3810 §5.2).
    ListenerReport {
        /// A record for each group.
        records: Vec<MulticastAddressRecord>,
    },
    /// The same in version 1 (RFC 2710 §3).
    ListenerReport1 {
        /// The group.
        group: Ipv6Addr,
    },
    /// Nobody there listens to it any more (RFC 2710 §3).
    ListenerDone {
        /// The group.
        group: Ipv6Addr,
    },
    /// Router Solicitation.
    RouterSolicitation(RouterSolicitation),
    /// Router Advertisement.
    RouterAdvertisement(RouterAdvertisement),
    /// Neighbour Solicitation.
    NeighbourSolicitation(NeighbourSolicitation),
    /// Neighbour Advertisement.
    NeighbourAdvertisement(NeighbourAdvertisement),
    /// Home Agent Address Discovery Request (RFC 6275 §6.5).
    HomeAgentRequest {
        /// Matches the reply to the request.
        identifier: u16,
        /// R: only those that serve mobile routers (RFC 3963 §7.1).
        router: bool,
    },
    /// These home agents (RFC 6275 §6.6).
    HomeAgentReply {
        /// That of the request.
        identifier: u16,
        /// R: these serve mobile routers (RFC 3963 §7.2).
        router: bool,
        /// The home agents, preferred ones first; at most [`MAX_HOME_AGENTS`].
        addresses: Vec<Ipv6Addr>,
    },
    /// Mobile Prefix Solicitation (RFC 6275 §6.7).
    MobilePrefixSolicitation {
        /// Matches the advertisement to the solicitation.
        identifier: u16,
    },
    /// These prefixes (RFC 6275 §6.8).
    MobilePrefixAdvertisement {
        /// That of the solicitation, or of the home agent's choice.
        identifier: u16,
        /// M: addresses by DHCPv6.
        managed: bool,
        /// O: other configuration by DHCPv6.
        other: bool,
        /// Prefix Information options.
        options: Vec<NeighbourOption>,
    },
    /// Any other type, or a known type with an undefined code.
    Unknown {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// What follows the checksum.
        body: Vec<u8>,
    },
}

/// Body of Echo Request and Echo Reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Echo {
    /// Identifier of the requester.
    pub identifier: u16,
    /// Sequence number.
    pub sequence: u16,
    /// Data, returned unchanged.
    pub data: Vec<u8>,
}

impl Message {
    /// Reads the ICMPv6 message in a packet; the checksum is verified with the real addresses (RFC 6275 §6.1.1).
    ///
    /// [`Message::check_on_link`] has the hop limit and address checks of neighbour discovery.
    pub fn parse(datagram: &Datagram<'_>) -> Result<Message, Malformed> {
        if datagram.protocol != protocol::ICMPV6 {
            return Err(Malformed { what: "next header", at: 0, why: Why::Value(datagram.protocol.into()) });
        }
        let mut reader = Reader::new("ICMPv6 message", datagram.payload);
        let kind = reader.u8()?;
        let code = reader.u8()?;
        reader.skip(2)?;
        let (source, destination) = (datagram.real_source(), datagram.real_destination());
        if checksum(source, destination, protocol::ICMPV6, datagram.payload) != 0 {
            return Err(Malformed { what: "ICMPv6 message", at: CHECKSUM_AT, why: Why::Checksum });
        }
        Message::read(kind, code, &mut reader)
    }

    /// The message with its checksum; the addresses are the real ones, as [`crate::ip6::Header::real_source`] has them.
    pub fn emit(&self, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let mut writer = Writer::new();
        let (kind, code) = self.kind_and_code();
        writer.u8(kind).u8(code).u16(0);
        self.write(&mut writer);
        let sum = |message: &[u8]| checksum(source, destination, protocol::ICMPV6, message);
        writer.finish_with_checksum(CHECKSUM_AT, sum)
    }

    /// Checks what a neighbour discovery message must satisfy beyond its own bytes (RFC 4861 §6.1 and §7.1).
    ///
    /// Any other message passes.
    pub fn check_on_link(&self, datagram: &Datagram<'_>) -> Result<(), Malformed> {
        let verdict = match self {
            Message::RouterSolicitation(message) => message.check(datagram),
            Message::RouterAdvertisement(message) => message.check(datagram),
            Message::NeighbourSolicitation(message) => message.check(datagram),
            Message::NeighbourAdvertisement(message) => message.check(datagram),
            Message::Unknown { kind: kind::ROUTER_SOLICITATION..=kind::NEIGHBOUR_ADVERTISEMENT, code, .. } => {
                Err(Malformed { what: "code", at: 1, why: Why::Value((*code).into()) })
            }
            _ => return Ok(()),
        };
        if datagram.hop_limit != ON_LINK_HOP_LIMIT {
            return Err(Malformed { what: "hop limit", at: 0, why: Why::Value(datagram.hop_limit.into()) });
        }
        verdict
    }

    fn read(kind: u8, code: u8, reader: &mut Reader<'_>) -> Result<Message, Malformed> {
        Ok(match (kind, code) {
            (kind::DESTINATION_UNREACHABLE, code) => {
                reader.skip(4)?;
                Message::DestinationUnreachable { code, invoking: invoking(reader) }
            }
            // The code means nothing here (RFC 4443 §3.2).
            (kind::PACKET_TOO_BIG, _) => Message::PacketTooBig { mtu: reader.u32()?, invoking: invoking(reader) },
            (kind::TIME_EXCEEDED, code) => {
                reader.skip(4)?;
                Message::TimeExceeded { code, invoking: invoking(reader) }
            }
            (kind::PARAMETER_PROBLEM, code) => {
                Message::ParameterProblem { code, pointer: reader.u32()?, invoking: invoking(reader) }
            }
            (kind::ECHO_REQUEST, 0) => Message::EchoRequest(Echo::read(reader)?),
            (kind::ECHO_REPLY, 0) => Message::EchoReply(Echo::read(reader)?),
            (kind::LISTENER_REPORT, 0) => Message::ListenerReport { records: mld::read_records(reader)? },
            (kind::LISTENER_REPORT_1, 0) => Message::ListenerReport1 { group: mld::read_group(reader)? },
            (kind::LISTENER_DONE, 0) => Message::ListenerDone { group: mld::read_group(reader)? },
            (kind::ROUTER_SOLICITATION, 0) => Message::RouterSolicitation(RouterSolicitation::read(reader)?),
            (kind::ROUTER_ADVERTISEMENT, 0) => Message::RouterAdvertisement(RouterAdvertisement::read(reader)?),
            (kind::NEIGHBOUR_SOLICITATION, 0) => Message::NeighbourSolicitation(NeighbourSolicitation::read(reader)?),
            (kind::NEIGHBOUR_ADVERTISEMENT, 0) => {
                Message::NeighbourAdvertisement(NeighbourAdvertisement::read(reader)?)
            }
            (kind::HOME_AGENT_REQUEST, 0) => {
                Message::HomeAgentRequest { identifier: reader.u16()?, router: reader.u16()? & FLAG_ROUTER != 0 }
            }
            (kind::HOME_AGENT_REPLY, 0) => Message::HomeAgentReply {
                identifier: reader.u16()?,
                router: reader.u16()? & FLAG_ROUTER != 0,
                addresses: reader.list(MAX_HOME_AGENTS, Reader::address)?,
            },
            (kind::MOBILE_PREFIX_SOLICITATION, 0) => {
                let identifier = reader.u16()?;
                reader.skip(2)?;
                Message::MobilePrefixSolicitation { identifier }
            }
            (kind::MOBILE_PREFIX_ADVERTISEMENT, 0) => {
                let identifier = reader.u16()?;
                let flags = reader.u16()?;
                Message::MobilePrefixAdvertisement {
                    identifier,
                    managed: flags & FLAG_MANAGED != 0,
                    other: flags & FLAG_OTHER != 0,
                    options: option::read_all(reader)?,
                }
            }
            (kind, code) => Message::Unknown { kind, code, body: reader.rest().to_vec() },
        })
    }

    fn kind_and_code(&self) -> (u8, u8) {
        match *self {
            Message::DestinationUnreachable { code, .. } => (kind::DESTINATION_UNREACHABLE, code),
            Message::PacketTooBig { .. } => (kind::PACKET_TOO_BIG, 0),
            Message::TimeExceeded { code, .. } => (kind::TIME_EXCEEDED, code),
            Message::ParameterProblem { code, .. } => (kind::PARAMETER_PROBLEM, code),
            Message::EchoRequest(_) => (kind::ECHO_REQUEST, 0),
            Message::EchoReply(_) => (kind::ECHO_REPLY, 0),
            Message::ListenerReport { .. } => (kind::LISTENER_REPORT, 0),
            Message::ListenerReport1 { .. } => (kind::LISTENER_REPORT_1, 0),
            Message::ListenerDone { .. } => (kind::LISTENER_DONE, 0),
            Message::RouterSolicitation(_) => (kind::ROUTER_SOLICITATION, 0),
            Message::RouterAdvertisement(_) => (kind::ROUTER_ADVERTISEMENT, 0),
            Message::NeighbourSolicitation(_) => (kind::NEIGHBOUR_SOLICITATION, 0),
            Message::NeighbourAdvertisement(_) => (kind::NEIGHBOUR_ADVERTISEMENT, 0),
            Message::HomeAgentRequest { .. } => (kind::HOME_AGENT_REQUEST, 0),
            Message::HomeAgentReply { .. } => (kind::HOME_AGENT_REPLY, 0),
            Message::MobilePrefixSolicitation { .. } => (kind::MOBILE_PREFIX_SOLICITATION, 0),
            Message::MobilePrefixAdvertisement { .. } => (kind::MOBILE_PREFIX_ADVERTISEMENT, 0),
            Message::Unknown { kind, code, .. } => (kind, code),
        }
    }

    fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        match self {
            Message::DestinationUnreachable { invoking, .. } | Message::TimeExceeded { invoking, .. } => {
                writer.u32(0).bytes(truncated(invoking))
            }
            Message::PacketTooBig { mtu, invoking } => writer.u32(*mtu).bytes(truncated(invoking)),
            Message::ParameterProblem { pointer, invoking, .. } => writer.u32(*pointer).bytes(truncated(invoking)),
            Message::EchoRequest(echo) | Message::EchoReply(echo) => {
                writer.u16(echo.identifier).u16(echo.sequence).bytes(&echo.data)
            }
            Message::ListenerReport { records } => mld::write_records(records, writer),
            Message::ListenerReport1 { group } | Message::ListenerDone { group } => writer.u32(0).address(*group),
            Message::RouterSolicitation(message) => message.write(writer),
            Message::RouterAdvertisement(message) => message.write(writer),
            Message::NeighbourSolicitation(message) => message.write(writer),
            Message::NeighbourAdvertisement(message) => message.write(writer),
            Message::HomeAgentRequest { identifier, router } => {
                writer.u16(*identifier).u16(set_bits([(*router, FLAG_ROUTER)]))
            }
            Message::HomeAgentReply { identifier, router, addresses } => {
                writer.u16(*identifier).u16(set_bits([(*router, FLAG_ROUTER)]));
                writer.list(addresses.iter().take(MAX_HOME_AGENTS), |writer, address| writer.address(*address))
            }
            Message::MobilePrefixSolicitation { identifier } => writer.u16(*identifier).u16(0),
            Message::MobilePrefixAdvertisement { identifier, managed, other, options } => {
                writer.u16(*identifier).u16(set_bits([(*managed, FLAG_MANAGED), (*other, FLAG_OTHER)]));
                option::write_all(options, writer)
            }
            Message::Unknown { body, .. } => writer.bytes(body),
        }
    }
}

impl Echo {
    fn read(reader: &mut Reader<'_>) -> Result<Echo, Malformed> {
        Ok(Echo { identifier: reader.u16()?, sequence: reader.u16()?, data: reader.rest().to_vec() })
    }
}

/// The group in which the owner of `address` listens for neighbour solicitations (RFC 4291 §2.7.1).
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    const GROUP: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(GROUP | address.to_bits() & 0xff_ffff)
}

fn invoking(reader: &mut Reader<'_>) -> Vec<u8> {
    truncated(reader.rest()).to_vec()
}

fn truncated(invoking: &[u8]) -> &[u8] {
    invoking.get(..MAX_INVOKING).unwrap_or(invoking)
}
