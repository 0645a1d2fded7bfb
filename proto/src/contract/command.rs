//! What an operator or the daemon tells a running engine.

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

/// What an operator or the daemon wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// What the journal remembers of an earlier life; given once, before anything else.
    Recall(Vec<Record>),
    /// Everything of an earlier life that was recalled stands in the kernel again; the rest goes once the engine
    /// [is settled](crate::contract::engine::Engine::is_settled).
    Begin,
    /// The home agent's prefix table was read anew (`SIGHUP`, or the file changed).
    PrefixTable(Arc<PrefixTable>),
    /// The mobile router's settings that may change while it runs were read anew.
    MobileRouter(Box<MobileRouterConfig>),
    /// The path manager's settings were read anew.
    PathManager(Box<PathManagerConfig>),
    /// Flow rules of the mobile router were read anew.
    Flows(Vec<FlowRule>),
    /// End in good order: de-register, drop all items.
    Stop,
    /// Ends the binding of a home address by hand.
    Unbind(HomeAddress),
    /// The shim's settings were read anew.
    Shim(Box<ShimConfig>),
    /// Takes another path, if it is known to work: the locators to send from and to; of one context, or of all that
    /// have both.
    UsePath {
        /// Of which context; `None`: of all.
        ulids: Option<Pair>,
        /// Only for packets of sockets with this mark.
        #[serde(default)]
        fork: Fork,
        /// Locators.
        path: Pair,
    },
    /// Ends a context by hand.
    EndContext(ContextId),
    /// What is announced to routers nearby, and believed of them, was read anew.
    Mnpp(Box<MnppConfig>),
    /// Asks a GeoNetworking station, or all in an area, whether they are there.
    Ask(Question),
    /// Sends packets for an IPv6 address to an area.
    PutArea(GeoDestination),
    /// Something has happened that others should know.
    Denm(DenmOrder),
    /// What a GeoNetworking station announces was read anew.
    Announce(Option<Box<Announcement>>),
    /// Sends packets for an IPv6 address where its virtual link reaches again.
    DropArea(Ipv6Addr),
}
