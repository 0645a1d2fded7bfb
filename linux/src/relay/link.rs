//! A bearer, and what it is used for. Most bearers carry a connection that is idle, and there may be thousands of them, so that the
//! state of a connection is small: its end points are the engine's to keep.

use super::messages::Partial;
use super::pump::Direction;
use super::sockets;
use roam6_proto::Time;
use roam6_proto::relay::{TAKEN_OCTETS, UNCREDITED_OCTETS};
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
    /// Whether the other relay knows that the destination here reads.
    taken: bool,
}

impl Connection {
    /// Whether the destination here is seen to read for the first time.
    pub(super) fn begins_to_read(&mut self) -> bool {
        let begins = !self.taken && self.inbound.octets >= TAKEN_OCTETS;
        if begins {
            self.taken = true;
            sockets::enlarge_inbound(&self.plain);
        }
        begins
    }

    /// One that has moved nothing yet.
    pub(super) fn new(plain: OwnedFd, since: Time) -> Connection {
        let [outbound, inbound] = [UNCREDITED_OCTETS, u64::MAX].map(Direction::up_to);
        Connection { plain, outbound, inbound, since, taken: false }
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

    /// Sends to the other end without a limit.
    pub(super) fn lift(&mut self) {
        if let Phase::Open(connection) = &mut self.phase {
            connection.outbound.lift();
            sockets::enlarge_outbound(&self.bearer, &connection.plain);
        }
    }
}
