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

/// Marks the objects of roam6: the route, rule, address and neighbour protocol number.
pub(crate) const PROTOCOL: u8 = 106;
