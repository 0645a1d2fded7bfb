//! Commands to mobile network prefix provisioning.

use crate::contract::config::mnpp::MnppConfig;
use serde::{Deserialize, Serialize};

/// A command to mobile network prefix provisioning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MnppCommand {
    /// Replaces the settings of mobile network prefix provisioning.
    #[serde(rename = "mnpp")]
    Reload(Box<MnppConfig>),
}
