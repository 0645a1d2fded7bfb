//! Everything that leaves an engine.

use crate::base::ids::ContextId;
use crate::base::ids::LinkId;
use crate::contract::input::Frame;
use crate::contract::item::{Item, Key};
use crate::contract::report::Report;
use roam6_wire::LinkAddress;
use serde::{Deserialize, Serialize};

/// One effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Send a packet.
    Transmit(Transmit),
    /// Send a frame.
    Frame(Frame),
    /// Make the host hold an item, in place of any of the same key.
    Put(Item),
    /// Make the host no longer hold an item.
    Drop(Key),
    /// Tell what a context has carried.
    Sample(Sample),
    /// Tell what happened.
    Report(Report),
}

/// A question about a context that stands. Answered at once by one [`crate::contract::input::Activity`]; and by one more at the next
/// packet of each kind asked for, be it long after, unless another sample of the context has come in between that did
/// not ask for it. So a context in which nothing goes on costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Which context.
    pub context: ContextId,
    /// Tell when the next packet is sent.
    pub tell_sent: bool,
    /// Tell when the next packet is received.
    pub tell_received: bool,
}

/// A packet to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transmit {
    /// How it leaves.
    pub via: Via,
    /// The packet, from its IPv6 header to its end, checksums done.
    #[serde(with = "crate::base::hex")]
    pub bytes: Vec<u8>,
}

/// How a packet leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// As the routing tables say.
    Route,
    /// By this interface, the routing tables finding the next hop among its routes.
    Link(LinkId),
    /// By this interface straight to this link-layer address, past routing and neighbour discovery.
    Neighbour {
        /// The interface.
        link: LinkId,
        /// Link-layer destination.
        address: LinkAddress,
    },
}
