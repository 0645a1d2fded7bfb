//! What the kernel's MPTCP is told (RFC 8684).

use crate::base::ids::LinkId;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// Limits of each connection of the kernel's MPTCP (RFC 8684). They hold for the whole network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointLimits {
    /// Subflows beside the first; the kernel takes 0 to 8.
    pub subflows: u32,
    /// Addresses of the peer that are taken up; the kernel takes 0 to 8.
    pub accepted: u32,
}

/// An address the kernel's MPTCP uses. It makes a subflow as soon as the item stands, and only then: a route from the
/// address must stand first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The address.
    pub address: Ipv6Addr,
    /// The interface its subflows leave by.
    pub link: LinkId,
    /// What it is for.
    pub flags: EndpointFlags,
}

/// What an MPTCP endpoint is for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointFlags {
    /// Peers are told of it (ADD_ADDR, RFC 8684 §3.4.1).
    pub signal: bool,
    /// Subflows are made from it (MP_JOIN, RFC 8684 §3.2).
    pub subflow: bool,
    /// Carries data only when nothing else can (RFC 8684 §3.3.8).
    pub backup: bool,
}
