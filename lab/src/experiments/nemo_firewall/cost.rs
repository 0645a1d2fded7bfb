//! Cost of the rules: packets per second of CPU time through two routers in a row, as in `nemo/throughput`: home agent
//! and mobile router, or plain routers; without rules, then all with the same rules.

use super::{load, rules, wait_until_noticed};
use crate::chain::{self, Chain, Kind};
use crate::figures::{Findings, lesser, ratio, spread};
use crate::progress::Progress;
use crate::traffic::wind::{self, Blow, Place, Wind};
use anyhow::Result;
use serde_json::json;
use std::collections::BTreeMap;

/// Octets of a packet.
const PACKET: usize = 250;
/// Warm-up frames of a burst.
const WARM: u32 = 1024;
/// Upward first: downward packets belong to connections opened from inside.
const WAYS: [bool; 2] = [true, false];

/// Bursts of all rounds by forwarding, rules, and direction (upward).
type Blows = BTreeMap<(Kind, bool, bool), Vec<Blow>>;

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
    let (plain, ours) = wind::beside(|| Ok((Chain::build(Kind::Plain)?, Chain::build(Kind::Roam6)?)))?;
    let mut wind = Wind::new()?;
    let ends = [&plain, &ours].into_iter().flat_map(|chain| [(&chain.sink, "d0"), (&chain.source, "s0")]);
    let _counters: Vec<Place> = ends.map(|(host, interface)| wind.count_at(host, interface)).collect::<Result<_>>()?;
    let mut blows = Blows::new();
    for ruled in [false, true] {
        if ruled {
            for chain in [&plain, &ours] {
                load(&chain.agent, &rules("{ \"h1\", \"nemo0\" }"))?;
                load(&chain.router, &rules("\"in0\""))?;
                chain.daemons().iter().try_for_each(wait_until_noticed)?;
            }
        }
        for at in 0..rounds(quick) {
            progress.say(if ruled { "cost, with rules" } else { "cost, without rules" });
            let mut chains = [&plain, &ours];
            chains.rotate_left(at % 2);
            for (chain, upward) in chains.into_iter().flat_map(|chain| WAYS.map(|upward| (chain, upward))) {
                let blow = blow(&mut wind, chain, upward, frames)?;
                blows.entry((chain.kind, ruled, upward)).or_default().push(blow);
            }
            progress.step();
        }
    }
    sum_up(findings, &blows);
    Ok(())
}

fn blow(wind: &mut Wind, chain: &Chain, upward: bool, count: u32) -> Result<Blow> {
    let (host, from, to) = if upward { (&chain.sink, "d0", "in0") } else { (&chain.source, "s0", "h0") };
    let frames = [chain::frame(from, to, &chain::packet(PACKET, upward, 0))];
    wind.blow(host, from, &frames, WARM)?;
    wind.blow(host, from, &frames, count)
}

fn sum_up(findings: &mut Findings, blows: &Blows) {
    let rates = |kind, ruled, upward| -> Vec<f64> {
        blows.get(&(kind, ruled, upward)).into_iter().flatten().map(Blow::kpps).collect()
    };
    let over = |(kind, ruled), (other, under)| {
        lesser(|upward| ratio(&rates(kind, ruled, upward), &rates(other, under, upward)))
    };
    let figures = [
        ("firewalled_over_plain", over((Kind::Roam6, true), (Kind::Plain, true))),
        ("firewalled_over_fast_path", over((Kind::Roam6, true), (Kind::Roam6, false))),
        ("fast_path_over_plain", over((Kind::Roam6, false), (Kind::Plain, false))),
    ];
    for (name, value) in figures {
        findings.sum_up(&format!("{name}_{PACKET}"), value);
    }
    for ((kind, ruled, upward), blows) in blows {
        let rules = if *ruled { "with rules" } else { "without rules" };
        wind::losses(blows).for_each(|lost| findings.blame(format!("{}, {rules}, {lost}", kind.name())));
        let kpps: Vec<f64> = blows.iter().map(Blow::kpps).collect();
        findings.rows.push(json!({
            "by": kind.name(), "rules": ruled, "upward": upward, "octets": PACKET, "kpps_of_cpu": spread(&kpps),
        }));
    }
}
