//! The Mobility Header and its messages, and the part of it that an authenticator covers.
//! RFC 6275 §6.1 and §9.2, RFC 4285 §5.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Payload Proto |  Header Len   |    MH Type    |   Reserved    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Checksum            |  Message Data ...             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! See <https://www.rfc-editor.org/rfc/rfc6275#section-6.1>.

pub mod acknowledgement;
pub mod capability;
pub mod esp;
pub mod flow;
pub mod key_exchange;
pub mod option;
pub mod status;
pub mod update;
pub mod wireguard;

pub use acknowledgement::{AckFlags, BindingAcknowledgement};
pub use capability::{Capabilities, PathEncapsulation};
pub use esp::EspKey;
pub use flow::{FieldRange, FlowIdentification, Selector, TrafficSelector};
pub use key_exchange::KeyExchange;
pub use option::{BindingIdentifier, CareOfField, MobilityOption};
pub use status::{ErrorStatus, Ipv4Status, Status};
pub use update::{BindingUpdate, UpdateFlags};
pub use wireguard::WireguardKey;

use crate::checksum::checksum;
use crate::ip6::protocol;
use crate::malformed::{Malformed, Why};
use crate::reader::{Reader, header_octets};
use crate::writer::{Alignment, Writer, low};
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// Values of the MH Type field.
pub mod kind {
    /// Binding Refresh Request.
    pub const BINDING_REFRESH_REQUEST: u8 = 0;
    /// Home Test Init.
    pub const HOME_TEST_INIT: u8 = 1;
    /// Care-of Test Init.
    pub const CARE_OF_TEST_INIT: u8 = 2;
    /// Home Test.
    pub const HOME_TEST: u8 = 3;
    /// Care-of Test.
    pub const CARE_OF_TEST: u8 = 4;
    /// Binding Update.
    pub const BINDING_UPDATE: u8 = 5;
    /// Binding Acknowledgement.
    pub const BINDING_ACKNOWLEDGEMENT: u8 = 6;
    /// Binding Error.
    pub const BINDING_ERROR: u8 = 7;
}

/// Seconds of one unit of a binding's lifetime (RFC 6275 §6.1.7).
pub const LIFETIME_UNIT_SECONDS: u32 = 4;
/// The longest Mobility Header, in octets.
pub const MAX_LENGTH: usize = 2048;
/// Octets of the MN-HA authenticator (RFC 4285 §5.1).
pub const AUTHENTICATOR_LENGTH: usize = 12;

const PAYLOAD_PROTO_AT: usize = 0;
const HEADER_LEN_AT: usize = 1;
const CHECKSUM_AT: usize = 4;
const DATA_AT: usize = 6;

/// A message in a Mobility Header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Requests a Binding Update (RFC 6275 §6.1.2).
    BindingRefreshRequest {
        /// Options.
        options: Vec<MobilityOption>,
    },
    /// Registers a care-of address (RFC 6275 §6.1.7).
    BindingUpdate(BindingUpdate),
    /// Result of a Binding Update (RFC 6275 §6.1.8).
    BindingAcknowledgement(BindingAcknowledgement),
    /// Reports an unknown binding or MH Type (RFC 6275 §6.1.9).
    BindingError {
        /// Reason.
        status: ErrorStatus,
        /// The home address of the packet, `::` if it had none.
        home_address: Ipv6Addr,
    },
    /// Any other message.
    Unknown {
        /// MH Type.
        kind: u8,
        /// What follows the checksum.
        body: Vec<u8>,
    },
}

impl Message {
    /// Parses a Mobility Header, from its Payload Proto field.
    ///
    /// `source` and `destination` are the real ones ([`crate::ip6::Header::real_source`]); the checksum covers them.
    /// The checks come in the order of RFC 6275 §9.2; see [`parameter_problem`] for those that want an answer.
    /// Octets beyond Header Len are ignored.
    pub fn parse(bytes: &[u8], source: Ipv6Addr, destination: Ipv6Addr) -> Result<Message, Malformed> {
        let message = header_octets("Mobility Header", bytes)?;
        if checksum(source, destination, protocol::MOBILITY, message) != 0 {
            return Err(Malformed { what: "Mobility Header", at: CHECKSUM_AT, why: Why::Checksum });
        }
        let mut reader = Reader::new("Mobility Header", message);
        let payload_proto = reader.u8()?;
        if payload_proto != protocol::NONE {
            let why = Why::Value(payload_proto.into());
            return Err(Malformed { what: "Payload Proto", at: PAYLOAD_PROTO_AT, why });
        }
        let header_len = reader.u8()?;
        let kind = reader.u8()?;
        if header_len < min_header_len(kind) {
            let why = Why::Length { has: header_len.into(), needs: min_header_len(kind).into() };
            return Err(Malformed { what: "Header Len", at: HEADER_LEN_AT, why });
        }
        reader.skip(3)?;
        Message::read(kind, &mut reader)
    }

    /// The Mobility Header with options at their alignment and the checksum in place; the addresses are the real ones.
    ///
    /// An option that does not fit an option (255 octets) or the header ([`MAX_LENGTH`]) is left out.
    pub fn emit(&self, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let sum = |message: &[u8]| checksum(source, destination, protocol::MOBILITY, message);
        self.without_checksum().finish_with_checksum(CHECKSUM_AT, sum)
    }

