//! The messages of Multipath TCP that matter in these worlds, each in one datagram.

use crate::net::datagram::UDP;
use crate::net::{Header, datagram};
use roam6_proto::{Transmit, Via};
use std::net::Ipv6Addr;

const PORT: u16 = 9000;
const HOP_LIMIT: u8 = 64;

/// A message of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The connection.
    pub connection: u8,
    /// What about it.
    pub kind: MessageKind,
    /// The sender's address identifier (RFC 8684 §3.4).
    pub id: u8,
    /// The data sequence number.
    pub sequence: u32,
}

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// Opens a connection (MP_CAPABLE).
    Begin,
    /// Opens a subflow (MP_JOIN).
    Join,
    /// The subflow is established.
    Joined,
    /// The subflow is refused or closed (RST).
    Reset,
    /// An address is removed (REMOVE_ADDR).
    Remove,
    /// Data.
    Data,
    /// Acknowledges data.
    Acknowledged,
}

const KINDS: [MessageKind; 7] = [
    MessageKind::Begin,
    MessageKind::Join,
    MessageKind::Joined,
    MessageKind::Reset,
    MessageKind::Remove,
    MessageKind::Data,
    MessageKind::Acknowledged,
];

impl Message {
    /// Builds the packet of a message.
    pub fn send(self, source: Ipv6Addr, destination: Ipv6Addr) -> Transmit {
        let kind = KINDS.iter().position(|kind| *kind == self.kind).and_then(|at| u8::try_from(at).ok());
        let [high, low] = PORT.to_be_bytes();
        let mut payload = vec![high, low, high, low, 0, 15, 0, 0, kind.unwrap_or(u8::MAX), self.connection, self.id];
        payload.extend(self.sequence.to_be_bytes());
        let header = Header { source, destination, next: UDP, hop_limit: HOP_LIMIT };
        Transmit { via: Via::Route, bytes: datagram::build(header, &payload) }
    }

    /// Parses a packet: its header and message.
    pub fn parse(packet: &[u8]) -> Option<(Header, Message)> {
        let Some((UDP, datagram)) = datagram::upper_layer(packet) else { return None };
        let [_, _, _, _, _, _, _, _, kind, connection, id, sequence @ ..] = datagram else { return None };
        let kind = *KINDS.get(usize::from(*kind))?;
        let sequence = u32::from_be_bytes(sequence.try_into().ok()?);
        Some((Header::parse(packet)?, Message { connection: *connection, kind, id: *id, sequence }))
    }
}
