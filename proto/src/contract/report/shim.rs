//! Reports of Shim6.

use crate::base::ids::{AddressPair, ContextId, LinkId};
use core::fmt;
use core::time::Duration;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// A report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are terms of the standards, and their types say what they contain")]
pub enum ShimReport {
    /// A generated address was configured.
    #[serde(rename = "address_made")]
    AddressConfigured { link: LinkId, address: Ipv6Addr, prefix: Prefix },
    /// A generated address was removed.
    #[serde(rename = "address_left")]
    AddressRemoved { link: LinkId, address: Ipv6Addr },
    /// A context was established, with this locator pair and number of peer locators.
    ContextUp { context: ContextId, path: AddressPair, locators: usize },
    /// A context was re-established, or updated by the peer.
    ContextRenewed { context: ContextId, path: AddressPair, locators: usize },
    /// A context was discarded.
    ContextDown { context: ContextId, why: String },
    /// The locator pair failed, or another is requested; exploration begins.
    PathLost { context: ContextId, path: AddressPair, why: String },
    /// A context switched to this locator pair, so long after the beginning of the exploration.
    PathChanged { context: ContextId, path: AddressPair, after: Duration },
    /// The locator pair recovered before another was found.
    #[serde(rename = "path_works")]
    PathRecovered { context: ContextId, path: AddressPair },
    /// No context is established with a peer for a while.
    #[serde(rename = "no_shim")]
    ShimUnavailable { peer: Ipv6Addr, why: String },
}

impl ShimReport {
    /// The name of its counter, and the `event` of its line in the stream.
    pub fn name(&self) -> &'static str {
        match self {
            ShimReport::AddressConfigured { .. } => "address_made",
            ShimReport::AddressRemoved { .. } => "address_left",
            ShimReport::ContextUp { .. } => "context_up",
            ShimReport::ContextRenewed { .. } => "context_renewed",
            ShimReport::ContextDown { .. } => "context_down",
            ShimReport::PathLost { .. } => "path_lost",
            ShimReport::PathChanged { .. } => "path_changed",
            ShimReport::PathRecovered { .. } => "path_works",
            ShimReport::ShimUnavailable { .. } => "no_shim",
        }
    }

    /// The interface that the report is about, if there is one.
    pub fn link(&self) -> Option<LinkId> {
        match self {
            ShimReport::AddressConfigured { link, .. } | ShimReport::AddressRemoved { link, .. } => Some(*link),
            ShimReport::ContextUp { .. }
            | ShimReport::ContextRenewed { .. }
            | ShimReport::ContextDown { .. }
            | ShimReport::PathLost { .. }
            | ShimReport::PathChanged { .. }
            | ShimReport::PathRecovered { .. }
            | ShimReport::ShimUnavailable { .. } => None,
        }
    }
}

impl fmt::Display for ShimReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShimReport::AddressConfigured { address, prefix, .. } => {
                write!(f, "address {address} in {prefix} configured")
            }
            ShimReport::AddressRemoved { address, .. } => write!(f, "address {address} removed"),
            ShimReport::ContextUp { context, path, locators } => {
                write!(f, "{context}: established, path {path}, {locators} peer locators")
            }
            ShimReport::ContextRenewed { context, path, locators } => {
                write!(f, "{context}: re-established, path {path}, {locators} peer locators")
            }
            ShimReport::ContextDown { context, why } => write!(f, "{context}: ended: {why}"),
            ShimReport::PathLost { context, path, why } => write!(f, "{context}: exploring, path {path} failed: {why}"),
            ShimReport::PathChanged { context, path, after } => {
                write!(f, "{context}: switched to path {path} after {} ms", after.as_millis())
            }
            ShimReport::PathRecovered { context, path } => write!(f, "{context}: path {path} recovered"),
            ShimReport::ShimUnavailable { peer, why } => write!(f, "{peer}: no context: {why}"),
        }
    }
}
