//! Cost of the rules: packets per second of CPU time through two routers in a row, as in `nemo/throughput`: home agent
//! and mobile router, or plain routers; without rules, then all with the same rules.

use super::{load_rules, ruleset, wait_until_noticed};
use crate::experiments::prelude::*;
use crate::load::chain_bench::ChainBench;
use crate::load::packet_generator::{self, Burst};
use crate::topology::chain::Forwarding;
use std::collections::BTreeMap;

/// Octets of a packet.
const PACKET: usize = 250;
/// Warm-up frames of a burst.
const WARM_UP: u32 = 1024;
/// Upward first: downward packets belong to connections opened from inside.
const DIRECTIONS: [bool; 2] = [true, false];

/// Bursts of all rounds by forwarding, rules, and direction (upward).
type Bursts = BTreeMap<(Forwarding, bool, bool), Vec<Burst>>;

const CHAINS: [Forwarding; 2] = [Forwarding::Plain, Forwarding::Roam6];

/// The time of a quick and of a full run.
const BUDGETS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(480)];
/// Number of progress steps, at least.
pub(super) const STEPS: usize = 8;

/// Measures and summarises.
pub(super) fn measure(run: &mut Run) -> Result<()> {
    let frames = if run.quick { 30_000 } else { 120_000 };
    let mut rounds = Rounds::growing(run, BUDGETS);
    let mut bursts = Bursts::new();
    while let Some(at) = rounds.next() {
        run.step("cost, without rules and with them");
        let of_round = measure_round(at, frames)?;
        if rounds.keep() {
            of_round.into_iter().for_each(|(lane, own)| bursts.entry(lane).or_default().extend(own));
        }
        rounds.look(|rounds| estimates(rounds, &bursts));
    }
    run.estimate_all(estimates(&rounds, &bursts));
    rounds.finish(run);
    report(run, &bursts);
    Ok(())
}

/// Builds the chains, and measures each in turn, without rules and then with them.
fn measure_round(at: usize, frames: u32) -> Result<Bursts> {
    let mut bench = ChainBench::new(&CHAINS)?;
    let mut bursts = Bursts::new();
    for ruled in [false, true] {
        if ruled {
            for kind in CHAINS {
                let chain = bench.chain(kind)?;
                load_rules(&chain.agent, &ruleset("{ \"h1\", \"nemo0\" }"))?;
                load_rules(&chain.router, &ruleset("\"in0\""))?;
                chain.daemons().iter().try_for_each(wait_until_noticed)?;
            }
        }
        let mut chains = CHAINS;
        chains.rotate_left(at % 2);
        for (kind, upward) in chains.into_iter().flat_map(|kind| DIRECTIONS.map(|upward| (kind, upward))) {
            let burst = bench.send_burst((kind, upward), PACKET, 0..1, (WARM_UP, frames))?;
            bursts.entry((kind, ruled, upward)).or_default().push(burst);
        }
    }
    Ok(bursts)
}

/// The ratios, each the lesser of both directions.
fn estimates(rounds: &Rounds, bursts: &Bursts) -> Vec<NamedEstimate> {
    let rates = |kind, ruled, upward| -> Vec<f64> {
        bursts.get(&(kind, ruled, upward)).into_iter().flatten().map(Burst::kpps).collect()
    };
    let over = |(kind, ruled), (other, under)| {
        let direction = |upward| rounds.ratio(&rates(kind, ruled, upward), &rates(other, under, upward));
        Estimate::least([false, true].into_iter().filter_map(direction))
    };
    let figures = [
        ("firewalled_over_plain", over((Forwarding::Roam6, true), (Forwarding::Plain, true))),
        ("firewalled_over_fast_path", over((Forwarding::Roam6, true), (Forwarding::Roam6, false))),
        ("fast_path_over_plain", over((Forwarding::Roam6, false), (Forwarding::Plain, false))),
    ];
    figures.map(|(name, value)| (format!("{name}_{PACKET}"), value)).into()
}

fn report(run: &mut Run, bursts: &Bursts) {
    for ((kind, ruled, upward), bursts) in bursts {
        let rules = if *ruled { "with rules" } else { "without rules" };
        packet_generator::describe_losses(bursts)
            .for_each(|lost| run.faults.push(format!("{}, {rules}, {lost}", kind.name())));
        run.rows.push(json!({
            "by": kind.name(), "rules": ruled, "upward": upward, "octets": PACKET, "kpps_of_cpu": distribution(bursts.iter().map(Burst::kpps)),
        }));
    }
}
