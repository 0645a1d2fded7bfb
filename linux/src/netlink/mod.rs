//! Netlink: requests with the kernel's own error text, dumps of whole tables, and announcements.

pub(crate) mod address;
pub(crate) mod attribute;
pub(crate) mod family;
pub(crate) mod generic;
pub(crate) mod link;
pub(crate) mod lookup;
pub(crate) mod message;
pub(crate) mod monitor;
pub(crate) mod neighbour;
pub(crate) mod route;
pub(crate) mod rtnl;
pub(crate) mod rule;
pub(crate) mod socket;

use std::ops::RangeInclusive;

/// Marks the objects of roam6: the route, rule, address and neighbour protocol number.
pub(crate) const PROTOCOL: u8 = 106;
/// The protocol number of routes and rules that are not compared with the items of engines: those of relays, of `ip6tnl` devices, and
/// the announcements of a fleet, which a routing daemon learns by it.
pub(crate) const AUXILIARY_PROTOCOL: u8 = 107;
/// That of the routes and rules of WireGuard's outer packets.
pub(crate) const STEERING_PROTOCOL: u8 = 108;
/// All protocol numbers of roam6.
pub(crate) const OWN_PROTOCOLS: RangeInclusive<u8> = PROTOCOL..=STEERING_PROTOCOL;
