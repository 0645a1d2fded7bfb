//! The roles a host may play, with their settings.

use crate::contract::config::geo::GeoConfig;
use crate::contract::config::mnpp::MnppConfig;
use crate::contract::config::multipath::PathManagerConfig;
use crate::contract::config::nemo::{HomeAgentConfig, MobileRouterConfig};
use crate::contract::config::shim::ShimConfig;
use serde::{Deserialize, Serialize};

/// A role and its settings. Secrets are written too: whoever records in the field strips them or keeps the file safe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A home agent.
    HomeAgent(HomeAgentConfig),
    /// A mobile router.
    MobileRouter(Box<MobileRouterConfig>),
    /// A host whose connections take several paths.
    PathManager(PathManagerConfig),
    /// A host with several providers.
    Shim(Box<ShimConfig>),
    /// A GeoNetworking station.
    Geo(Box<GeoConfig>),
    /// A router that announces its networks to those nearby.
    Mnpp(MnppConfig),
}
