//! State of mobile network prefix provisioning.

use core::time::Duration;
use roam6_wire::Prefix;
use serde::Serialize;
use std::net::Ipv6Addr;

/// A network of a neighbouring router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NetworkView {
    /// Its prefix.
    pub prefix: Prefix,
    /// The router.
    pub router: Ipv6Addr,
    /// Name of the interface.
    pub link: String,
    /// Remaining lifetime of the announcement.
    pub remaining: Duration,
}

crate::read_fields!(NetworkView { prefix, router, link, remaining });
