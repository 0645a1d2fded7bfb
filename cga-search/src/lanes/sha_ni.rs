//! SHA-1 by the processor's own instructions, two candidates side by side so that neither waits for the other.

use crate::stretch::Stretch;
use std::arch::x86_64::*;

/// State of one candidate: the first four words, the first of them on top; and the fifth, on top too.
type State = (__m128i, __m128i);
/// Four words of a message, the first on top.
type Words = __m128i;

/// The first of `count` words from `first` on that fits.
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
pub(crate) fn scan(stretch: &Stretch, first: u32, count: u64) -> Option<u32> {
    let [a, b, c, d, e] = stretch.before;
    let begin: State = (four([a, b, c, d]), four([e, 0, 0, 0]));
    let after: Vec<[Words; 20]> = stretch.after.iter().map(|words| quarters(words)).collect();
    let mut done = 0;
    while done < count {
        let start = first.wrapping_add(done as u32);
        let blocks = [start, start.wrapping_add(1)].map(|value| {
            let mut block = stretch.block;
            if let Some(varies) = block.get_mut(stretch.word) {
                *varies = value;
            }
            quarters::<16, 4>(&block)
        });
        let mut states = varying(begin, blocks);
        for words in &after {
            states = constant(states, words);
        }
        let [one, two] = states.map(|(words, _)| _mm_extract_epi32::<3>(words).cast_unsigned() & stretch.mask == 0);
        if one || (two && count - done > 1) {
            return Some(if one { start } else { start.wrapping_add(1) });
        }
        done += 2;
    }
    None
}

/// For each number four rounds of both candidates; the state behind them, and what it was before.
macro_rules! four_rounds {
    ($function:literal, $states:ident, $former:ident, $words:ident: $($number:literal)+) => { $({
        let [words0, words1] = $words!($number);
        let [operand0, operand1] = [_mm_sha1nexte_epu32($former[0], words0), _mm_sha1nexte_epu32($former[1], words1)];
        $former = $states;
        $states = [
            _mm_sha1rnds4_epu32::<$function>($states[0], operand0),
            _mm_sha1rnds4_epu32::<$function>($states[1], operand1),
        ];
    })+ };
}

/// All rounds of both candidates: `$words` for the first four words, then for each further number.
macro_rules! rounds {
    ($before:ident, $words:ident) => {{
        let mut former = $before.map(|(words, _)| words);
        let [first, second] = $words!(0);
        let [(a, e), (b, f)] = $before;
        let mut states = [
            _mm_sha1rnds4_epu32::<0>(a, _mm_add_epi32(e, first)),
            _mm_sha1rnds4_epu32::<0>(b, _mm_add_epi32(f, second)),
        ];
        four_rounds!(0, states, former, $words: 1 2 3 4);
        four_rounds!(1, states, former, $words: 5 6 7 8 9);
        four_rounds!(2, states, former, $words: 10 11 12 13 14);
        four_rounds!(3, states, former, $words: 15 16 17 18 19);
        [
            (_mm_add_epi32(states[0], a), _mm_sha1nexte_epu32(former[0], e)),
            (_mm_add_epi32(states[1], b), _mm_sha1nexte_epu32(former[1], f)),
        ]
    }};
}

/// One block that is the same for both.
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn constant(before: [State; 2], words: &[Words; 20]) -> [State; 2] {
    macro_rules! same {
        ($number:literal) => {
            [words[$number]; 2]
        };
    }
    rounds!(before, same)
}

/// One block that is another for each.
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn varying(begin: State, blocks: [[Words; 4]; 2]) -> [State; 2] {
    let before = [begin; 2];
    let [mut one, mut two] = blocks;
    macro_rules! own {
        ($number:literal) => {{
            if $number >= 4 {
                one[$number % 4] = next(one, $number);
                two[$number % 4] = next(two, $number);
            }
            [one[$number % 4], two[$number % 4]]
        }};
    }
    rounds!(before, own)
}

/// Words 4n to 4n+3 of the schedule, from the sixteen before them; the oldest are at n modulo four.
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
#[inline]
#[expect(clippy::indexing_slicing, reason = "modulo four")]
fn next(recent: [Words; 4], number: usize) -> Words {
    let [oldest, older, old, last] = [0, 1, 2, 3].map(|age| recent[(number + age) % 4]);
    _mm_sha1msg2_epu32(_mm_xor_si128(_mm_sha1msg1_epu32(oldest, older), old), last)
}

#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn quarters<const WORDS: usize, const FOURS: usize>(words: &[u32; WORDS]) -> [Words; FOURS] {
    let mut fours = words.as_chunks::<4>().0.iter();
    std::array::from_fn(|_| four(fours.next().copied().unwrap_or_default()))
}

#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
#[inline]
fn four(words: [u32; 4]) -> Words {
    let [a, b, c, d] = words.map(u32::cast_signed);
    _mm_set_epi32(a, b, c, d)
}
