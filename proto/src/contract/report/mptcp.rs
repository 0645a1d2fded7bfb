//! Reports of the MPTCP path manager.

use crate::base::ids::{LinkId, MptcpToken};
use std::net::{Ipv6Addr, SocketAddrV6};

reports! {
    /// A report.
    MptcpReport {
        /// An endpoint was added.
        #[display("{link}: endpoint {address}, {}", endpoint_kind(*backup))]
        EndpointUp { link: LinkId, address: Ipv6Addr, backup: bool },
        /// An endpoint was removed, with its subflows.
        #[display("{link}: endpoint {address} removed")]
        EndpointDown { link: LinkId, address: Ipv6Addr },
        /// A subflow was established; `first` of its connection.
        #[display(
            "connection {token}: {} {local} to {remote}, {}",
            if *first { "connected" } else { "subflow" },
            endpoint_kind(*backup)
        )]
        SubflowUp { token: MptcpToken, local: SocketAddrV6, remote: SocketAddrV6, backup: bool, first: bool },
        /// The peer changed the backup flag of a subflow (MP_PRIO).
        #[display("connection {token}: the peer changed the use of subflow {local} to {remote}")]
        SubflowPriorityChanged as "subflow_changed" { token: MptcpToken, local: SocketAddrV6, remote: SocketAddrV6 },
        /// A subflow was closed, by this error number if not 0.
        #[display("connection {token}: subflow {local} to {remote} ended, error {error}")]
        SubflowDown { token: MptcpToken, local: SocketAddrV6, remote: SocketAddrV6, error: u8 },
        /// A connection was closed.
        #[display("connection {token} ended")]
        ConnectionClosed as "disconnected" { token: MptcpToken },
    }
}

impl MptcpReport {
    /// The interface that the report is about, if there is one.
    pub fn link(&self) -> Option<LinkId> {
        match self {
            MptcpReport::EndpointUp { link, .. } | MptcpReport::EndpointDown { link, .. } => Some(*link),
            _ => None,
        }
    }
}

fn endpoint_kind(backup: bool) -> &'static str {
    if backup { "backup" } else { "regular" }
}
