//! Commands of an operator or of the daemon to a running engine.

use crate::base::ids::{ContextId, Pair};
use crate::contract::config::facilities::{Announcement, DenmOrder};
use crate::contract::config::flow::FlowRule;
use crate::contract::config::geo::{GeoDestination, Question};
use crate::contract::config::mnpp::MnppConfig;
use crate::contract::config::multipath::PathManagerConfig;
use crate::contract::config::nemo::{MobileRouterConfig, PrefixTable};
use crate::contract::config::shim::ShimConfig;
use crate::contract::item::Record;
use roam6_wire::HomeAddress;
use roam6_wire::shim6::Fork;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// A command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The records of the journal, written by a previous instance; given once, before any other input.
    Recall(Vec<Record>),
    /// All items restored from the journal are installed; other items of the previous instance are removed once
    /// [`Engine::is_settled`](crate::contract::engine::Engine::is_settled) returns true.
    Begin,
    /// Replaces the prefix table of the home agent (`SIGHUP`, or the file changed).
    PrefixTable(Arc<PrefixTable>),
    /// Replaces those settings of the mobile router that may change at run time.
    MobileRouter(Box<MobileRouterConfig>),
    /// Replaces the settings of the path manager.
    PathManager(Box<PathManagerConfig>),
    /// Replaces the flow rules of the mobile router.
    Flows(Vec<FlowRule>),
    /// Shuts down in good order: de-registers and removes all items.
    Stop,
    /// Deletes the binding of a home address.
    Unbind(HomeAddress),
    /// Replaces the settings of the shim.
    Shim(Box<ShimConfig>),
    /// Switches to another locator pair if it is known to work: in one context, or in all contexts that have both
    /// locators.
    UsePath {
        /// The ULID pair of the context; `None` for all contexts.
        ulids: Option<Pair>,
        /// The forked instance identifier: packets of sockets with this mark.
        #[serde(default)]
        fork: Fork,
        /// The local and the peer locator.
        path: Pair,
    },
    /// Deletes a context.
    EndContext(ContextId),
    /// Replaces the settings of mobile network prefix provisioning.
    Mnpp(Box<MnppConfig>),
    /// Sends an echo request to a GeoNetworking station, or to all stations in an area.
    Ask(Question),
    /// Maps an IPv6 destination address to an area.
    PutArea(GeoDestination),
    /// Triggers, updates or terminates a DENM.
    Denm(DenmOrder),
    /// Replaces the service announcement (SAM) of the station.
    Announce(Option<Box<Announcement>>),
    /// Removes the mapping of an IPv6 destination address to an area.
    DropArea(Ipv6Addr),
}
