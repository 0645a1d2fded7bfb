//! The store: a linearizable map with a history of revisions, as etcd is one.

use roam6_proto::Time;
use roam6_proto::contract::fleet::{Commit, MemberRecord, Stored};
use roam6_proto::contract::item::{BindingRecord, FleetRecord, Revision, StoredBinding};
use roam6_wire::{HomeAddress, Prefix};
use std::collections::BTreeMap;

/// A change.
#[derive(Debug, Clone)]
pub enum Change {
    /// Of the record of a home address.
    Record(Stored),
    /// A heartbeat, and when it was written.
    Heartbeat(MemberRecord, Time),
}

/// The store.
#[derive(Debug, Default)]
pub struct SimStore {
    revision: u64,
    records: BTreeMap<HomeAddress, (Revision, Box<BindingRecord>)>,
    pool: BTreeMap<Prefix, HomeAddress>,
    history: BTreeMap<u64, Change>,
    /// Changes up to this revision are not in the history any more.
    compacted: u64,
}

impl SimStore {
    /// The last revision.
    pub fn head(&self) -> Revision {
        Revision(self.revision)
    }

    /// The record of a home address.
    pub fn record(&self, home: HomeAddress) -> Option<&BindingRecord> {
        self.records.get(&home).map(|(_, record)| record.as_ref())
    }

    /// All records.
    pub fn records(&self) -> impl Iterator<Item = Stored> + '_ {
        self.records.iter().map(|(home, (revision, record))| Stored {
            home_address: *home,
            revision: *revision,
            record: Some(record.clone()),
        })
    }

    /// Applies a change by compare-and-set.
    pub fn commit(&mut self, change: &FleetRecord) -> Commit {
        let home = change.home_address;
        let present = self.records.get(&home);
        if present.map_or(Revision(0), |(revision, _)| *revision) != change.expected {
            let (revision, record) = match present {
                Some((revision, record)) => (*revision, Some(record.clone())),
                None => (self.head(), None),
            };
            return Commit::Conflict(Stored { home_address: home, revision, record });
        }
        if let Some(taken) = change.claims.iter().find(|prefix| self.pool.get(prefix).is_some_and(|by| *by != home)) {
            return Commit::PrefixTaken(*taken);
        }
        for released in &change.releases {
            self.pool.remove(released);
        }
        self.pool.extend(change.claims.iter().map(|prefix| (*prefix, home)));
        let revision = self.append(Change::Record(Stored {
            home_address: home,
            revision: Revision(self.revision + 1),
            record: change.record.clone(),
        }));
        match &change.record {
            Some(record) => drop(self.records.insert(home, (revision, record.clone()))),
            None => drop(self.records.remove(&home)),
        }
        Commit::Kept(revision)
    }

    /// Writes a heartbeat.
    pub fn beat(&mut self, record: MemberRecord, written: Time) -> Revision {
        self.append(Change::Heartbeat(record, written))
    }

    fn append(&mut self, change: Change) -> Revision {
        self.revision += 1;
        self.history.insert(self.revision, change);
        Revision(self.revision)
    }

    /// Forgets the history.
    pub fn compact(&mut self) {
        self.compacted = self.revision;
        self.history.clear();
    }

    /// The changes after `from`, up to `to`; `None` if some of them are forgotten.
    pub fn changes(&self, from: Revision, to: Revision) -> Option<Vec<(Revision, Change)>> {
        let known = from.0 >= self.compacted;
        let range = self.history.range(from.0.saturating_add(1)..=to.0.max(from.0.saturating_add(1)));
        known.then(|| range.map(|(revision, change)| (Revision(*revision), change.clone())).collect())
    }

    /// The prefixes of the pool with their holders.
    pub fn pool(&self) -> impl Iterator<Item = (&Prefix, &HomeAddress)> {
        self.pool.iter()
    }
}

/// A record as it comes back from the octets of the store.
pub fn through_octets(record: &BindingRecord) -> Option<BindingRecord> {
    let by = roam6_proto::contract::item::fleet::Author { member: "sim".to_owned(), boot: 0, number: 0 };
    let value = StoredBinding { by, binding: record.clone() }.to_value();
    StoredBinding::parse(record.home_address, &value).ok().map(|stored| stored.binding)
}
