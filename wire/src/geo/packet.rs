//! A whole packet: Basic Header, Common Header, extended header and payload (EN 302 636-4-1 §9.3, §9.6, §9.7).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Version|  NH   |   Reserved    |      LT       |      RHL      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  NH   |Reservd|  HT   |  HST  |      TC       |     Flags     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |              PL               |      MHL      |   Reserved    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::VERSION;
use super::extended::ExtendedHeader;
use super::lifetime::Lifetime;
use super::position::ShortPositionVector;
use crate::codepoint::field_values;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;

/// What follows the Basic Header.
mod next {
    pub(super) const COMMON: u8 = 1;
    pub(super) const SECURED: u8 = 2;
}

/// Octets of the Basic Header.
#[cfg(feature = "geo-security")]
const BASIC_LENGTH: usize = 4;
/// Octets of Basic and Common Header.
const FIXED_LENGTH: usize = 12;
const REMAINING_AT: usize = 3;
/// Offset of the destination position vector, in packets that have one.
const DESTINATION_AT: usize = 40;
/// Offset of the detour field, where a forwarder that goes round a gap notes its distance from the destination. The
/// standard has no such forwarding; it reserves this field after the sequence number.
const DETOUR_OFFSET: usize = 14;
const MOBILE: u8 = 0x80;
/// Minimum Ethernet payload (IEEE 802.3 §3.2.8): shorter packets arrive with padding.
const MIN_ETHERNET_PAYLOAD: usize = 46;

/// An unsecured packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Always [`VERSION`] in a parsed packet.
    pub version: u8,
    /// LT: lifetime.
    pub lifetime: Lifetime,
    /// RHL: remaining hop limit, including this hop.
    pub remaining_hop_limit: u8,
    /// NH: protocol of the payload.
    pub upper_protocol: UpperProtocol,
    /// TC: traffic class.
    pub traffic_class: TrafficClass,
    /// Flags as received; see [`Packet::is_mobile`].
    pub flags: u8,
    /// MHL: maximum hop limit set by the source; not below the remaining one.
    pub max_hop_limit: u8,
    /// Extended header.
    pub extended: ExtendedHeader,
    /// Payload.
    pub payload: &'a [u8],
}

field_values! {
    /// The protocol of the payload (NH of the Common Header).
    UpperProtocol {
        /// Unspecified, or no payload.
        Any = 0,
        /// BTP-A, for interactive transport.
        BtpA = 1,
        /// BTP-B, for everything else.
        BtpB = 2,
        /// IPv6 (EN 302 636-6-1).
        Ipv6 = 3,
    }
}

/// The traffic class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct TrafficClass(pub u8);

impl TrafficClass {
    const STORE: u8 = 0x80;

    /// Class `id` from 0 (most urgent) to 63; `store_carry_forward`: see [`TrafficClass::store_carry_forward`].
    pub fn new(id: u8, store_carry_forward: bool) -> TrafficClass {
        TrafficClass(id & 0x3f | if store_carry_forward { Self::STORE } else { 0 })
    }

    /// SCF: whether to buffer the packet while no suitable neighbour exists.
    pub fn store_carry_forward(self) -> bool {
        self.0 & Self::STORE != 0
    }

    /// Class id, 0 is the most urgent.
    pub fn id(self) -> u8 {
        self.0 & 0x3f
    }
}

/// The traffic class of a packet as it is sent, also of one that is signed; `None` if it is truncated, or encrypted. It is
/// read without a check of the rest.
pub fn traffic_class_of(bytes: &[u8]) -> Option<TrafficClass> {
    let common =
        if is_secured(bytes) { BASIC_HEADER + signed_payload_at(bytes.get(BASIC_HEADER..)?)? } else { BASIC_HEADER };
    bytes.get(common + CLASS_AT).copied().map(TrafficClass)
}

/// Octets of a Basic Header, and the offset of the traffic class in a Common Header.
const BASIC_HEADER: usize = 4;
const CLASS_AT: usize = 2;

/// Where the payload of signed data begins (IEEE 1609.2 §6.3.4): version 3, signedData, SHA-256 or SHA-384, with data as
/// payload, version 3, unsecuredData, and the length of the data.
fn signed_payload_at(envelope: &[u8]) -> Option<usize> {
    let [3, 0x81, _, 0x40, 3, 0x80, length, ..] = envelope else { return None };
    match length {
        0..=0x7f => Some(7),
        0x81 => Some(8),
        0x82 => Some(9),
        _ => None,
    }
}

