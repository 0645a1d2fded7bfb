//! What the path manager is told: plain values, checked by whoever builds them.

use crate::base::few;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};

/// A host whose connections take several paths: a node of a mobile network, or one with several uplinks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathManagerConfig {
    /// Names of the interfaces whose addresses are used; they may come and go.
    pub interfaces: few::Set<String>,
    /// Prefixes of the mobile network, reached by the tunnel: subflows from here are for when nothing else works.
    pub home_prefixes: Vec<Prefix>,
    /// Whether peers are told of addresses in the home prefixes.
    pub signal_home: bool,
    /// Whether peers are told of the other addresses.
    pub signal_care_of: bool,
    /// Subflows of a connection beside the first, 0 to 8.
    pub subflows: u32,
    /// Addresses of a peer that are taken up, 0 to 8.
    pub accepted: u32,
    /// Whether packets leave by the router of their source's prefix, as several uplinks with routers of their own need
    /// (RFC 8028 §3.1).
    #[serde(default)]
    pub source_routing: bool,
}
