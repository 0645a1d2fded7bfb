//! Commands to the home agent and to the mobile router.

use crate::contract::config::flow::FlowRule;
use crate::contract::config::nemo::{Encryption, MobileRouterConfig, PrefixTable};
use roam6_wire::HomeAddress;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A command to the home agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HomeAgentCommand {
    /// Replaces the prefix table of the home agent (`SIGHUP`, or the file changed).
    #[serde(rename = "prefix_table")]
    ReloadPrefixTable(Arc<PrefixTable>),
    /// Deletes the binding of a home address.
    #[serde(rename = "unbind")]
    DeleteBinding(HomeAddress),
    /// Replaces the keys of encrypted paths, as they were renewed.
    #[serde(rename = "keys")]
    ReloadKeys(Box<Encryption>),
    /// See [`FleetCommand`].
    #[cfg(feature = "fleet")]
    Fleet(FleetCommand),
}

/// A command to a member of a fleet.
#[cfg(feature = "fleet")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetCommand {
    /// Hands over to the other members: this one is `gone` after the time to drain. Sent before the daemon stops, too.
    Drain,
    /// Joins again after [`FleetCommand::Drain`].
    Restore,
}

/// A command to the mobile router.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MobileRouterCommand {
    /// Replaces those settings of the mobile router that may change at run time.
    #[serde(rename = "mobile_router")]
    Reload(Box<MobileRouterConfig>),
    /// Replaces the flow rules of the mobile router.
    #[serde(rename = "flows")]
    ReloadFlows(Vec<FlowRule>),
    /// Exchanges the key of the mobile router and its home agent for a new one.
    #[serde(rename = "rekey")]
    ExchangeKey,
}
