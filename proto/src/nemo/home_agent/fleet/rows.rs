//! The prefix table of a member: the rows of its file, and those of the store, which all members have. Of two rows of one home
//! address that of the store counts. Changes take effect a few times a second.

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
    /// The rows of the file, once the store has had rows.
    own: Option<Arc<PrefixTable>>,
    /// The rows of the store.
    shared: BTreeMap<HomeAddress, Box<PrefixTableRow>>,
    merge_at: Option<Time>,
    /// The rows that a snapshot has named so far.
    named: Option<BTreeSet<HomeAddress>>,
}

impl SharedRows {
    pub(super) fn put(&mut self, now: Time, row: &PrefixTableRow) {
        if let Some(named) = &mut self.named {
            named.insert(row.home_address);
        }
        self.shared.insert(row.home_address, Box::new(row.clone()));
        self.merge_at.get_or_insert(now + MERGE_INTERVAL);
    }

    pub(super) fn remove(&mut self, now: Time, home: HomeAddress) {
        if self.shared.remove(&home).is_some() {
            self.merge_at.get_or_insert(now + MERGE_INTERVAL);
        }
    }

    pub(super) fn begin_snapshot(&mut self) {
        self.named = Some(BTreeSet::new());
    }

    pub(super) fn end_snapshot(&mut self, now: Time) {
        let named = self.named.take().unwrap_or_default();
        let known = self.shared.len();
        self.shared.retain(|home, _| named.contains(home));
        if self.shared.len() < known {
            self.merge_at.get_or_insert(now);
        }
    }

    /// When changes take effect.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.merge_at
    }

    /// The table of all rows; `present` is the table in force.
    fn merge(&mut self, present: &Arc<PrefixTable>) -> PrefixTable {
        self.merge_at = None;
        let own = self.own.get_or_insert_with(|| present.clone());
        let shared = self.shared.values().map(|row| (row.home_address, (**row).clone()));
        let rows = own.rows.iter().map(|row| (row.home_address, row.clone())).chain(shared);
        let rows: BTreeMap<HomeAddress, PrefixTableRow> = rows.collect();
        PrefixTable { rows: rows.into_values().collect() }
    }
}

impl HomeAgent {
    /// The table in force if the file has these rows.
    pub(in super::super) fn with_shared_rows(&mut self, table: &Arc<PrefixTable>) -> Arc<PrefixTable> {
        let rows = self.fleet.as_mut().map(|fleet| &mut fleet.rows).filter(|rows| rows.own.is_some());
        rows.map_or_else(
            || table.clone(),
            |rows| {
                rows.own = Some(table.clone());
                Arc::new(rows.merge(table))
            },
        )
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
