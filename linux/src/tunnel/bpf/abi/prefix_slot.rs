//! The slot of a far prefix, which the programs read without a hash table lookup: `struct prefix_slot`.

use super::{PrefixEntryValue, PrefixKey, Side, decode_prefix_key};
use crate::bpf::layout::{Reader, layout};
use roam6_wire::Prefix;

pub(crate) type SlotValue = [u8; 64];
/// An empty slot.
pub(crate) const EMPTY: SlotValue = [0; 64];
/// Longest prefix that has a slot.
const MAX_LENGTH: u8 = 64;

/// The number of slots for so many tunnels: each has its own if their prefixes are consecutive.
pub(crate) fn slot_count(tunnels: u32) -> u32 {
    tunnels.checked_next_power_of_two().unwrap_or(1 << (u32::BITS - 1))
}

/// A prefix that has a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotPrefix {
    length: u8,
    network: u64,
}

impl SlotPrefix {
    /// The prefix of a key, if it has a slot.
    pub(crate) fn of(key: &PrefixKey) -> Option<SlotPrefix> {
        let (side, prefix) = decode_prefix_key(key)?;
        let bits = prefix.length();
        let has_slot = side == Side::Far && (1..=MAX_LENGTH).contains(&bits);
        has_slot.then(|| SlotPrefix { length: bits, network: network_bits(prefix) })
    }

    /// The index of its slot.
    pub(crate) fn index(self, mask: u32) -> u32 {
        self.network as u32 & mask
    }

    /// The value of its slot.
    pub(crate) fn slot(self, way: &PrefixEntryValue) -> SlotValue {
        layout(|out| {
            out.extend(self.network.to_ne_bytes());
            out.extend(u32::from(self.length).to_ne_bytes());
            out.extend(self.checksum(way).unwrap_or_default().to_ne_bytes());
            out.extend(way);
        })
    }

    /// Whether a slot has this prefix.
    pub(crate) fn is_in(self, slot: &SlotValue) -> bool {
        let mut reader = Reader(slot);
        reader.u64() == Some(self.network) && reader.u32() == Some(self.length.into())
    }

    /// The checksum over what the daemon writes: a program that reads a slot while it is written gets a mix with
    /// another checksum.
    fn checksum(self, entry: &[u8]) -> Option<u32> {
        let mut reader = Reader(entry);
        let (tunnel, _version) = (reader.u32()?, reader.u32()?);
        let (mtu, [whole, local], _link) = (reader.u16()?, reader.take()?, reader.u32()?);
        let (high, low) = (reader.u64()?, reader.u64()?);
        let parameters = u32::from(mtu) | u32::from(whole) << 16 | u32::from(local) << 24;
        let first = u64::from(parameters) << 32 | u64::from(tunnel);
        let products = [
            self.network.wrapping_mul(0xa076_1d64_78bd_642f),
            first.wrapping_mul(0xe703_7ed1_a0b4_28db),
            high.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            low.wrapping_mul(0xbf58_476d_1ce4_e5b9),
        ];
        Some(finish_hash(products.into_iter().fold(self.length.into(), u64::wrapping_add)))
    }
}

/// The network bits of a prefix as a number.
fn network_bits(prefix: Prefix) -> u64 {
    (prefix.address().to_bits() >> (128 - u32::from(prefix.length()))) as u64
}

fn finish_hash(sum: u64) -> u32 {
    ((sum ^ sum >> 32).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel::bpf::abi::prefix_key;

    fn slot_prefix(side: Side, prefix: &str) -> Option<SlotPrefix> {
        SlotPrefix::of(&prefix_key(side, prefix.parse().unwrap()))
    }

    #[test]
    fn consecutive_prefixes_have_distinct_slots() {
        let places = ["2001:db8:f:ffff::/64", "2001:db8:10::/64", "2001:db8:10:1::/64", "2001:db8:10:ff00::/56"];
        let places = places.map(|prefix| slot_prefix(Side::Far, prefix).unwrap().index(0xff));
        assert_eq!(places, [0xff, 0, 1, 0xff]);
        assert_eq!([0, 1, 64, 100_064].map(slot_count), [1, 1, 64, 131_072]);
        assert_eq!(slot_count(u32::MAX), 1 << 31);
    }

    #[test]
    fn only_far_prefixes_of_1_to_64_bits_have_a_slot() {
        assert!(slot_prefix(Side::Far, "8000::/1").is_some());
        for other in ["::/0", "2001:db8::/65", "2001:db8::1/128"] {
            assert_eq!(slot_prefix(Side::Far, other), None, "{other}");
        }
        assert_eq!(slot_prefix(Side::Near, "2001:db8::/64"), None);
        assert_eq!(slot_prefix(Side::Bypass, "2001:db8::/64"), None);
    }

    #[test]
    fn slot_belongs_to_one_prefix() {
        let [here, shorter, other] = ["2001:db8::/64", "2001:db8::/63", "2001:db8:0:1::/64"]
            .map(|prefix| slot_prefix(Side::Far, prefix).unwrap());
        let slot = here.slot(&[7; 48]);
        assert!(here.is_in(&slot) && !shorter.is_in(&slot) && !other.is_in(&slot) && !here.is_in(&EMPTY));
        assert_eq!(slot[16..], [7; 48]);
    }

    #[test]
    fn slot_checksum_covers_all_but_the_resolved_route() {
        let here = slot_prefix(Side::Far, "2001:db8::/64").unwrap();
        let seal = |way: &PrefixEntryValue| here.checksum(way).unwrap();
        let learnt = (4..8).chain(12..16).chain(32..48).collect::<Vec<_>>();
        for octet in 0..48 {
            let mut way = [0; 48];
            way[octet] = 1;
            assert_eq!(seal(&way) == seal(&[0; 48]), learnt.contains(&octet), "octet {octet}");
        }
    }
}
