//! Used sequence numbers, which outlive their bindings: ESP with manual keys has no replay protection, so only the
//! sequence number of the update inside provides it (RFC 3776 §3, §5.1; RFC 4877 §4.3).

use super::HomeAgent;
use crate::contract::config::nemo::Authentication;
use crate::contract::item::{JournalKey, JournalRecord, SequenceRecord};
use crate::{Item, Key, Outbox};
use roam6_wire::{HomeAddress, Sequence};
use std::collections::BTreeMap;

/// The last sequence number of each home address with ESP; at most as many as the prefix table has rows.
#[derive(Debug, Default)]
pub(super) struct UsedSequences(BTreeMap<HomeAddress, Sequence>);

impl HomeAgent {
    /// The last accepted sequence number of `home`; `None` if any is acceptable.
    pub(super) fn last_sequence(&self, home: HomeAddress) -> Option<Sequence> {
        let bound = self.bindings.get(&home).map(|binding| binding.sequence);
        bound.or_else(|| self.used_sequences.0.get(&home).copied())
    }

    /// Records, in the journal too, that sequence numbers up to `sequence` are used, if nothing else does.
    pub(super) fn record_sequence(&mut self, home: HomeAddress, sequence: Sequence, out: &mut Outbox) {
        // That of a fleet is in the store, which keeps it.
        #[cfg(feature = "fleet")]
        if self.fleet.is_some() {
            return;
        }
        if self.keeps_used_sequence(home) && self.used_sequences.0.insert(home, sequence) != Some(sequence) {
            self.put_own(
                Item::JournalRecord(JournalRecord::Sequence(SequenceRecord { home_address: home, sequence })),
                out,
            );
        }
    }

    /// Restores a record of the journal. One for a home address of another home network may belong to a mobile router
    /// on the same host.
    pub(super) fn restore_used_sequence(&mut self, record: &SequenceRecord, out: &mut Outbox) {
        let home = record.home_address;
        if self.keeps_used_sequence(home) {
            self.used_sequences.0.insert(home, record.sequence);
        } else if self.config.home_prefixes.iter().any(|prefix| prefix.contains(home.0)) {
            out.drop(Key::JournalRecord(JournalKey::Sequence(home)));
        }
    }

    /// Removes records of home addresses that the prefix table no longer protects by ESP.
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
