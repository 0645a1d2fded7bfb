//! What a role wants on the host, against what the host has confirmed: only differences are put, and a refused item is
//! put again after an interval.

use crate::base::ids::PutId;
use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use crate::contract::engine::Outbox;
use crate::contract::input::Outcome;
use crate::contract::item::{Item, Key, Plan};
use crate::contract::output::Put;
use crate::contract::report::HostReport;
use std::collections::BTreeMap;

/// The items that a role has put, and the `Put`s without an outcome so far. `T` is what waits for the outcome of an item
/// that is put once, without being part of the desired state.
#[derive(Debug, Clone)]
pub struct DesiredState<T = ()> {
    /// Number of the last `Put`.
    last: u64,
    items: Plan,
    /// Those of `items` that the host has not confirmed.
    unconfirmed: VecMap<Key, PutState>,
    /// By number of the `Put`.
    waiting: BTreeMap<u64, T>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PutState {
    /// The outcome of the `Put` of this number is outstanding.
    Pending(u64),
    Refused {
        retry_at: Time,
    },
}

impl<T> Default for DesiredState<T> {
    fn default() -> DesiredState<T> {
        DesiredState { last: 0, items: Plan::new(), unconfirmed: VecMap::new(), waiting: BTreeMap::new() }
    }
}

impl<T> DesiredState<T> {
    fn send(&mut self, item: Item, out: &mut Outbox) -> u64 {
        self.last += 1;
        out.put(Put { item, id: PutId { number: self.last, ..PutId::default() } });
        self.last
    }

    /// Puts an item that is not part of the desired state: it is neither compared, nor put again, nor dropped here.
    /// [`DesiredState::receive_outcome`] returns `waiting`.
    pub fn put_once(&mut self, item: Item, waiting: T, out: &mut Outbox) {
        let number = self.send(item, out);
        self.waiting.insert(number, waiting);
    }

    /// Adds `item` to the desired state. It is put if it differs from the one put last, or if that one was refused and is
    /// due again.
    pub fn put(&mut self, now: Time, item: &Item, out: &mut Outbox) {
        let key = item.key();
        if self.items.find(&key) != Some(item) || self.is_due(now, &key) {
            self.items.put(item.clone());
            let number = self.send(item.clone(), out);
            self.unconfirmed.insert(key, PutState::Pending(number));
        }
    }

    /// Removes the item of `key` from the desired state, and drops it if it was part of it.
    pub fn drop(&mut self, key: &Key, out: &mut Outbox) {
        if self.items.drop(key).is_some() {
            self.unconfirmed.remove(key);
            out.drop(key.clone());
        }
    }

    /// Puts what `desired` has and the host lacks, in order of dependence.
    pub fn put_missing(&mut self, now: Time, desired: &Plan, out: &mut Outbox) {
        desired.iter().for_each(|(_, item)| self.put(now, item, out));
    }

    /// Puts the refused items that are due again.
    pub fn retry_refused(&mut self, now: Time, out: &mut Outbox) {
        let due: Vec<Key> = self.unconfirmed.keys().filter(|key| self.is_due(now, key)).cloned().collect();
        for item in due.iter().filter_map(|key| self.items.find(key).cloned()).collect::<Vec<_>>() {
            self.put(now, &item, out);
        }
    }

    /// Drops the items whose keys are not to be kept, in the reverse order of dependence.
    pub fn retain(&mut self, keep: impl Fn(&Key) -> bool, out: &mut Outbox) {
        let stale: Vec<Key> = self.items.iter().rev().map(|(key, _)| key).filter(|key| !keep(key)).cloned().collect();
        stale.iter().for_each(|key| self.drop(key, out));
    }

    /// Processes the outcome of a `Put` and reports a refusal; a refused item of the desired state is due again at
    /// `retry_at`. Returns what waits for the outcome. The outcome of a `Put` that a later one or a drop has superseded is
    /// ignored.
    pub fn receive_outcome(&mut self, outcome: &Outcome, retry_at: Time, out: &mut Outbox) -> Option<T> {
        let waiting = self.waiting.remove(&outcome.id.number);
        let pending = self.unconfirmed.get(&outcome.key) == Some(&PutState::Pending(outcome.id.number));
        if let Some(why) = outcome.error.as_ref().filter(|_| pending || waiting.is_some()) {
            out.report(HostReport::ItemRefused { key: outcome.key.clone(), why: why.clone() });
        }
        match &outcome.error {
            None if pending => drop(self.unconfirmed.remove(&outcome.key)),
            Some(_) if pending => drop(self.unconfirmed.insert(outcome.key.clone(), PutState::Refused { retry_at })),
            _ => {}
        }
        waiting
    }

    fn is_due(&self, now: Time, key: &Key) -> bool {
        matches!(self.unconfirmed.get(key), Some(PutState::Refused { retry_at }) if *retry_at <= now)
    }

    /// Whether an item of `key` is desired.
    pub fn contains(&self, key: &Key) -> bool {
        self.items.find(key).is_some()
    }

    /// Whether the host has confirmed the item of `key` as it was put last.
    pub fn is_installed(&self, key: &Key) -> bool {
        self.contains(key) && !self.unconfirmed.contains_key(key)
    }

