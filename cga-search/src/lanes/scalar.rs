//! One candidate after the other, by the crate `sha1` (FIPS 180-4 §6.1.2): for processors without vectors, on which the code of
//! `vector.rs` would be four times as long as all else of the search.

use crate::job::compress;
use crate::stretch::Stretch;

/// The first of `count` words from `first` on that fits.
pub(crate) fn scan(stretch: &Stretch, first: u32, count: u64) -> Option<u32> {
    // The words of a block are the first sixteen of its schedule.
    let after: Vec<[u32; 16]> = stretch.after.iter().filter_map(|schedule| schedule.first_chunk().copied()).collect();
    let mut block = stretch.block;
    let last = u64::from(first) + count;
    let mut words = (u64::from(first)..last).map_while(|word| u32::try_from(word).ok());
    words.find(|word| {
        if let Some(varying) = block.get_mut(stretch.word) {
            *varying = *word;
        }
        let mut state = stretch.before;
        compress(&mut state, &block);
        for block in &after {
            compress(&mut state, block);
        }
        let [head, ..] = state;
        head & stretch.mask == 0
    })
}

#[cfg(all(test, any(target_arch = "aarch64", target_arch = "x86_64")))]
mod tests {
    use super::*;
    use crate::lanes::vector::portable;
    use crate::stretch::schedule;

    #[test]
    fn scalar_search_finds_what_lanes_find() {
        let block: [u32; 16] = std::array::from_fn(|index| 0x9e37_79b9_u32.wrapping_mul(index as u32 + 1));
        for (word, blocks) in [(0, 0), (3, 1), (15, 2)] {
            let mut varying = block;
            varying[word] = 0;
            let after = (0..blocks).map(|_| schedule(&block)).collect();
            let stretch = Stretch { before: [1, 2, 3, 4, 5], block: varying, word, after, mask: 0xff00_0000 };
            let mut hits = 0;
            let mut first = u32::MAX - 4000;
            while let Some(hit) = scan(&stretch, first, u64::from(u32::MAX - first) + 1) {
                assert_eq!(portable::scan(&stretch, first, u64::from(u32::MAX - first) + 1), Some(hit), "word {word}");
                hits += 1;
                let Some(next) = hit.checked_add(1) else { break };
                first = next;
            }
            assert!(hits > 2, "word {word}: {hits}");
        }
    }
}
