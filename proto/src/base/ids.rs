//! Identifiers of interfaces, `Put`s, MPTCP connections, address pairs and Shim6 contexts.

use core::fmt;
use derive_more::Display;
use roam6_wire::shim6::Fork;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// A network interface of this host: the kernel's interface index, or a number that the simulator assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, Serialize, Deserialize)]
#[serde(transparent)]
#[display("link {_0}")]
pub struct LinkId(pub u32);

impl LinkId {
    /// The loopback interface, which has index 1 in every network namespace.
    pub const LOOPBACK: LinkId = LinkId(1);
}

/// Identifies a `Put`, so that its outcome returns to the role that waits for it. Recordings do not contain it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PutId {
    /// Index of the role in its node; set by the node.
    pub role: usize,
    /// Number that the role chose; 0 if it waits for no outcome.
    pub number: u64,
}

/// The local token of an MPTCP connection (RFC 8684 §2.2), unique within one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, Serialize, Deserialize)]
#[serde(transparent)]
#[display("{_0:08x}")]
pub struct MptcpToken(pub u32);

/// An address pair (RFC 5534 §3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, Serialize, Deserialize)]
#[display("{local} - {peer}")]
pub struct AddressPair {
    /// Local address.
    pub local: Ipv6Addr,
    /// Peer address.
    pub peer: Ipv6Addr,
}

/// Identifies a context by its ULID pair and forked instance identifier (RFC 5533 §5.15.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContextId {
    /// Upper-layer identifiers.
    pub ulids: AddressPair,
    /// The forked instance identifier, or [`Fork::NONE`]. Packets of sockets with this mark belong to the forked
    /// context, all others to the context without one.
    #[serde(default)]
    pub fork: Fork,
}

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fork {
            Fork::NONE => write!(f, "context {}", self.ulids),
            fork => write!(f, "context {} fork {fork}", self.ulids),
        }
    }
}
