//! What a router that announces its networks is told: plain values, checked by whoever builds them.

use crate::base::few;
use crate::contract::config::nemo::SharedKey;
use core::time::Duration;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};

/// A router that announces its networks to the routers nearby, and hears of theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MnppConfig {
    /// Names of the links on which it does; they may come and go.
    pub interfaces: few::Set<String>,
    /// Networks behind this router; none are announced if there are none.
    pub announced: Vec<Prefix>,
    /// What proves the announcements; `None`: nothing does.
    pub key: Option<SharedKey>,
    /// What is believed of others. Empty: nothing.
    pub accepted: Vec<Acceptance>,
    /// Time between announcements; they may be believed three times as long.
    pub interval: Duration,
}

/// What is believed, and of whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceptance {
    /// Who proves to have this key; `None`: anybody.
    pub key: Option<SharedKey>,
    /// May have networks in these.
    pub prefixes: Vec<Prefix>,
}
