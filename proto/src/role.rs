//! The roles of a node, with their settings.

use crate::contract::config::geo::GeoConfig;
use crate::contract::config::mnpp::MnppConfig;
use crate::contract::config::mptcp::PathManagerConfig;
use crate::contract::config::nemo::{HomeAgentConfig, MobileRouterConfig};
use crate::contract::config::shim::ShimConfig;
use serde::{Deserialize, Serialize};

/// A role and its settings. Secrets are serialized too: strip them from a field recording, or keep the file safe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A home agent.
    HomeAgent(HomeAgentConfig),
    /// A mobile router.
    MobileRouter(Box<MobileRouterConfig>),
    /// A host with an MPTCP path manager.
    PathManager(PathManagerConfig),
    /// A multihomed host with Shim6.
    Shim(Box<ShimConfig>),
    /// A GeoNetworking station.
    Geo(Box<GeoConfig>),
    /// A router with mobile network prefix provisioning.
    Mnpp(MnppConfig),
}
