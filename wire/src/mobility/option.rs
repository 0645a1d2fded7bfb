//! Mobility options: a table of their formats and alignments.
//! RFC 6275 §6.2, RFC 3963 §4.3, RFC 5648 §4.1, RFC 6089 §4, RFC 4283 §3, RFC 4285 §5, RFC 5555 §3, RFC 5568 §6.4.4.
//!
//! See <https://www.rfc-editor.org/rfc/rfc6275#section-6.2>, <https://www.rfc-editor.org/rfc/rfc5648#section-4.1>, <https://www.rfc-editor.org/rfc/rfc5555#section-3>.

use super::MAX_LENGTH;
use super::capability::Capabilities;
use super::esp::EspKey;
use super::flow::FlowIdentification;
use super::key_exchange::KeyExchange;
use super::status::{Ipv4Status, Status};
use super::wireguard::WireguardKey;
use crate::address::{Bid, Fid, Prefix};
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::{Alignment, Writer, low};
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Options, padding aside, read in one message.
pub const MAX_OPTIONS: usize = 64;

/// Subtype of the authentication option between mobile node and home agent (RFC 4285 §5.1).
pub const AUTHENTICATION_MN_HA: u8 = 1;

/// Values of the Option Type field.
pub mod kind {
    /// One octet of padding.
    pub const PAD1: u8 = 0;
    /// Two octets of padding or more.
    pub const PADN: u8 = 1;
    /// Binding Refresh Advice.
    pub const BINDING_REFRESH_ADVICE: u8 = 2;
    /// Alternate Care-of Address.
    pub const ALTERNATE_CARE_OF: u8 = 3;
    /// Nonce Indices.
    pub const NONCE_INDICES: u8 = 4;
    /// Binding Authorization Data.
    pub const BINDING_AUTHORISATION: u8 = 5;
    /// Mobile Network Prefix.
    pub const MOBILE_NETWORK_PREFIX: u8 = 6;
    /// Mobility Header Link-Layer Address.
    pub const LINK_LAYER_ADDRESS: u8 = 7;
    /// Mobile Node Identifier.
    pub const MOBILE_NODE_IDENTIFIER: u8 = 8;
    /// Mobility Message Authentication.
    pub const AUTHENTICATION: u8 = 9;
    /// Mobility Message Replay Protection.
    pub const REPLAY_PROTECTION: u8 = 10;
    /// Experimental Mobility Option (RFC 5096 §5).
    pub const EXPERIMENTAL: u8 = 18;
    /// IPv4 Home Address.
    pub const IPV4_HOME_ADDRESS: u8 = 29;
    /// IPv4 Address Acknowledgement.
    pub const IPV4_ADDRESS_ACKNOWLEDGEMENT: u8 = 30;
    /// NAT Detection.
    pub const NAT_DETECTION: u8 = 31;
    /// IPv4 Care-of Address.
    pub const IPV4_CARE_OF: u8 = 32;
    /// Binding Identifier.
    pub const BINDING_IDENTIFIER: u8 = 35;
    /// Flow Summary.
    pub const FLOW_SUMMARY: u8 = 44;
    /// Flow Identification.
    pub const FLOW_IDENTIFICATION: u8 = 45;
}

