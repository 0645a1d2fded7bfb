//! Settings of mobile network prefix provisioning: plain values, validated by the caller.

use crate::base::vec_set::VecSet;
use crate::contract::config::nemo::SharedKey;
use core::time::Duration;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};

/// A router that announces its networks to neighbouring routers, and accepts their announcements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MnppConfig {
    /// Names of the interfaces; they may be added and removed at run time.
    pub interfaces: VecSet<String>,
    /// Announced prefixes; may be empty.
    pub announced: Vec<Prefix>,
    /// The key that authenticates the announcements; `None`: not authenticated.
    pub key: Option<SharedKey>,
    /// Acceptance rules; if empty, no announcement is accepted.
    pub accepted: Vec<AcceptanceRule>,
    /// Interval of announcements; their lifetime is three intervals.
    pub interval: Duration,
}

/// Prefixes that are accepted from the holders of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptanceRule {
    /// The key of the sender; `None`: any sender.
    pub key: Option<SharedKey>,
    /// Accepted prefixes are within these.
    pub prefixes: Vec<Prefix>,
}
