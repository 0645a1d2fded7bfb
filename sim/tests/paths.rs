//! Seeded worlds of an MPTCP host in a mobile network, and the replay of one.

mod common;

use roam6_sim::paths::play::{Tale, play};

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 500;

#[test]
fn every_connection_gets_the_paths_there_are() {
    common::play_all(WORLDS, play, report);
}

/// Runs the world of `ROAM6_SEED` and prints every event.
#[test]
fn one_world_of_paths() {
    common::play_one(play);
}

fn report(tales: &[Tale]) {
    let mut settled: Vec<_> = tales.iter().map(|tale| tale.settled_after.as_secs()).collect();
    settled.sort_unstable();
    let sum = |of: fn(&Tale) -> u64| tales.iter().map(of).sum::<u64>();
    println!(
        "{} worlds, {} events, {} endpoints made and given up, settled after p50 {} s, max {} s",
        tales.len(),
        sum(|tale| tale.events),
        sum(|tale| tale.changes),
        settled.get(settled.len() / 2).unwrap_or(&0),
        settled.last().unwrap_or(&0),
    );
}
