//! Seeded worlds of two home agents with long binding lifetimes, and the replay of one.

mod common;

use roam6_sim::failover::{Tale, play};

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 60;

#[test]
fn a_home_agent_that_dies_or_forgets_is_noticed_long_before_the_binding_ends() {
    common::play_all(WORLDS, play, report);
}

/// Runs the world of `ROAM6_SEED` and prints every event.
#[test]
fn one_world_of_two_home_agents() {
    common::play_one(play);
}

fn report(tales: &[Tale]) {
    let sum = |of: fn(&Tale) -> u64| tales.iter().map(of).sum::<u64>();
    println!(
        "{} worlds, {} events, {} home agents died, {} bindings lost, {} times without coverage",
        tales.len(),
        sum(|tale| tale.events),
        sum(|tale| tale.deaths),
        sum(|tale| tale.losses),
        sum(|tale| tale.holes),
    );
}
