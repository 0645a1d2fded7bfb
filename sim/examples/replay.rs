//! Replays one world of a family and prints every event: `cargo run -p roam6-sim --example replay -- nemo 7`.

use roam6_sim::failure::Failure;
use roam6_sim::run::{SeededWorld, run};
use roam6_sim::{mptcp, multihomed, nemo, vehicles};
use std::fmt::Debug;
use std::process::ExitCode;

const USAGE: &str = "usage: replay FAMILY SEED, with FAMILY one of ";

/// A family: its name, and the function that replays one of its worlds.
type Replay = fn(u64) -> Result<String, Failure>;

fn families() -> Vec<(&'static str, Replay)> {
    vec![
        entry::<nemo::run::NemoWorld>(),
        entry::<nemo::failover::FailoverWorld>(),
        entry::<multihomed::run::MultihomedWorld>(),
        entry::<mptcp::run::MptcpWorld>(),
        entry::<multihomed::onboard::OnboardWorld>(),
        entry::<vehicles::run::VehicleWorld>(),
        entry::<vehicles::roadside::RoadsideWorld>(),
        entry::<vehicles::ipv6_hosts::Ipv6HostWorld>(),
        #[cfg(feature = "fleet")]
        ("fleet", |seed| nemo::fleet::world::FleetWorld::run(seed, true).map(|result| format!("{result:?}"))),
    ]
}

fn entry<W: SeededWorld<Result: Debug>>() -> (&'static str, Replay) {
    (W::FAMILY.replay, |seed| run::<W>(seed, true).map(|result| format!("{result:?}")))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let replay = |(name, seed): (&String, &String)| {
        let (_, replay) = families().into_iter().find(|(known, _)| known == name)?;
        Some(replay(seed.parse().ok()?))
    };
    match arguments.first().zip(arguments.get(1)).and_then(replay) {
        Some(Ok(result)) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Some(Err(failure)) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
        None => {
            let names: Vec<&str> = families().iter().map(|(name, _)| *name).collect();
            eprintln!("{USAGE}{}", names.join(", "));
            ExitCode::from(2)
        }
    }
}
