//! Seeded worlds of Shim6 hosts with several providers, and the replay of one.

mod common;

use roam6_sim::multihomed::run::{RunResult, run};
use roam6_sim::multihomed::scenario::MultihomedKind;
use std::collections::BTreeMap;

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 2_000;

#[test]
fn multihomed_worlds_settle_on_working_locator_pairs() {
    common::play_all(WORLDS, run, report);
}

/// Runs the world of `ROAM6_SEED` and prints every event.
#[test]
fn one_multihomed() {
    common::play_one(run);
}

fn report(tales: &[RunResult]) {
    let mut kinds: BTreeMap<MultihomedKind, Vec<&RunResult>> = BTreeMap::new();
    for tale in tales {
        kinds.entry(tale.kind).or_default().push(tale);
    }
    for (kind, tales) in kinds {
        let mut settled: Vec<_> = tales.iter().map(|tale| tale.settled_after.as_secs()).collect();
        settled.sort_unstable();
        let (half, most) = (settled.get(settled.len() / 2), settled.last());
        let sum = |of: fn(&RunResult) -> u64| tales.iter().map(|tale| of(tale)).sum::<u64>();
        println!(
            "{:>9}: {} worlds ({} hopeless), {} events, {} contexts, {} paths found, settled after p50 {} s, max {} s",
            kind.to_string(),
            tales.len(),
            tales.iter().filter(|tale| tale.unreachable_pairs).count(),
            sum(|tale| tale.events),
            sum(|tale| tale.contexts),
            sum(|tale| tale.switches),
            half.unwrap_or(&0),
            most.unwrap_or(&0),
        );
    }
}
