//! Where prefixes lead: the hash table, which is the truth, and the slots, where programs find most far prefixes at once.
//!
//! The programs go on while the daemon dies between two writes, and the next life sweeps what it finds by the keys of the hash
//! table. So a slot never outlives its key: it is written after it, and emptied before it.

use crate::bpf::abi::slot::{EMPTY, Numbered, SlotValue};
use crate::bpf::abi::{PrefixKey, WayValue, decode_way};
use crate::bpf::maps::Entries;
use crate::{Error, error::Context};
use aya::maps::{Array, Map, MapData};
use roam6_proto::contract::item::TunnelId;

/// See the file's head.
pub(crate) struct Ways {
    table: Entries<PrefixKey, WayValue>,
    slots: Array<MapData, SlotValue>,
    mask: u32,
}

impl Ways {
    pub(crate) fn new(table: Entries<PrefixKey, WayValue>, slots: Map) -> Result<Ways, Error> {
        // Not what this life would make: the map may be an earlier one's.
        let made = if let Map::Array(data) = &slots { data.info().context("map slots")?.max_entries() } else { 0 };
        let slots = Array::try_from(slots).context("map slots")?;
        Ok(Ways { table, slots, mask: made.saturating_sub(1) })
    }

    /// Number of slots less one.
    pub(crate) fn mask(&self) -> u32 {
        self.mask
    }

    /// Lets a prefix lead there. What another prefix has in its slot is lost, and found by the hash table alone.
    pub(crate) fn put(&mut self, key: &PrefixKey, way: &WayValue) -> Result<(), Error> {
        self.table.put(key, way)?;
        Numbered::of(key).map_or(Ok(()), |prefix| self.set(prefix, prefix.slot(way)))
    }

    /// Removes a prefix, which need not be there.
    pub(crate) fn drop(&mut self, key: &PrefixKey) -> Result<(), Error> {
        if let Some(prefix) = Numbered::of(key) {
            let slot = self.slots.get(&prefix.place(self.mask), 0).context("map slots")?;
            if prefix.is_in(&slot) {
                self.set(prefix, EMPTY)?;
            }
        }
        self.table.drop(key)
    }

    /// The tunnel that a prefix leads to.
    pub(crate) fn tunnel(&self, key: &PrefixKey) -> Option<TunnelId> {
        self.table.find(key).map(|value| decode_way(&value))
    }

    /// Removes a prefix if it leads to `id`: another tunnel may have taken it over.
    pub(crate) fn drop_of(&mut self, key: &PrefixKey, id: TunnelId) -> Result<(), Error> {
        if self.tunnel(key) == Some(id) { self.drop(key) } else { Ok(()) }
    }

    /// All prefixes.
    pub(crate) fn keys(&self) -> Result<Vec<PrefixKey>, Error> {
        self.table.keys()
    }

    /// The hash table, as a life that ends between two writes leaves it.
    #[cfg(test)]
    pub(crate) fn table(&mut self) -> &mut Entries<PrefixKey, WayValue> {
        &mut self.table
    }

    /// What is in the slot of a prefix.
    #[cfg(test)]
    pub(crate) fn slot(&self, prefix: Numbered) -> SlotValue {
        self.slots.get(&prefix.place(self.mask), 0).expect("a slot")
    }

    /// Writes the slot of a prefix.
    #[cfg(test)]
    pub(crate) fn set_slot(&mut self, prefix: Numbered, slot: SlotValue) {
        self.set(prefix, slot).expect("a slot");
    }

    fn set(&mut self, prefix: Numbered, slot: SlotValue) -> Result<(), Error> {
        self.slots.set(prefix.place(self.mask), slot, 0).context("map slots")
    }
}