    /// Whether the host has refused the item of `key`.
    pub fn is_refused(&self, key: &Key) -> bool {
        matches!(self.unconfirmed.get(key), Some(PutState::Refused { .. }))
    }

    /// Number of outcomes awaited of items that were put once.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When a refused item is put again.
    pub fn deadline(&self) -> Option<Time> {
        let refused = self.unconfirmed.values().filter_map(|state| match state {
            PutState::Refused { retry_at } => Some(*retry_at),
            PutState::Pending(_) => None,
        });
        refused.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::LinkId;
    use crate::contract::item::{Sysctl, SysctlSetting};
    use crate::contract::output::Output;
    use crate::contract::report::Report;

    const RETRY_AT: Time = Time::from_micros(100);

    fn item(link: u32, value: i32) -> Item {
        Item::Sysctl(SysctlSetting { link: Some(LinkId(link)), sysctl: Sysctl::Forwarding, value })
    }

    fn plan(items: &[Item]) -> Plan {
        let mut plan = Plan::new();
        items.iter().for_each(|item| drop(plan.put(item.clone())));
        plan
    }

    fn puts(out: &mut Outbox) -> Vec<Put> {
        out.drain().filter_map(|output| if let Output::Put(put) = output { Some(put) } else { None }).collect()
    }

    fn refused() -> Option<String> {
        Some("no".to_owned())
    }

    #[test]
    fn only_differences_are_put_and_dropped() {
        let (mut state, mut out) = (DesiredState::<()>::default(), Outbox::new());
        state.put_missing(Time::ZERO, &plan(&[item(1, 1), item(2, 1)]), &mut out);
        assert_eq!(puts(&mut out).len(), 2);
        let next = plan(&[item(2, 0), item(3, 1)]);
        state.put_missing(Time::ZERO, &next, &mut out);
        assert_eq!(puts(&mut out).into_iter().map(|put| put.item).collect::<Vec<_>>(), [item(2, 0), item(3, 1)]);
        state.retain(|key| next.find(key).is_some(), &mut out);
        assert_eq!(out.outputs(), [Output::Drop(item(1, 1).key())]);
    }

    #[test]
    fn a_refused_item_is_put_again_once_it_is_due() {
        let (mut state, mut out) = (DesiredState::<()>::default(), Outbox::new());
        state.put(Time::ZERO, &item(1, 1), &mut out);
        let first = puts(&mut out).remove(0);
        state.receive_outcome(&first.outcome(refused()), RETRY_AT, &mut out);
        assert!(matches!(out.drain().next(), Some(Output::Report(Report::Host(HostReport::ItemRefused { .. })))));
        assert!(state.is_refused(&item(1, 1).key()) && state.deadline() == Some(RETRY_AT));
        state.put(Time::ZERO, &item(1, 1), &mut out);
        state.retry_refused(Time::ZERO, &mut out);
        assert!(out.is_empty(), "not due");
        state.retry_refused(RETRY_AT, &mut out);
        let second = puts(&mut out).remove(0);
        assert!(first.id != second.id && state.deadline().is_none() && !state.is_installed(&item(1, 1).key()));
        state.receive_outcome(&second.outcome(None), RETRY_AT, &mut out);
        assert!(state.is_installed(&item(1, 1).key()) && out.is_empty());
    }

    #[test]
    fn the_outcome_of_a_superseded_put_is_ignored() {
        let (mut state, mut out) = (DesiredState::<()>::default(), Outbox::new());
        state.put(Time::ZERO, &item(1, 1), &mut out);
        state.put(Time::ZERO, &item(1, 0), &mut out);
        let puts = puts(&mut out);
        state.receive_outcome(&puts[0].outcome(refused()), RETRY_AT, &mut out);
        state.receive_outcome(&puts[0].outcome(None), RETRY_AT, &mut out);
        assert!(out.is_empty() && !state.is_refused(&item(1, 0).key()) && !state.is_installed(&item(1, 0).key()));
        state.drop(&item(1, 0).key(), &mut out);
        out.drain().for_each(drop);
        state.receive_outcome(&puts[1].outcome(refused()), RETRY_AT, &mut out);
        assert!(out.is_empty() && state.deadline().is_none());
    }

    #[test]
    fn an_item_put_once_returns_what_waits_for_its_own_outcome() {
        let (mut state, mut out) = (DesiredState::default(), Outbox::new());
        state.put_once(item(1, 1), "first", &mut out);
        state.put_once(item(1, 1), "second", &mut out);
        let puts = puts(&mut out);
        assert_eq!(state.receive_outcome(&puts[1].outcome(None), RETRY_AT, &mut out), Some("second"));
        assert_eq!(state.receive_outcome(&puts[1].outcome(None), RETRY_AT, &mut out), None);
        assert_eq!(state.receive_outcome(&Put::from(item(1, 1)).outcome(refused()), RETRY_AT, &mut out), None);
        assert!(out.is_empty() && state.waiting() == 1 && !state.contains(&item(1, 1).key()));
        assert_eq!(state.receive_outcome(&puts[0].outcome(refused()), RETRY_AT, &mut out), Some("first"));
        assert_eq!(out.outputs().len(), 1);
    }
}
