//! Shim6 payload header, control messages and REAP messages. RFC 5533 §5, RFC 5534 §5.
//!
//! RFC 5533 §12 has the test of the P bit inverted; this follows §5.2 and §5.3: set for payload.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Next Header  |       0       |1|                             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          Receiver Context Tag (payload header)                |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Next Header  |  Hdr Ext Len  |0|    Type     |Type-specific|0|
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Checksum            |  Type-specific format ...     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! See <https://www.rfc-editor.org/rfc/rfc5533#section-5>.

pub mod option;
pub mod probe;
pub mod tag;

pub use option::{LocatorList, LocatorPreference, ShimOption, VerificationMethod};
pub use probe::{Probe, ProbeRecord, ProbeState};
pub use tag::{Fork, Tag};

use crate::checksum::internet_checksum;
use crate::codepoint::code_points;
use crate::ip6::protocol;
use crate::malformed::{Malformed, Why};
use crate::reader::{Reader, header_octets};
use crate::writer::{Writer, low};
use alloc::vec::Vec;

/// Next Header value of the Shim6 header, control and payload.
pub const PROTOCOL: u8 = 140;
/// The longest control message that Hdr Ext Len can describe, octets.
pub const MAX_LENGTH: usize = 2048;
/// Octets of a payload header.
pub const PAYLOAD_HEADER_LENGTH: usize = 8;

const HEADER_LEN_AT: usize = 1;
const TYPE_AT: usize = 2;
const CHECKSUM_AT: usize = 4;
/// The P bit in the octet of the type.
const P_BIT: u8 = 0x80;
/// The S bit in the octet after the type: set in HIP messages.
const S_BIT: u8 = 1;

/// Values of the Type field.
pub mod kind {
    /// I1: first message of the initiator.
    pub const I1: u8 = 1;
    /// R1: first answer of the responder.
    pub const R1: u8 = 2;
    /// I2: second message of the initiator.
    pub const I2: u8 = 3;
    /// R2: second answer of the responder.
    pub const R2: u8 = 4;
    /// R1bis: the receiver has no such context.
    pub const R1BIS: u8 = 5;
    /// I2bis: recovers a lost context.
    pub const I2BIS: u8 = 6;
    /// From here on, a message with an unknown tag is answered with R1bis.
    pub const FIRST_OF_CONTEXT: u8 = 64;
    /// Update Request.
    pub const UPDATE_REQUEST: u8 = 64;
    /// Update Acknowledgement.
    pub const UPDATE_ACK: u8 = 65;
    /// Keepalive.
    pub const KEEPALIVE: u8 = 66;
    /// Probe.
    pub const PROBE: u8 = 67;
    /// Error.
    pub const ERROR: u8 = 68;
}

/// A nonce, echoed by the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub u32);

/// A control message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the standard's own terms, and their types say what they hold")]
pub enum Message {
    /// Initiates a context (RFC 5533 §5.4).
    I1 { tag: Tag, nonce: Nonce, options: Vec<ShimOption> },
    /// Stateless answer to I1, with a responder validator (§5.5).
    R1 { initiator_nonce: Nonce, responder_nonce: Nonce, options: Vec<ShimOption> },
    /// Returns the validator, with the initiator's locators (§5.6).
    I2 { tag: Tag, initiator_nonce: Nonce, responder_nonce: Nonce, options: Vec<ShimOption> },
    /// Completes the handshake, with the responder's locators (§5.7).
    R2 { tag: Tag, nonce: Nonce, options: Vec<ShimOption> },
    /// No context has this tag (§5.8).
    R1bis { packet_tag: Tag, responder_nonce: Nonce, options: Vec<ShimOption> },
    /// Recovers the lost context (§5.9).
    I2bis { tag: Tag, initiator_nonce: Nonce, responder_nonce: Nonce, packet_tag: Tag, options: Vec<ShimOption> },
    /// Announces changed locators or preferences (§5.10).
    UpdateRequest { tag: Tag, nonce: Nonce, options: Vec<ShimOption> },
    /// Acknowledges an Update Request (§5.11).
    UpdateAck { tag: Tag, nonce: Nonce, options: Vec<ShimOption> },
    /// Keepalive (RFC 5534 §5.1).
    Keepalive { tag: Tag, options: Vec<ShimOption> },
    /// Probes a locator pair (RFC 5534 §5.2).
    Probe(Probe),
    /// What was wrong with a message (RFC 5533 §5.14).
    Error(ErrorMessage),
    /// Any other message.
    Unknown { kind: u8, body: Vec<u8> },
}

