//! Seeded NEMO worlds.

mod common;

use roam6_sim::nemo::run::{NemoWorld, RunResult};
use roam6_sim::nemo::scenario::NemoKind;
use std::collections::BTreeMap;

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 2_000;

#[test]
fn nemo_worlds_keep_their_invariants_and_converge() {
    common::run_all::<NemoWorld>(WORLDS, report);
}

fn report(results: &[RunResult]) {
    let mut kinds: BTreeMap<NemoKind, Vec<&RunResult>> = BTreeMap::new();
    for result in results {
        kinds.entry(result.kind).or_default().push(result);
    }
    for (kind, results) in kinds {
        let mut settled: Vec<_> = results.iter().map(|result| result.settled_after.as_secs()).collect();
        settled.sort_unstable();
        let (half, most) = (settled.get(settled.len() / 2), settled.last());
        let events: u64 = results.iter().map(|result| result.events).sum();
        let acknowledged: u64 = results.iter().map(|result| result.acknowledged).sum();
        let carried: u64 = results.iter().map(|result| result.packets_delivered).sum();
        println!(
            "{:>10}: {} worlds, {events} events, {acknowledged} acknowledgements, {carried} packets over IPv4, \
             settled after p50 {} s, max {} s",
            kind.to_string(),
            results.len(),
            half.unwrap_or(&0),
            most.unwrap_or(&0),
        );
    }
}
