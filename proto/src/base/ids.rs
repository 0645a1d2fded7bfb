//! What things of a host are called: interfaces, MPTCP connections, address pairs, Shim6 contexts.

use core::fmt;
use roam6_wire::shim6::Fork;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// A network interface of this host: the kernel's interface index, or a number the simulator gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkId(pub u32);

impl LinkId {
    /// The loopback interface, which every network namespace has under this number.
    pub const LOOPBACK: LinkId = LinkId(1);
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}", self.0)
    }
}

/// Names a connection within one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub u32);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// Two addresses, ours and the peer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pair {
    /// Ours.
    pub local: Ipv6Addr,
    /// The peer's.
    pub peer: Ipv6Addr,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} - {}", self.local, self.peer)
    }
}

/// Names a context: the addresses the layers above know, and a number where they have several (RFC 5533 §5.15.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContextId {
    /// Upper-layer identifiers.
    pub ulids: Pair,
    /// [`Fork::NONE`], or the instance. Packets of sockets that bear this mark belong to it, all others to the one that
    /// is not forked.
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