/// A mobility option; padding is not among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MobilityOption {
    /// Refresh interval that the home agent suggests, in units of 4 seconds (RFC 6275 §6.2.4).
    BindingRefreshAdvice(u16),
    /// The care-of address, where the source address may differ (RFC 6275 §6.2.5).
    AlternateCareOf(Ipv6Addr),
    /// Indices of the nonces that the binding key was derived from (RFC 6275 §6.2.6).
    NonceIndices {
        /// Home nonce index.
        home: u16,
        /// Care-of nonce index.
        care_of: u16,
    },
    /// Authenticator of a binding with a correspondent (RFC 6275 §6.2.7); the last option.
    BindingAuthorisation(Vec<u8>),
    /// A mobile network prefix (RFC 3963 §4.3).
    MobileNetworkPrefix(Prefix),
    /// The mobile node's link-layer address, or a request for it (RFC 5568 §6.4.4).
    LinkLayerAddress {
        /// 2 for that of the mobile node.
        code: u8,
        /// The address.
        address: Vec<u8>,
    },
    /// An identifier of the mobile node other than its addresses (RFC 4283 §3).
    MobileNodeIdentifier {
        /// 1 for a network access identifier.
        subtype: u8,
        /// The identifier.
        identifier: Vec<u8>,
    },
    /// Mobility message authentication (RFC 4285 §5); only further authentication options may follow.
    Authentication {
        /// [`AUTHENTICATION_MN_HA`], or 2 for that of an AAA server (RFC 4285 §5.2).
        subtype: u8,
        /// Security parameters index; 0 to 255 are reserved.
        spi: u32,
        /// The authenticator.
        data: Vec<u8>,
    },
    /// Replay protection: the sender's NTP timestamp (RFC 4285 §6).
    ReplayProtection(u64),
    /// IPv4 Home Address, requested or registered (RFC 5555 §3.1.1).
    Ipv4HomeAddress {
        /// Of the network it is in; 6 bits.
        prefix_length: u8,
        /// P: a prefix is requested, not only an address.
        prefix_wanted: bool,
        /// The address; `0.0.0.0` requests a dynamic one.
        address: Ipv4Addr,
    },
    /// Result for the IPv4 home address (RFC 5555 §3.2.1).
    Ipv4AddressAcknowledgement {
        /// Result.
        status: Ipv4Status,
        /// Prefix length of its network, 6 bits; 0 if rejected.
        prefix_length: u8,
        /// The address.
        address: Ipv4Addr,
    },
    /// NAT Detection: a NAT is on the path, or UDP encapsulation is required (RFC 5555 §3.2.2).
    NatDetection {
        /// F: the home agent requires UDP encapsulation.
        force_udp: bool,
        /// Interval of NAT keepalives in seconds; 0 is unspecified, all ones is never.
        refresh_seconds: u32,
    },
    /// An IPv4 care-of address (RFC 5555 §3.1.2).
    Ipv4CareOf(Ipv4Addr),
    /// Binding Identifier of one of several care-of addresses (RFC 5648 §4.1).
    BindingIdentifier(BindingIdentifier),
    /// Flow bindings to be kept unchanged (RFC 6089 §4.3).
    FlowSummary(Vec<Fid>),
    /// A flow binding (RFC 6089 §4.2).
    FlowIdentification(FlowIdentification),
    /// A known option with an invalid body, of a type whose errors the standard answers with a status instead of a drop:
    /// Mobile Network Prefix, Binding Identifier, Flow Summary, Flow Identification.
    Invalid {
        /// Option Type.
        kind: u8,
        /// What follows the length.
        body: Vec<u8>,
    },
    /// Path MTU of a care-of address, measured by the mobile router: an experimental option (RFC 5096) of roam6.
    PathMtu {
        /// The binding, 0 without RFC 5648.
        bid: Bid,
        /// Largest outer packet, octets.
        mtu: u16,
    },
    /// Capabilities of the sender: an experimental option (RFC 5096) of roam6.
    Capabilities(Capabilities),
    /// A new shared key, requested or offered: an experimental option (RFC 5096) of roam6.
    KeyExchange(KeyExchange),
    /// The public key of the sender's WireGuard device for a path: an experimental option (RFC 5096) of roam6.
    WireguardKey(WireguardKey),
    /// The agreement of ESP keys for a path, offer or answer: an experimental option (RFC 5096) of roam6.
    EspKey(EspKey),
    /// Any other option, to be ignored.
    Unknown {
        /// Option Type.
        kind: u8,
        /// What follows the length.
        body: Vec<u8>,
    },
}

/// The Binding Identifier option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindingIdentifier {
    /// Binding identifier.
    pub bid: Bid,
    /// In an acknowledgement: result for this binding; 0 defers to the status of the message.
    pub status: Status,
    /// H: simultaneous home and foreign attachment.
    pub simultaneous_home: bool,
    /// BID-PRI, 7 bits: lower is better, 0 is unspecified (RFC 6089 §4.1).
    pub priority: u8,
    /// The care-of address, if present.
    pub care_of: CareOfField,
}

