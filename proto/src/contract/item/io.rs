//! Subscriptions to frames and UDP ports.

use crate::base::ids::LinkId;
use roam6_wire::LinkAddress;
use serde::{Deserialize, Serialize};

/// A subscription to frames of one EtherType on an interface; also permits the engines to send such frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EthertypeSubscription {
    /// The interface.
    pub link: LinkId,
    /// The EtherType.
    pub ethertype: u16,
    /// An additional link-layer address for which the interface receives frames.
    #[serde(default)]
    pub address: Option<LinkAddress>,
}

/// A UDP port of one interface that the engines answer: the kernel sends no Port Unreachable for it (RFC 4443 §3.1,
/// code 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpPortHold {
    /// The interface.
    pub link: LinkId,
    /// The port.
    #[serde(rename = "number")]
    pub port: u16,
}
