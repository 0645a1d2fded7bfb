//! Seeded NEMO worlds, and the replay of one.

mod common;

use roam6_sim::run::{RunResult, run};
use roam6_sim::scenario::NemoKind;
use std::collections::BTreeMap;

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 2_000;

#[test]
fn nemo_worlds_keep_their_invariants_and_converge() {
    common::play_all(WORLDS, run, report);
}

/// Runs the world of `ROAM6_SEED` and prints every event.
#[test]
fn one_world() {
    common::play_one(run);
}

fn report(tales: &[RunResult]) {
    let mut kinds: BTreeMap<NemoKind, Vec<&RunResult>> = BTreeMap::new();
    for tale in tales {
        kinds.entry(tale.kind).or_default().push(tale);
    }
    for (kind, tales) in kinds {
        let mut settled: Vec<_> = tales.iter().map(|tale| tale.settled_after.as_secs()).collect();
        settled.sort_unstable();
        let (half, most) = (settled.get(settled.len() / 2), settled.last());
        let events: u64 = tales.iter().map(|tale| tale.events).sum();
        let acknowledged: u64 = tales.iter().map(|tale| tale.acknowledged).sum();
        let carried: u64 = tales.iter().map(|tale| tale.packets_delivered).sum();
        println!(
            "{:>10}: {} worlds, {events} events, {acknowledged} acknowledgements, {carried} packets over IPv4, \
             settled after p50 {} s, max {} s",
            kind.to_string(),
            tales.len(),
            half.unwrap_or(&0),
            most.unwrap_or(&0),
        );
    }
}
