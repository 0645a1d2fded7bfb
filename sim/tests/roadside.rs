//! Seeded worlds of NEMO over GeoNetworking.

mod common;

use roam6_sim::vehicles::roadside::{RoadsideWorld, RunResult};

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 400;

#[test]
fn mobile_routers_keep_their_home_agent_past_roadside_units() {
    common::run_all::<RoadsideWorld>(WORLDS, report);
}

fn report(results: &[RunResult]) {
    let (events, acknowledged) = results.iter().fold((0, 0), |sum, it| (sum.0 + it.events, sum.1 + it.acknowledged));
    let most = results.iter().map(|it| it.settled_after.as_secs()).max().unwrap_or(0);
    println!(
        "{} worlds, {events} events, {acknowledged} acknowledgements, converged after max {most} s",
        results.len()
    );
}
