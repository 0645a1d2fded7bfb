//! Seeded worlds of vehicles, and the replay of one.

mod common;

use roam6_sim::vehicles::hosts;
use roam6_sim::vehicles::play::{Tale, play};
use roam6_sim::vehicles::scenario::Kind;
use std::collections::BTreeMap;

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 2_000;

#[test]
fn in_every_world_of_vehicles_what_can_arrive_arrives_once() {
    common::play_all(WORLDS, play, report);
}

/// Runs the world of `ROAM6_SEED` and prints every step.
#[test]
fn one_world() {
    common::play_one(play);
}

/// Number of worlds of IPv6 hosts unless `ROAM6_WORLDS` is set.
const STREETS: u64 = 200;

#[test]
fn hosts_talk_on_every_virtual_link() {
    common::play_all(STREETS, hosts::play, |done| println!("{} exchanges", done.iter().sum::<u64>()));
}

/// Runs the world of IPv6 hosts of `ROAM6_SEED`.
#[test]
fn one_world_of_hosts() {
    common::play_one(hosts::play);
}

fn report(tales: &[Tale]) {
    let mut kinds: BTreeMap<Kind, Vec<&Tale>> = BTreeMap::new();
    for tale in tales {
        kinds.entry(tale.kind).or_default().push(tale);
    }
    for (kind, tales) in kinds {
        let sum = |of: fn(&Tale) -> u64| tales.iter().map(|tale| of(tale)).sum::<u64>();
        println!(
            "{:>8}: {} worlds, {} stations, {} steps, {} frames, {} payloads handed up, {} that had to arrive",
            kind.to_string(),
            tales.len(),
            sum(|tale| tale.stations.into()),
            sum(|tale| tale.steps),
            sum(|tale| tale.frames),
            sum(|tale| tale.deliveries as u64),
            sum(|tale| tale.promised.into()),
        );
    }
}
