//! A bearer, and what it is used for. Most bearers carry a connection that is idle, and there may be thousands of them, so that the
//! state of a connection is small: its end points are the engine's to keep.

use super::messages::Partial;
use super::pump::Direction;
use super::sockets;
use roam6_proto::Time;
use std::os::fd::OwnedFd;

/// A bearer and its connection.
pub(super) struct Link {
    pub(super) bearer: OwnedFd,
    pub(super) phase: Phase,
}

/// What a bearer is used for.
pub(super) enum Phase {
    Dialling,
    /// A message may come.
    Idle(Partial),
    /// An answer will come.
    Asked,
    /// The destination has connected, and the kernel has not accepted the node's connection yet. What arrives is data, and
    /// stays in the socket.
    Accepting,
    /// It is the connection's turn.
    Connecting(Option<OwnedFd>),
    /// Octets are moved. In memory of its own: the nodes of the map of links are half empty.
    Open(Box<Connection>),
}

/// A plain connection that a bearer carries.
pub(super) struct Connection {
    pub(super) plain: OwnedFd,
    pub(super) outbound: Direction,
    pub(super) inbound: Direction,
    pub(super) since: Time,
    /// Whether the buffers are those of a destination that has read much.
    enlarged: bool,
}

impl Connection {
    /// One that has moved nothing yet.
    pub(super) fn new(plain: OwnedFd, since: Time) -> Connection {
        Connection { plain, outbound: Direction::default(), inbound: Direction::default(), since, enlarged: false }
    }
}

impl Link {
    /// Octets moved from, and to, its plain connection.
    pub(super) fn octets(&self) -> (u64, u64) {
        match &self.phase {
            Phase::Open(connection) => (connection.outbound.octets, connection.inbound.octets),
            _ => (0, 0),
        }
    }

    /// Enlarges the buffers once a destination has read much.
    pub(super) fn enlarge_buffers(&mut self) {
        if let Phase::Open(connection) = &mut self.phase
            && !connection.enlarged
            && connection.outbound.octets.max(connection.inbound.octets) >= sockets::MUCH
        {
            connection.enlarged = true;
            sockets::enlarge_buffers(&self.bearer, &connection.plain);
        }
    }
}
