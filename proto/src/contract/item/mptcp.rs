//! Endpoints and limits of the kernel's MPTCP (RFC 8684).

use crate::base::ids::LinkId;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// Limits of each MPTCP connection (`ip mptcp limits`); valid for the whole network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MptcpLimits {
    /// Maximum number of additional subflows, 0 to 8.
    pub subflows: u32,
    /// Maximum number of accepted addresses of the peer (ADD_ADDR), 0 to 8.
    #[serde(rename = "accepted")]
    pub add_addr_accepted: u32,
}

/// An endpoint (`ip mptcp endpoint`). The kernel establishes subflows when the item is installed and at no other time, so
/// the route from the address must be installed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MptcpEndpoint {
    /// The address.
    pub address: Ipv6Addr,
    /// Output interface of its subflows.
    pub link: LinkId,
    /// Its use.
    pub flags: MptcpEndpointFlags,
}

/// Flags of an MPTCP endpoint.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MptcpEndpointFlags {
    /// It is signalled to peers (ADD_ADDR, RFC 8684 §3.4.1).
    pub signal: bool,
    /// Subflows are established from it (MP_JOIN, RFC 8684 §3.2).
    pub subflow: bool,
    /// Its subflows are backups (RFC 8684 §3.3.8).
    pub backup: bool,
}
