//! The search for a second hash with enough zero bits (RFC 3972 §4, RFC 5535 §6.3): many candidates at once, by
//! whatever vector unit this processor has.

mod job;
mod lanes;
mod stretch;

pub use job::{COUNTER, Job};
pub use lanes::Method;

use std::num::NonZero;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Candidates a thread takes at a time.
const CHUNK: u64 = 1 << 20;

/// How far a search is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// All candidates below this one have been tried, counted from where the search began.
    pub tried: u64,
}

/// What the threads of a search tell one another. A lock is enough: a chunk takes milliseconds, and not every processor
/// knows numbers of 64 bits that need none.
struct WorkQueue {
    /// Where the next chunk begins; `None` once it is over.
    next: Option<u64>,
    /// Where the chunk begins that each thread is at.
    in_progress: Vec<u64>,
    found: Option<u64>,
}

impl WorkQueue {
    /// The next chunk for a thread, if there is one, and how far all have come.
    fn next_chunk(&mut self, thread: usize, end: u64) -> Option<(Range<u64>, Progress)> {
        let place = self.in_progress.get_mut(thread)?;
        let Some(start) = self.next.filter(|next| *next < end) else {
            *place = u64::MAX;
            return None;
        };
        let chunk = start..end.min(start.saturating_add(CHUNK));
        *place = start;
        self.next = Some(chunk.end);
        let tried = self.in_progress.iter().copied().min().unwrap_or(start);
        Some((chunk, Progress { tried }))
    }

    /// The answer is the first of all, and a thread may still be at an earlier chunk.
    fn note(&mut self, hit: u64) {
        self.found = Some(self.found.map_or(hit, |other| other.min(hit)));
        self.next = None;
    }
}

/// A search over all candidates of `job` within `range`, on several threads.
///
/// The answer is the first that fits, however many threads there are. `watch` is called now and then; the search ends
/// without an answer once it says `false`.
pub fn search(
    job: &Job,
    method: Method,
    threads: NonZero<usize>,
    range: Range<u64>,
    watch: impl Fn(Progress) -> bool + Sync,
) -> Option<u64> {
    let in_progress = vec![range.start; threads.get()];
    let queue = Mutex::new(WorkQueue { next: Some(range.start), in_progress, found: None });
    let next = |thread| lock(&queue).next_chunk(thread, range.end);
    let work = |thread| {
        while let Some((chunk, progress)) = next(thread) {
            if let Some(hit) = job.scan(method, chunk) {
                lock(&queue).note(hit);
            }
            if !watch(progress) {
                lock(&queue).next = None;
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..threads.get() {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
    lock(&queue).found
}

/// Nothing is half done when a thread ends badly.
fn lock(queue: &Mutex<WorkQueue>) -> MutexGuard<'_, WorkQueue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::crypto::cga::Sec;
    use sha1::{Digest, Sha1};

    /// Octets that look random but are not.
    fn octets(seed: u64, length: usize) -> Vec<u8> {
        let mut entropy = roam6_proto::Entropy::seed_from_u64(seed);
        let mut bytes = vec![0; length];
        entropy.fill(&mut bytes);
        bytes
    }

    /// What `Job` promises, by another implementation of SHA-1.
    fn fits(input: &[u8], at: usize, candidate: u64, mask: u32) -> bool {
        let mut input = input.to_vec();
        let counter = u128::from_be_bytes(input[at..at + COUNTER].try_into().unwrap());
        input[at..at + COUNTER].copy_from_slice(&counter.wrapping_add(candidate.into()).to_be_bytes());
        let digest = Sha1::digest(&input);
        u32::from_be_bytes(digest[..4].try_into().unwrap()) & mask == 0
    }

    #[test]
    fn every_sha1_method_finds_the_same_cga_modifier() {
        for (seed, (length, at)) in
            [(64, 0), (55, 0), (56, 0), (116, 0), (127, 80), (187, 0), (135, 80), (319, 0)].into_iter().enumerate()
        {
            let mut input = octets(seed as u64, length);
            // The word that varies overflows on the way.
            input[at + 12..at + 15].fill(0xff);
            let mask = 0xf800_0000;
            let job = Job::with_mask(&input, at, mask).unwrap();
            let all: Vec<u64> = (0..1000).filter(|candidate| fits(&input, at, *candidate, mask)).collect();
            assert!(!all.is_empty());
            for method in Method::available() {
                let (mut start, mut seen) = (0, Vec::new());
                while let Some(hit) = job.scan(method, start..1000) {
                    seen.push(hit);
                    start = hit + 1;
                }
                assert_eq!(seen, all, "{method} over {length} octets");
            }
        }
    }

    #[test]
    fn threads_return_the_first_cga_modifier() {
        let input = octets(7, 100);
        let job = Job::new(&input, 0, Sec::new(1).unwrap()).unwrap();
        let method = Method::best();
        let alone = search(&job, method, NonZero::<usize>::MIN, 0..1 << 21, |_| true).unwrap();
        let together = search(&job, method, NonZero::new(3).unwrap(), 0..1 << 21, |_| true);
        assert_eq!(together, Some(alone));
        assert!(fits(&input, 0, alone, 0xffff_0000));
    }

    #[test]
    fn cga_search_can_be_cancelled() {
        let job = Job::with_mask(&octets(8, 100), 0, u32::MAX).unwrap();
        assert_eq!(search(&job, Method::best(), NonZero::<usize>::MIN, 0..u64::MAX, |_| false), None);
    }
}
