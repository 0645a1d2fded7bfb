//! Reports of links, routers and addresses.

use super::LossReason;
use crate::base::ids::LinkId;
use core::fmt;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// A report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are terms of the standards, and their types say what they contain")]
pub enum LinkReport {
    /// An interface in use is up.
    LinkUp { link: LinkId, name: String },
    /// An interface in use is down.
    LinkDown { link: LinkId, name: String },
    /// A Router Solicitation was sent.
    #[serde(rename = "solicited")]
    RouterSolicitationSent { link: LinkId },
    /// A Router Advertisement of a new router.
    RouterFound { link: LinkId, router: Ipv6Addr, prefix: Option<Prefix> },
    /// A default router is no longer used.
    RouterLost { link: LinkId, router: Ipv6Addr, why: LossReason },
    /// Duplicate Address Detection failed for an address of this node.
    #[serde(rename = "duplicate")]
    DuplicateAddress { link: LinkId, address: Ipv6Addr },
}

impl LinkReport {
    /// The name of its counter, and the `event` of its line in the stream.
    pub fn name(&self) -> &'static str {
        match self {
            LinkReport::LinkUp { .. } => "link_up",
            LinkReport::LinkDown { .. } => "link_down",
            LinkReport::RouterSolicitationSent { .. } => "solicited",
            LinkReport::RouterFound { .. } => "router_found",
            LinkReport::RouterLost { .. } => "router_lost",
            LinkReport::DuplicateAddress { .. } => "duplicate",
        }
    }

    /// The interface that the report is about, if there is one.
    pub fn link(&self) -> Option<LinkId> {
        match self {
            LinkReport::LinkUp { link, .. }
            | LinkReport::LinkDown { link, .. }
            | LinkReport::RouterSolicitationSent { link, .. }
            | LinkReport::RouterFound { link, .. }
            | LinkReport::RouterLost { link, .. }
            | LinkReport::DuplicateAddress { link, .. } => Some(*link),
        }
    }
}

impl fmt::Display for LinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkReport::LinkUp { name, .. } => write!(f, "{name}: up"),
            LinkReport::LinkDown { name, .. } => write!(f, "{name}: down"),
            LinkReport::RouterSolicitationSent { link } => write!(f, "{link}: router solicitation sent"),
            LinkReport::RouterFound { link, router, prefix: Some(prefix) } => {
                write!(f, "{link}: router {router} on {prefix}")
            }
            LinkReport::RouterFound { link, router, prefix: None } => write!(f, "{link}: router {router}"),
            LinkReport::RouterLost { link, router, why } => write!(f, "{link}: router {router} lost: {why}"),
            LinkReport::DuplicateAddress { link, address } => write!(f, "{link}: {address} is a duplicate address"),
        }
    }
}
