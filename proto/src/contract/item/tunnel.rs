//! Tunnels, their paths and flows.

use crate::base::ids::LinkId;
use crate::contract::config::flow::Selector;
use roam6_wire::Bid;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// Names a tunnel within one node. 0 is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TunnelId(pub u32);

/// An IPv6-in-IPv6 tunnel (RFC 2473) with one or more paths. Of its prefixes some may be of IPv4: such packets take the
/// same paths (RFC 5555 §4.4.3, §4.5.1).
///
/// A packet from `near` to `far` goes in; a packet that comes out must be from `far` and to `near`, and its outer header
/// must be that of one of the paths. All else is dropped and counted (RFC 3963 §6.5, §9).
/// Replacing the item is atomic for each packet: none is lost, none goes to a mixture of old and new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    /// Its name.
    pub id: TunnelId,
    /// Prefixes on this side: everything for a home agent, the mobile network for a mobile router.
    pub near: Vec<Prefix>,
    /// Prefixes on the other side: home address and mobile network for a home agent, everything for a mobile router.
    pub far: Vec<Prefix>,
    /// The paths, best first. Empty: what would go in is answered with Destination Unreachable.
    pub paths: Vec<Path>,
    /// Flows with paths of their own, the first that matches decides (RFC 6089).
    pub flows: Vec<TunnelFlow>,
}

/// One outer header of a tunnel, or the way past it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// Binding identifier; 0 for the one binding of a mobile router without multiple care-of addresses.
    pub bid: Bid,
    /// Outer source on the way out, outer destination on the way in.
    pub local: Ipv6Addr,
    /// Outer destination on the way out, outer source on the way in.
    pub remote: Ipv6Addr,
    /// The interface it must leave by; `None`: as the routing tables say.
    pub link: Option<LinkId>,
    /// Largest inner packet, octets (path MTU to `remote` less 40).
    pub mtu: u32,
    /// Share of flows it carries; 0 for a path that carries none yet still receives (standby, or just left).
    pub weight: u16,
    /// No outer header: packets are handed as they are to the neighbour `remote` on `link`, and what comes that way is
    /// ordinary traffic (RFC 5648 §5.6.2). There must be a link, and a [`Neighbour`] that makes `remote` known on it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub direct: bool,
}

/// A flow that takes paths of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelFlow {
    /// Which packets, as the mobile router's end sends them out (source = inside the mobile network) when `near` is the
    /// mobile network, or as the home agent sees them come (source = correspondent) when `far` is.
    pub selector: Selector,
    /// The path, by binding identifier; a flow whose path is absent falls through to the next rule.
    pub bid: Bid,
}

/// Most prefix lengths a host tells apart on the far side of its tunnels, of all tunnels together.
pub const MOST_PREFIX_LENGTHS: usize = 16;
