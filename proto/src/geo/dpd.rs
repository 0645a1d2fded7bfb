//! Duplicate packet detection: EN 302 636-4-1 annex A, with a larger memory. The standard compares sequence numbers
//! alone and remembers eight: too few for a source that sends more than eight packets within a contention timeout, and
//! wrong after a restart, when a source counts from its first number again. A copy has the source position vector of
//! the original, so sequence number and timestamp together distinguish copies from new packets.

use roam6_wire::geo::Timestamp;

/// Packets remembered for each source, at most.
pub const MAX_SLOTS: usize = 256;
/// Slots allocated at first.
const INITIAL_SLOTS: usize = 16;

/// The packets received from one source.
#[derive(Debug, Clone, Default)]
pub struct DuplicatePacketDetector {
    /// Indexed by sequence number modulo the number of slots, which is 0 or a power of two.
    slots: Vec<Slot>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Timestamp of the source position vector.
    time: Timestamp,
    number: u16,
    used: bool,
    /// Its hop limit ended here.
    hop_limit_reached: bool,
}

impl Slot {
    const FREE: Slot = Slot { time: Timestamp(0), number: 0, used: false, hop_limit_reached: false };

    /// Whether a packet was sent after the one in this slot.
    fn is_before(&self, number: u16, time: Timestamp) -> bool {
        let ahead = number.wrapping_sub(self.number);
        time.is_newer_than(self.time) || (time == self.time && (1..=i16::MAX.unsigned_abs()).contains(&ahead))
    }
}

impl DuplicatePacketDetector {
    /// Records a packet by its sequence number and the timestamp of its source position vector; `true` if it is new. A
    /// packet older than the one in its slot counts as a duplicate, unless its position vector is the `latest` of the
    /// source: then the source has set its clock back.
    pub fn insert(&mut self, number: u16, time: Timestamp, latest: bool) -> bool {
        if self.slots.is_empty() {
            self.slots = vec![Slot::FREE; INITIAL_SLOTS];
        }
        loop {
            let count = self.slots.len();
            let Some(slot) = self.slots.get_mut(usize::from(number) % count) else { return false };
            if slot.used && slot.number == number && slot.time == time {
                return false;
            }
            if slot.used && slot.number != number && count < MAX_SLOTS {
                self.grow();
                continue;
            }
            let is_new = !slot.used || slot.is_before(number, time) || latest;
            if is_new {
                *slot = Slot { time, number, used: true, hop_limit_reached: false };
            }
            return is_new;
        }
    }

    /// Notes that the hop limit of a recorded packet ended here, so that it was not forwarded.
    pub fn set_hop_limit_reached(&mut self, number: u16, time: Timestamp) {
        if let Some(slot) = self.slot_mut(number, time) {
            slot.hop_limit_reached = true;
        }
    }

    /// Whether the hop limit of the first copy ended here; `false` from then on. Somebody may have sent that copy with a
    /// low hop limit, so that the packet is not forwarded: the first copy with a higher one is.
    pub fn take_hop_limit_reached(&mut self, number: u16, time: Timestamp) -> bool {
        self.slot_mut(number, time).is_some_and(|slot| std::mem::take(&mut slot.hop_limit_reached))
    }

    fn slot_mut(&mut self, number: u16, time: Timestamp) -> Option<&mut Slot> {
        let count = self.slots.len().max(1);
        let slot = self.slots.get_mut(usize::from(number) % count)?;
        (slot.used && slot.number == number && slot.time == time).then_some(slot)
    }

    /// Doubles the number of slots. Numbers in different slots stay in different slots.
    fn grow(&mut self) {
        let count = self.slots.len() * 2;
        let old = std::mem::replace(&mut self.slots, vec![Slot::FREE; count]);
        for slot in old.into_iter().filter(|slot| slot.used) {
            if let Some(place) = self.slots.get_mut(usize::from(slot.number) % count) {
                *place = slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Entropy;
    use std::collections::BTreeSet;

    #[test]
    fn each_sequence_number_is_accepted_once_in_any_order() {
        let mut entropy = Entropy::seed_from_u64(7);
        let (mut seen, mut reference) = (DuplicatePacketDetector::default(), BTreeSet::new());
        let mut base: u16 = 65_000;
        for _ in 0..5_000 {
            base = base.wrapping_add(u16::try_from(entropy.below(3)).unwrap());
            let number = base.wrapping_sub(u16::try_from(entropy.below(100)).unwrap());
            // All copies of a packet have the same timestamp.
            let time = Timestamp(u32::from(number.wrapping_sub(60_000)));
            assert_eq!(seen.insert(number, time, false), reference.insert(number), "{number}");
        }
        assert_eq!(seen.slots.len(), MAX_SLOTS);
    }

    #[test]
    fn a_packet_older_than_its_slot_is_a_duplicate_unless_clock_reset() {
        let mut seen = DuplicatePacketDetector::default();
        let time = |number: u16| Timestamp(1_000_000 + u32::from(number));
        for number in 0..600 {
            assert!(seen.insert(number, time(number), true));
        }
        assert!((0..600).all(|number| !seen.insert(number, time(number), false)));
        assert!(seen.insert(5, Timestamp(10), true) && !seen.insert(5, Timestamp(10), true));
    }

    #[test]
    fn sequence_numbers_reused_with_a_later_timestamp_are_new() {
        let mut seen = DuplicatePacketDetector::default();
        for run in 0..5 {
            for number in 0..60 {
                let time = Timestamp(run * 1_000 + u32::from(number));
                assert!(seen.insert(number, time, true), "run {run}: {number}");
                assert!(!seen.insert(number, time, true));
            }
        }
    }

    #[test]
    fn packets_of_one_timestamp_differ_by_sequence_number() {
        let mut seen = DuplicatePacketDetector::default();
        assert!((0..1_000).all(|number| seen.insert(number, Timestamp(7), true)));
        assert!(!seen.insert(999, Timestamp(7), true));
    }
}
