//! Whether updates list the prefixes, and what a refusal changes about that (RFC 3963 §5.4).

use crate::contract::config::nemo::PrefixMode;
use roam6_wire::mobility::Status;

/// The mode of updates.
#[derive(Debug, Clone)]
pub(super) struct ModeSelector {
    configured: PrefixMode,
    current: PrefixMode,
    /// A home agent refused in a way that leaves hope for the other mode.
    try_other: bool,
}

impl ModeSelector {
    /// Begins with the operator's choice.
    pub(super) fn new(configured: PrefixMode) -> ModeSelector {
        ModeSelector { configured, current: configured, try_other: false }
    }

    /// Whether updates list the prefixes.
    pub(super) fn is_explicit(&self) -> bool {
        self.current == PrefixMode::Explicit
    }

    /// Takes a refusal; whether the prefixes themselves were refused. A status that a home agent has no reason to send
    /// in this mode is no hint at all (RFC 3963 §5.4.1, §5.4.2).
    pub(super) fn receive_rejection(&mut self, status: Status) -> bool {
        let prefixes = matches!(status, Status::INVALID_PREFIX | Status::NOT_AUTHORISED_FOR_PREFIX);
        let refused = prefixes && self.is_explicit();
        let missing = status == Status::FORWARDING_SETUP_FAILED && !self.is_explicit();
        self.try_other |= refused || missing;
        refused
    }

    /// Every home agent has had its turn in this mode: whether the other one is worth a round. If not, the next round
    /// begins as the operator chose.
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
