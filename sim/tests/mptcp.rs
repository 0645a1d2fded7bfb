//! Seeded worlds of an MPTCP host in a mobile network.

mod common;

use roam6_sim::mptcp::run::{MptcpWorld, RunResult};

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 500;

#[test]
fn mptcp_connections_get_a_subflow_per_path() {
    common::run_all::<MptcpWorld>(WORLDS, report);
}

fn report(results: &[RunResult]) {
    let mut settled: Vec<_> = results.iter().map(|result| result.settled_after.as_secs()).collect();
    settled.sort_unstable();
    let sum = |of: fn(&RunResult) -> u64| results.iter().map(of).sum::<u64>();
    println!(
        "{} worlds, {} events, {} endpoints made and given up, settled after p50 {} s, max {} s",
        results.len(),
        sum(|result| result.events),
        sum(|result| result.changes),
        settled.get(settled.len() / 2).unwrap_or(&0),
        settled.last().unwrap_or(&0),
    );
}
