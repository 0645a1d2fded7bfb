//! State of the MPTCP path manager.

use super::state::EndpointState;
use serde::Serialize;
use std::net::Ipv6Addr;

/// One endpoint of MPTCP, or a candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EndpointView {
    /// The address.
    pub address: Ipv6Addr,
    /// Name of its interface.
    pub link: String,
    /// Whether it is in a home prefix, reached through the tunnel.
    pub home: bool,
    /// Whether its subflows are backups.
    pub backup: bool,
    /// Whether it is signalled to peers.
    pub signal: bool,
    /// Its state.
    pub state: EndpointState,
}

crate::read_fields!(EndpointView { address, link, home, backup, signal, state });
