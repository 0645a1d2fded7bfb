//! Settings of a member of a fleet: plain values, validated by the caller.

use core::time::Duration;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};

/// A member of a fleet: home agents with one address and one prefix table, which share their bindings by a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetConfig {
    /// Name of the fleet: `[a-z0-9-]{1,32}`.
    pub name: String,
    /// Name of this member, unique in the fleet: `[a-z0-9-]{1,32}`.
    pub member: String,
    /// How long a member that drains is still announced, with the worse metric.
    pub drain: Duration,
    /// Maximum difference between the clock of this member and those of the others.
    pub max_skew: Duration,
    /// Prefixes announced beside the address of the home agent and its home prefixes.
    pub aggregates: Vec<Prefix>,
    /// How prefixes are announced to a routing daemon; `None`: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announce: Option<AnnounceConfig>,
}

impl Default for FleetConfig {
    /// The defaults of the configuration file; the names are empty.
    fn default() -> FleetConfig {
        FleetConfig {
            name: String::new(),
            member: String::new(),
            drain: Duration::from_secs(5),
            max_skew: Duration::from_secs(3),
            aggregates: Vec::new(),
            announce: None,
        }
    }
}

/// How prefixes are announced: by kernel routes that a routing daemon learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnounceConfig {
    /// The routing table.
    pub table: u32,
    /// Metric of a healthy member.
    pub healthy: u32,
    /// Metric of a member that has lost the store, or drains.
    pub degraded: u32,
}

impl Default for AnnounceConfig {
    fn default() -> AnnounceConfig {
        AnnounceConfig { table: 107, healthy: 100, degraded: 200 }
    }
}
