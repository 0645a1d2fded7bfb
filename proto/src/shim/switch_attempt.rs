//! State of a switch to another locator pair, and of the failback to the preferred one.

use crate::{AddressPair, Time};
use roam6_wire::shim6::{Nonce, ProbeRecord};

/// Probes that the peer must report before an automatic failback, because a path may be lossy.
const MIN_REPORTED_PROBES: usize = 3;

/// An attempt to switch to a pair.
#[derive(Debug)]
pub(super) struct SwitchAttempt {
    /// The target pair.
    pub(super) path: AddressPair,
    /// Why the switch is attempted.
    pub(super) reason: SwitchReason,
    /// Start of the attempt.
    pub(super) since: Time,
    /// Nonces of our probes.
    pub(super) sent_nonces: Vec<Nonce>,
    /// Nonces of our probes that the peer has reported.
    pub(super) reported_nonces: Vec<Nonce>,
}

/// Why a switch is attempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SwitchReason {
    /// By the operator: a failure is reported, and success disables failback.
    Operator,
    /// The pair is the preferred one.
    Failback,
    /// The pair is the current one. Packets with the ULIDs have no payload header and do not name the context: a
    /// peer that has lost it sends such packets, and its R1bis may be lost.
    ContextCheck,
}

/// State of the failback to the preferred pair.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Failback {
    /// The operator has chosen the current pair.
    pub(super) chosen_by_operator: bool,
    /// The current pair differs from the ULIDs.
    pub(super) failed_over: bool,
    /// Time of the last return to the ULIDs.
    pub(super) returned_at: Option<Time>,
    /// Consecutive early failures after a return.
    pub(super) consecutive_failures: u32,
}

impl SwitchAttempt {
    /// An attempt without probes.
    pub(super) fn new(now: Time, path: AddressPair, reason: SwitchReason) -> SwitchAttempt {
        SwitchAttempt { path, reason, since: now, sent_nonces: Vec::new(), reported_nonces: Vec::new() }
    }

    /// Records the peer's reports; returns whether they suffice for the switch.
    pub(super) fn record_reports(&mut self, received: &[ProbeRecord]) -> bool {
        for nonce in received.iter().map(|record| record.nonce) {
            if self.sent_nonces.contains(&nonce) && !self.reported_nonces.contains(&nonce) {
                self.reported_nonces.push(nonce);
            }
        }
        self.reported_nonces.len() >= if self.reason == SwitchReason::Failback { MIN_REPORTED_PROBES } else { 1 }
    }
}
