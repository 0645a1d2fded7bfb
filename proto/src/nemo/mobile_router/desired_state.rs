//! The desired state of the host, of which only differences are put: new items before a packet that needs them is
//! sent, stale ones dropped after.

use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use crate::contract::engine::Outbox;
use crate::contract::input::Outcome;
use crate::contract::item::{Key, Plan};
use crate::contract::report::{HostReport, Report};
use core::time::Duration;

/// Interval after which a rejected item is put again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The items put, and those the host rejected.
#[derive(Debug, Default, Clone)]
pub struct DesiredState {
    plan: Plan,
    rejected: VecMap<Key, Time>,
    /// Items without an outcome so far, and the number of their `Put`s.
    waiting: VecMap<Key, u32>,
}

impl DesiredState {
    /// Puts what `desired` has and the host lacks, in order of dependence.
    pub fn put_missing(&mut self, now: Time, desired: &Plan, out: &mut Outbox) {
        for (key, item) in desired.iter() {
            let due = self.rejected.get(key).is_some_and(|at| *at <= now);
            if self.plan.find(key) != Some(item) || due {
                self.rejected.remove(key);
                self.plan.put(item.clone());
                *self.waiting.entry(key.clone()).or_default() += 1;
                out.put(item.clone());
            }
        }
    }

    /// Drops what `desired` no longer has, in the reverse order.
    pub fn drop_stale(&mut self, desired: &Plan, out: &mut Outbox) {
        let stale: Vec<Key> = self.plan.iter().rev().map(|(key, _)| key.clone()).collect();
        for key in stale.into_iter().filter(|key| desired.find(key).is_none()) {
            self.plan.drop(&key);
            self.rejected.remove(&key);
            out.drop(key);
        }
    }

    /// Processes the outcome of a `Put`.
    pub fn receive_outcome(&mut self, now: Time, outcome: &Outcome, out: &mut Outbox) {
        if let Some(count) = self.waiting.get_mut(&outcome.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.waiting.remove(&outcome.key);
            }
        }
        if self.plan.find(&outcome.key).is_none() {
            return;
        }
        match &outcome.error {
            None => {
                self.rejected.remove(&outcome.key);
            }
            Some(why) => {
                self.rejected.insert(outcome.key.clone(), now + RETRY_INTERVAL);
                out.report(Report::Host(HostReport::ItemRefused { key: outcome.key.clone(), why: why.clone() }));
            }
        }
    }

    /// Whether the host has confirmed the item of `key` as it was put last.
    pub fn is_installed(&self, key: &Key) -> bool {
        self.plan.find(key).is_some() && !self.rejected.contains_key(key) && !self.waiting.contains_key(key)
    }

    /// When a rejected item is put again.
    pub fn deadline(&self) -> Option<Time> {
        self.rejected.values().min().copied()
    }
}
