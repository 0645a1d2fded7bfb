//! The part of a search in which one word of the message varies, with all that does not depend on it hashed beforehand
//! (FIPS 180-4 §6.1).

/// The part of a job within which only the last word of the counter changes.
pub(crate) struct Stretch {
    /// State before the block that varies.
    pub(crate) before: [u32; 5],
    /// The block that varies; the word that varies is zero.
    pub(crate) block: [u32; 16],
    /// Which word varies.
    pub(crate) word: usize,
    /// The message schedules of the blocks behind it.
    pub(crate) after: Vec<[u32; 80]>,
    /// See [`crate::Job`].
    pub(crate) mask: u32,
}

/// All 80 words of a block.
pub(crate) fn schedule(block: &[u32; 16]) -> [u32; 80] {
    let mut recent = *block;
    std::array::from_fn(|_| {
        let [oldest, _, third, _, _, _, _, _, ninth, _, _, _, _, fourteenth, _, _] = recent;
        recent.rotate_left(1);
        if let Some(newest) = recent.last_mut() {
            *newest = (oldest ^ third ^ ninth ^ fourteenth).rotate_left(1);
        }
        oldest
    })
}
