//! Seeded worlds of Shim6 hosts with several providers.

mod common;

use roam6_sim::multihomed::run::{MultihomedWorld, RunResult};
use roam6_sim::multihomed::scenario::MultihomedKind;
use std::collections::BTreeMap;

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 2_000;

#[test]
fn multihomed_worlds_settle_on_working_locator_pairs() {
    common::run_all::<MultihomedWorld>(WORLDS, report);
}

fn report(results: &[RunResult]) {
    let mut kinds: BTreeMap<MultihomedKind, Vec<&RunResult>> = BTreeMap::new();
    for result in results {
        kinds.entry(result.kind).or_default().push(result);
    }
    for (kind, results) in kinds {
        let mut settled: Vec<_> = results.iter().map(|result| result.settled_after.as_secs()).collect();
        settled.sort_unstable();
        let (half, most) = (settled.get(settled.len() / 2), settled.last());
        let sum = |of: fn(&RunResult) -> u64| results.iter().map(|result| of(result)).sum::<u64>();
        println!(
            "{:>9}: {} worlds ({} hopeless), {} events, {} contexts, {} paths found, settled after p50 {} s, max {} s",
            kind.to_string(),
            results.len(),
            results.iter().filter(|result| result.unreachable_pairs).count(),
            sum(|result| result.events),
            sum(|result| result.contexts),
            sum(|result| result.switches),
            half.unwrap_or(&0),
            most.unwrap_or(&0),
        );
    }
}
