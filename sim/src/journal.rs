//! The journal of a simulated host: what outlives a crash, and what of its unsynced tail does.

use roam6_proto::contract::item::{Record, RecordKey};
use roam6_proto::{Entropy, Time};
use std::collections::{BTreeMap, VecDeque};

/// Records on disk, and those on their way to it.
#[derive(Debug, Default)]
pub struct Journal {
    synced: BTreeMap<RecordKey, Record>,
    tail: VecDeque<(Time, Line)>,
}

#[derive(Debug)]
enum Line {
    Put(RecordKey, Record),
    Drop(RecordKey),
}

impl Journal {
    /// Writes `record`, which is on disk by `synced`.
    pub fn put(&mut self, key: RecordKey, record: Record, synced: Time) {
        self.tail.push_back((synced, Line::Put(key, record)));
    }

    /// Strikes out the record of `key`, on disk by `synced`.
    pub fn drop(&mut self, key: RecordKey, synced: Time) {
        self.tail.push_back((synced, Line::Drop(key)));
    }

    /// What a crash now would surely leave.
    pub fn synced(&mut self, now: Time) -> &BTreeMap<RecordKey, Record> {
        // A line is on disk once one after it is.
        let lines = self.tail.iter().rposition(|(at, _)| *at <= now).map_or(0, |last| last + 1);
        for _ in 0..lines {
            self.sync_one();
        }
        &self.synced
    }

    /// The host crashes: of the tail some first lines, as chance will, are on disk after all.
    pub fn crash(&mut self, now: Time, chance: &mut Entropy) {
        self.synced(now);
        let lines = u64::try_from(self.tail.len()).unwrap_or(0);
        for _ in 0..chance.below(lines + 1) {
            self.sync_one();
        }
        self.tail.clear();
    }

    /// What the next life is told.
    pub fn recall(&self) -> Vec<Record> {
        self.synced.values().cloned().collect()
    }

    /// The disk is lost, and all on it.
    pub fn lose(&mut self) {
        self.synced.clear();
        self.tail.clear();
    }

    fn sync_one(&mut self) {
        match self.tail.pop_front() {
            Some((_, Line::Put(key, record))) => {
                self.synced.insert(key, record);
            }
            Some((_, Line::Drop(key))) => {
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
    fn a_crash_leaves_a_first_part_of_the_tail_and_all_before_it() {
        let home_address = HomeAddress(Ipv6Addr::LOCALHOST);
        let key = RecordKey::Sequence(home_address);
        for seed in 0..20 {
            let mut journal = Journal::default();
            for number in 1..=4_u16 {
                let record = Record::Sequence(SequenceRecord { home_address, sequence: Sequence(number) });
                journal.put(key, record, Time::from_micros(u64::from(number)));
            }
            journal.crash(Time::from_micros(2), &mut Entropy::from_number(seed));
            let [Record::Sequence(left)] = &journal.recall()[..] else { panic!("one record") };
            assert!((2..=4).contains(&left.sequence.0), "{left:?}");
        }
    }
}
