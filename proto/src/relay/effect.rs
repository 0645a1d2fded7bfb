//! The input of a relay, and its effects.

use super::{BearerId, HeldSyn, Tuple, TupleState};
use roam6_wire::Prefix;
use roam6_wire::relay::{Answer, Connect, Message, OfferedRule};

/// An input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The bearer of an [`Effect::Dial`] is connected.
    Dialled(BearerId),
    /// The first message of the other relay on a bearer.
    Message(BearerId, Message),
    /// The other relay sent a malformed message.
    Malformed(BearerId),
    /// The answer of the other relay to [`Message::Connect`].
    Answered(BearerId, Answer),
    /// A SYN is held.
    Syn(HeldSyn),
    /// The kernel accepted a connection.
    Accepted(Tuple),
    /// The connection of an [`Effect::Connect`] is established.
    Connected(BearerId),
    /// The connection of an [`Effect::Connect`] was refused, or has failed.
    ConnectFailed(BearerId, Answer),
    /// The destination of the octets from a bearer reads them.
    Taken(BearerId),
    /// All octets of both directions were moved.
    Completed(BearerId),
    /// The bearer, or the connection that it carries, was reset or has failed.
    Broken(BearerId),
    /// A deadline may have passed.
    Tick,
}

/// An action of the host; actions are executed in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Connect a bearer to the home agent.
    Dial(BearerId),
    /// Send a message on a bearer.
    Send(BearerId, Message),
    /// Answer on a bearer.
    Reply(BearerId, Answer),
    /// Put the state of a connection into the data plane.
    Put(Tuple, TupleState),
    /// Remove the state of a connection from the data plane.
    Forget(Tuple),
    /// Deliver a held SYN to the kernel, which accepts its connection.
    Inject(HeldSyn),
    /// Reset a connection that the kernel has accepted, and that no bearer carries.
    ResetAccepted(Tuple),
    /// Refuse the connection of a SYN.
    Refuse(HeldSyn, Answer),
    /// Connect to a destination, from an address that is not of this host.
    Connect(BearerId, Connect),
    /// Move octets between a bearer and its connection.
    Join(BearerId, Tuple),
    /// Send the octets of a connection on its bearer without a limit from now on.
    Lift(BearerId),
    /// Reset a bearer and its connection, if there is one.
    Abort(BearerId),
    /// A mobile router can, or cannot, relay connections.
    Ready(bool),
    /// Hold SYNs to these prefixes by these rules.
    Offered(Vec<Prefix>, Vec<OfferedRule>),
    /// Hold no SYNs to these any more.
    Withdrawn(Vec<Prefix>),
}
