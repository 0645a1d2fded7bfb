//! The kernel's routing socket: requests answered in its own words, whole tables, and its announcements.

pub(crate) mod address;
pub(crate) mod family;
pub(crate) mod generic;
pub(crate) mod link;
pub(crate) mod lookup;
pub(crate) mod message;
pub(crate) mod monitor;
pub(crate) mod neighbour;
pub(crate) mod route;
pub(crate) mod rule;
pub(crate) mod socket;

/// Marks what is ours: route protocol, rule protocol, address protocol and neighbour protocol number.
pub(crate) const PROTOCOL: u8 = 106;
