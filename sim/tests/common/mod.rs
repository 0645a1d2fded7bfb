//! Runs worlds from their seeds on all processors, for every family.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by failing")]
#![allow(dead_code, reason = "each test uses a part")]

use core::time::Duration;
use roam6_sim::failure::Failure;
use roam6_sim::run::{SeededWorld, run};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Failures printed at most.
const PRINTED: usize = 20;

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    assert!(number.is_ok(), "{name}={text} is not a number");
    number.ok()
}

/// Runs `usual` worlds, or `ROAM6_WORLDS`, from seed `ROAM6_FIRST` on, and reports the results; fails if one fails.
pub(crate) fn run_all<W>(usual: u64, report: impl FnOnce(&[W::Result]))
where
    W: SeededWorld<Result: Send>,
{
    let (first, worlds) = (number("ROAM6_FIRST").unwrap_or(0), number("ROAM6_WORLDS").unwrap_or(usual));
    let next = AtomicU64::new(first);
    let results: Mutex<Vec<W::Result>> = Mutex::default();
    let failures: Mutex<Vec<Failure>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let seed = next.fetch_add(1, Ordering::Relaxed)
                    && seed < first + worlds
                {
                    match run::<W>(seed, false) {
                        Ok(result) => results.lock().unwrap().push(result),
                        Err(failure) => failures.lock().unwrap().push(failure),
                    }
                }
            });
        }
    });
    report(&results.into_inner().unwrap());
    let failures = failures.into_inner().unwrap();
    for failure in failures.iter().take(PRINTED) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{} of {worlds} worlds failed", failures.len());
}

/// The results of the worlds of each kind.
pub(crate) fn by_kind<R, K: Ord>(results: &[R], kind: fn(&R) -> K) -> BTreeMap<K, Vec<&R>> {
    let mut kinds: BTreeMap<K, Vec<&R>> = BTreeMap::new();
    for result in results {
        kinds.entry(kind(result)).or_default().push(result);
    }
    kinds
}

/// Median and maximum of these durations, in whole seconds.
pub(crate) fn median_and_max(durations: impl Iterator<Item = Duration>) -> (u64, u64) {
    let mut seconds: Vec<_> = durations.map(|duration| duration.as_secs()).collect();
    seconds.sort_unstable();
    (seconds.get(seconds.len() / 2).copied().unwrap_or(0), seconds.last().copied().unwrap_or(0))
}
