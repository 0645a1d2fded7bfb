//! Seeded worlds of a fleet of home agents.
#![cfg(feature = "fleet")]
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use roam6_sim::failure::Failure;
use roam6_sim::nemo::fleet::world::{FleetWorld, RunResult};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 1_000;
/// The same before a release: `cargo test -p roam6-sim --features fleet --test fleet -- --ignored`.
const MANY_WORLDS: u64 = 10_000;
/// Failures printed at most.
const PRINTED: usize = 20;

#[test]
fn fleet_worlds_lose_no_acknowledged_binding_and_converge() {
    run_all(WORLDS);
}

#[test]
#[ignore = "ten thousand worlds take minutes"]
fn many_fleet_worlds_lose_no_acknowledged_binding_and_converge() {
    run_all(MANY_WORLDS);
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn run_all(usual: u64) {
    let (first, worlds) = (number("ROAM6_FIRST").unwrap_or(0), number("ROAM6_WORLDS").unwrap_or(usual));
    let next = AtomicU64::new(first);
    let results: Mutex<Vec<RunResult>> = Mutex::default();
    let failures: Mutex<Vec<Failure>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let seed = next.fetch_add(1, Ordering::Relaxed)
                    && seed < first + worlds
                {
                    match FleetWorld::run(seed, false) {
                        Ok(result) => results.lock().unwrap().push(result),
                        Err(failure) => failures.lock().unwrap().push(failure),
                    }
                }
            });
        }
    });
    report(&results.into_inner().unwrap());
    let mut failures = failures.into_inner().unwrap();
    failures.sort_by_key(|failure| failure.seed);
    failures.iter().take(PRINTED).for_each(|failure| println!("{failure}"));
    assert!(failures.is_empty(), "{} of {worlds} worlds failed", failures.len());
}

fn report(results: &[RunResult]) {
    let mut kinds: Vec<_> = results.iter().map(|result| result.kind).collect();
    kinds.sort();
    kinds.dedup();
    for kind in kinds {
        let of_kind: Vec<&RunResult> = results.iter().filter(|result| result.kind == kind).collect();
        let sum = |of: fn(&RunResult) -> u64| of_kind.iter().map(|result| of(result)).sum::<u64>();
        println!(
            "{:>10}: {} worlds, {} events, {} acknowledgements, {} conflicts, {} unknown, {} replayed",
            kind.to_string(),
            of_kind.len(),
            sum(|result| result.events),
            sum(|result| result.acknowledged),
            sum(|result| result.conflicts),
            sum(|result| result.unknown),
            sum(|result| result.replayed),
        );
    }
}
