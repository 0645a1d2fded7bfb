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
    let (median, most) = common::median_and_max(results.iter().map(|result| result.settled_after));
    let sum = |of: fn(&RunResult) -> u64| results.iter().map(of).sum::<u64>();
    println!(
        "{} worlds, {} events, {} endpoints made and given up, settled after p50 {} s, max {} s",
        results.len(),
        sum(|result| result.events),
        sum(|result| result.changes),
        median,
        most,
    );
}
