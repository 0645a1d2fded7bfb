//! Shim6 contexts, and the thresholds for their establishment.

use crate::base::ids::{AddressPair, ContextId, LinkId};
use core::time::Duration;
use roam6_wire::shim6::Tag;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// An uplink with the shim attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimUplink {
    /// The interface.
    pub link: LinkId,
}

/// Thresholds for the establishment of a context: the first that traffic of an address pair exceeds. Link-local and
/// multicast packets, Shim6 messages and neighbour discovery do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextTrigger {
    /// Octets in both directions.
    pub octets: Option<u64>,
    /// Packets in both directions.
    pub packets: Option<u64>,
    /// Time since the first packet, checked at each packet sent.
    pub age: Option<Duration>,
    /// Counters of an address pair are reset after so long without a packet sent.
    #[serde(rename = "idle")]
    pub idle_timeout: Duration,
    /// A reported address pair that still has no context is reported again after so long.
    #[serde(rename = "again")]
    pub repeat_after: Duration,
}

impl Default for ContextTrigger {
    fn default() -> ContextTrigger {
        let minute = Duration::from_secs(60);
        ContextTrigger {
            octets: Some(2048),
            packets: None,
            age: Some(minute),
            idle_timeout: minute,
            repeat_after: minute,
        }
    }
}

/// A Shim6 context: packets of its ULID pair are sent with its locator pair and a Payload Extension Header, unless the
/// locators are the ULIDs; received packets with its context tag are delivered with the ULIDs (RFC 5533 §12).
///
/// Replacement keeps the counters and loses no packet; a change of locators is signalled to the transport, so that it
/// retransmits before its back-off ends. While the header is added the transport sees a path MTU reduced by 8 octets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimContext {
    /// Its identifier.
    pub id: ContextId,
    /// Locator pair of packets sent. If equal to the ULIDs, packets are not rewritten.
    pub locators: AddressPair,
    /// The uplink of `locators.local`.
    pub link: LinkId,
    /// Next hop on that link; `None`: by a lookup in the routing tables.
    pub next_hop: Option<Ipv6Addr>,
    /// Local context tag: identifies the context of received packets; unique.
    pub tag_in: Tag,
    /// Peer context tag: put into the header of packets sent.
    pub tag_out: Tag,
    /// Accepted source addresses of packets with the local tag; others are passed to the engine unchanged. At most
    /// [`MAX_LOCATORS`].
    #[serde(rename = "from")]
    pub allowed_sources: Vec<Ipv6Addr>,
}

/// Maximum number of locators of one side of a context.
pub const MAX_LOCATORS: usize = 16;
