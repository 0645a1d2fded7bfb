//! What it costs that each flow may have its own path: one mobile router with two uplinks, flow rules and weights (RFC 5648,
//! RFC 6089), and packets of 1, 8 and 64 flows in turn, beside plain routers, which have one path; packets a second of
//! processor time, as in `nemo/throughput`.

use super::Experiment;
use crate::chain::{self, Chain, Kind};
use crate::figures::{Findings, lesser, ratio, round, spread};
use crate::progress::Progress;
use crate::traffic::wind::{self, Blow, Place, Wind};
use anyhow::Result;
use serde_json::json;
use std::collections::BTreeMap;

/// See the file's head.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "nemo/flows",
    about: "packets of 1, 8 and 64 flows, a path chosen for each: packets a second of processor time",
    run,
};

const FLOWS: [u16; 3] = [1, 8, 64];
/// Octets of a packet.
const PACKET: usize = 250;
/// Frames of a burst sent before those that count, so that what is learnt of each flow is not what is measured.
const WARM: u32 = 4096;
/// Towards the mobile router, by its first and its second uplink.
const PATHS: [&str; 2] = ["h1", "h2"];

/// What decides by which way a flow goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Choice {
    /// Nothing: there is one, plain routing.
    Plain,
    /// A rule, the same uplink for all: what it costs to choose.
    Ruled,
    /// Weights: and that packets behind one another leave by two interfaces.
    Weighted,
}

const CHOICES: [Choice; 3] = [Choice::Plain, Choice::Ruled, Choice::Weighted];
/// The rule of the testbed is of flows below this one.
const RULED: u16 = 64;

/// Of each round one: flows, upward.
type Blows = BTreeMap<(Choice, u16, bool), Vec<Blow>>;

fn run(quick: bool) -> Result<Findings> {
    let (rounds, frames) = if quick { (3, 30_000) } else { (9, 120_000) };
    let mut findings = Findings::default();
    let mut progress = Progress::new(rounds as u64);
    let (plain, shared) = wind::beside(|| Ok((Chain::build(Kind::Plain)?, Chain::build(Kind::Shared)?)))?;
    let mut wind = Wind::new()?;
    let ends = [&plain, &shared].into_iter().flat_map(|chain| [(&chain.sink, "d0"), (&chain.source, "s0")]);
    let _counters: Vec<Place> = ends.map(|(host, interface)| wind.count_at(host, interface)).collect::<Result<_>>()?;
    let mut blows = Blows::new();
    let mut shares = BTreeMap::new();
    for at in 0..rounds {
        progress.say(&format!("round {} of {rounds}", at + 1));
        for flows in (0..FLOWS.len()).filter_map(|place| FLOWS.get((place + at) % FLOWS.len())) {
            for (choice, upward) in CHOICES.into_iter().flat_map(|choice| [(choice, false), (choice, true)]) {
                let chain = if choice == Choice::Plain { &plain } else { &shared };
                // Who chooses on the way down is the home agent, whose counts these are.
                let before = (choice == Choice::Weighted && !upward).then(|| sent(&shared)).transpose()?;
                let blow = blow(&mut wind, chain, choice, *flows, upward, frames)?;
                blows.entry((choice, *flows, upward)).or_default().push(blow);
                if let Some(before) = before {
                    shares.insert(*flows, share(before, sent(&shared)?));
                }
            }
        }
        progress.step();
    }
    sum_up(&mut findings, &blows, &shares);
    Ok(findings)
}

fn sum_up(findings: &mut Findings, blows: &Blows, shares: &BTreeMap<u16, f64>) {
    let rates = |(choice, flows), upward| -> Vec<f64> {
        blows.get(&(choice, flows, upward)).into_iter().flatten().map(Blow::kpps).collect()
    };
    let over = |these, those| lesser(|upward| ratio(&rates(these, upward), &rates(those, upward)));
    for choice in CHOICES {
        let name = format!("{choice:?}").to_lowercase();
        for flows in FLOWS {
            if flows > 1 {
                findings.sum_up(&format!("{name}_{flows}_over_1"), over((choice, flows), (choice, 1)));
            }
            if choice != Choice::Plain {
                findings.sum_up(&format!("{name}_over_plain_{flows}"), over((choice, flows), (Choice::Plain, flows)));
            }
        }
    }
    for (flows, share) in shares {
        findings.sum_up(&format!("second_uplink_share_{flows}"), round(*share));
    }
    // With so many both have some; a single one has either.
    if !shares.get(&64).is_some_and(|share| (0.1..=0.9).contains(share)) {
        findings.blame(format!("64 flows are not shared out: {shares:?} of them by the second uplink"));
    }
    for ((choice, flows, upward), blows) in blows {
        let by = format!("{choice:?}").to_lowercase();
        wind::losses(blows).for_each(|lost| findings.blame(format!("{by}, {flows} flows, {lost}")));
        let kpps: Vec<f64> = blows.iter().map(Blow::kpps).collect();
        findings.rows.push(json!({ "by": by, "flows": flows, "upward": upward, "kpps_of_cpu": spread(&kpps) }));
    }
}

/// One packet of each flow after the other, from end to end.
fn blow(wind: &mut Wind, chain: &Chain, choice: Choice, flows: u16, upward: bool, count: u32) -> Result<Blow> {
    let (host, from, to) = if upward { (&chain.sink, "d0", "in0") } else { (&chain.source, "s0", "h0") };
    let frame = |flow| chain::frame(from, to, &chain::packet(PACKET, upward, flow));
    let first = if choice == Choice::Weighted { RULED } else { 0 };
    let frames: Vec<Vec<u8>> = (first..first + flows).map(frame).collect();
    wind.blow(host, from, &frames, WARM)?;
    wind.blow(host, from, &frames, count)
}

/// Packets the home agent has sent by each path.
fn sent(chain: &Chain) -> Result<[u64; 2]> {
    let [first, second] = PATHS;
    Ok([chain.agent.packets(first, "tx")?, chain.agent.packets(second, "tx")?])
}

/// How many of those that were sent meanwhile went by the second path, 1 being all.
fn share([first, second]: [u64; 2], [later_first, later_second]: [u64; 2]) -> f64 {
    let (first, second) = (later_first.saturating_sub(first), later_second.saturating_sub(second));
    second as f64 / (first + second).max(1) as f64
}
