//! Reports of links, routers and addresses.

use super::LossReason;
use crate::base::ids::LinkId;
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

reports! {
    /// A report.
    LinkReport {
        /// An interface in use is up.
        #[display("{name}: up")]
        LinkUp { link: LinkId, name: String },
        /// An interface in use is down.
        #[display("{name}: down")]
        LinkDown { link: LinkId, name: String },
        /// A Router Solicitation was sent.
        #[display("{link}: router solicitation sent")]
        RouterSolicitationSent as "solicited" { link: LinkId },
        /// A Router Advertisement of a new router.
        #[display("{link}: router {router}{}", prefix.map_or_else(String::new, |prefix| format!(" on {prefix}")))]
        RouterFound { link: LinkId, router: Ipv6Addr, prefix: Option<Prefix> },
        /// A default router is no longer used.
        #[display("{link}: router {router} lost: {why}")]
        RouterLost { link: LinkId, router: Ipv6Addr, why: LossReason },
        /// Duplicate Address Detection failed for an address of this node.
        #[display("{link}: {address} is a duplicate address")]
        DuplicateAddress as "duplicate" { link: LinkId, address: Ipv6Addr },
    }
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
