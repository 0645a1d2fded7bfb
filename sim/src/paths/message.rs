//! What the ends of a connection of these worlds say to each other: the messages of Multipath TCP that matter here, each in
//! one datagram.

use crate::datagram::{self, Header, UDP};
use roam6_proto::{Transmit, Via};
use std::net::Ipv6Addr;

const PORT: u16 = 9000;
const HOP_LIMIT: u8 = 64;

/// One message about the connection of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Which connection.
    pub connection: u8,
    /// What about it.
    pub kind: Kind,
    /// The sender's identifier of the address spoken of (RFC 8684 §3.4).
    pub id: u8,
    /// Which data.
    pub sequence: u32,
}

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A connection begins (MP_CAPABLE).
    Begin,
    /// A subflow joins (MP_JOIN).
    Join,
    /// It stands.
    Joined,
    /// It does not, or no longer (RST).
    Reset,
    /// An address is gone (REMOVE_ADDR).
    Remove,
    /// Data.
    Data,
    /// It has arrived.
    Acknowledged,
}

const KINDS: [Kind; 7] =
    [Kind::Begin, Kind::Join, Kind::Joined, Kind::Reset, Kind::Remove, Kind::Data, Kind::Acknowledged];

impl Message {
    /// The message on its way.
    pub fn send(self, source: Ipv6Addr, destination: Ipv6Addr) -> Transmit {
        let kind = KINDS.iter().position(|kind| *kind == self.kind).and_then(|at| u8::try_from(at).ok());
        let [high, low] = PORT.to_be_bytes();
        let mut payload = vec![high, low, high, low, 0, 15, 0, 0, kind.unwrap_or(u8::MAX), self.connection, self.id];
        payload.extend(self.sequence.to_be_bytes());
        let header = Header { source, destination, next: UDP, hop_limit: HOP_LIMIT };
        Transmit { via: Via::Route, bytes: datagram::build(header, &payload) }
    }

    /// The message in a packet, and between whom.
    pub fn read(packet: &[u8]) -> Option<(Header, Message)> {
        let Some((UDP, datagram)) = datagram::upper(packet) else { return None };
        let [_, _, _, _, _, _, _, _, kind, connection, id, sequence @ ..] = datagram else { return None };
        let kind = *KINDS.get(usize::from(*kind))?;
        let sequence = u32::from_be_bytes(sequence.try_into().ok()?);
        Some((Header::parse(packet)?, Message { connection: *connection, kind, id: *id, sequence }))
    }
}