/// Whether the packet is secured (TS 103 097); [`Packet::parse`] refuses secured packets.
pub fn is_secured(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| first & 15 == next::SECURED)
}

/// Whether a forwarder may change fields beyond the Basic Header: those of a secured packet are covered by its signature.
fn is_open_to_changes(bytes: &[u8]) -> bool {
    !cfg!(feature = "geo-security") || !is_secured(bytes)
}

/// A secured packet (TS 103 097 §5.2): a Basic Header, and signed data that contain the rest of the packet.
#[cfg(feature = "geo-security")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecuredPacket<'a> {
    /// The packet. Lifetime and remaining hop limit are not covered by the signature.
    pub packet: Packet<'a>,
    /// The signed data.
    pub signed: crate::security::SignedData<'a>,
}

#[cfg(feature = "geo-security")]
impl<'a> SecuredPacket<'a> {
    /// Parses a secured packet from its Basic Header.
    ///
    /// # Errors
    /// [`Malformed`] if it is no signed packet; offsets in the packet inside the envelope count from its Common Header.
    pub fn parse(bytes: &'a [u8]) -> Result<SecuredPacket<'a>, Malformed> {
        let mut reader = Reader::new("secured GeoNetworking packet", bytes);
        let basic = BasicHeader::read(&mut reader, next::SECURED)?;
        let signed = crate::security::SignedData::read(reader.bytes(reader.len())?)?;
        // An envelope is longer than the shortest frame: there is no padding.
        let (has, needs) = (bytes.len(), BASIC_LENGTH + signed.length);
        if has != needs {
            return Err(Malformed { what: "secured packet", at: needs, why: Why::Length { has, needs } });
        }
        let mut inner = Reader::new("GeoNetworking packet in an envelope", signed.payload);
        let packet = Packet::after_basic_header(basic, &mut inner, false)?;
        Ok(SecuredPacket { packet, signed })
    }
}

/// Sets the remaining hop limit of a forwarded packet.
pub fn set_remaining_hop_limit(packet: &mut [u8], remaining: u8) {
    if let Some(field) = packet.get_mut(REMAINING_AT) {
        *field = remaining;
    }
}

/// Updates the destination position vector of a forwarded GeoUnicast packet or location service reply. A secured packet
/// stays as it is.
pub fn set_destination(packet: &mut [u8], destination: &ShortPositionVector) {
    if !is_open_to_changes(packet) {
        return;
    }
    let mut writer = Writer::new();
    destination.write(&mut writer);
    let fields = packet.get_mut(DESTINATION_AT..DESTINATION_AT + ShortPositionVector::LENGTH).unwrap_or_default();
    for (to, from) in fields.iter_mut().zip(writer.finish()) {
        *to = from;
    }
}

/// Distance from the destination in metres where a detour began; `None` without detour, as in all secured packets. For
/// packets with a sequence number only.
pub fn detour(packet: &[u8]) -> Option<u16> {
    if !is_open_to_changes(packet) {
        return None;
    }
    let octets: [u8; 2] = packet.get(DETOUR_OFFSET..)?.first_chunk().copied()?;
    Some(u16::from_be_bytes(octets)).filter(|metres| *metres > 0)
}

/// Sets or clears the detour field of a packet with a sequence number. A secured packet stays as it is.
pub fn set_detour(packet: &mut [u8], metres: Option<u16>) {
    if !is_open_to_changes(packet) {
        return;
    }
    if let Some(field) = packet.get_mut(DETOUR_OFFSET..).and_then(|rest| rest.first_chunk_mut()) {
        *field = metres.unwrap_or(0).to_be_bytes();
    }
}

impl<'a> Packet<'a> {
    /// Parses a packet from its Basic Header. Ethernet padding is removed.
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, Malformed> {
        let mut reader = Reader::new("GeoNetworking packet", bytes);
        let basic = BasicHeader::read(&mut reader, next::COMMON)?;
        Packet::after_basic_header(basic, &mut reader, bytes.len() <= MIN_ETHERNET_PAYLOAD)
    }

