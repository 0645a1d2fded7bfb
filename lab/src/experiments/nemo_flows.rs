//! Cost of path selection per flow: one mobile router with two uplinks, flow bindings and weights (RFC 5648, RFC 6089),
//! and packets of 1, 8 and 64 flows in turn, compared with plain routers, which have one path. Packets per second of
//! CPU time, as in `nemo/throughput`.

use crate::experiments::prelude::*;
use crate::load::chain_bench::ChainBench;
use crate::load::packet_generator::{self, Burst};
use crate::topology::chain::{FIRST_MARKED_FLOW, Forwarding};
use std::collections::BTreeMap;

const FLOWS: [u16; 3] = [1, 8, 64];
/// The time of a quick and of a full run.
const BUDGETS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(480)];
/// Octets of a packet.
const PACKET: usize = 250;
/// Warm-up frames of a burst, so that flow cache misses are not measured.
const WARM_UP: u32 = 4096;
/// The home agent's interfaces towards the first and the second uplink.
const PATHS: [&str; 2] = ["h1", "h2"];

/// How the path of a flow is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Choice {
    /// Not at all: plain routing, one path.
    Plain,
    /// By a rule that sends all flows to one uplink: the cost of the selection.
    Ruled,
    /// The same by the last rules of all: by DSCP, and upwards by the ingress interface.
    Marked,
    /// By weights: consecutive packets also leave by two interfaces.
    Weighted,
}

const CHOICES: [Choice; 4] = [Choice::Plain, Choice::Ruled, Choice::Marked, Choice::Weighted];
/// The rule of the testbed matches flows below this number.
const RULE_FLOWS: u16 = 64;

impl Choice {
    /// The number of the first flow.
    fn first_flow(self) -> u16 {
        match self {
            Choice::Plain | Choice::Ruled => 0,
            Choice::Weighted => RULE_FLOWS,
            Choice::Marked => FIRST_MARKED_FLOW,
        }
    }
}

/// Bursts of all rounds by selection, number of flows, and direction (upward).
type Bursts = BTreeMap<(Choice, u16, bool), Vec<Burst>>;

pub(super) fn run(run: &mut Run) -> Result<()> {
    let frames = if run.quick { 30_000 } else { 120_000 };
    let mut rounds = Rounds::growing(run, BUDGETS);
    run.set_steps(rounds.expected());
    let (mut bursts, mut shares) = (Bursts::new(), BTreeMap::new());
    while let Some(at) = rounds.next() {
        run.step(&format!("round {}", at + 1));
        let of_round = measure(at, frames, &mut shares)?;
        if rounds.keep() {
            of_round.into_iter().for_each(|(lane, own)| bursts.entry(lane).or_default().extend(own));
        }
        rounds.look(|rounds| estimates(rounds, &bursts));
    }
    run.estimate_all(estimates(&rounds, &bursts));
    rounds.finish(run);
    summarise(run, &bursts, &shares);
    Ok(())
}

/// Builds the networks, and measures all in turn; also the second uplink's share of each kind of flows.
fn measure(at: usize, frames: u32, shares: &mut BTreeMap<(Choice, u16), f64>) -> Result<Bursts> {
    let mut bench = ChainBench::new(&[Forwarding::Plain, Forwarding::FlowBinding])?;
    let mut bursts = Bursts::new();
    let mut turn = FLOWS;
    turn.rotate_left(at % FLOWS.len());
    // The bounds are on the numbers of flows: those that are compared follow each other, since the speed of a processor changes within
    // seconds.
    for (choice, upward) in CHOICES.into_iter().flat_map(|choice| [(choice, false), (choice, true)]) {
        for flows in turn {
            let kind = if choice == Choice::Plain { Forwarding::Plain } else { Forwarding::FlowBinding };
            let first = choice.first_flow();
            // Towards the mobile router the home agent selects the path; these are its counters.
            let counted = kind == Forwarding::FlowBinding && !upward;
            let before = counted.then(|| sent_by_path(&bench)).transpose()?;
            let burst = bench.send_burst((kind, upward), PACKET, first..first + flows, (WARM_UP, frames))?;
            bursts.entry((choice, flows, upward)).or_default().push(burst);
            if let Some(before) = before {
                shares.insert((choice, flows), share(before, sent_by_path(&bench)?));
            }
        }
    }
    Ok(bursts)
}

/// The ratios, each the lesser of both directions.
fn estimates(rounds: &Rounds, bursts: &Bursts) -> Vec<NamedEstimate> {
    let rates = |(choice, flows), upward| -> Vec<f64> {
        bursts.get(&(choice, flows, upward)).into_iter().flatten().map(Burst::kpps).collect()
    };
    let over = |these, those| {
        let direction = |upward| rounds.ratio(&rates(these, upward), &rates(those, upward));
        Estimate::least([false, true].into_iter().filter_map(direction))
    };
    let mut figures = Vec::new();
    for choice in CHOICES {
        let name = format!("{choice:?}").to_lowercase();
        for flows in FLOWS {
            if flows > 1 {
                figures.push((format!("{name}_{flows}_over_1"), over((choice, flows), (choice, 1))));
            }
            if choice != Choice::Plain {
                figures.push((format!("{name}_over_plain_{flows}"), over((choice, flows), (Choice::Plain, flows))));
            }
        }
    }
    figures
}

fn summarise(run: &mut Run, bursts: &Bursts, shares: &BTreeMap<(Choice, u16), f64>) {
    for ((_, flows), share) in shares.iter().filter(|((choice, _), _)| *choice == Choice::Weighted) {
        run.summarise(&format!("second_uplink_share_{flows}"), round(*share));
    }
    // Many flows use both uplinks; a single flow uses one of them, and those with a rule the uplink of the rule.
    if !shares.get(&(Choice::Weighted, 64)).is_some_and(|share| (0.1..=0.9).contains(share)) {
        run.faults.push(format!("64 flows are not distributed: share of the second uplink {shares:?}"));
    }
    for ((choice, flows), share) in shares.iter().filter(|((choice, _), _)| *choice != Choice::Weighted) {
        if *share < 0.99 {
            run.faults.push(format!("{choice:?}: {flows} flows leave their uplink: share {share}"));
        }
    }
    for ((choice, flows, upward), bursts) in bursts {
        let by = format!("{choice:?}").to_lowercase();
        packet_generator::describe_losses(bursts)
            .for_each(|lost| run.faults.push(format!("{by}, {flows} flows, {lost}")));
        run.rows.push(json!({ "by": by, "flows": flows, "upward": upward, "kpps_of_cpu": distribution(bursts.iter().map(Burst::kpps)) }));
    }
}

/// Packets that the home agent has sent on each path.
fn sent_by_path(bench: &ChainBench) -> Result<[u64; 2]> {
    let ([first, second], agent) = (PATHS, &bench.chain(Forwarding::FlowBinding)?.agent);
    Ok([agent.packet_count(first, "tx")?, agent.packet_count(second, "tx")?])
}

/// The second path's share of the packets sent between two readings, 0 to 1.
fn share([first, second]: [u64; 2], [later_first, later_second]: [u64; 2]) -> f64 {
    let (first, second) = (later_first.saturating_sub(first), later_second.saturating_sub(second));
    second as f64 / (first + second).max(1) as f64
}
