//! Runs worlds from their seeds on all processors, for every family.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by failing")]

use std::fmt::{Debug, Display};
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
pub(crate) fn play_all<T, F>(usual: u64, play: impl Fn(u64, bool) -> Result<T, F> + Sync, report: impl FnOnce(&[T]))
where
    T: Send,
    F: Send + Display,
{
    let (first, worlds) = (number("ROAM6_FIRST").unwrap_or(0), number("ROAM6_WORLDS").unwrap_or(usual));
    let next = AtomicU64::new(first);
    let tales: Mutex<Vec<T>> = Mutex::default();
    let failures: Mutex<Vec<F>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let seed = next.fetch_add(1, Ordering::Relaxed)
                    && seed < first + worlds
                {
                    match play(seed, false) {
                        Ok(tale) => tales.lock().unwrap().push(tale),
                        Err(failure) => failures.lock().unwrap().push(failure),
                    }
                }
            });
        }
    });
    report(&tales.into_inner().unwrap());
    let failures = failures.into_inner().unwrap();
    for failure in failures.iter().take(PRINTED) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{} of {worlds} worlds failed", failures.len());
}

/// Runs the world of `ROAM6_SEED` and prints every event.
pub(crate) fn play_one<T: Debug, F: Display>(play: impl Fn(u64, bool) -> Result<T, F>) {
    let seed = number("ROAM6_SEED");
    match play(seed.unwrap_or(0), seed.is_some()) {
        Ok(tale) => println!("{tale:?}"),
        Err(failure) => panic!("{failure}"),
    }
}
