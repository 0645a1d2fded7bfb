//! What the host was asked to hold, so that only differences are asked for: new items before a packet that needs them
//! leaves, stale ones dropped after.

use crate::base::few;
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use crate::contract::input::Outcome;
use crate::contract::item::{Key, Plan};
use crate::contract::report::Report;
use core::time::Duration;

/// A refused item is asked for again after this long.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The items asked for, and those the host refused.
#[derive(Debug, Default, Clone)]
pub struct DesiredState {
    plan: Plan,
    rejected: few::VecMap<Key, Time>,
    /// Items whose outcome has not been heard, and how many of each.
    waiting: few::VecMap<Key, u32>,
}

impl DesiredState {
    /// Asks for what `desired` has and the host has not, in building order.
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

    /// Drops what `desired` has no longer, in the reverse of building order.
    pub fn drop_stale(&mut self, desired: &Plan, out: &mut Outbox) {
        let stale: Vec<Key> = self.plan.iter().rev().map(|(key, _)| key.clone()).collect();
        for key in stale.into_iter().filter(|key| desired.find(key).is_none()) {
            self.plan.drop(&key);
            self.rejected.remove(&key);
            out.drop(key);
        }
    }

    /// Hears what became of a `Put`.
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
                out.report(Report::ItemRefused { key: outcome.key.clone(), why: why.clone() });
            }
        }
    }

    /// Whether the host is known to hold the item of `key` as it was last asked for.
    pub fn is_installed(&self, key: &Key) -> bool {
        self.plan.find(key).is_some() && !self.rejected.contains_key(key) && !self.waiting.contains_key(key)
    }

    /// When a refused item is asked for again.
    pub fn deadline(&self) -> Option<Time> {
        self.rejected.values().min().copied()
    }
}
