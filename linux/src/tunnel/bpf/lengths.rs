//! The prefix lengths in use, which the programs look up one after the other.

use super::Bpf;
use super::abi::{LENGTHS, PrefixLength, Side};
use crate::error::Error;
use roam6_proto::base::vec_map::VecMap;
use roam6_wire::Prefix;

/// How many prefixes have a length, and the network that covers them: it only grows, until [`crate::tunnel::Tunnels::remove_stale`].
pub(super) struct LengthUse {
    pub(super) count: usize,
    pub(super) cover: Prefix,
}

impl Bpf {
    /// Writes the set of prefix length tables that is not in use, and then makes it valid: no packet sees an incomplete
    /// table.
    pub(super) fn publish_lengths(&mut self) -> Result<(), Error> {
        let most = self.lengths.iter().map(VecMap::len).max().unwrap_or_default();
        if most > LENGTHS {
            return Err(Error::new("prefix lengths in use", format_args!("{most}, at most {LENGTHS}")));
        }
        self.settings.length_set ^= 1;
        for (side, lengths) in Side::ALL.into_iter().zip(&self.lengths) {
            let length = |(&bits, used): (&u8, &LengthUse)| PrefixLength { bits, cover: used.cover };
            let longest_first: Vec<PrefixLength> = lengths.iter().rev().map(length).collect();
            self.maps.set_lengths(self.settings.length_set, side, &longest_first)?;
        }
        let [.., bypass] = &self.lengths;
        self.settings.has_bypass = !bypass.is_empty();
        self.maps.set_settings(self.settings)
    }

    pub(super) fn length_use(&mut self, side: Side) -> &mut VecMap<u8, LengthUse> {
        let [far, near, bypass] = &mut self.lengths;
        match side {
            Side::Far => far,
            Side::Near => near,
            Side::Bypass => bypass,
        }
    }
}

/// Counts a prefix of its length; true if the tables must change.
pub(super) fn use_length(lengths: &mut VecMap<u8, LengthUse>, prefix: Prefix) -> bool {
    let used = lengths.entry(prefix.length()).or_insert(LengthUse { count: 0, cover: prefix });
    let cover = common_cover(used.cover, prefix);
    let changed = used.count == 0 || cover != used.cover;
    *used = LengthUse { count: used.count + 1, cover };
    changed
}

/// Uncounts a prefix of its length; true if the tables must change.
pub(super) fn release_length(lengths: &mut VecMap<u8, LengthUse>, prefix: Prefix) -> bool {
    let Some(used) = lengths.get_mut(&prefix.length()) else { return false };
    used.count -= 1;
    let was_last = used.count == 0;
    if was_last {
        lengths.remove(&prefix.length());
    }
    was_last
}

/// The smallest network that covers both.
pub(super) fn common_cover(one: Prefix, other: Prefix) -> Prefix {
    let alike = (one.address().to_bits() ^ other.address().to_bits()).leading_zeros() as u8;
    Prefix::new(one.address(), alike.min(one.length()).min(other.length())).unwrap_or(Prefix::ALL)
}