/// The care-of address field of a Binding Identifier option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CareOfField {
    /// Absent: the registered one remains.
    None,
    /// IPv4 care-of address.
    V4(Ipv4Addr),
    /// IPv6 care-of address.
    V6(Ipv6Addr),
}

/// Format of a known option.
struct OptionFormat {
    kind: u8,
    /// Minimum length of the body, octets.
    min_length: usize,
    alignment: Alignment,
    /// Whether an invalid body is answered with a status, not dropped.
    rejected_by_status: bool,
    read: fn(&mut Reader<'_>) -> Result<MobilityOption, Malformed>,
}

const fn format(
    kind: u8,
    least: usize,
    (step, offset): (usize, usize),
    read: fn(&mut Reader<'_>) -> Result<MobilityOption, Malformed>,
) -> OptionFormat {
    OptionFormat { kind, min_length: least, alignment: Alignment::new(step, offset), rejected_by_status: false, read }
}

const fn rejected_by_status(row: OptionFormat) -> OptionFormat {
    OptionFormat { rejected_by_status: true, ..row }
}

const TABLE: [OptionFormat; 17] = [
    format(kind::BINDING_REFRESH_ADVICE, 2, (2, 0), |body| Ok(MobilityOption::BindingRefreshAdvice(body.u16()?))),
    format(kind::ALTERNATE_CARE_OF, 16, (8, 6), |body| Ok(MobilityOption::AlternateCareOf(body.address()?))),
    format(kind::NONCE_INDICES, 4, (2, 0), |body| {
        Ok(MobilityOption::NonceIndices { home: body.u16()?, care_of: body.u16()? })
    }),
    format(kind::BINDING_AUTHORISATION, 0, (8, 2), |body| {
        Ok(MobilityOption::BindingAuthorisation(body.rest().to_vec()))
    }),
    rejected_by_status(format(kind::MOBILE_NETWORK_PREFIX, 18, (8, 4), read_prefix)),
    format(kind::LINK_LAYER_ADDRESS, 1, (1, 0), |body| {
        Ok(MobilityOption::LinkLayerAddress { code: body.u8()?, address: body.rest().to_vec() })
    }),
    format(kind::MOBILE_NODE_IDENTIFIER, 1, (1, 0), |body| {
        Ok(MobilityOption::MobileNodeIdentifier { subtype: body.u8()?, identifier: body.rest().to_vec() })
    }),
    format(kind::AUTHENTICATION, 5, (4, 1), |body| {
        Ok(MobilityOption::Authentication { subtype: body.u8()?, spi: body.u32()?, data: body.rest().to_vec() })
    }),
    format(kind::REPLAY_PROTECTION, 8, (8, 2), |body| Ok(MobilityOption::ReplayProtection(body.u64()?))),
    format(kind::EXPERIMENTAL, 0, (2, 0), read_experimental),
    format(kind::IPV4_HOME_ADDRESS, 6, (4, 0), read_ipv4_home_address),
    format(kind::IPV4_ADDRESS_ACKNOWLEDGEMENT, 6, (4, 0), |body| {
        Ok(MobilityOption::Ipv4AddressAcknowledgement {
            status: Ipv4Status(body.u8()?),
            prefix_length: body.u8()? >> 2,
            address: body.address4()?,
        })
    }),
    format(kind::NAT_DETECTION, 6, (4, 0), |body| {
        Ok(MobilityOption::NatDetection { force_udp: body.u16()? & NAT_FORCE_UDP != 0, refresh_seconds: body.u32()? })
    }),
    format(kind::IPV4_CARE_OF, 6, (4, 0), |body| {
        body.skip(2)?;
        Ok(MobilityOption::Ipv4CareOf(body.address4()?))
    }),
    rejected_by_status(format(kind::BINDING_IDENTIFIER, 4, (2, 0), read_binding_identifier)),
    rejected_by_status(format(kind::FLOW_SUMMARY, 2, (2, 0), |body| {
        Ok(MobilityOption::FlowSummary(body.list(usize::MAX, |body| body.u16().map(Fid))?))
    })),
    rejected_by_status(format(kind::FLOW_IDENTIFICATION, 6, (8, 0), |body| {
        FlowIdentification::read(body).map(MobilityOption::FlowIdentification)
    })),
];

/// Experiment identifier of [`MobilityOption::PathMtu`]: "PMTU".
const PATH_MTU_EXPERIMENT: u32 = 0x504d_5455;
const NAT_FORCE_UDP: u16 = 0x8000;
const BID_SIMULTANEOUS_HOME: u8 = 0x80;
const IPV4_PREFIX_WANTED: u16 = 0x0200;
/// Alignment of a Binding Identifier option with an IPv6 care-of address.
const BID_WITH_ADDRESS_ALIGNMENT: Alignment = Alignment::new(8, 2);

fn find(kind: u8) -> Option<&'static OptionFormat> {
    const { &TABLE }.iter().find(|row| row.kind == kind)
}

pub(super) fn read_all(reader: &mut Reader<'_>) -> Result<Vec<MobilityOption>, Malformed> {
    let mut options = Vec::new();
    let mut closed = false;
    while let Some((at, kind, mut body)) = next_option(reader)? {
        if options.len() == MAX_OPTIONS {
            return Err(Malformed { what: "mobility options", at, why: Why::TooMany(MAX_OPTIONS) });
        }
        // No option may follow the authenticator, which would not cover it (RFC 4285 §5, RFC 6275 §6.2.7).
        if closed && kind != kind::AUTHENTICATION {
            return Err(Malformed { what: "mobility option", at, why: Why::Misplaced });
        }
        closed |= must_be_last(kind);
        options.push(read_one(kind, &mut body)?);
    }
    Ok(options)
}

pub(super) fn write_all(options: &[MobilityOption], writer: &mut Writer) {
    for (position, option) in options.iter().enumerate() {
        let kind = option.kind();
        let mut body = Writer::new();
        option.write_body(&mut body);
        let body = body.finish();
        let length = body.len() + 2;
        let at = writer.position();
        let padding = if must_be_last(kind) && position + 1 == options.len() {
            // The last option of the message: padding to eight octets goes before it.
            Alignment::new(8, 0).padding(at + length)
        } else {
            option.alignment().padding(at)
        };
        if body.len() <= usize::from(u8::MAX) && at + padding + length <= MAX_LENGTH {
            writer.pad(padding).u8(kind).u8(low(body.len())).bytes(&body);
        }
    }
}

/// Offset of the data of the last MN-HA authentication option; `reader` is at the first option.
pub(super) fn find_authenticator(reader: &mut Reader<'_>) -> Option<usize> {
    let mut found = None;
    while let Some((_, kind, mut body)) = next_option(reader).ok()? {
        if kind != kind::AUTHENTICATION {
            found = None;
        } else if body.u8().ok()? == AUTHENTICATION_MN_HA {
            body.skip(4).ok()?;
            found = Some(body.position());
        }
    }
    found
}

/// The next option other than padding: offset, type, body.
fn next_option<'a>(reader: &mut Reader<'a>) -> Result<Option<(usize, u8, Reader<'a>)>, Malformed> {
    while !reader.is_empty() {
        let at = reader.position();
        let kind = reader.u8()?;
        if kind == kind::PAD1 {
            continue;
        }
        let length = reader.u8()?;
        let body = reader.part("mobility option", length.into())?;
        if kind != kind::PADN {
            return Ok(Some((at, kind, body)));
        }
    }
    Ok(None)
}

