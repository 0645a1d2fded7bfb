//! What a relay is told, and what it wants done.

use super::{BearerId, HeldSyn, Tuple, TupleState};
use roam6_wire::Prefix;
use roam6_wire::relay::{Answer, Connect, Message, OfferedRule};

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A bearer that [`Effect::Dial`] asked for is connected.
    Dialled(BearerId),
    /// The other relay sent this at the begin of a bearer.
    Message(BearerId, Message),
    /// The other relay sent something else.
    Malformed(BearerId),
    /// The other relay answered what [`Effect::Ask`] asked.
    Answered(BearerId, Answer),
    /// A SYN is held.
    Syn(HeldSyn),
    /// The kernel accepted a connection.
    Accepted(Tuple),
    /// The kernel connected what [`Effect::Connect`] asked for.
    Connected(BearerId),
    /// It could not.
    ConnectFailed(BearerId, Answer),
    /// All octets of both directions were moved.
    Completed(BearerId),
    /// The bearer, or the connection that it carries, was reset or has failed.
    Broken(BearerId),
    /// A deadline may have passed.
    Tick,
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Connect a bearer to the home agent.
    Dial(BearerId),
    /// Send a message on a bearer.
    Send(BearerId, Message),
    /// Answer on a bearer.
    Reply(BearerId, Answer),
    /// Tell the data plane of a connection.
    Put(Tuple, TupleState),
    /// Have the data plane forget it.
    Forget(Tuple),
    /// Give a SYN to the kernel, which is to accept its connection.
    Inject(HeldSyn),
    /// Refuse the connection of a SYN.
    Refuse(HeldSyn, Answer),
    /// Connect to a destination, from an address that is not of this host.
    Connect(BearerId, Connect),
    /// Move octets between a bearer and its connection.
    Join(BearerId, Tuple),
    /// Reset a bearer and its connection, if there is one.
    Abort(BearerId),
    /// A mobile router can, or cannot, relay connections.
    Ready(bool),
    /// Hold SYNs to these prefixes by these rules.
    Offered(Vec<Prefix>, Vec<OfferedRule>),
    /// Hold no SYNs to these any more.
    Withdrawn(Vec<Prefix>),
}
