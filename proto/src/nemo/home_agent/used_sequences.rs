//! Sequence numbers that outlive their bindings: ESP with keys set by hand does not know an old packet from a new one, so
//! that only the number of the update in it does (RFC 3776 §3, §5.1; RFC 4877 §4.3).

use super::HomeAgent;
use crate::contract::config::nemo::Authentication;
use crate::contract::engine::Outbox;
use crate::contract::item::{Item, JournalKey, JournalRecord, Key, SequenceRecord};
use roam6_wire::{HomeAddress, Sequence};
use std::collections::BTreeMap;

/// The last number of home addresses that ESP protects; never more than the prefix table has rows.
#[derive(Debug, Default)]
pub(super) struct UsedSequences(BTreeMap<HomeAddress, Sequence>);

impl HomeAgent {
    /// The last number accepted of `home`; `None` if an update may have any.
    pub(super) fn last_sequence(&self, home: HomeAddress) -> Option<Sequence> {
        let bound = self.bindings.get(&home).map(|binding| binding.sequence);
        bound.or_else(|| self.used_sequences.0.get(&home).copied())
    }

    /// Notes, in the journal too, that numbers up to `sequence` have been used, if nothing else would remember.
    pub(super) fn record_sequence(&mut self, home: HomeAddress, sequence: Sequence, out: &mut Outbox) {
        if self.keeps_used_sequence(home) && self.used_sequences.0.insert(home, sequence) != Some(sequence) {
            self.put_own(
                Item::JournalRecord(JournalRecord::Sequence(SequenceRecord { home_address: home, sequence })),
                out,
            );
        }
    }

    /// Takes what the journal has of an earlier life. A number of a home address that is not ours may be of a mobile
    /// router on the same host.
    pub(super) fn restore_used_sequence(&mut self, record: &SequenceRecord, out: &mut Outbox) {
        let home = record.home_address;
        if self.keeps_used_sequence(home) {
            self.used_sequences.0.insert(home, record.sequence);
        } else if self.config.home_prefixes.iter().any(|prefix| prefix.contains(home.0)) {
            out.drop(Key::JournalRecord(JournalKey::Sequence(home)));
        }
    }

    /// Forgets those that the prefix table no longer says are protected by ESP.
    pub(super) fn forget_used_sequences(&mut self, out: &mut Outbox) {
        let gone: Vec<HomeAddress> =
            self.used_sequences.0.keys().copied().filter(|home| !self.keeps_used_sequence(*home)).collect();
        for home in gone {
            self.used_sequences.0.remove(&home);
            out.drop(Key::JournalRecord(JournalKey::Sequence(home)));
        }
    }

    fn keeps_used_sequence(&self, home: HomeAddress) -> bool {
        self.prefix_table_row(home).is_some_and(|row| matches!(row.authentication, Authentication::Ipsec(_)))
    }
}
