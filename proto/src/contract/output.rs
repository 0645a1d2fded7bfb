//! Everything that leaves an engine.

use crate::base::ids::{ContextId, LinkId, PutId};
use crate::contract::input::{Frame, Outcome};
use crate::contract::item::{Item, Key, TunnelId};
use crate::contract::report::Report;
use crate::contract::signature::{SigningRequest, VerificationRequest};
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
    /// Install an item on the host; replaces an item of the same key.
    Put(Put),
    /// Remove an item from the host.
    Drop(Key),
    /// Query the traffic of a context.
    #[serde(rename = "sample")]
    ActivityQuery(ActivityQuery),
    /// Query the traffic of an interface. The host answers at once with one
    /// [`LinkTraffic`](crate::contract::input::LinkTraffic), unless there is no such interface.
    LinkTrafficQuery(LinkId),
    /// Query the traffic of the paths of a tunnel.
    PathTrafficQuery(PathTrafficQuery),
    /// Query whether the network of an interface intercepts connections, as a captive portal does. The host answers within
    /// seconds with one [`Interception`](crate::contract::input::Interception), unless the interface is gone by then.
    InterceptionQuery(LinkId),
    /// Query how busy the channel of a radio interface is. The host answers with one
    /// [`ChannelUse`](crate::contract::input::ChannelUse).
    ChannelUseQuery(LinkId),
    /// Verify a signature.
    Verify(VerificationRequest),
    /// Sign a message.
    Sign(SigningRequest),
    /// Report an event.
    Report(Report),
}

impl From<Item> for Output {
    fn from(item: Item) -> Output {
        Output::Put(item.into())
    }
}

/// An item to install.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Put {
    /// The item.
    pub item: Item,
    /// Returned in the outcome.
    #[serde(skip)]
    pub id: PutId,
}

impl Put {
    /// The outcome of this `Put`: `error` is the error text of the kernel if the item was refused.
    pub fn outcome(&self, error: Option<String>) -> Outcome {
        Outcome {
            id: self.id,
            key: self.item.key(),
            error,
            #[cfg(feature = "fleet")]
            commit: None,
        }
    }
}

impl From<Item> for Put {
    fn from(item: Item) -> Put {
        Put { item, id: PutId::default() }
    }
}

/// A query of the traffic of an established context. The host answers at once with one
/// [`Activity`](crate::contract::input::Activity), and with one more at the next packet of each requested direction,
/// unless a later query of the context has cancelled that request. An idle context costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityQuery {
    /// The context.
    pub context: ContextId,
    /// Notify when the next packet is sent.
    #[serde(rename = "tell_sent")]
    pub notify_sent: bool,
    /// Notify when the next packet is received.
    #[serde(rename = "tell_received")]
    pub notify_received: bool,
}

/// A query of the traffic of the paths of a tunnel. The host answers at once with one
/// [`PathTraffic`](crate::contract::input::PathTraffic) for each path, and with one more at the next packet sent by a path if
/// that is requested, once. A back end that does not count them does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathTrafficQuery {
    /// The tunnel.
    pub tunnel: TunnelId,
    /// Notify when the next packet is sent.
    #[serde(rename = "tell_sent")]
    pub notify_sent: bool,
}

/// A packet to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transmit {
    /// Its route.
    pub via: Via,
    /// The packet from its IPv6 header on, with valid checksums.
    #[serde(with = "crate::base::hex")]
    pub bytes: Vec<u8>,
}

/// The route of a packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// By a lookup in the routing tables.
    Route,
    /// By this interface, with a lookup among its routes (`SO_BINDTODEVICE`).
    Link(LinkId),
    /// By this interface to this link-layer address, without a lookup and without neighbour discovery.
    Neighbour {
        /// The interface.
        link: LinkId,
        /// Link-layer destination.
        address: LinkAddress,
    },
}

impl Via {
    /// By this interface, and straight to a neighbour whose link-layer address is known.
    pub fn on_link(link: LinkId, neighbour: Option<LinkAddress>) -> Via {
        neighbour.map_or(Via::Link(link), |address| Via::Neighbour { link, address })
    }
}
