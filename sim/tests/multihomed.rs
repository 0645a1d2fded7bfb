//! Seeded worlds of Shim6 hosts with several providers, and the replay of one.

mod common;

use roam6_sim::multihomed::play::{Tale, play};
use roam6_sim::multihomed::scenario::Kind;
use std::collections::BTreeMap;

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 2_000;

#[test]
fn every_multihomed_world_settles_on_pairs_that_work() {
    common::play_all(WORLDS, play, report);
}

/// Runs the world of `ROAM6_SEED` and prints every event.
#[test]
fn one_multihomed() {
    common::play_one(play);
}

fn report(tales: &[Tale]) {
    let mut kinds: BTreeMap<Kind, Vec<&Tale>> = BTreeMap::new();
    for tale in tales {
        kinds.entry(tale.kind).or_default().push(tale);
    }
    for (kind, tales) in kinds {
        let mut settled: Vec<_> = tales.iter().map(|tale| tale.settled_after.as_secs()).collect();
        settled.sort_unstable();
        let (half, most) = (settled.get(settled.len() / 2), settled.last());
        let sum = |of: fn(&Tale) -> u64| tales.iter().map(|tale| of(tale)).sum::<u64>();
        println!(
            "{:>9}: {} worlds ({} hopeless), {} events, {} contexts, {} paths found, settled after p50 {} s, max {} s",
            kind.to_string(),
            tales.len(),
            tales.iter().filter(|tale| tale.hopeless).count(),
            sum(|tale| tale.events),
            sum(|tale| tale.contexts),
            sum(|tale| tale.found),
            half.unwrap_or(&0),
            most.unwrap_or(&0),
        );
    }
}
