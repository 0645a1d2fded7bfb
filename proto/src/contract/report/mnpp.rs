//! Reports of mobile network prefix provisioning.

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
pub enum MnppReport {
    /// A prefix is reachable directly by a neighbouring router.
    NetworkFound { link: LinkId, router: Ipv6Addr, prefix: Prefix },
    /// A prefix is no longer reachable directly.
    NetworkLost { link: LinkId, router: Ipv6Addr, prefix: Prefix, why: LossReason },
}

impl MnppReport {
    /// The name of its counter, and the `event` of its line in the stream.
    pub fn name(&self) -> &'static str {
        match self {
            MnppReport::NetworkFound { .. } => "network_found",
            MnppReport::NetworkLost { .. } => "network_lost",
        }
    }

    /// The interface that the report is about, if there is one.
    pub fn link(&self) -> Option<LinkId> {
        match self {
            MnppReport::NetworkFound { link, .. } | MnppReport::NetworkLost { link, .. } => Some(*link),
        }
    }
}

impl fmt::Display for MnppReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MnppReport::NetworkFound { link, router, prefix } => {
                write!(f, "{link}: {prefix} is reachable by {router}")
            }
            MnppReport::NetworkLost { link, router, prefix, why } => {
                write!(f, "{link}: {prefix} is no longer reachable by {router}: {why}")
            }
        }
    }
}
