//! SHA-1 with a candidate in each lane of a vector (FIPS 180-4 §6.1.2), once for each kind of vector. Each round needs the
//! one before it, so two vectors go side by side wherever one would leave the processor waiting.

use super::schedules::{Schedules, share};
use crate::stretch::Stretch;

/// Calls a macro with each of twenty round numbers, so that every index is known when compiling.
macro_rules! twenty {
    ($step:ident, $phase:ident) => {
        twenty!($step, $phase, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
    };
    ($step:ident, $phase:ident, $($number:literal)*) => { $($step!($phase, $number);)* };
}

/// Functions for processors that have a feature.
macro_rules! with_feature {
    ($feature:literal; $($function:item)*) => { $(#[target_feature(enable = $feature)] #[inline] $function)* };
}

/// The state after the rounds before the word that varies: all of the first kind, for a block has sixteen words.
fn head(stretch: &Stretch) -> [u32; 5] {
    stretch.block.iter().take(stretch.word).fold(stretch.before, |[a, b, c, d, e], word| {
        let keyed = word.wrapping_add(phase::choose.1).wrapping_add(e);
        [keyed.wrapping_add(d ^ b & (c ^ d)).wrapping_add(a.rotate_left(5)), a, b.rotate_left(30), c, d]
    })
}

/// The search, in terms of the operations on vectors a module defines.
macro_rules! scan {
    ($(#[$feature:meta])*) => {
        /// The first of `count` words from `first` on that fits.
        $(#[$feature])*
        pub(crate) fn scan(stretch: &Stretch, first: u32, count: u64) -> Option<u32> {
            let keyed: Vec<[u32; 80]> = stretch.after.iter().map(super::keyed).collect();
            let before = stretch.before.map(|word| splat(word));
            let head = super::head(stretch).map(|word| splat(word));
            let each: [[u32; 80]; LANES as usize] = std::array::from_fn(|lane| super::share(stretch.word, lane as u32));
            let shares: [Vector; 80] = std::array::from_fn(|round| gather(each.each_ref().map(|lane| lane.get(round).copied().unwrap_or_default())));
            let mut schedules = super::Schedules::new(stretch, LANES);
            let (first, end) = (u64::from(first), u64::from(first) + count);
            let mut start = first - first % LANES;
            while start < end {
                let mut state = varying(before, (stretch.word, head), schedules.row(start, LANES)?, &shares);
                for words in &keyed {
                    state = constant(state, words);
                }
                let [head, ..] = state;
                let fit = without(head, stretch.mask);
                if fit != 0 {
                    let wanted = |lane: &u64| fit >> lane & 1 == 1 && (first..end).contains(&(start + lane));
                    if let Some(lane) = (0..LANES).find(wanted) {
                        return Some((start + lane) as u32);
                    }
                }
                start += LANES;
            }
            None
        }

        /// One block that is the same in all lanes.
        $(#[$feature])*
        fn constant(before: [Vector; 5], keyed: &[u32; 80]) -> [Vector; 5] {
            let [mut a, mut b, mut c, mut d, mut e] = before;
            macro_rules! step {
                ($phase:ident, $number:literal) => {{
                    const ROUND: usize = super::phase::$phase.0 + $number;
                    let sum = add(add(e, splat(keyed[ROUND])), add($phase(b, c, d), rotate::<5, 27>(a)));
                    (a, b, c, d, e) = (sum, a, rotate::<30, 2>(b), c, d);
                }};
            }
            twenty!(step, choose);
            twenty!(step, parity);
            twenty!(step, majority);
            twenty!(step, parity_again);
            super::sum(before, [a, b, c, d, e], |x, y| add(x, y))
        }

        /// One block in which a word differs from lane to lane: the rounds from that word's on.
        $(#[$feature])*
        fn varying(
            before: [Vector; 5],
            (word, head): (usize, [Vector; 5]),
            row: &[u32; 80],
            shares: &[Vector; 80],
        ) -> [Vector; 5] {
            let [mut a, mut b, mut c, mut d, mut e] = head;
            macro_rules! step {
                ($phase:ident, $number:literal) => {{
                    const ROUND: usize = super::phase::$phase.0 + $number;
                    const KEY: u32 = super::phase::$phase.1;
                    if ROUND >= 16 || ROUND >= word {
                        let keyed = add(xor(splat(row[ROUND]), shares[ROUND]), splat(KEY));
                        let sum = add(add(e, keyed), add($phase(b, c, d), rotate::<5, 27>(a)));
                        (a, b, c, d, e) = (sum, a, rotate::<30, 2>(b), c, d);
                    }
                }};
            }
            twenty!(step, choose);
            twenty!(step, parity);
            twenty!(step, majority);
            twenty!(step, parity_again);
            super::sum(before, [a, b, c, d, e], |x, y| add(x, y))
        }

        $(#[$feature])*
        #[inline]
        fn parity_again(b: Vector, c: Vector, d: Vector) -> Vector {
            parity(b, c, d)
        }
    };
}

/// First round and constant of each function, under the name of the function.
#[expect(non_upper_case_globals, reason = "named as the function is")]
mod phase {
    pub(super) const choose: (usize, u32) = (0, 0x5a82_7999);
    pub(super) const parity: (usize, u32) = (20, 0x6ed9_eba1);
    pub(super) const majority: (usize, u32) = (40, 0x8f1b_bcdc);
    pub(super) const parity_again: (usize, u32) = (60, 0xca62_c1d6);
}

/// The words of a block with the constants of their rounds added.
fn keyed(words: &[u32; 80]) -> [u32; 80] {
    let mut keyed = *words;
    let keys = [phase::choose.1, phase::parity.1, phase::majority.1, phase::parity_again.1];
    for (part, key) in keyed.as_chunks_mut::<20>().0.iter_mut().zip(keys) {
        for word in part {
            *word = word.wrapping_add(key);
        }
    }
    keyed
}

/// The state before a block and what its rounds made of it, added.
#[inline(always)]
fn sum<V>(before: [V; 5], rounds: [V; 5], add: impl Fn(V, V) -> V) -> [V; 5] {
    let [a, b, c, d, e] = before;
    let [f, g, h, i, j] = rounds;
    [add(a, f), add(b, g), add(c, h), add(d, i), add(e, j)]
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
pub(super) mod portable;
