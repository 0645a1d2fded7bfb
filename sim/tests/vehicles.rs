//! Thousands of worlds of vehicles, each from its seed; and one of them told aloud.

use roam6_sim::vehicles::play::{Failure, Tale, play};
use roam6_sim::vehicles::scenario::Kind;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many worlds are played unless `ROAM6_WORLDS` says otherwise.
const WORLDS: u64 = 2_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    assert!(number.is_ok(), "{name}={text} is not a number");
    number.ok()
}

#[test]
fn in_every_world_of_vehicles_what_can_arrive_arrives_once() {
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
    report(&tales.into_inner().unwrap());
    let failures = failures.into_inner().unwrap();
    for failure in failures.iter().take(20) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{} of {worlds} worlds failed", failures.len());
}

/// Plays the world of `ROAM6_SEED` and tells every step.
#[test]
fn one_world() {
    let seed = number("ROAM6_SEED");
    match play(seed.unwrap_or(0), seed.is_some()) {
        Ok(tale) => println!("{tale:?}"),
        Err(failure) => panic!("{failure}"),
    }
}

fn report(tales: &[Tale]) {
    let mut kinds: BTreeMap<Kind, Vec<&Tale>> = BTreeMap::new();
    for tale in tales {
        kinds.entry(tale.kind).or_default().push(tale);
    }
    for (kind, tales) in kinds {
        let sum = |of: fn(&Tale) -> u64| tales.iter().map(|tale| of(tale)).sum::<u64>();
        println!(
            "{:>8}: {} worlds, {} stations, {} steps, {} frames, {} payloads handed up, {} that had to arrive",
            kind.to_string(),
            tales.len(),
            sum(|tale| tale.stations.into()),
            sum(|tale| tale.steps),
            sum(|tale| tale.frames),
            sum(|tale| tale.deliveries as u64),
            sum(|tale| tale.promised.into()),
        );
    }
}
