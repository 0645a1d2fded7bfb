//! Seeded worlds of two home agents with long binding lifetimes, and the replay of one.

mod common;

use roam6_sim::failover::{RunResult, run};

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 60;

#[test]
fn a_lost_home_agent_or_binding_is_detected_before_the_lifetime_ends() {
    common::play_all(WORLDS, run, report);
}

/// Runs the world of `ROAM6_SEED` and prints every event.
#[test]
fn one_world_of_two_home_agents() {
    common::play_one(run);
}

fn report(tales: &[RunResult]) {
    let sum = |of: fn(&RunResult) -> u64| tales.iter().map(of).sum::<u64>();
    println!(
        "{} worlds, {} events, {} home agents died, {} bindings lost, {} times without coverage",
        tales.len(),
        sum(|tale| tale.events),
        sum(|tale| tale.deaths),
        sum(|tale| tale.losses),
        sum(|tale| tale.holes),
    );
}