/// An Error message (RFC 5533 §5.14).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorMessage {
    /// What.
    pub code: ErrorCode,
    /// Offset of the error in octets, from the IPv6 header of the packet.
    pub pointer: u16,
    /// The packet in error, as much as fits, with up to 7 octets of padding.
    pub packet: Vec<u8>,
}

code_points! {
    /// Error codes, 7 bits (RFC 5533 §5.14).
    ErrorCode(u8) {
        UNKNOWN_TYPE = 0, "unknown message type";
        CRITICAL_OPTION = 1, "unknown critical option";
        VERIFICATION = 2, "locator verification failed";
        GENERATION = 3, "locator list generation mismatch";
        LOCATOR_COUNT = 4, "wrong number of locator preferences";
    }
}

/// The payload extension header: the packet's addresses are locators (RFC 5533 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadHeader {
    /// What follows.
    pub next_header: u8,
    /// The receiver's context tag.
    pub tag: Tag,
}

impl PayloadHeader {
    /// Parses a payload header; `None` for a control message or too few octets.
    pub fn parse(bytes: &[u8]) -> Option<PayloadHeader> {
        let &[next, length, a, b, c, d, e, f] = bytes.first_chunk()?;
        let tag = Tag::from_low_bits(u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
        (a & P_BIT != 0 && length == 0).then_some(PayloadHeader { next_header: next, tag })
    }

    /// The header.
    pub fn emit(self) -> [u8; PAYLOAD_HEADER_LENGTH] {
        let [_, _, a, b, c, d, e, f] = self.tag.bits().to_be_bytes();
        [self.next_header, 0, P_BIT | a, b, c, d, e, f]
    }
}

impl Message {
    /// Parses a control message, from its Next Header field. Its checksum covers no pseudo-header, so that locators may
    /// change on the path (RFC 5533 §5.3). Octets beyond Hdr Ext Len are ignored.
    ///
    /// An option that the message must not have counts as unknown.
    ///
    /// # Errors
    /// [`Malformed`]; also for an unknown critical option, see [`error_code`].
    pub fn parse(bytes: &[u8]) -> Result<Message, Malformed> {
        let message = header_octets("Shim6 header", bytes)?;
        let mut reader = Reader::new("Shim6 header", message);
        reader.skip(TYPE_AT)?;
        let (kind, specific) = (reader.u8()?, reader.u8()?);
        if kind & P_BIT != 0 {
            return Err(Malformed { what: "P bit", at: TYPE_AT, why: Why::Value(1) });
        }
        if specific & S_BIT != 0 {
            return Err(Malformed { what: "S bit", at: TYPE_AT + 1, why: Why::Value(1) });
        }
        if internet_checksum(message) != 0 {
            return Err(Malformed { what: "Shim6 header", at: CHECKSUM_AT, why: Why::Checksum });
        }
        let units = message.len() / 8 - 1;
        if units < min_header_len(kind) {
            let why = Why::Length { has: units, needs: min_header_len(kind) };
            return Err(Malformed { what: "Hdr Ext Len", at: HEADER_LEN_AT, why });
        }
        reader.skip(2)?;
        Message::read(kind, specific >> 1, &mut reader)
    }

