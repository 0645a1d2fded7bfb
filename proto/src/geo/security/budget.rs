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
        let share = if known { self.rate / ONE_KNOWN } else { self.rate / NEWCOMERS / ONE_NEWCOMER }.max(1);
        let cost = Duration::from_secs(1) / share * signatures;
        let capacity = (Duration::from_secs(1) / BURST).max(cost);
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
