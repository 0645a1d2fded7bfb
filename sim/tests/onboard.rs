//! Seeded worlds of Shim6 inside mobile networks.

mod common;

use roam6_sim::multihomed::onboard::{OnboardWorld, RunResult};

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 400;

#[test]
fn shim6_moves_a_conversation_to_the_mobile_network_that_is_registered() {
    common::run_all::<OnboardWorld>(WORLDS, report);
}

fn report(results: &[RunResult]) {
    let events: u64 = results.iter().map(|it| it.events).sum();
    let switched = results.iter().filter(|it| it.switched).count();
    let most = results.iter().map(|it| it.settled_after.as_secs()).max().unwrap_or(0);
    println!("{} worlds, {events} events, {switched} on another path, converged after max {most} s", results.len());
    assert!(switched > 0, "no conversation has changed its path");
}
