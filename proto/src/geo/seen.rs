//! Which packets of one source were received before: EN 302 636-4-1 annex A, with a longer memory. The standard's eight
//! numbers are too few where a source sends more than eight packets within the time that a contention takes.

/// Numbers remembered behind the highest.
pub const MEMORY: u16 = 256;

/// The packets of one source.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The highest number, in the order of a count that wraps; `None` before the first.
    highest: Option<u16>,
    /// Bit n says whether the number n below the highest was seen.
    bits: [u64; MEMORY as usize / 64],
}

impl Seen {
    /// Whether this is the first time of `number`, which from now on has been seen. A number beyond memory counts as
    /// seen, unless what came with it is `recent`: then the source has begun anew.
    pub fn put(&mut self, number: u16, recent: bool) -> bool {
        let Some(highest) = self.highest else { return self.begin(number) };
        let ahead = number.wrapping_sub(highest);
        let behind = highest.wrapping_sub(number);
        if behind < MEMORY {
            return self.mark(behind);
        }
        if ahead <= i16::MAX.unsigned_abs() {
            self.shift(ahead);
            self.highest = Some(number);
            return self.mark(0);
        }
        recent && self.begin(number)
    }

    fn begin(&mut self, number: u16) -> bool {
        *self = Seen { highest: Some(number), ..Seen::default() };
        self.mark(0)
    }

    fn mark(&mut self, behind: u16) -> bool {
        let Some(word) = self.bits.get_mut(usize::from(behind / 64)) else { return false };
        let bit = 1 << (behind % 64);
        let first = *word & bit == 0;
        *word |= bit;
        first
    }

    /// Moves all bits `count` further behind.
    fn shift(&mut self, count: u16) {
        let (words, bits) = (usize::from(count / 64), u32::from(count % 64));
        let old = self.bits;
        let at = |index: Option<usize>| index.and_then(|index| old.get(index)).copied().unwrap_or(0);
        for (index, word) in self.bits.iter_mut().enumerate() {
            let from = index.checked_sub(words);
            let carried = at(from.and_then(|from| from.checked_sub(1))).checked_shr(64 - bits).unwrap_or(0);
            *word = at(from) << bits | carried;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::Entropy;
    use std::collections::BTreeSet;

    #[test]
    fn each_number_is_new_once_in_any_order() {
        let mut entropy = Entropy::from_number(7);
        let (mut seen, mut reference) = (Seen::default(), BTreeSet::new());
        let mut base: u16 = 65_000;
        for _ in 0..5_000 {
            base = base.wrapping_add(u16::try_from(entropy.below(3)).unwrap());
            let number = base.wrapping_sub(u16::try_from(entropy.below(100)).unwrap());
            assert_eq!(seen.put(number, false), reference.insert(number), "{number}");
        }
    }

    #[test]
    fn what_is_beyond_memory_is_old_unless_its_source_has_begun_anew() {
        let mut seen = Seen::default();
        assert!(seen.put(5_000, false) && seen.put(5_000 + 300, false));
        assert!(!seen.put(5_000, false) && !seen.put(5_000 + 300, true));
        assert!(seen.put(5_000 + 301 - MEMORY, false));
        assert!(seen.put(0, true) && !seen.put(0, true));
    }
}
