//! Reports of Shim6.

use crate::base::ids::{AddressPair, ContextId, LinkId};
use core::time::Duration;
use derive_more::Display;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;
use strum::IntoStaticStr;

/// A report.
#[derive(Debug, Clone, PartialEq, Eq, Display, IntoStaticStr, Serialize, Deserialize)]
#[strum(serialize_all = "snake_case")]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are terms of the standards, and their types say what they contain")]
pub enum ShimReport {
    /// A generated address was configured.
    #[serde(rename = "address_made")]
    #[strum(serialize = "address_made")]
    #[display("address {address} in {prefix} configured")]
    AddressConfigured { link: LinkId, address: Ipv6Addr, prefix: Prefix },
    /// A generated address was removed.
    #[serde(rename = "address_left")]
    #[strum(serialize = "address_left")]
    #[display("address {address} removed")]
    AddressRemoved { link: LinkId, address: Ipv6Addr },
    /// A context was established, with this locator pair and number of peer locators.
    #[display("{context}: established, path {path}, {locators} peer locators")]
    ContextUp { context: ContextId, path: AddressPair, locators: usize },
    /// A context was re-established, or updated by the peer.
    #[display("{context}: re-established, path {path}, {locators} peer locators")]
    ContextRenewed { context: ContextId, path: AddressPair, locators: usize },
    /// A context was discarded.
    #[display("{context}: ended: {why}")]
    ContextDown { context: ContextId, why: String },
    /// The locator pair failed, or another is requested; exploration begins.
    #[display("{context}: exploring, path {path} failed: {why}")]
    PathLost { context: ContextId, path: AddressPair, why: String },
    /// A context switched to this locator pair, so long after the beginning of the exploration.
    #[display("{context}: switched to path {path} after {} ms", after.as_millis())]
    PathChanged { context: ContextId, path: AddressPair, after: Duration },
    /// The locator pair recovered before another was found.
    #[serde(rename = "path_works")]
    #[strum(serialize = "path_works")]
    #[display("{context}: path {path} recovered")]
    PathRecovered { context: ContextId, path: AddressPair },
    /// No context is established with a peer for a while.
    #[serde(rename = "no_shim")]
    #[strum(serialize = "no_shim")]
    #[display("{peer}: no context: {why}")]
    ShimUnavailable { peer: Ipv6Addr, why: String },
}

impl ShimReport {
    /// The interface that the report is about, if there is one.
    pub fn link(&self) -> Option<LinkId> {
        match self {
            ShimReport::AddressConfigured { link, .. } | ShimReport::AddressRemoved { link, .. } => Some(*link),
            _ => None,
        }
    }
}
