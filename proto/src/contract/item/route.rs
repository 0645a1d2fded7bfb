//! Routes and routing policy rules.

use super::tunnel::TunnelId;
use crate::base::ids::LinkId;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// A routing table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Table(pub u32);

impl Table {
    /// The kernel's main table.
    pub const MAIN: Table = Table(254);
}

/// A route. The kernel shows it with roam6's route protocol number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The table.
    pub table: Table,
    /// Packets to here.
    pub destination: Prefix,
    /// Packets from here only; [`Prefix::ALL`] for any.
    pub source: Prefix,
    /// Lower is better.
    pub metric: u32,
    /// What becomes of them.
    pub target: Target,
    /// Largest packet, octets, if less than the device's.
    pub mtu: Option<u32>,
}

/// What a route does with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// On-link.
    Link(LinkId),
    /// To a router.
    Gateway {
        /// Its link.
        link: LinkId,
        /// Its address, usually link-local.
        router: Ipv6Addr,
    },
    /// Into a tunnel.
    Tunnel(TunnelId),
    /// Refused with Destination Unreachable.
    Unreachable,
    /// Discarded without an answer.
    Discard,
}

/// A routing policy rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Lower comes first.
    pub priority: u32,
    /// Packets from here.
    pub source: Prefix,
    /// Packets to here.
    pub destination: Prefix,
    /// Packets that came in by the interface of this name only, which need not be there yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incoming: Option<String>,
    /// Look here.
    pub table: Table,
}
