//! The journal of a simulated host: the records that survive a crash, and the unsynced tail that may be lost.

use roam6_proto::contract::item::{JournalKey, JournalRecord};
use roam6_proto::{Entropy, Time};
use std::collections::{BTreeMap, VecDeque};

/// Synced records, and the tail that is not yet synced.
#[derive(Debug, Default)]
pub struct Journal {
    synced: BTreeMap<JournalKey, JournalRecord>,
    tail: VecDeque<(Time, JournalLine)>,
}

#[derive(Debug)]
enum JournalLine {
    Put(JournalKey, Box<JournalRecord>),
    Drop(JournalKey),
}

impl Journal {
    /// Writes `record`, which is synced at `synced`.
    pub fn put(&mut self, key: JournalKey, record: JournalRecord, synced: Time) {
        self.tail.push_back((synced, JournalLine::Put(key, Box::new(record))));
    }

    /// Deletes the record of `key`, synced at `synced`.
    pub fn drop(&mut self, key: JournalKey, synced: Time) {
        self.tail.push_back((synced, JournalLine::Drop(key)));
    }

    /// The records that would survive a crash at `now`.
    pub fn synced(&mut self, now: Time) -> &BTreeMap<JournalKey, JournalRecord> {
        // A line is on disk once one after it is.
        let lines = self.tail.iter().rposition(|(at, _)| *at <= now).map_or(0, |last| last + 1);
        for _ in 0..lines {
            self.sync_one();
        }
        &self.synced
    }

    /// The host crashes: a random prefix of the unsynced tail survives.
    pub fn crash(&mut self, now: Time, entropy: &mut Entropy) {
        self.synced(now);
        let lines = u64::try_from(self.tail.len()).unwrap_or(0);
        for _ in 0..entropy.below(lines + 1) {
            self.sync_one();
        }
        self.tail.clear();
    }

    /// The records that the next instance reads.
    pub fn records(&self) -> Vec<JournalRecord> {
        self.synced.values().cloned().collect()
    }

    /// The disk is lost with all records.
    pub fn erase(&mut self) {
        self.synced.clear();
        self.tail.clear();
    }

    fn sync_one(&mut self) {
        match self.tail.pop_front() {
            Some((_, JournalLine::Put(key, record))) => {
                self.synced.insert(key, *record);
            }
            Some((_, JournalLine::Drop(key))) => {
                self.synced.remove(&key);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::contract::item::SequenceRecord;
    use roam6_wire::{HomeAddress, Sequence};
    use std::net::Ipv6Addr;

    #[test]
    fn a_crash_keeps_synced_records_and_a_prefix_of_the_tail() {
        let home_address = HomeAddress(Ipv6Addr::LOCALHOST);
        let key = JournalKey::Sequence(home_address);
        for seed in 0..20 {
            let mut journal = Journal::default();
            for number in 1..=4_u16 {
                let record = JournalRecord::Sequence(SequenceRecord { home_address, sequence: Sequence(number) });
                journal.put(key, record, Time::from_micros(u64::from(number)));
            }
            journal.crash(Time::from_micros(2), &mut Entropy::seed_from_u64(seed));
            let [JournalRecord::Sequence(left)] = &journal.records()[..] else { panic!("one record") };
            assert!((2..=4).contains(&left.sequence.0), "{left:?}");
        }
    }
}