fn read_one(kind: u8, body: &mut Reader<'_>) -> Result<MobilityOption, Malformed> {
    let whole = body.clone().rest();
    let Some(row) = find(kind) else { return Ok(MobilityOption::Unknown { kind, body: whole.to_vec() }) };
    let option = if body.len() < row.min_length {
        Err(body.malformed(Why::Length { has: body.len(), needs: row.min_length }))
    } else {
        (row.read)(body).and_then(|option| body.end().map(|()| option))
    };
    match option {
        Err(_) if row.rejected_by_status => Ok(MobilityOption::Invalid { kind, body: whole.to_vec() }),
        option => option,
    }
}

fn must_be_last(kind: u8) -> bool {
    matches!(kind, kind::AUTHENTICATION | kind::BINDING_AUTHORISATION)
}

/// The experiments of roam6; options of others are unknown.
fn read_experimental(body: &mut Reader<'_>) -> Result<MobilityOption, Malformed> {
    let whole = body.rest();
    let mut fields = Reader::new("experimental mobility option", whole);
    if whole.len() == 8 && fields.u32()? == PATH_MTU_EXPERIMENT {
        return Ok(MobilityOption::PathMtu { bid: Bid(fields.u16()?), mtu: fields.u16()? });
    }
    if let Some(exchange) = KeyExchange::read(whole)? {
        return Ok(MobilityOption::KeyExchange(exchange));
    }
    if let Some(key) = WireguardKey::read(whole)? {
        return Ok(MobilityOption::WireguardKey(key));
    }
    if let Some(key) = EspKey::read(whole)? {
        return Ok(MobilityOption::EspKey(key));
    }
    let other = || MobilityOption::Unknown { kind: kind::EXPERIMENTAL, body: whole.to_vec() };
    Ok(Capabilities::read(whole)?.map_or_else(other, MobilityOption::Capabilities))
}

