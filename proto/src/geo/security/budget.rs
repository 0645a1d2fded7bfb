//! How many signatures are verified. A station that was verified lately has most of it, so that a sender of forged packets
//! does not prevent the verification of its packets; newcomers have a tenth. No sender has all of its part: neither one that
//! sends forged packets, nor one whose address and certificate somebody else uses.

use crate::base::time::Time;
use crate::base::token_bucket::{BucketLevel, TokenBucket};
use core::time::Duration;
use roam6_wire::LinkAddress;
use std::collections::BTreeMap;

/// Senders with a budget of their own, at most.
pub(super) const MAX_SENDERS: usize = 1024;
/// How long a sender counts as known after a verified packet.
const KNOWN: Duration = Duration::from_secs(5);
/// The share of newcomers: 1/n.
const NEWCOMERS: u32 = 10;
/// The share of one known sender: 1/n; and the share of one newcomer of the newcomers' part.
const ONE_KNOWN: u32 = 2;
const ONE_NEWCOMER: u32 = 10;
/// Seconds whose budget may be used at once: 1/n.
const BURST: u32 = 10;

/// What is known of the signer of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SenderKind {
    /// Its certificate was verified.
    Known,
    /// It was not.
    Unknown,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sender {
    verified: Option<Time>,
    level: BucketLevel,
}

impl Sender {
    fn is_known(&self, now: Time) -> bool {
        self.verified.is_some_and(|at| now.since(at) < KNOWN)
    }
}

/// The budget of a station.
#[derive(Debug)]
pub(super) struct Budget {
    rate: u32,
    all: TokenBucket,
    newcomers: TokenBucket,
    senders: BTreeMap<LinkAddress, Sender>,
}

impl Budget {
    /// A budget of `rate` signatures a second.
    pub(super) fn new(rate: u32) -> Budget {
        let bucket = |rate: u32| TokenBucket::new((rate / BURST).max(2), Duration::from_secs(1) / rate.max(1));
        let rate = rate.max(NEWCOMERS * ONE_NEWCOMER);
        let (all, newcomers) = (bucket(rate), bucket(rate / NEWCOMERS));
        Budget { rate, all, newcomers, senders: BTreeMap::new() }
    }

    /// Takes the budget for one signature of a frame of this link-layer source, which costs as much as so many with NIST P-256;
    /// whether there was any.
    pub(super) fn take(&mut self, now: Time, source: LinkAddress, (kind, signatures): (SenderKind, u32)) -> bool {
        if !self.senders.contains_key(&source) && self.senders.len() >= MAX_SENDERS {
            self.forget(now);
        }
        let has_room = self.senders.len() < MAX_SENDERS;
        let known = self.senders.get(&source).is_some_and(|sender| sender.is_known(now)) && kind == SenderKind::Known;
        let (cost, capacity) = self.share(known, signatures);
        let sender = match has_room {
            true => Some(self.senders.entry(source).or_default()),
            // Without a budget of its own it has a part of that of all newcomers.
            false => self.senders.get_mut(&source),
        };
        if let Some(sender) = sender
            && !sender.level.take(now, cost, capacity)
        {
            return false;
        }
        (known || self.newcomers.take_many(now, signatures)) && self.all.take_many(now, signatures)
    }

    /// Whether [`Budget::take`] would refuse any frame from this link-layer source at `now`, irrespective of the signer.
    pub(super) fn is_exhausted(&self, now: Time, source: LinkAddress) -> bool {
        let sender = self.senders.get(&source);
        let known = sender.is_some_and(|sender| sender.is_known(now));
        let (cost, capacity) = self.share(known, 1);
        let has_own = sender.is_none_or(|sender| sender.level.has(now, cost, capacity));
        !has_own || !self.all.has(now) || !(known || self.newcomers.has(now))
    }

    /// The cost of a number of signatures to the budget of one sender, and the capacity of that budget.
    fn share(&self, known: bool, signatures: u32) -> (Duration, Duration) {
        let share = if known { self.rate / ONE_KNOWN } else { self.rate / NEWCOMERS / ONE_NEWCOMER }.max(1);
        let cost = Duration::from_secs(1) / share * signatures;
        (cost, (Duration::from_secs(1) / BURST).max(cost))
    }

    /// A packet of this link-layer source was verified.
    pub(super) fn note_verified(&mut self, now: Time, source: LinkAddress) {
        if let Some(sender) = self.senders.get_mut(&source) {
            sender.verified = Some(now);
        }
    }

    /// Forgets senders that were not verified lately; their budget would be full again within a second.
    fn forget(&mut self, now: Time) {
        self.senders.retain(|_, sender| sender.is_known(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Entropy;

    /// An exhausted budget accepts no frame; one that is not exhausted accepts the frames of a known sender.
    #[test]
    fn an_exhausted_budget_refuses_every_frame() {
        let mut budget = Budget::new(1000);
        let mut entropy = Entropy::seed_from_u64(7);
        let (mut now, mut refused, mut taken) = (Time::ZERO, 0, 0);
        for _ in 0..100_000 {
            now = now + Duration::from_micros(entropy.below(500));
            let source = LinkAddress([2, 0, 0, 0, 0, entropy.below(20) as u8]);
            let kind = if entropy.below(2) == 0 { SenderKind::Known } else { SenderKind::Unknown };
            let is_exhausted = budget.is_exhausted(now, source);
            let is_taken = budget.take(now, source, (kind, 1));
            assert!(!(is_exhausted && is_taken));
            if kind == SenderKind::Known && !is_exhausted {
                assert!(is_taken);
            }
            (refused, taken) = (refused + u32::from(is_exhausted), taken + u32::from(is_taken));
            if is_taken && source.0[5] < 5 {
                budget.note_verified(now, source);
            }
        }
        assert!(refused > 5_000 && taken > 5_000, "{refused} refused, {taken} taken");
    }
}
