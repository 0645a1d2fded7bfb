//! Seeded worlds of Shim6 hosts with several providers.

mod common;

use roam6_sim::multihomed::run::{MultihomedWorld, RunResult};

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 2_000;

#[test]
fn multihomed_worlds_settle_on_working_locator_pairs() {
    common::run_all::<MultihomedWorld>(WORLDS, report);
}

fn report(results: &[RunResult]) {
    for (kind, results) in common::by_kind(results, |result| result.kind) {
        let (median, most) = common::median_and_max(results.iter().map(|result| result.settled_after));
        let sum = |of: fn(&RunResult) -> u64| results.iter().map(|result| of(result)).sum::<u64>();
        println!(
            "{:>9}: {} worlds ({} hopeless), {} events, {} contexts, {} paths found, settled after p50 {} s, max {} s",
            kind.to_string(),
            results.len(),
            results.iter().filter(|result| result.unreachable_pairs).count(),
            sum(|result| result.events),
            sum(|result| result.contexts),
            sum(|result| result.switches),
            median,
            most,
        );
    }
}
