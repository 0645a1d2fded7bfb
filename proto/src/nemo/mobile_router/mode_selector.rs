//! The prefix mode of updates, and its change after a rejection (RFC 3963 §5.4).

use crate::contract::config::nemo::PrefixMode;
use roam6_wire::mobility::Status;

/// The prefix mode of updates.
#[derive(Debug, Clone)]
pub(super) struct ModeSelector {
    configured: PrefixMode,
    current: PrefixMode,
    /// A rejection suggests that the other mode may succeed.
    try_other: bool,
}

impl ModeSelector {
    /// Starts with the configured mode.
    pub(super) fn new(configured: PrefixMode) -> ModeSelector {
        ModeSelector { configured, current: configured, try_other: false }
    }

    /// Whether updates list the prefixes.
    pub(super) fn is_explicit(&self) -> bool {
        self.current == PrefixMode::Explicit
    }

    /// Processes a rejection; returns whether the prefixes were rejected. A status that does not belong to this mode
    /// has no effect (RFC 3963 §5.4.1, §5.4.2).
    pub(super) fn receive_rejection(&mut self, status: Status) -> bool {
        let prefixes = matches!(status, Status::INVALID_PREFIX | Status::NOT_AUTHORISED_FOR_PREFIX);
        let refused = prefixes && self.is_explicit();
        let missing = status == Status::FORWARDING_SETUP_FAILED && !self.is_explicit();
        self.try_other |= refused || missing;
        refused
    }

    /// All home agents were tried in this mode: returns whether the other one is worth a round. If not, the next round
    /// starts with the configured mode.
    pub(super) fn switch(&mut self) -> bool {
        let untried = self.current == self.configured;
        let other = core::mem::take(&mut self.try_other) && untried;
        self.current = match (self.configured, other) {
            (PrefixMode::Implicit, true) => PrefixMode::Explicit,
            (PrefixMode::Explicit, true) => PrefixMode::Implicit,
            (configured, false) => configured,
        };
        other
    }
}
