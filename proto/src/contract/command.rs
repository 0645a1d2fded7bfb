//! Commands of an operator or of the daemon to a running engine.

use crate::base::ids::{AddressPair, ContextId};
use crate::contract::config::facilities::{Announcement, DenmRequest};
use crate::contract::config::flow::FlowRule;
use crate::contract::config::geo::{EchoRequest, GeoDestination};
use crate::contract::config::mnpp::MnppConfig;
use crate::contract::config::mptcp::PathManagerConfig;
use crate::contract::config::nemo::{MobileRouterConfig, PrefixTable};
use crate::contract::config::shim::ShimConfig;
use crate::contract::item::JournalRecord;
use roam6_wire::HomeAddress;
use roam6_wire::shim6::Fork;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// A command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// The records of the journal, written by a previous instance; given once, before any other input.
    #[serde(rename = "recall")]
    RestoreJournal(Vec<JournalRecord>),
    /// All items restored from the journal are installed; other items of the previous instance are removed once
    /// [`Engine::is_settled`](crate::contract::engine::Engine::is_settled) returns true.
    #[serde(rename = "begin")]
    JournalRestored,
    /// Replaces the prefix table of the home agent (`SIGHUP`, or the file changed).
    #[serde(rename = "prefix_table")]
    ReloadPrefixTable(Arc<PrefixTable>),
    /// Replaces those settings of the mobile router that may change at run time.
    #[serde(rename = "mobile_router")]
    ReloadMobileRouter(Box<MobileRouterConfig>),
    /// Replaces the settings of the path manager.
    #[serde(rename = "path_manager")]
    ReloadPathManager(Box<PathManagerConfig>),
    /// Replaces the flow rules of the mobile router.
    #[serde(rename = "flows")]
    ReloadFlows(Vec<FlowRule>),
    /// Shuts down in good order: de-registers and removes all items.
    Stop,
    /// Deletes the binding of a home address.
    #[serde(rename = "unbind")]
    DeleteBinding(HomeAddress),
    /// Replaces the settings of the shim.
    #[serde(rename = "shim")]
    ReloadShim(Box<ShimConfig>),
    /// Switches to another locator pair if it is known to work: in one context, or in all contexts that have both
    /// locators.
    #[serde(rename = "use_path")]
    SwitchPath {
        /// The ULID pair of the context; `None` for all contexts.
        ulids: Option<AddressPair>,
        /// The forked instance identifier: packets of sockets with this mark.
        #[serde(default)]
        fork: Fork,
        /// The local and the peer locator.
        path: AddressPair,
    },
    /// Deletes a context.
    #[serde(rename = "end_context")]
    DeleteContext(ContextId),
    /// Replaces the settings of mobile network prefix provisioning.
    #[serde(rename = "mnpp")]
    ReloadMnpp(Box<MnppConfig>),
    /// Sends an echo request to a GeoNetworking station, or to all stations in an area.
    #[serde(rename = "ask")]
    SendEchoRequest(EchoRequest),
    /// Maps an IPv6 destination address to an area.
    #[serde(rename = "put_area")]
    AddGeoDestination(GeoDestination),
    /// Triggers, updates or terminates a DENM.
    Denm(DenmRequest),
    /// Replaces the service announcement (SAM) of the station.
    #[serde(rename = "announce")]
    ReloadAnnouncement(Option<Box<Announcement>>),
    /// Removes the mapping of an IPv6 destination address to an area.
    #[serde(rename = "drop_area")]
    RemoveGeoDestination(Ipv6Addr),
}