    /// The message with its checksum. An option that does not fit ([`MAX_LENGTH`]) is left out.
    pub fn emit(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(protocol::NONE).u8(0).u8(self.kind()).u8(0).u16(0);
        match self {
            Message::I1 { tag, nonce, .. }
            | Message::R2 { tag, nonce, .. }
            | Message::UpdateRequest { tag, nonce, .. }
            | Message::UpdateAck { tag, nonce, .. } => put_tag(&mut writer, *tag).u32(nonce.0),
            Message::R1 { initiator_nonce, responder_nonce, .. } => {
                writer.u16(0).u32(initiator_nonce.0).u32(responder_nonce.0)
            }
            Message::I2 { tag, initiator_nonce, responder_nonce, .. } => {
                put_tag(&mut writer, *tag).u32(initiator_nonce.0).u32(responder_nonce.0).u32(0)
            }
            Message::R1bis { packet_tag, responder_nonce, .. } => {
                put_tag(&mut writer, *packet_tag).u32(responder_nonce.0)
            }
            Message::I2bis { tag, initiator_nonce, responder_nonce, packet_tag, .. } => {
                put_tag(&mut writer, *tag).u32(initiator_nonce.0).u32(responder_nonce.0).zeros(6);
                put_tag(&mut writer, *packet_tag)
            }
            Message::Keepalive { tag, .. } => put_tag(&mut writer, *tag).u32(0),
            Message::Probe(probe) => probe.write(put_tag(&mut writer, probe.tag)),
            Message::Error(error) => {
                writer.set(TYPE_AT + 1, &[error.code.0 << 1]).u16(error.pointer);
                writer.bytes(error.packet.get(..MAX_LENGTH - 8).unwrap_or(&error.packet))
            }
            Message::Unknown { body, .. } => writer.bytes(body.get(..MAX_LENGTH - 6).unwrap_or(body)),
        };
        option::write_all(self.options(), &mut writer);
        writer.zero_fill(8);
        let units = low(writer.position() / 8 - 1);
        writer.set(HEADER_LEN_AT, &[units]);
        writer.finish_with_checksum(CHECKSUM_AT, internet_checksum)
    }

    /// The value of the Type field.
    pub fn kind(&self) -> u8 {
        match self {
            Message::I1 { .. } => kind::I1,
            Message::R1 { .. } => kind::R1,
            Message::I2 { .. } => kind::I2,
            Message::R2 { .. } => kind::R2,
            Message::R1bis { .. } => kind::R1BIS,
            Message::I2bis { .. } => kind::I2BIS,
            Message::UpdateRequest { .. } => kind::UPDATE_REQUEST,
            Message::UpdateAck { .. } => kind::UPDATE_ACK,
            Message::Keepalive { .. } => kind::KEEPALIVE,
            Message::Probe(_) => kind::PROBE,
            Message::Error(_) => kind::ERROR,
            Message::Unknown { kind, .. } => *kind,
        }
    }

    /// The options, if the message has them.
    pub fn options(&self) -> &[ShimOption] {
        match self {
            Message::I1 { options, .. }
            | Message::R1 { options, .. }
            | Message::I2 { options, .. }
            | Message::R2 { options, .. }
            | Message::R1bis { options, .. }
            | Message::I2bis { options, .. }
            | Message::UpdateRequest { options, .. }
            | Message::UpdateAck { options, .. }
            | Message::Keepalive { options, .. }
            | Message::Probe(Probe { options, .. }) => options,
            Message::Error(_) | Message::Unknown { .. } => &[],
        }
    }

