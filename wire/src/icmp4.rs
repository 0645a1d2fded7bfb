//! ICMPv4: echo, and the errors that quote a packet. RFC 792.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Type      |     Code      |           Checksum            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Identifier and sequence number of an echo; unused in errors  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Data of an echo, or the packet that caused an error ...
//! ```
//!
//! See <https://www.rfc-editor.org/rfc/rfc792>.

use crate::checksum::internet_checksum;
pub use crate::icmp6::Echo;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// The protocol number of ICMPv4.
pub const PROTOCOL: u8 = 1;

/// Values of the Type field.
pub mod kind {
    /// Echo Reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination Unreachable.
    pub const DESTINATION_UNREACHABLE: u8 = 3;
    /// Echo Request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time Exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
}

const WHAT: &str = "ICMPv4";
const CHECKSUM_AT: usize = 2;
/// Octets of the first word and of the second.
const WORD: usize = 4;

/// An ICMPv4 message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Echo Request.
    EchoRequest(Echo),
    /// Echo Reply.
    EchoReply(Echo),
    /// Destination Unreachable or Time Exceeded.
    Error {
        /// Its type.
        kind: u8,
        /// Why.
        code: u8,
        /// Unused, or the MTU of the next-hop link (RFC 1191 §4).
        word: u32,
        /// The header of the packet that caused it, and at least eight octets of its payload.
        invoking: Vec<u8>,
    },
    /// Any other type.
    Unknown {
        /// Its type.
        kind: u8,
        /// Its code.
        code: u8,
        /// All behind the checksum.
        body: Vec<u8>,
    },
}

impl Message {
    /// Parses the payload of an IPv4 packet.
    ///
    /// # Errors
    /// [`Malformed`] for a wrong checksum and a message that ends too early.
    pub fn parse(bytes: &[u8]) -> Result<Message, Malformed> {
        let mut reader = Reader::new(WHAT, bytes);
        let (kind, code) = (reader.u8()?, reader.u8()?);
        reader.skip(CHECKSUM_AT)?;
        if internet_checksum(bytes) != 0 {
            return Err(Malformed { what: WHAT, at: CHECKSUM_AT, why: Why::Checksum });
        }
        let echo = |reader: &mut Reader<'_>| {
            Ok(Echo { identifier: reader.u16()?, sequence: reader.u16()?, data: reader.rest().to_vec() })
        };
        match (kind, code) {
            (kind::ECHO_REQUEST, 0) => echo(&mut reader).map(Message::EchoRequest),
            (kind::ECHO_REPLY, 0) => echo(&mut reader).map(Message::EchoReply),
            (kind::DESTINATION_UNREACHABLE | kind::TIME_EXCEEDED, code) => {
                Ok(Message::Error { kind, code, word: reader.u32()?, invoking: reader.rest().to_vec() })
            }
            (kind, code) => Ok(Message::Unknown { kind, code, body: reader.rest().to_vec() }),
        }
    }

    /// Emits the message with its checksum.
    pub fn emit(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        match self {
            Message::EchoRequest(echo) => emit_echo(&mut writer, kind::ECHO_REQUEST, echo),
            Message::EchoReply(echo) => emit_echo(&mut writer, kind::ECHO_REPLY, echo),
            Message::Error { kind, code, word, invoking } => {
                writer.u8(*kind).u8(*code).u16(0).u32(*word).bytes(invoking);
            }
            Message::Unknown { kind, code, body } => {
                writer.u8(*kind).u8(*code).u16(0).bytes(body);
            }
        }
        writer.finish_with_checksum(CHECKSUM_AT, internet_checksum)
    }
}

fn emit_echo(writer: &mut Writer, kind: u8, echo: &Echo) {
    writer.u8(kind).u8(0).u16(0).u16(echo.identifier).u16(echo.sequence).bytes(&echo.data);
}

/// The packet that an error quotes; its end is missing, and a NAT may have left its checksum wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotedPacket {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Protocol of its payload.
    pub protocol: u8,
}

impl QuotedPacket {
    /// Parses the quoted header; `None` if it is not whole, or of another version.
    pub fn parse(invoking: &[u8]) -> Option<QuotedPacket> {
        let mut reader = Reader::new(WHAT, invoking);
        if reader.u8().ok()? >> 4 != 4 {
            return None;
        }
        reader.skip(WORD * 2).ok()?;
        let protocol = reader.u8().ok()?;
        reader.skip(CHECKSUM_AT).ok()?;
        Some(QuotedPacket { source: reader.address4().ok()?, destination: reader.address4().ok()?, protocol })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip4::Header;

    /// An echo request of `ping -s 4 -p a5`, identifier 0x1234, sequence 1.
    const ECHO: [u8; 12] = [8, 0, 0x9a, 0x7f, 0x12, 0x34, 0, 1, 0xa5, 0xa5, 0xa5, 0xa5];

    #[test]
    fn echo_round_trips_and_its_checksum_covers_it() {
        let echo = Echo { identifier: 0x1234, sequence: 1, data: vec![0xa5; 4] };
        assert_eq!(Message::EchoRequest(echo.clone()).emit(), ECHO);
        assert_eq!(Message::parse(&ECHO), Ok(Message::EchoRequest(echo.clone())));
        let reply = Message::EchoReply(echo);
        assert_eq!(Message::parse(&reply.emit()), Ok(reply));
        for at in 0..ECHO.len() {
            let mut wrong = ECHO;
            wrong[at] ^= 4;
            assert!(Message::parse(&wrong).is_err(), "octet {at}");
        }
        assert!((0..8).all(|short| Message::parse(&ECHO[..short]).is_err()));
    }

    #[test]
    fn errors_and_unknown_messages_round_trip() {
        let (source, destination) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(203, 0, 113, 1));
        let packet = Header { source, destination, tos: 0, protocol: 17 }.emit(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let invoking = packet[..28].to_vec();
        assert_eq!(QuotedPacket::parse(&invoking), Some(QuotedPacket { source, destination, protocol: 17 }));
        assert!((0..20).all(|short| QuotedPacket::parse(&invoking[..short]).is_none()));
        for message in [
            Message::Error { kind: kind::DESTINATION_UNREACHABLE, code: 3, word: 0, invoking },
            Message::Unknown { kind: 5, code: 1, body: vec![1, 2, 3] },
            Message::Unknown { kind: kind::ECHO_REPLY, code: 1, body: Vec::new() },
        ] {
            assert_eq!(Message::parse(&message.emit()), Ok(message));
        }
    }
}
