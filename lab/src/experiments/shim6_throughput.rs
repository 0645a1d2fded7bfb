//! Cost of the shim for a bulk transfer: plain TCP, a context without rewriting, a context that rewrites, and plain TCP
//! with segmentation in software, which rewritten packets need too. In turn, one second each, between hosts that are built for
//! each round.

use crate::experiments::prelude::*;
use crate::load::BulkConnections;
use crate::topology::veth_pair::VethPair;

/// Parallel TCP connections.
const FLOWS: [usize; 2] = [1, 4];
/// The time of a quick and of a full run.
const BUDGETS: [Duration; 2] = [Duration::from_secs(90), Duration::from_secs(600)];
/// Ramp-up time of connections before they are measured.
const RAMP_UP: Duration = Duration::from_millis(300);

/// The state of the shim during a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShimState {
    Plain,
    PlainWithoutTso,
    Idle,
    Rewriting,
}

/// Connections, the state of the shim, and gigabits per second of each round.
type Lane = (usize, ShimState, Vec<f64>);

const STATES: [ShimState; 4] = [ShimState::Plain, ShimState::Idle, ShimState::Rewriting, ShimState::PlainWithoutTso];

impl ShimState {
    fn name(self) -> &'static str {
        match self {
            ShimState::Plain => "plain",
            ShimState::PlainWithoutTso => "plain without TSO",
            ShimState::Idle => "context, locators are the ULIDs",
            ShimState::Rewriting => "context, rewriting",
        }
    }
}

/// Gigabits per second.
fn measure(network: &VethPair, state: ShimState, flows: usize, span: Duration) -> Result<f64> {
    network.set_tso(state != ShimState::PlainWithoutTso)?;
    let flood = BulkConnections::start(network.ends(), 9900, flows)?;
    sleep(RAMP_UP);
    let rate = flood.rate(span);
    ensure!(rate > 0.0, "{}: nothing arrives", state.name());
    Ok(rate)
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let span = if run.quick { Duration::from_millis(500) } else { Duration::from_secs(1) };
    let mut rounds = Rounds::growing(run, BUDGETS);
    run.set_steps(rounds.expected());
    let mut all: Vec<Lane> =
        FLOWS.into_iter().flat_map(|flows| STATES.map(|state| (flows, state, Vec::new()))).collect();
    while let Some(at) = rounds.next() {
        run.step(&format!("round {}", at + 1));
        let of_round = measure_round(&all, span)?;
        if rounds.keep() {
            all.iter_mut().zip(of_round).for_each(|((_, _, rates), rate)| rates.push(rate));
        }
        rounds.look(|rounds| estimates(rounds, &all));
    }
    run.estimate_all(estimates(&rounds, &all));
    rounds.finish(run);
    for (flows, way, rates) in &all {
        run.rows.push(json!({ "flows": flows, "way": way.name(), "gbit_s": distribution(rates) }));
    }
    Ok(())
}

/// Builds three pairs of hosts, and measures all in turn; gigabits per second of each lane.
fn measure_round(lanes: &[Lane], span: Duration) -> Result<Vec<f64>> {
    let (plain, mut idle, mut rewriting) = (VethPair::build("p")?, VethPair::build("i")?, VethPair::build("w")?);
    idle.start_shim()?;
    rewriting.start_shim()?;
    rewriting.switch_to_second_provider()?;
    let one = |(flows, way, _): &Lane| {
        let network = match way {
            ShimState::Plain | ShimState::PlainWithoutTso => &plain,
            ShimState::Idle => &idle,
            ShimState::Rewriting => &rewriting,
        };
        measure(network, *way, *flows, span)
    };
    lanes.iter().map(one).collect()
}

/// The ratios for each number of connections, and the lesser of them.
fn estimates(rounds: &Rounds, all: &[Lane]) -> Vec<NamedEstimate> {
    let rates = |flows: usize, way: ShimState| {
        let found = all.iter().find(|(of, by, _)| (*of, *by) == (flows, way));
        found.map(|(_, _, rates)| rates.as_slice()).unwrap_or_default()
    };
    let mut figures = Vec::new();
    for (key, of, over) in [
        ("idle_over_plain", ShimState::Idle, ShimState::Plain),
        ("rewriting_over_plain_notso", ShimState::Rewriting, ShimState::PlainWithoutTso),
        ("rewriting_over_plain", ShimState::Rewriting, ShimState::Plain),
    ] {
        let ratios = FLOWS.map(|flows| rounds.ratio(rates(flows, of), rates(flows, over)));
        figures.push((key.to_owned(), Estimate::least(ratios.iter().flatten().cloned())));
        figures.extend(FLOWS.iter().zip(ratios).map(|(flows, ratio)| (format!("{key}_flows_{flows}"), ratio)));
    }
    figures
}
