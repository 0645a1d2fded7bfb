//! DHCPv6 for a requesting router: messages of clients, servers and relays, and their options.
//! RFC 8415 §7, §8, §9, §11, §21; the message validation of §16 is left to the engines.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    msg-type   |               transaction-id                  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  options ...                                                  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! See <https://www.rfc-editor.org/rfc/rfc8415#section-8>.

pub mod duid;
pub mod option;

pub use duid::Duid;
pub use option::{Address, DhcpOption, Iaid, IdentityAssociation, Prefix, Status, StatusCode, Timers};

use crate::codepoint::field_values;
use crate::malformed::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv6Addr;

/// All_DHCP_Relay_Agents_and_Servers, the destination of client messages.
pub const ALL_RELAYS_AND_SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
/// UDP port of clients.
pub const CLIENT_PORT: u16 = 546;
/// UDP port of servers and relays.
pub const SERVER_PORT: u16 = 547;
/// A time that never ends, in seconds (RFC 8415 §7.7).
pub const INFINITY: u32 = u32::MAX;

/// Transaction identifier, 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub [u8; 3]);

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Between client and server (RFC 8415 §8).
    Exchange(ClientServerMessage),
    /// Between relay and server (RFC 8415 §9).
    Relay(Relay),
    /// Any other; a participant discards it (RFC 8415 §16).
    Unknown {
        /// Message type.
        kind: u8,
        /// What follows the type.
        body: Vec<u8>,
    },
}

/// A message between client and server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientServerMessage {
    /// Message type.
    pub kind: MessageType,
    /// Transaction identifier.
    pub transaction: TransactionId,
    /// Options, in their order.
    pub options: Vec<DhcpOption>,
}

/// A message between relay and server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    /// Relay-forward or Relay-reply.
    pub direction: Direction,
    /// Hop count: relays passed.
    pub hop_count: u8,
    /// Link address of the client's link, or `::`.
    pub link: Ipv6Addr,
    /// Peer address: the source or destination of the relayed message.
    pub peer: Ipv6Addr,
    /// Options, in their order; one is [`DhcpOption::RelayMessage`].
    pub options: Vec<DhcpOption>,
}

field_values! {
    /// Types of messages between client and server (RFC 8415 §7.3).
    MessageType {
        /// Solicit.
        Solicit = 1,
        /// Advertise.
        Advertise = 2,
        /// Request.
        Request = 3,
        /// Confirm.
        Confirm = 4,
        /// Renew, with the server that granted the leases.
        Renew = 5,
        /// Rebind, with any server.
        Rebind = 6,
        /// Reply.
        Reply = 7,
        /// Release.
        Release = 8,
        /// Decline: duplicate addresses.
        Decline = 9,
        /// Reconfigure.
        Reconfigure = 10,
        /// Information-request.
        InformationRequest = 11,
    }
}

field_values! {
    /// Types of messages between relay and server (RFC 8415 §7.3).
    Direction {
        /// Relay-forward, to the server.
        Forward = 12,
        /// Relay-reply, to the client.
        Reply = 13,
    }
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageType::InformationRequest => f.write_str("Information-request"),
            other => fmt::Debug::fmt(other, f),
        }
    }
}

impl Message {
    /// Parses a message: the payload of a UDP datagram, or of a Relay Message option.
    pub fn parse(bytes: &[u8]) -> Result<Message, Malformed> {
        let mut reader = Reader::new("DHCPv6 message", bytes);
        let value = reader.u8()?;
        if let Some(direction) = Direction::from_value(value) {
            return Ok(Message::Relay(Relay {
                direction,
                hop_count: reader.u8()?,
                link: reader.address()?,
                peer: reader.address()?,
                options: option::read_all(&mut reader)?,
            }));
        }
        let Some(kind) = MessageType::from_value(value) else {
            return Ok(Message::Unknown { kind: value, body: reader.rest().to_vec() });
        };
        let transaction = TransactionId(reader.array()?);
        Ok(Message::Exchange(ClientServerMessage { kind, transaction, options: option::read_all(&mut reader)? }))
    }

    /// Emits the message. An option beyond its length field (65 535 octets) is omitted.
    pub fn emit(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        match self {
            Message::Exchange(exchange) => {
                writer.u8(exchange.kind.value()).bytes(&exchange.transaction.0);
                option::write_all(&exchange.options, &mut writer)
            }
            Message::Relay(relay) => {
                writer.u8(relay.direction.value()).u8(relay.hop_count).address(relay.link).address(relay.peer);
                option::write_all(&relay.options, &mut writer)
            }
            Message::Unknown { kind, body } => writer.u8(*kind).bytes(body),
        };
        writer.finish()
    }
}
