//! Reports of mobile network prefix provisioning.

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
pub enum MnppReport {
    /// A prefix is reachable directly by a neighbouring router.
    #[display("{link}: {prefix} is reachable by {router}")]
    NetworkFound { link: LinkId, router: Ipv6Addr, prefix: Prefix },
    /// A prefix is no longer reachable directly.
    #[display("{link}: {prefix} is no longer reachable by {router}: {why}")]
    NetworkLost { link: LinkId, router: Ipv6Addr, prefix: Prefix, why: LossReason },
}

impl MnppReport {
    /// The interface that the report is about.
    pub fn link(&self) -> LinkId {
        match self {
            MnppReport::NetworkFound { link, .. } | MnppReport::NetworkLost { link, .. } => *link,
        }
    }
}
