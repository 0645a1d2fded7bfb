//! What the engines receive beside signalling packets.

use crate::base::ids::LinkId;
use roam6_wire::LinkAddress;
use serde::{Deserialize, Serialize};

/// An interface whose frames of one kind the engines hear, and may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The interface.
    pub link: LinkId,
    /// The kind.
    pub ethertype: u16,
    /// A link-layer address beside the interface's own for which frames are received.
    #[serde(default)]
    pub address: Option<LinkAddress>,
}

/// A UDP port of one interface that the engines answer: the kernel says nothing of what comes there (RFC 4443 §3.1, code 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The interface.
    pub link: LinkId,
    /// The port.
    pub number: u16,
}
