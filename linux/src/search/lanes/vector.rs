//! SHA-1 with a candidate in each lane of a vector (FIPS 180-4 §6.1.2), once for each kind of vector.

use crate::search::job::Stretch;

/// Calls a macro with each of twenty round numbers, so that every index is known when compiling.
macro_rules! twenty {
    ($step:ident, $phase:ident) => {
        twenty!($step, $phase, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
    };
    ($step:ident, $phase:ident, $($number:literal)*) => { $($step!($phase, $number);)* };
}

/// The search, in terms of the operations on vectors a module defines.
macro_rules! scan {
    ($(#[$feature:meta])*) => {
        /// The first of `count` words from `first` on that fits.
        $(#[$feature])*
        pub(in crate::search) fn scan(stretch: &Stretch, first: u32, count: u64) -> Option<u32> {
            let keyed: Vec<[u32; 80]> = stretch.after.iter().map(super::keyed).collect();
            let begin = stretch.before.map(|word| splat(word));
            let mut done = 0;
            while done < count {
                let start = first.wrapping_add(done as u32);
                let mut state = varying(begin, &stretch.block, stretch.word, counting(start));
                for words in &keyed {
                    state = constant(state, words);
                }
                let [head, ..] = state;
                if let Some(lane) = first_without(head, stretch.mask)
                    && u64::from(lane) < count - done
                {
                    return Some(start.wrapping_add(lane));
                }
                done += LANES;
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

        /// One block in which a word differs from lane to lane.
        $(#[$feature])*
        fn varying(before: [Vector; 5], block: &[u32; 16], word: usize, values: Vector) -> [Vector; 5] {
            let mut words = block.map(|word| splat(word));
            if let Some(varies) = words.get_mut(word) {
                *varies = values;
            }
            let [mut a, mut b, mut c, mut d, mut e] = before;
            macro_rules! step {
                ($phase:ident, $number:literal) => {{
                    const ROUND: usize = super::phase::$phase.0 + $number;
                    const KEY: u32 = super::phase::$phase.1;
                    if ROUND >= 16 {
                        let mixed = xor(
                            xor(words[ROUND % 16], words[(ROUND + 2) % 16]),
                            xor(words[(ROUND + 8) % 16], words[(ROUND + 13) % 16]),
                        );
                        words[ROUND % 16] = rotate::<1, 31>(mixed);
                    }
                    let keyed = add(words[ROUND % 16], splat(KEY));
                    let sum = add(add(e, keyed), add($phase(b, c, d), rotate::<5, 27>(a)));
                    (a, b, c, d, e) = (sum, a, rotate::<30, 2>(b), c, d);
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
pub(super) mod avx512 {
    //! Sixteen lanes; any function of three bits and any rotation is one instruction.
    use super::Stretch;
    use std::arch::x86_64::*;

    type Vector = __m512i;
    const LANES: u64 = 16;

    scan!(#[target_feature(enable = "avx512f")]);

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn splat(word: u32) -> Vector {
        _mm512_set1_epi32(word.cast_signed())
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn counting(first: u32) -> Vector {
        add(splat(first), _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0))
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn add(x: Vector, y: Vector) -> Vector {
        _mm512_add_epi32(x, y)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn xor(x: Vector, y: Vector) -> Vector {
        _mm512_xor_si512(x, y)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn rotate<const LEFT: i32, const RIGHT: u32>(x: Vector) -> Vector {
        _mm512_rol_epi32::<LEFT>(x)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn choose(b: Vector, c: Vector, d: Vector) -> Vector {
        _mm512_ternarylogic_epi32::<0xca>(b, c, d)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn parity(b: Vector, c: Vector, d: Vector) -> Vector {
        _mm512_ternarylogic_epi32::<0x96>(b, c, d)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn majority(b: Vector, c: Vector, d: Vector) -> Vector {
        _mm512_ternarylogic_epi32::<0xe8>(b, c, d)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn first_without(x: Vector, mask: u32) -> Option<u32> {
        let fit = _mm512_testn_epi32_mask(x, splat(mask));
        (fit != 0).then(|| fit.trailing_zeros())
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2 {
    //! Eight lanes.
    use super::Stretch;
    use std::arch::x86_64::*;

    type Vector = __m256i;
    const LANES: u64 = 8;

    scan!(#[target_feature(enable = "avx2")]);

    #[target_feature(enable = "avx2")]
    #[inline]
    fn splat(word: u32) -> Vector {
        _mm256_set1_epi32(word.cast_signed())
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn counting(first: u32) -> Vector {
        add(splat(first), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn add(x: Vector, y: Vector) -> Vector {
        _mm256_add_epi32(x, y)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn xor(x: Vector, y: Vector) -> Vector {
        _mm256_xor_si256(x, y)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn rotate<const LEFT: i32, const RIGHT: i32>(x: Vector) -> Vector {
        _mm256_or_si256(_mm256_slli_epi32::<LEFT>(x), _mm256_srli_epi32::<RIGHT>(x))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn choose(b: Vector, c: Vector, d: Vector) -> Vector {
        xor(d, _mm256_and_si256(b, xor(c, d)))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn parity(b: Vector, c: Vector, d: Vector) -> Vector {
        xor(xor(b, c), d)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn majority(b: Vector, c: Vector, d: Vector) -> Vector {
        _mm256_or_si256(_mm256_and_si256(b, c), _mm256_and_si256(d, _mm256_or_si256(b, c)))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn first_without(x: Vector, mask: u32) -> Option<u32> {
        let fit = _mm256_cmpeq_epi32(_mm256_and_si256(x, splat(mask)), _mm256_setzero_si256());
        let fit = _mm256_movemask_epi8(fit);
        (fit != 0).then(|| fit.trailing_zeros() / 4)
    }
}

pub(super) mod portable {
    //! Four lanes, which the compiler puts into whatever vectors there are.
    use super::Stretch;

    type Vector = [u32; 4];
    const LANES: u64 = 4;

    scan!(#[allow(clippy::redundant_closure)]);

    fn splat(word: u32) -> Vector {
        [word; 4]
    }

    fn counting(first: u32) -> Vector {
        [0, 1, 2, 3].map(|lane| first.wrapping_add(lane))
    }

    fn each(x: Vector, y: Vector, f: impl Fn(u32, u32) -> u32) -> Vector {
        let ([a, b, c, d], [e, g, h, i]) = (x, y);
        [f(a, e), f(b, g), f(c, h), f(d, i)]
    }

    fn add(x: Vector, y: Vector) -> Vector {
        each(x, y, u32::wrapping_add)
    }

    fn xor(x: Vector, y: Vector) -> Vector {
        each(x, y, |x, y| x ^ y)
    }

    fn and(x: Vector, y: Vector) -> Vector {
        each(x, y, |x, y| x & y)
    }

    fn rotate<const LEFT: u32, const RIGHT: u32>(x: Vector) -> Vector {
        x.map(|lane| lane.rotate_left(LEFT))
    }

    fn choose(b: Vector, c: Vector, d: Vector) -> Vector {
        xor(d, and(b, xor(c, d)))
    }

    fn parity(b: Vector, c: Vector, d: Vector) -> Vector {
        xor(xor(b, c), d)
    }

    fn majority(b: Vector, c: Vector, d: Vector) -> Vector {
        xor(and(b, c), and(d, xor(b, c)))
    }

    fn first_without(x: Vector, mask: u32) -> Option<u32> {
        x.iter().position(|lane| lane & mask == 0).and_then(|lane| u32::try_from(lane).ok())
    }
}
