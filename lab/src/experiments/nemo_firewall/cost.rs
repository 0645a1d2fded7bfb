//! Cost of the rules: packets per second of CPU time through two routers in a row, as in `nemo/throughput`: home agent
//! and mobile router, or plain routers; without rules, then all with the same rules.

use super::{load_rules, ruleset, wait_until_noticed};
use crate::findings::{Findings, distribution, min_of_directions, ratio};
use crate::load::packet_generator::{self, Burst, PacketCounter, PacketGenerator};
use crate::topology::chain::{self, Chain, Forwarding};
use crate::ui::Progress;
use anyhow::Result;
use serde_json::json;
use std::collections::BTreeMap;

/// Octets of a packet.
const PACKET: usize = 250;
/// Warm-up frames of a burst.
const WARM_UP: u32 = 1024;
/// Upward first: downward packets belong to connections opened from inside.
const DIRECTIONS: [bool; 2] = [true, false];

/// Bursts of all rounds by forwarding, rules, and direction (upward).
type Bursts = BTreeMap<(Forwarding, bool, bool), Vec<Burst>>;

fn rounds(quick: bool) -> usize {
    if quick { 3 } else { 9 }
}

/// Number of progress steps.
pub(super) fn steps(quick: bool) -> u64 {
    2 * rounds(quick) as u64
}

/// Measures and summarises.
pub(super) fn measure(quick: bool, progress: &mut Progress, findings: &mut Findings) -> Result<()> {
    let frames = if quick { 30_000 } else { 120_000 };
    let (plain, ours) = packet_generator::on_generator_cpu(|| {
        Ok((Chain::build(Forwarding::Plain)?, Chain::build(Forwarding::Roam6)?))
    })?;
    let mut generator = PacketGenerator::new()?;
    let ends = [&plain, &ours].into_iter().flat_map(|chain| [(&chain.sink, "d0"), (&chain.source, "s0")]);
    let _counters: Vec<PacketCounter> =
        ends.map(|(host, interface)| generator.count_at(host, interface)).collect::<Result<_>>()?;
    let mut bursts = Bursts::new();
    for ruled in [false, true] {
        if ruled {
            for chain in [&plain, &ours] {
                load_rules(&chain.agent, &ruleset("{ \"h1\", \"nemo0\" }"))?;
                load_rules(&chain.router, &ruleset("\"in0\""))?;
                chain.daemons().iter().try_for_each(wait_until_noticed)?;
            }
        }
        for at in 0..rounds(quick) {
            progress.message(if ruled { "cost, with rules" } else { "cost, without rules" });
            let mut chains = [&plain, &ours];
            chains.rotate_left(at % 2);
            for (chain, upward) in chains.into_iter().flat_map(|chain| DIRECTIONS.map(|upward| (chain, upward))) {
                let burst = send_burst(&mut generator, chain, upward, frames)?;
                bursts.entry((chain.forwarding, ruled, upward)).or_default().push(burst);
            }
            progress.step();
        }
    }
    summarise(findings, &bursts);
    Ok(())
}

fn send_burst(generator: &mut PacketGenerator, chain: &Chain, upward: bool, count: u32) -> Result<Burst> {
    let (host, from, to) = if upward { (&chain.sink, "d0", "in0") } else { (&chain.source, "s0", "h0") };
    let frames = [chain::ethernet_frame(from, to, &chain::udp_packet(PACKET, upward, 0))];
    generator.send_burst(host, from, &frames, WARM_UP)?;
    generator.send_burst(host, from, &frames, count)
}

fn summarise(findings: &mut Findings, bursts: &Bursts) {
    let rates = |kind, ruled, upward| -> Vec<f64> {
        bursts.get(&(kind, ruled, upward)).into_iter().flatten().map(Burst::kpps).collect()
    };
    let over = |(kind, ruled), (other, under)| {
        min_of_directions(|upward| ratio(&rates(kind, ruled, upward), &rates(other, under, upward)))
    };
    let figures = [
        ("firewalled_over_plain", over((Forwarding::Roam6, true), (Forwarding::Plain, true))),
        ("firewalled_over_fast_path", over((Forwarding::Roam6, true), (Forwarding::Roam6, false))),
        ("fast_path_over_plain", over((Forwarding::Roam6, false), (Forwarding::Plain, false))),
    ];
    for (name, value) in figures {
        findings.summarise(&format!("{name}_{PACKET}"), value);
    }
    for ((kind, ruled, upward), bursts) in bursts {
        let rules = if *ruled { "with rules" } else { "without rules" };
        packet_generator::describe_losses(bursts)
            .for_each(|lost| findings.add_fault(format!("{}, {rules}, {lost}", kind.name())));
        let kpps: Vec<f64> = bursts.iter().map(Burst::kpps).collect();
        findings.rows.push(json!({
            "by": kind.name(), "rules": ruled, "upward": upward, "octets": PACKET, "kpps_of_cpu": distribution(&kpps),
        }));
    }
}
