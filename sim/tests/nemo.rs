//! Seeded NEMO worlds.

mod common;

use roam6_sim::nemo::run::{NemoWorld, RunResult};

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 2_000;

#[test]
fn nemo_worlds_keep_their_invariants_and_converge() {
    common::run_all::<NemoWorld>(WORLDS, report);
}

fn report(results: &[RunResult]) {
    let encrypted = results.iter().filter(|result| result.sealed > 0).count();
    println!("{encrypted} of {} worlds with encrypted paths", results.len());
    assert!(encrypted * 8 >= results.len(), "{encrypted} of {} worlds", results.len());
    for (kind, results) in common::by_kind(results, |result| result.kind) {
        let (median, most) = common::median_and_max(results.iter().map(|result| result.settled_after));
        let events: u64 = results.iter().map(|result| result.events).sum();
        let acknowledged: u64 = results.iter().map(|result| result.acknowledged).sum();
        let sealed: u64 = results.iter().map(|result| result.sealed).sum();
        let carried: u64 = results.iter().map(|result| result.packets_delivered).sum();
        println!(
            "{:>10}: {} worlds, {events} events, {acknowledged} acknowledgements, {carried} packets over IPv4, {sealed} encrypted, \
             settled after p50 {} s, max {} s",
            kind.to_string(),
            results.len(),
            median,
            most,
        );
    }
}