    /// As [`Message::emit`], with an MN-HA authentication option of that SPI at the end (RFC 4285 §5.1).
    ///
    /// `sign` is handed the octets of the header that the authenticator covers, checksum zero. A message of a type
    /// without options is emitted unauthenticated.
    pub fn emit_authenticated(
        &self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        spi: u32,
        sign: impl FnOnce(&[u8]) -> [u8; AUTHENTICATOR_LENGTH],
    ) -> Vec<u8> {
        let mut message = self.clone();
        if let Some(options) = message.options_mut() {
            let data = vec![0; AUTHENTICATOR_LENGTH];
            options.push(MobilityOption::Authentication { subtype: option::AUTHENTICATION_MN_HA, spi, data });
        }
        let mut writer = message.without_checksum();
        if let Some((covered, at)) = authenticated_part(writer.written()) {
            writer.set(at, &sign(&covered));
        }
        writer.finish_with_checksum(CHECKSUM_AT, |message| checksum(source, destination, protocol::MOBILITY, message))
    }

    /// The options, if the message has them.
    pub fn options(&self) -> &[MobilityOption] {
        match self {
            Message::BindingRefreshRequest { options } => options,
            Message::BindingUpdate(update) => &update.options,
            Message::BindingAcknowledgement(acknowledgement) => &acknowledgement.options,
            Message::BindingError { .. } | Message::Unknown { .. } => &[],
        }
    }

    /// The MH Type.
    pub fn kind(&self) -> u8 {
        match self {
            Message::BindingRefreshRequest { .. } => kind::BINDING_REFRESH_REQUEST,
            Message::BindingUpdate(_) => kind::BINDING_UPDATE,
            Message::BindingAcknowledgement(_) => kind::BINDING_ACKNOWLEDGEMENT,
            Message::BindingError { .. } => kind::BINDING_ERROR,
            Message::Unknown { kind, .. } => *kind,
        }
    }

    fn options_mut(&mut self) -> Option<&mut Vec<MobilityOption>> {
        match self {
            Message::BindingRefreshRequest { options } => Some(options),
            Message::BindingUpdate(update) => Some(&mut update.options),
            Message::BindingAcknowledgement(acknowledgement) => Some(&mut acknowledgement.options),
            Message::BindingError { .. } | Message::Unknown { .. } => None,
        }
    }

    fn read(kind: u8, reader: &mut Reader<'_>) -> Result<Message, Malformed> {
        Ok(match kind {
            kind::BINDING_REFRESH_REQUEST => {
                reader.skip(2)?;
                Message::BindingRefreshRequest { options: option::read_all(reader)? }
            }
            kind::BINDING_UPDATE => Message::BindingUpdate(BindingUpdate::read(reader)?),
            kind::BINDING_ACKNOWLEDGEMENT => Message::BindingAcknowledgement(BindingAcknowledgement::read(reader)?),
            kind::BINDING_ERROR => {
                let status = ErrorStatus(reader.u8()?);
                reader.skip(1)?;
                Message::BindingError { status, home_address: reader.address()? }
            }
            kind => Message::Unknown { kind, body: reader.rest().to_vec() },
        })
    }

    /// The whole header but for the checksum, which is zero.
    fn without_checksum(&self) -> Writer {
        let mut writer = Writer::new();
        writer.u8(protocol::NONE).u8(0).u8(self.kind()).u8(0).u16(0);
        match self {
            Message::BindingRefreshRequest { .. } => writer.u16(0),
            Message::BindingUpdate(update) => update.write(&mut writer),
            Message::BindingAcknowledgement(acknowledgement) => acknowledgement.write(&mut writer),
            Message::BindingError { status, home_address } => writer.u8(status.0).u8(0).address(*home_address),
            Message::Unknown { body, .. } => writer.bytes(body.get(..MAX_LENGTH - DATA_AT).unwrap_or(body)),
        };
        option::write_all(self.options(), &mut writer);
        match self {
            // An unknown message cannot be padded with options.
            Message::Unknown { .. } => writer.zero_fill(8),
            _ => writer.align(Alignment::new(8, 0)),
        };
        let header_len = low(writer.position() / 8 - 1);
        writer.set(HEADER_LEN_AT, &[header_len]);
        writer
    }
}

/// Pointer of the Parameter Problem (code 0) that answers a malformed header, as an offset in the header.
///
/// `None` if the header is to be dropped silently (RFC 6275 §9.2).
pub fn parameter_problem(malformed: &Malformed) -> Option<usize> {
    match malformed.what {
        "Payload Proto" | "Header Len" => Some(malformed.at),
        _ => None,
    }
}

/// The octets covered by the last MN-HA authenticator of a Mobility Header, and its offset (RFC 4285 §5.1).
///
/// The octets go from Payload Proto through the SPI, with a zero checksum. `None` without such an option, or if
/// anything but authentication options and padding follows it, which it would not cover.
pub fn authenticated_part(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let message = header_octets("Mobility Header", bytes).ok()?;
    let options_at = match *message.get(2)? {
        kind::BINDING_REFRESH_REQUEST => DATA_AT + 2,
        kind::BINDING_UPDATE | kind::BINDING_ACKNOWLEDGEMENT => DATA_AT + 6,
        _ => return None,
    };
    let mut reader = Reader::new("Mobility Header", message);
    reader.skip(options_at).ok()?;
    let data_at = option::find_authenticator(&mut reader)?;
    let mut covered = message.get(..data_at)?.to_vec();
    covered.get_mut(CHECKSUM_AT..CHECKSUM_AT + 2)?.fill(0);
    Some((covered, data_at))
}

/// The least Header Len of each type, in units of eight octets after the first eight.
fn min_header_len(kind: u8) -> u8 {
    match kind {
        kind::HOME_TEST_INIT | kind::CARE_OF_TEST_INIT => 1,
        kind::HOME_TEST | kind::CARE_OF_TEST => 2,
        kind::BINDING_UPDATE | kind::BINDING_ACKNOWLEDGEMENT => 1,
        kind::BINDING_ERROR => 2,
        _ => 0,
    }
}
