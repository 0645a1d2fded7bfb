//! Settings of the MPTCP path manager: plain values, validated by the caller.

use crate::base::vec_set::VecSet;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};

/// A host with MPTCP: a node of a mobile network, or one with several uplinks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathManagerConfig {
    /// Names of the interfaces whose addresses become endpoints; they may be added and removed at run time.
    pub interfaces: VecSet<String>,
    /// Prefixes of the mobile network, reached through the tunnel: subflows from these are backups.
    pub home_prefixes: Vec<Prefix>,
    /// Whether addresses in the home prefixes are signalled to peers (ADD_ADDR).
    pub signal_home: bool,
    /// Whether other addresses are signalled to peers.
    pub signal_care_of: bool,
    /// Maximum number of additional subflows of a connection, 0 to 8.
    pub subflows: u32,
    /// Maximum number of accepted addresses of a peer, 0 to 8.
    #[serde(rename = "accepted")]
    pub add_addr_accepted: u32,
    /// Whether the router is selected by the source prefix (RFC 8028 §3.1); needed if uplinks have different routers.
    #[serde(default)]
    pub source_routing: bool,
}
