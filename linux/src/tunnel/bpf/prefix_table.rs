//! The prefix entries of the tunnels: in the hash table, which is authoritative, and in the slots, where programs find
//! most far prefixes with one memory access.
//!
//! Programs keep running if the daemon dies between two writes, and after a restart stale entries are removed by the
//! keys of the hash table. So a slot never outlives its key: it is written after it, and emptied before it.

use super::abi::prefix_slot::{EMPTY, SlotPrefix, SlotValue};
use super::abi::{PrefixEntryValue, PrefixKey, decode_prefix_entry};
use crate::bpf::entries::Entries;
use crate::{Error, error::Context};
use aya::maps::{Array, Map, MapData};
use roam6_proto::contract::item::TunnelId;

/// The hash table and the slots.
pub(crate) struct PrefixTable {
    pub(super) table: Entries<PrefixKey, PrefixEntryValue>,
    pub(super) slots: Array<MapData, SlotValue>,
    slot_mask: u32,
}

impl PrefixTable {
    pub(crate) fn new(table: Entries<PrefixKey, PrefixEntryValue>, slots: Map) -> Result<PrefixTable, Error> {
        // Not the size this daemon would choose: the map may be an earlier one's.
        let made = if let Map::Array(data) = &slots { data.info().context("map slots")?.max_entries() } else { 0 };
        let slots = Array::try_from(slots).context("map slots")?;
        Ok(PrefixTable { table, slots, slot_mask: made.saturating_sub(1) })
    }

    /// Number of slots less one.
    pub(crate) fn slot_mask(&self) -> u32 {
        self.slot_mask
    }

    /// Sets the entry of a prefix. Another prefix with the same slot loses it, and is found by the hash table alone.
    ///
    /// # Errors
    /// The kernel's, as when the map is full.
    pub(crate) fn put(&mut self, key: &PrefixKey, way: &PrefixEntryValue) -> Result<(), Error> {
        self.table.put(key, way)?;
        SlotPrefix::of(key).map_or(Ok(()), |prefix| self.write_slot(prefix, prefix.slot(way)))
    }

    /// Removes a prefix, which need not exist.
    pub(crate) fn drop(&mut self, key: &PrefixKey) -> Result<(), Error> {
        if let Some(prefix) = SlotPrefix::of(key) {
            let slot = self.slots.get(&prefix.index(self.slot_mask), 0).context("map slots")?;
            if prefix.is_in(&slot) {
                self.write_slot(prefix, EMPTY)?;
            }
        }
        self.table.drop(key)
    }

    /// The tunnel of a prefix.
    pub(crate) fn tunnel(&self, key: &PrefixKey) -> Option<TunnelId> {
        self.table.find(key).map(|value| decode_prefix_entry(&value))
    }

    /// Removes a prefix if its entry is that of tunnel `id`: another tunnel may have taken it over.
    pub(crate) fn drop_if_of(&mut self, key: &PrefixKey, id: TunnelId) -> Result<(), Error> {
        if self.tunnel(key) == Some(id) { self.drop(key) } else { Ok(()) }
    }

    /// All prefixes.
    pub(crate) fn keys(&self) -> Result<Vec<PrefixKey>, Error> {
        self.table.keys()
    }

    pub(super) fn write_slot(&mut self, prefix: SlotPrefix, slot: SlotValue) -> Result<(), Error> {
        self.slots.set(prefix.index(self.slot_mask), slot, 0).context("map slots")
    }
}