fn read_prefix(body: &mut Reader<'_>) -> Result<MobilityOption, Malformed> {
    body.skip(1)?;
    let length = body.u8()?;
    let wrong = body.malformed(Why::Value(length.into()));
    Ok(MobilityOption::MobileNetworkPrefix(Prefix::new(body.address()?, length).ok_or(wrong)?))
}

fn read_ipv4_home_address(body: &mut Reader<'_>) -> Result<MobilityOption, Malformed> {
    let fields = body.u16()?;
    Ok(MobilityOption::Ipv4HomeAddress {
        prefix_length: (fields >> 10) as u8,
        prefix_wanted: fields & IPV4_PREFIX_WANTED != 0,
        address: body.address4()?,
    })
}

fn read_binding_identifier(body: &mut Reader<'_>) -> Result<MobilityOption, Malformed> {
    let bid = Bid(body.u16()?);
    let status = Status(body.u8()?);
    let flags = body.u8()?;
    let care_of = match body.len() {
        0 => CareOfField::None,
        4 => CareOfField::V4(body.address4()?),
        _ => CareOfField::V6(body.address()?),
    };
    Ok(MobilityOption::BindingIdentifier(BindingIdentifier {
        bid,
        status,
        simultaneous_home: flags & BID_SIMULTANEOUS_HOME != 0,
        priority: flags & !BID_SIMULTANEOUS_HOME,
        care_of,
    }))
}

impl MobilityOption {
    fn alignment(&self) -> Alignment {
        match self {
            MobilityOption::BindingIdentifier(BindingIdentifier { care_of: CareOfField::V6(_), .. }) => {
                BID_WITH_ADDRESS_ALIGNMENT
            }
            _ => find(self.kind()).map_or(Alignment::NONE, |row| row.alignment),
        }
    }

    /// Option Type.
    fn kind(&self) -> u8 {
        match self {
            MobilityOption::BindingRefreshAdvice(_) => kind::BINDING_REFRESH_ADVICE,
            MobilityOption::AlternateCareOf(_) => kind::ALTERNATE_CARE_OF,
            MobilityOption::NonceIndices { .. } => kind::NONCE_INDICES,
            MobilityOption::BindingAuthorisation(_) => kind::BINDING_AUTHORISATION,
            MobilityOption::MobileNetworkPrefix(_) => kind::MOBILE_NETWORK_PREFIX,
            MobilityOption::LinkLayerAddress { .. } => kind::LINK_LAYER_ADDRESS,
            MobilityOption::MobileNodeIdentifier { .. } => kind::MOBILE_NODE_IDENTIFIER,
            MobilityOption::Authentication { .. } => kind::AUTHENTICATION,
            MobilityOption::ReplayProtection(_) => kind::REPLAY_PROTECTION,
            MobilityOption::PathMtu { .. }
            | MobilityOption::Capabilities(_)
            | MobilityOption::KeyExchange(_)
            | MobilityOption::WireguardKey(_)
            | MobilityOption::EspKey(_) => kind::EXPERIMENTAL,
            MobilityOption::Ipv4HomeAddress { .. } => kind::IPV4_HOME_ADDRESS,
            MobilityOption::Ipv4AddressAcknowledgement { .. } => kind::IPV4_ADDRESS_ACKNOWLEDGEMENT,
            MobilityOption::NatDetection { .. } => kind::NAT_DETECTION,
            MobilityOption::Ipv4CareOf(_) => kind::IPV4_CARE_OF,
            MobilityOption::BindingIdentifier(_) => kind::BINDING_IDENTIFIER,
            MobilityOption::FlowSummary(_) => kind::FLOW_SUMMARY,
            MobilityOption::FlowIdentification(_) => kind::FLOW_IDENTIFICATION,
            MobilityOption::Invalid { kind, .. } | MobilityOption::Unknown { kind, .. } => *kind,
        }
    }

