//! Seeded worlds of an MPTCP host in a mobile network, and the replay of one.

mod common;

use roam6_sim::mptcp::run::{RunResult, run};

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 500;

#[test]
fn mptcp_connections_get_a_subflow_per_path() {
    common::play_all(WORLDS, run, report);
}

/// Runs the world of `ROAM6_SEED` and prints every event.
#[test]
fn one_world_of_paths() {
    common::play_one(run);
}

fn report(tales: &[RunResult]) {
    let mut settled: Vec<_> = tales.iter().map(|tale| tale.settled_after.as_secs()).collect();
    settled.sort_unstable();
    let sum = |of: fn(&RunResult) -> u64| tales.iter().map(of).sum::<u64>();
    println!(
        "{} worlds, {} events, {} endpoints made and given up, settled after p50 {} s, max {} s",
        tales.len(),
        sum(|tale| tale.events),
        sum(|tale| tale.changes),
        settled.get(settled.len() / 2).unwrap_or(&0),
        settled.last().unwrap_or(&0),
    );
}
