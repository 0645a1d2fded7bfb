//! Cost of the shim for a bulk transfer: plain TCP, a context without rewriting, a context that rewrites, and plain TCP
//! with segmentation in software, which rewritten packets need too. In turn, one second each.

use crate::experiments::prelude::*;
use crate::load::BulkConnections;
use crate::topology::veth_pair::VethPair;

/// Parallel TCP connections.
const FLOWS: [usize; 2] = [1, 4];
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
    let (rounds, span) = if run.quick { (4, Duration::from_millis(500)) } else { (25, Duration::from_secs(1)) };
    run.set_steps(rounds * FLOWS.len() * STATES.len());
    let (plain, mut idle, mut rewriting) = (VethPair::build("p")?, VethPair::build("i")?, VethPair::build("w")?);
    idle.start_shim()?;
    rewriting.start_shim()?;
    rewriting.switch_to_second_provider()?;
    let mut all: Vec<(usize, ShimState, Vec<f64>)> =
        FLOWS.into_iter().flat_map(|flows| STATES.map(|state| (flows, state, Vec::new()))).collect();
    for _ in 0..rounds {
        for (flows, way, rates) in &mut all {
            run.step(way.name());
            let network = match way {
                ShimState::Plain | ShimState::PlainWithoutTso => &plain,
                ShimState::Idle => &idle,
                ShimState::Rewriting => &rewriting,
            };
            rates.push(measure(network, *way, *flows, span)?);
        }
    }
    for (flows, way, rates) in &all {
        run.rows.push(json!({ "flows": flows, "way": way.name(), "gbit_s": distribution(rates) }));
    }
    let rates = |flows: usize, way: ShimState| {
        let found = all.iter().find(|(of, by, _)| (*of, *by) == (flows, way));
        found.map(|(_, _, rates)| rates.as_slice()).unwrap_or_default()
    };
    for (key, of, over) in [
        ("idle_over_plain", ShimState::Idle, ShimState::Plain),
        ("rewriting_over_plain_notso", ShimState::Rewriting, ShimState::PlainWithoutTso),
        ("rewriting_over_plain", ShimState::Rewriting, ShimState::Plain),
    ] {
        let mut worst = f64::INFINITY;
        for flows in FLOWS {
            let ratio = ratio(rates(flows, of), rates(flows, over)).unwrap_or_default();
            run.summarise(&format!("{key}_flows_{flows}"), ratio);
            worst = worst.min(ratio);
        }
        run.summarise(key, worst);
    }
    Ok(())
}