    /// Parses what follows the Basic Header.
    fn after_basic_header(
        basic: BasicHeader,
        reader: &mut Reader<'a>,
        may_be_padded: bool,
    ) -> Result<Packet<'a>, Malformed> {
        let upper = UpperProtocol::read(reader)?;
        let kind = reader.u8()?;
        let class = TrafficClass(reader.u8()?);
        let flags = reader.u8()?;
        let length_at = reader.position();
        let length = usize::from(reader.u16()?);
        let most = reader.u8()?;
        reader.skip(1)?;
        let extended = ExtendedHeader::read(reader, kind)?;
        let payload = payload(reader, may_be_padded, length, length_at)?;
        let packet = Packet {
            version: VERSION,
            lifetime: basic.lifetime,
            remaining_hop_limit: basic.remaining_hop_limit,
            upper_protocol: upper,
            traffic_class: class,
            flags,
            max_hop_limit: most,
            extended,
            payload,
        };
        packet.check()?;
        Ok(packet)
    }

    /// Checks the consistency of the fields.
    fn check(&self) -> Result<(), Malformed> {
        let remaining = self.remaining_hop_limit;
        let most = if self.extended.is_single_hop() { self.max_hop_limit.min(1) } else { self.max_hop_limit };
        if !(1..=most).contains(&remaining) {
            let why = Why::Value(remaining.into());
            return Err(Malformed { what: "remaining hop limit", at: REMAINING_AT, why });
        }
        if self.extended.is_control() && !self.payload.is_empty() {
            let why = Why::Length { has: self.payload.len(), needs: 0 };
            return Err(Malformed { what: "payload length", at: 8, why });
        }
        Ok(())
    }

    /// Emits the packet; a payload beyond the length field is truncated.
    pub fn emit(&self) -> Vec<u8> {
        let payload = self.payload.get(..usize::from(u16::MAX)).unwrap_or(self.payload);
        let mut writer = Writer::new();
        writer.u8(self.version << 4 | next::COMMON).u8(0).u8(self.lifetime.0).u8(self.remaining_hop_limit);
        writer.u8(self.upper_protocol.value() << 4).u8(self.extended.code()).u8(self.traffic_class.0).u8(self.flags);
        writer.u16(u16::try_from(payload.len()).unwrap_or(u16::MAX)).u8(self.max_hop_limit).u8(0);
        self.extended.write(&mut writer);
        writer.bytes(payload);
        writer.finish()
    }

    /// Length of the packet without an envelope, octets.
    pub fn length(&self) -> usize {
        FIXED_LENGTH + self.extended.length() + self.payload.len()
    }

    /// The remaining hop limit of a packet.
    pub fn remaining_hop_limit_of(packet: &[u8]) -> u8 {
        packet.get(REMAINING_AT).copied().unwrap_or(0)
    }

    /// Whether the source is mobile (itsGnIsMobile).
    pub fn is_mobile(&self) -> bool {
        self.flags & MOBILE != 0
    }

    /// The flags of a mobile or stationary station.
    pub fn flags_for(mobile: bool) -> u8 {
        if mobile { MOBILE } else { 0 }
    }
}

/// The fields of the Basic Header (§9.6).
#[derive(Clone, Copy)]
struct BasicHeader {
    lifetime: Lifetime,
    remaining_hop_limit: u8,
}

impl BasicHeader {
    /// Reads the header of a packet with this next header.
    fn read(reader: &mut Reader<'_>, expected: u8) -> Result<BasicHeader, Malformed> {
        let first = reader.u8()?;
        let version = first >> 4;
        // Packets of any other version are discarded (EN 302 636-4-1 §10.3.3).
        if version != VERSION {
            return Err(Malformed { what: "version", at: 0, why: Why::Value(u64::from(version)) });
        }
        if first & 15 != expected {
            return Err(Malformed { what: "Basic Header next header", at: 0, why: Why::Value(u64::from(first & 15)) });
        }
        reader.skip(1)?;
        Ok(BasicHeader { lifetime: Lifetime(reader.u8()?), remaining_hop_limit: reader.u8()? })
    }
}

impl UpperProtocol {
    fn read(reader: &mut Reader<'_>) -> Result<UpperProtocol, Malformed> {
        let at = reader.position();
        let value = reader.u8()? >> 4;
        let unknown = Malformed { what: "Common Header next header", at, why: Why::Value(value.into()) };
        UpperProtocol::from_value(value).ok_or(unknown)
    }
}

fn payload<'a>(
    reader: &mut Reader<'a>,
    may_be_padded: bool,
    length: usize,
    length_at: usize,
) -> Result<&'a [u8], Malformed> {
    let there = reader.len();
    let is_padding = there > length && may_be_padded;
    if length != there && !is_padding {
        let why = Why::Length { has: length, needs: there };
        return Err(Malformed { what: "payload length", at: length_at, why });
    }
    reader.bytes(length)
}
