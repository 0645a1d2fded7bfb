//! Shim6 contexts, and what leads to one.

use crate::base::ids::ContextId;
use crate::base::ids::LinkId;
use crate::base::ids::Pair;
use core::time::Duration;
use roam6_wire::shim6::Tag;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// An uplink whose packets the shim looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shimmed {
    /// The interface.
    pub link: LinkId,
}

/// When a conversation is worth a context: at the first of these. Packets that are link-local, multicast, or of Shim6
/// itself do not count, nor do those of neighbour discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// So many octets both ways.
    pub octets: Option<u64>,
    /// So many packets both ways.
    pub packets: Option<u64>,
    /// So long after its first packet, at a packet sent.
    pub age: Option<Duration>,
    /// A conversation in which nothing was sent for so long is forgotten, and begins anew with its next packet.
    pub idle: Duration,
    /// A conversation that has been told of and goes on without a context is told of again after so long.
    pub again: Duration,
}

impl Default for Trigger {
    fn default() -> Trigger {
        let minute = Duration::from_secs(60);
        Trigger { octets: Some(2048), packets: None, age: Some(minute), idle: minute, again: minute }
    }
}

/// A context of the shim: packets of its ULIDs leave with its locators and a payload header, unless those are the ULIDs;
/// packets that arrive with its tag go up with the ULIDs (RFC 5533 §12).
///
/// Replacing the item keeps what it has counted, loses no packet, and when the locators change tells the transport, so
/// that it does not sit out its back-off. While a header is added the transport sees a path MTU 8 octets smaller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Its name.
    pub id: ContextId,
    /// Where packets leave from and go to. Equal to the ULIDs: they leave as they are.
    pub locators: Pair,
    /// The uplink that has `locators.local`.
    pub link: LinkId,
    /// The router to send to on that link; `None`: as the routing tables say.
    pub next_hop: Option<Ipv6Addr>,
    /// What arrives with this tag in a payload header is of this context. No two contexts share it.
    pub tag_in: Tag,
    /// The tag put into the payload header.
    pub tag_out: Tag,
    /// Sources from which a packet with the tag is taken; others go up to the engine as they are. [`MOST_LOCATORS`] at
    /// most.
    pub from: Vec<Ipv6Addr>,
}

/// Most locators of one side of a context.
pub const MOST_LOCATORS: usize = 16;
