//! Commands of an operator or of the daemon to a running engine, one file for each role.
//!
//! The outer enum is untagged, so that a command is serialized as its inner one; names are unique across roles.

mod geo;
mod lifecycle;
mod mnpp;
mod mptcp;
mod nemo;
mod shim;

pub use geo::GeoCommand;
pub use lifecycle::LifecycleCommand;
pub use mnpp::MnppCommand;
pub use mptcp::MptcpCommand;
#[cfg(feature = "fleet")]
pub use nemo::FleetCommand;
pub use nemo::HomeAgentCommand;
pub use nemo::MobileRouterCommand;
pub use shim::ShimCommand;

use serde::{Deserialize, Serialize};

/// A command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Command {
    /// See [`LifecycleCommand`].
    Lifecycle(LifecycleCommand),
    /// See [`HomeAgentCommand`].
    HomeAgent(HomeAgentCommand),
    /// See [`MobileRouterCommand`].
    MobileRouter(MobileRouterCommand),
    /// See [`MptcpCommand`].
    Mptcp(MptcpCommand),
    /// See [`ShimCommand`].
    Shim(ShimCommand),
    /// See [`MnppCommand`].
    Mnpp(MnppCommand),
    /// See [`GeoCommand`].
    Geo(GeoCommand),
}