    fn read(kind: u8, specific: u8, reader: &mut Reader<'_>) -> Result<Message, Malformed> {
        let known = option::allowed_options(kind);
        let options = |reader: &mut Reader<'_>| option::read_all(reader, known);
        Ok(match kind {
            kind::I1 => Message::I1 { tag: tag(reader)?, nonce: nonce(reader)?, options: options(reader)? },
            kind::R1 => {
                reader.skip(2)?;
                let (initiator_nonce, responder_nonce) = (nonce(reader)?, nonce(reader)?);
                Message::R1 { initiator_nonce, responder_nonce, options: options(reader)? }
            }
            kind::I2 => {
                let (tag, initiator_nonce, responder_nonce) = (tag(reader)?, nonce(reader)?, nonce(reader)?);
                reader.skip(4)?;
                Message::I2 { tag, initiator_nonce, responder_nonce, options: options(reader)? }
            }
            kind::R2 => Message::R2 { tag: tag(reader)?, nonce: nonce(reader)?, options: options(reader)? },
            kind::R1BIS => {
                let (packet_tag, responder_nonce) = (tag(reader)?, nonce(reader)?);
                Message::R1bis { packet_tag, responder_nonce, options: options(reader)? }
            }
            kind::I2BIS => {
                let (own, initiator_nonce, responder_nonce) = (tag(reader)?, nonce(reader)?, nonce(reader)?);
                reader.skip(6)?;
                let packet_tag = tag(reader)?;
                let options = options(reader)?;
                Message::I2bis { tag: own, initiator_nonce, responder_nonce, packet_tag, options }
            }
            kind::UPDATE_REQUEST => {
                Message::UpdateRequest { tag: tag(reader)?, nonce: nonce(reader)?, options: options(reader)? }
            }
            kind::UPDATE_ACK => {
                Message::UpdateAck { tag: tag(reader)?, nonce: nonce(reader)?, options: options(reader)? }
            }
            kind::KEEPALIVE => {
                let tag = tag(reader)?;
                reader.skip(4)?;
                Message::Keepalive { tag, options: options(reader)? }
            }
            kind::PROBE => Message::Probe(Probe::read(tag(reader)?, reader)?),
            kind::ERROR => {
                let (code, pointer) = (ErrorCode(specific), reader.u16()?);
                Message::Error(ErrorMessage { code, pointer, packet: reader.rest().to_vec() })
            }
            kind => Message::Unknown { kind, body: reader.rest().to_vec() },
        })
    }
}

/// Code of the Error message that answers a malformed message, if any; its pointer is [`Malformed::at`], counted from
/// the Shim6 header (RFC 5533 §12.3).
pub fn error_code(malformed: &Malformed) -> Option<ErrorCode> {
    (malformed.what == option::CRITICAL).then_some(ErrorCode::CRITICAL_OPTION)
}

/// The receiver's context tag in a payload header or control message, as R1bis needs it (RFC 5533 §7.17). `None` for
/// handshake and Error messages.
pub fn tag_of(bytes: &[u8]) -> Option<Tag> {
    let &[_, _, kind, _, _, _, a, b, c, d, e, f] = bytes.first_chunk()?;
    match kind {
        kind if kind & P_BIT != 0 => PayloadHeader::parse(bytes).map(|header| header.tag),
        kind::ERROR | ..kind::FIRST_OF_CONTEXT => None,
        _ => Some(Tag::from_low_bits(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))),
    }
}

/// The least Hdr Ext Len of each type.
fn min_header_len(kind: u8) -> usize {
    match kind {
        kind::I2 => 2,
        kind::I2BIS => 3,
        kind::PROBE => 6,
        kind::I1..=kind::R1BIS | kind::UPDATE_REQUEST..=kind::ERROR => 1,
        _ => 0,
    }
}

fn tag(reader: &mut Reader<'_>) -> Result<Tag, Malformed> {
    let high = reader.u16()?;
    Ok(Tag::from_low_bits(u64::from(high) << 32 | u64::from(reader.u32()?)))
}

fn nonce(reader: &mut Reader<'_>) -> Result<Nonce, Malformed> {
    reader.u32().map(Nonce)
}

fn put_tag(writer: &mut Writer, tag: Tag) -> &mut Writer {
    let [_, _, octets @ ..] = tag.bits().to_be_bytes();
    writer.bytes(&octets)
}
