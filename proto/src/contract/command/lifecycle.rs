//! Commands to every role: start and stop.

use crate::contract::item::JournalRecord;
use serde::{Deserialize, Serialize};

/// Start and stop of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LifecycleCommand {
    /// The records of the journal, written by a previous instance; given once, before any other input.
    #[serde(rename = "recall")]
    RestoreJournal(Vec<JournalRecord>),
    /// All items restored from the journal are installed; other items of the previous instance are removed once
    /// [`Engine::takeover_complete`](crate::contract::engine::Engine::takeover_complete) returns true.
    #[serde(rename = "begin")]
    JournalRestored,
    /// Shuts down in good order: de-registers and removes all items.
    Stop,
}
