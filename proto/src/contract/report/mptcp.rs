//! Reports of the MPTCP path manager.

use crate::base::ids::{LinkId, MptcpToken};
use core::fmt;
use serde::{Deserialize, Serialize};
use std::net::{Ipv6Addr, SocketAddrV6};

/// A report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are terms of the standards, and their types say what they contain")]
pub enum MptcpReport {
    /// An endpoint was added.
    EndpointUp { link: LinkId, address: Ipv6Addr, backup: bool },
    /// An endpoint was removed, with its subflows.
    EndpointDown { link: LinkId, address: Ipv6Addr },
    /// A subflow was established; `first` of its connection.
    SubflowUp { token: MptcpToken, local: SocketAddrV6, remote: SocketAddrV6, backup: bool, first: bool },
    /// The peer changed the backup flag of a subflow (MP_PRIO).
    #[serde(rename = "subflow_changed")]
    SubflowPriorityChanged { token: MptcpToken, local: SocketAddrV6, remote: SocketAddrV6 },
    /// A subflow was closed, by this error number if not 0.
    SubflowDown { token: MptcpToken, local: SocketAddrV6, remote: SocketAddrV6, error: u8 },
    /// A connection was closed.
    #[serde(rename = "disconnected")]
    ConnectionClosed { token: MptcpToken },
}

impl MptcpReport {
    /// The name of its counter, and the `event` of its line in the stream.
    pub fn name(&self) -> &'static str {
        match self {
            MptcpReport::EndpointUp { .. } => "endpoint_up",
            MptcpReport::EndpointDown { .. } => "endpoint_down",
            MptcpReport::SubflowUp { .. } => "subflow_up",
            MptcpReport::SubflowPriorityChanged { .. } => "subflow_changed",
            MptcpReport::SubflowDown { .. } => "subflow_down",
            MptcpReport::ConnectionClosed { .. } => "disconnected",
        }
    }

    /// The interface that the report is about, if there is one.
    pub fn link(&self) -> Option<LinkId> {
        match self {
            MptcpReport::EndpointUp { link, .. } | MptcpReport::EndpointDown { link, .. } => Some(*link),
            MptcpReport::SubflowUp { .. }
            | MptcpReport::SubflowPriorityChanged { .. }
            | MptcpReport::SubflowDown { .. }
            | MptcpReport::ConnectionClosed { .. } => None,
        }
    }
}

impl fmt::Display for MptcpReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = |backup: &bool| if *backup { "backup" } else { "regular" };
        match self {
            MptcpReport::EndpointUp { link, address, backup } => {
                write!(f, "{link}: endpoint {address}, {}", kind(backup))
            }
            MptcpReport::EndpointDown { link, address } => write!(f, "{link}: endpoint {address} given up"),
            MptcpReport::SubflowUp { token, local, remote, backup, first } => {
                let what = if *first { "connected" } else { "subflow" };
                write!(f, "connection {token}: {what} {local} to {remote}, {}", kind(backup))
            }
            MptcpReport::SubflowPriorityChanged { token, local, remote } => {
                write!(f, "connection {token}: the peer changed the use of subflow {local} to {remote}")
            }
            MptcpReport::SubflowDown { token, local, remote, error } => {
                write!(f, "connection {token}: subflow {local} to {remote} ended, error {error}")
            }
            MptcpReport::ConnectionClosed { token } => write!(f, "connection {token} ended"),
        }
    }
}
