//! Commands to the MPTCP path manager.

use crate::contract::config::mptcp::PathManagerConfig;
use serde::{Deserialize, Serialize};

/// A command to the path manager.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MptcpCommand {
    /// Replaces the settings of the path manager.
    #[serde(rename = "path_manager")]
    Reload(Box<PathManagerConfig>),
}
