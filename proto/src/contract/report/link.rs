//! Reports of links, routers and addresses.

use super::LossReason;
use crate::base::ids::LinkId;
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
pub enum LinkReport {
    /// An interface in use is up.
    #[display("{name}: up")]
    LinkUp { link: LinkId, name: String },
    /// An interface in use is down.
    #[display("{name}: down")]
    LinkDown { link: LinkId, name: String },
    /// A Router Solicitation was sent.
    #[serde(rename = "solicited")]
    #[strum(serialize = "solicited")]
    #[display("{link}: router solicitation sent")]
    RouterSolicitationSent { link: LinkId },
    /// A Router Advertisement of a new router.
    #[display("{link}: router {router}{}", prefix.map_or_else(String::new, |prefix| format!(" on {prefix}")))]
    RouterFound { link: LinkId, router: Ipv6Addr, prefix: Option<Prefix> },
    /// A default router is no longer used.
    #[display("{link}: router {router} lost: {why}")]
    RouterLost { link: LinkId, router: Ipv6Addr, why: LossReason },
    /// Duplicate Address Detection failed for an address of this node.
    #[serde(rename = "duplicate")]
    #[strum(serialize = "duplicate")]
    #[display("{link}: {address} is a duplicate address")]
    DuplicateAddress { link: LinkId, address: Ipv6Addr },
}

impl LinkReport {
    /// The interface that the report is about.
    pub fn link(&self) -> LinkId {
        match self {
            LinkReport::LinkUp { link, .. }
            | LinkReport::LinkDown { link, .. }
            | LinkReport::RouterSolicitationSent { link }
            | LinkReport::RouterFound { link, .. }
            | LinkReport::RouterLost { link, .. }
            | LinkReport::DuplicateAddress { link, .. } => *link,
        }
    }
}
