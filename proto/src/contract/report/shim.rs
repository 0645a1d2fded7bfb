//! Reports of Shim6.

use crate::base::ids::{AddressPair, ContextId, LinkId};
use core::time::Duration;
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

reports! {
    /// A report.
    ShimReport {
        /// A generated address was configured.
        #[display("address {address} in {prefix} configured")]
        AddressConfigured as "address_made" { link: LinkId, address: Ipv6Addr, prefix: Prefix },
        /// A generated address was removed.
        #[display("address {address} removed")]
        AddressRemoved as "address_left" { link: LinkId, address: Ipv6Addr },
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
        #[display("{context}: path {path} recovered")]
        PathRecovered as "path_works" { context: ContextId, path: AddressPair },
        /// No context is established with a peer for a while.
        #[display("{peer}: no context: {why}")]
        ShimUnavailable as "no_shim" { peer: Ipv6Addr, why: String },
    }
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
