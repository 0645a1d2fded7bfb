//! Thousands of worlds of a node whose connections take several paths, each from its seed; and one of them told aloud.

use roam6_sim::paths::play::{Failure, Tale, play};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many worlds are played unless `ROAM6_WORLDS` says otherwise.
const WORLDS: u64 = 500;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    assert!(number.is_ok(), "{name}={text} is not a number");
    number.ok()
}

#[test]
fn every_connection_gets_the_paths_there_are() {
    let (first, worlds) = (number("ROAM6_FIRST").unwrap_or(0), number("ROAM6_WORLDS").unwrap_or(WORLDS));
    let next = AtomicU64::new(first);
    let tales: Mutex<Vec<Tale>> = Mutex::default();
    let failures: Mutex<Vec<Failure>> = Mutex::default();
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
    let failures = failures.into_inner().unwrap();
    for failure in failures.iter().take(20) {
        println!("{failure}");
    }
    report(&tales.into_inner().unwrap());
    assert!(failures.is_empty(), "{} of {worlds} worlds failed", failures.len());
}

/// Plays the world of `ROAM6_SEED` and tells every event.
#[test]
fn one_world_of_paths() {
    let seed = number("ROAM6_SEED");
    match play(seed.unwrap_or(0), seed.is_some()) {
        Ok(tale) => println!("{tale:?}"),
        Err(failure) => panic!("{failure}"),
    }
}

fn report(tales: &[Tale]) {
    let mut settled: Vec<_> = tales.iter().map(|tale| tale.settled_after.as_secs()).collect();
    settled.sort_unstable();
    let sum = |of: fn(&Tale) -> u64| tales.iter().map(of).sum::<u64>();
    println!(
        "{} worlds, {} events, {} endpoints made and given up, settled after p50 {} s, max {} s",
        tales.len(),
        sum(|tale| tale.events),
        sum(|tale| tale.changes),
        settled.get(settled.len() / 2).unwrap_or(&0),
        settled.last().unwrap_or(&0),
    );
}