    /// Writes what follows the length.
    fn write_body<'w>(&self, body: &'w mut Writer) -> &'w mut Writer {
        match self {
            MobilityOption::BindingRefreshAdvice(units) => body.u16(*units),
            MobilityOption::AlternateCareOf(address) => body.address(*address),
            MobilityOption::NonceIndices { home, care_of } => body.u16(*home).u16(*care_of),
            MobilityOption::BindingAuthorisation(data) => body.bytes(data),
            MobilityOption::MobileNetworkPrefix(prefix) => body.u8(0).u8(prefix.length()).address(prefix.address()),
            MobilityOption::LinkLayerAddress { code, address } => body.u8(*code).bytes(address),
            MobilityOption::MobileNodeIdentifier { subtype, identifier } => body.u8(*subtype).bytes(identifier),
            MobilityOption::Authentication { subtype, spi, data } => body.u8(*subtype).u32(*spi).bytes(data),
            MobilityOption::ReplayProtection(timestamp) => body.u64(*timestamp),
            MobilityOption::PathMtu { bid, mtu } => body.u32(PATH_MTU_EXPERIMENT).u16(bid.0).u16(*mtu),
            MobilityOption::Capabilities(capabilities) => capabilities.write(body),
            MobilityOption::KeyExchange(exchange) => exchange.write(body),
            MobilityOption::WireguardKey(key) => key.write(body),
            MobilityOption::EspKey(key) => key.write(body),
            MobilityOption::Ipv4HomeAddress { prefix_length, prefix_wanted, address } => {
                let wanted = if *prefix_wanted { IPV4_PREFIX_WANTED } else { 0 };
                body.u16(u16::from(*prefix_length) << 10 | wanted).address4(*address)
            }
            MobilityOption::Ipv4AddressAcknowledgement { status, prefix_length, address } => {
                body.u8(status.0).u8(prefix_length << 2).address4(*address)
            }
            MobilityOption::NatDetection { force_udp, refresh_seconds } => {
                body.u16(if *force_udp { NAT_FORCE_UDP } else { 0 }).u32(*refresh_seconds)
            }
            MobilityOption::Ipv4CareOf(address) => body.u16(0).address4(*address),
            MobilityOption::BindingIdentifier(binding) => binding.write(body),
            MobilityOption::FlowSummary(flows) => body.list(flows, |body, flow| body.u16(flow.0)),
            MobilityOption::FlowIdentification(flow) => flow.write(body),
            MobilityOption::Invalid { body: octets, .. } | MobilityOption::Unknown { body: octets, .. } => {
                body.bytes(octets)
            }
        }
    }
}

impl BindingIdentifier {
    fn write<'w>(&self, body: &'w mut Writer) -> &'w mut Writer {
        let home = if self.simultaneous_home { BID_SIMULTANEOUS_HOME } else { 0 };
        body.u16(self.bid.0).u8(self.status.0).u8(home | self.priority & !BID_SIMULTANEOUS_HOME);
        match self.care_of {
            CareOfField::None => body,
            CareOfField::V4(address) => body.address4(address),
            CareOfField::V6(address) => body.address(address),
        }
    }
}
