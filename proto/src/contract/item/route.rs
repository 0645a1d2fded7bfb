//! Routes and routing policy rules.

use super::tunnel::TunnelId;
use crate::base::ids::LinkId;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// A routing table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RouteTable(pub u32);

impl RouteTable {
    /// The kernel's main table.
    pub const MAIN: RouteTable = RouteTable(254);
}

/// A route, with the route protocol number of roam6.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The table.
    pub table: RouteTable,
    /// Destination prefix.
    pub destination: Prefix,
    /// Source prefix (`from`); [`Prefix::ALL`] for any.
    pub source: Prefix,
    /// Metric; lower is preferred.
    pub metric: u32,
    /// The next hop, or the type of the route.
    pub target: NextHop,
    /// Path MTU, octets; `None` for the MTU of the device.
    pub mtu: Option<u32>,
}

/// The next hop of a route, or its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextHop {
    /// On-link.
    #[serde(rename = "link")]
    OnLink(LinkId),
    /// By a router.
    Gateway {
        /// Output interface.
        link: LinkId,
        /// Address of the router, usually link-local.
        router: Ipv6Addr,
    },
    /// Into a tunnel.
    Tunnel(TunnelId),
    /// Drop with Destination Unreachable.
    Unreachable,
    /// Drop silently (`blackhole`).
    #[serde(rename = "discard")]
    Blackhole,
}

/// A routing policy rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRule {
    /// Priority; lower is matched first.
    pub priority: u32,
    /// Source prefix.
    pub source: Prefix,
    /// Destination prefix.
    pub destination: Prefix,
    /// Name of the input interface (`iif`), which need not exist yet; `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "incoming")]
    pub iif: Option<String>,
    /// The table to look up.
    pub table: RouteTable,
}
