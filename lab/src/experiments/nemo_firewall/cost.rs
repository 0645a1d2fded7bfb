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

fn rounds(quick: bool) -> usize {
    if quick { 3 } else { 9 }
}

/// Number of progress steps.
pub(super) fn steps(quick: bool) -> usize {
    2 * rounds(quick)
}

/// Measures and summarises.
pub(super) fn measure(run: &mut Run) -> Result<()> {
    let frames = if run.quick { 30_000 } else { 120_000 };
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
        for at in 0..rounds(run.quick) {
            run.step(if ruled { "cost, with rules" } else { "cost, without rules" });
            let mut chains = CHAINS;
            chains.rotate_left(at % 2);
            for (kind, upward) in chains.into_iter().flat_map(|kind| DIRECTIONS.map(|upward| (kind, upward))) {
                let burst = bench.send_burst((kind, upward), PACKET, 0..1, (WARM_UP, frames))?;
                bursts.entry((kind, ruled, upward)).or_default().push(burst);
            }
        }
    }
    summarise(run, &bursts);
    Ok(())
}

fn summarise(run: &mut Run, bursts: &Bursts) {
    let rates = |kind, ruled, upward| -> Vec<f64> {
        bursts.get(&(kind, ruled, upward)).into_iter().flatten().map(Burst::kpps).collect()
    };
    let over = |(kind, ruled), (other, under)| {
        min_of_directions(|upward| ratio(&rates(kind, ruled, upward), &rates(other, under, upward)))
    };
    for (name, value) in [
        ("firewalled_over_plain", over((Forwarding::Roam6, true), (Forwarding::Plain, true))),
        ("firewalled_over_fast_path", over((Forwarding::Roam6, true), (Forwarding::Roam6, false))),
        ("fast_path_over_plain", over((Forwarding::Roam6, false), (Forwarding::Plain, false))),
    ] {
        run.summarise(&format!("{name}_{PACKET}"), value);
    }
    for ((kind, ruled, upward), bursts) in bursts {
        let rules = if *ruled { "with rules" } else { "without rules" };
        packet_generator::describe_losses(bursts)
            .for_each(|lost| run.faults.push(format!("{}, {rules}, {lost}", kind.name())));
        run.rows.push(json!({
            "by": kind.name(), "rules": ruled, "upward": upward, "octets": PACKET, "kpps_of_cpu": distribution(bursts.iter().map(Burst::kpps)),
        }));
    }
}
