//! Seeded worlds of two home agents with long binding lifetimes.

mod common;

use roam6_sim::nemo::failover::{FailoverWorld, RunResult};

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 60;

#[test]
fn a_lost_home_agent_or_binding_is_detected_before_the_lifetime_ends() {
    common::run_all::<FailoverWorld>(WORLDS, report);
}

fn report(results: &[RunResult]) {
    let sum = |of: fn(&RunResult) -> u64| results.iter().map(of).sum::<u64>();
    println!(
        "{} worlds, {} events, {} home agents died, {} bindings lost, {} times without coverage",
        results.len(),
        sum(|result| result.events),
        sum(|result| result.deaths),
        sum(|result| result.losses),
        sum(|result| result.holes),
    );
}
