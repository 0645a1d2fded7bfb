//! Rows of the prefix table that the store has: changes are merged into the table a few times a second.

use super::super::HomeAgent;
use crate::contract::config::nemo::{PrefixTable, PrefixTableRow};
use crate::{Outbox, Time};
use core::time::Duration;
use roam6_wire::HomeAddress;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Time between a change and its effect, in which more may come.
const MERGE_INTERVAL: Duration = Duration::from_millis(100);

/// Changes of rows.
#[derive(Debug, Default)]
pub(super) struct SharedRows {
    /// The store has had rows: it has the table, and no file.
    in_use: bool,
    changed: BTreeMap<HomeAddress, Option<Box<PrefixTableRow>>>,
    merge_at: Option<Time>,
    /// The rows that a snapshot has named so far.
    named: Option<BTreeSet<HomeAddress>>,
    /// Rows that the last snapshot has not named are gone.
    keep_only: Option<BTreeSet<HomeAddress>>,
}

impl SharedRows {
    pub(super) fn put(&mut self, now: Time, row: &PrefixTableRow) {
        if let Some(named) = &mut self.named {
            named.insert(row.home_address);
        }
        self.in_use = true;
        self.changed.insert(row.home_address, Some(Box::new(row.clone())));
        self.merge_at.get_or_insert(now + MERGE_INTERVAL);
    }

    pub(super) fn remove(&mut self, now: Time, home: HomeAddress) {
        self.changed.insert(home, None);
        self.merge_at.get_or_insert(now + MERGE_INTERVAL);
    }

    pub(super) fn begin_snapshot(&mut self) {
        self.named = Some(BTreeSet::new());
    }

    pub(super) fn end_snapshot(&mut self, now: Time) {
        self.keep_only = self.named.take().filter(|_| self.in_use);
        if self.keep_only.is_some() {
            self.merge_at.get_or_insert(now);
        }
    }

    /// When changes take effect.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.merge_at
    }

    /// The table after the changes.
    fn merge(&mut self, table: &PrefixTable) -> PrefixTable {
        self.merge_at = None;
        let rows = table.rows.iter().map(|row| (row.home_address, row.clone()));
        let mut rows: BTreeMap<HomeAddress, PrefixTableRow> = rows.collect();
        if let Some(keep) = self.keep_only.take() {
            rows.retain(|home, _| keep.contains(home));
        }
        for (home, row) in core::mem::take(&mut self.changed) {
            match row {
                Some(row) => drop(rows.insert(home, *row)),
                None => drop(rows.remove(&home)),
            }
        }
        PrefixTable { rows: rows.into_values().collect() }
    }
}

impl HomeAgent {
    /// Whether the store has the prefix table.
    pub(in super::super) fn has_shared_rows(&self) -> bool {
        self.fleet.as_ref().is_some_and(|fleet| fleet.rows.in_use)
    }

    pub(super) fn merge_rows_if_due(&mut self, now: Time, out: &mut Outbox) {
        if self.fleet.as_ref().and_then(|fleet| fleet.rows.deadline()).is_some_and(|at| at <= now) {
            self.merge_rows(now, out);
        }
    }

    /// Merges the changes into the prefix table; bindings that it does not authorise end.
    pub(super) fn merge_rows(&mut self, now: Time, out: &mut Outbox) {
        let Some(fleet) = self.fleet.as_mut().filter(|fleet| fleet.rows.merge_at.is_some()) else { return };
        let table = Arc::new(fleet.rows.merge(&self.config.prefix_table));
        self.reload_prefix_table(now, table, out);
        self.adopt_unserved(now, out);
    }
}
