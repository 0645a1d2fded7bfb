//! Reports of mobile network prefix provisioning.

use super::LossReason;
use crate::base::ids::LinkId;
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

reports! {
    /// A report.
    MnppReport {
        /// A prefix is reachable directly by a neighbouring router.
        #[display("{link}: {prefix} is reachable by {router}")]
        NetworkFound { link: LinkId, router: Ipv6Addr, prefix: Prefix },
        /// A prefix is no longer reachable directly.
        #[display("{link}: {prefix} is no longer reachable by {router}: {why}")]
        NetworkLost { link: LinkId, router: Ipv6Addr, prefix: Prefix, why: LossReason },
    }
}

impl MnppReport {
    /// The interface that the report is about.
    pub fn link(&self) -> LinkId {
        match self {
            MnppReport::NetworkFound { link, .. } | MnppReport::NetworkLost { link, .. } => *link,
        }
    }
}
