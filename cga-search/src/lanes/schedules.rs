//! Message schedules of many candidates at once, at the price of few (FIPS 180-4 §6.1.2).

use crate::stretch::{Stretch, schedule};

/// Vectors of candidates that share the schedule of all they have in common.
const ROWS: u64 = 64;

/// The message schedules of a block in which one word counts up. The schedule is linear in exclusive or, so each candidate's
/// is that of the word's upper bits, which rarely change, with what its number in the row and the row's number add.
pub(super) struct Schedules {
    block: [u32; 16],
    word: usize,
    /// What the rows add.
    shares: Vec<[u32; 80]>,
    /// The first candidate of the rows there are.
    begin: Option<u64>,
    /// The schedule of each row's first candidate.
    rows: Vec<[u32; 80]>,
}

impl Schedules {
    /// Rows of so many candidates.
    pub(super) fn new(stretch: &Stretch, lanes: u64) -> Schedules {
        let shares = (0..ROWS).map(|row| share(stretch.word, (row * lanes) as u32)).collect();
        Schedules { block: stretch.block, word: stretch.word, shares, begin: None, rows: Vec::new() }
    }

    /// The row that begins with `candidate`, which is divisible by `lanes`.
    #[inline(always)]
    pub(super) fn row(&mut self, candidate: u64, lanes: u64) -> Option<&[u32; 80]> {
        let begin = candidate & !(ROWS * lanes - 1);
        if self.begin != Some(begin) {
            self.begin = Some(begin);
            self.fill(begin as u32);
        }
        self.rows.get(((candidate - begin) / lanes) as usize)
    }

    fn fill(&mut self, value: u32) {
        if let Some(word) = self.block.get_mut(self.word) {
            *word = value;
        }
        let base = schedule(&self.block);
        let row = |share: &[u32; 80]| {
            let mut row = base;
            row.iter_mut().zip(share).for_each(|(word, share)| *word ^= share);
            row
        };
        self.rows = self.shares.iter().map(row).collect();
    }
}

/// What `value` in one word of a block adds to its schedule.
pub(super) fn share(word: usize, value: u32) -> [u32; 80] {
    let mut block = [0; 16];
    if let Some(word) = block.get_mut(word) {
        *word = value;
    }
    schedule(&block)
}
