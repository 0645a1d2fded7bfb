//! What is searched: a message in which one word counts. All that does not depend on it is hashed once, beforehand
//! (FIPS 180-4 §6.1).

use crate::lanes::{self, Method};
use crate::stretch::{Stretch, schedule};
use roam6_proto::crypto::cga::Sec;
use std::ops::Range;

/// Octets of the number that counts up, the modifier or part of the random number; its last four are the word.
pub const COUNTER: usize = 16;
/// Octets of a block.
const BLOCK: usize = 64;
/// State before the first block.
const BEGIN: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];

/// A search.
#[derive(Debug, Clone)]
pub struct Job {
    /// The message, padded.
    blocks: Vec<[u32; 16]>,
    /// Where the counter is, in words.
    at: usize,
    /// Bits of the first word of the hash that shall be zero.
    mask: u32,
}

impl Job {
    /// A search for a hash of `input` with the zero bits `sec` asks for, counting up the [`COUNTER`] octets at `at`.
    ///
    /// `None` when `at` is not a multiple of four or the counter does not lie in `input` whole.
    pub fn new(input: &[u8], at: usize, sec: Sec) -> Option<Job> {
        let zeros = 16 * u32::from(sec.level());
        Job::with_mask(input, at, !u32::MAX.checked_shr(zeros).unwrap_or(0))
    }

    /// A search for a hash whose first word has no bit of `mask`.
    pub(super) fn with_mask(input: &[u8], at: usize, mask: u32) -> Option<Job> {
        let inside = at.is_multiple_of(4) && at.checked_add(COUNTER)? <= input.len();
        inside.then(|| Job { blocks: padded(input), at: at / 4, mask })
    }

    /// The first of these candidates that fits.
    pub fn scan(&self, method: Method, range: Range<u64>) -> Option<u64> {
        let mut start = range.start;
        while start < range.end {
            let first = self.counter().wrapping_add(start.into());
            let word = first as u32;
            // Up to where the word overflows into the one before it.
            let most = (1 << 32) - u64::from(word);
            let count = most.min(range.end - start);
            if let Some(hit) = lanes::scan(&self.stretch(first)?, method, word, count) {
                return Some(start + u64::from(hit.wrapping_sub(word)));
            }
            start += count;
        }
        None
    }

    fn counter(&self) -> u128 {
        let words = self.blocks.as_flattened().iter().skip(self.at).take(4);
        words.fold(0, |counter, word| counter << 32 | u128::from(*word))
    }

    fn stretch(&self, counter: u128) -> Option<Stretch> {
        let mut blocks = self.blocks.clone();
        let words = blocks.as_flattened_mut().iter_mut().skip(self.at).take(4);
        for (word, shift) in words.zip([96_u32, 64, 32, 0]) {
            *word = (counter >> shift) as u32;
        }
        let varies = self.at + 3;
        let (number, word) = (varies / 16, varies % 16);
        let mut before = BEGIN;
        for block in blocks.get(..number)? {
            compress(&mut before, block);
        }
        let mut block = *blocks.get(number)?;
        *block.get_mut(word)? = 0;
        let after = blocks.get(number + 1..)?.iter().map(schedule).collect();
        Some(Stretch { before, block, word, after, mask: self.mask })
    }
}

/// The message in blocks, with the padding SHA-1 puts behind it.
fn padded(input: &[u8]) -> Vec<[u32; 16]> {
    let bits = 8 * input.len() as u64;
    let mut bytes = input.to_vec();
    bytes.push(0x80);
    bytes.resize((bytes.len() + 8).next_multiple_of(BLOCK) - 8, 0);
    bytes.extend(bits.to_be_bytes());
    let words: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|octets| u32::from_be_bytes(*octets)).collect();
    words.as_chunks::<16>().0.to_vec()
}

/// One block of SHA-1, by the crate `sha1`.
pub(crate) fn compress(state: &mut [u32; 5], block: &[u32; 16]) {
    let mut bytes = [0; BLOCK];
    for (octets, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(block) {
        *octets = word.to_be_bytes();
    }
    sha1::compress(state, &[bytes.into()]);
}
