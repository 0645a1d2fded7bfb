//! Thousands of worlds of a node whose connections take several paths, each from its seed; and one of them told aloud.

mod common;

use roam6_sim::paths::play::{Tale, play};

/// How many worlds are played unless `ROAM6_WORLDS` says otherwise.
const WORLDS: u64 = 500;

#[test]
fn every_connection_gets_the_paths_there_are() {
    common::play_all(WORLDS, play, report);
}

/// Plays the world of `ROAM6_SEED` and tells every event.
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
