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

/// A pair of hosts for each state that needs its own.
struct VethPairs {
    plain: VethPair,
    idle: VethPair,
    rewriting: VethPair,
}

impl VethPairs {
    fn build() -> Result<VethPairs> {
        let mut networks =
            VethPairs { plain: VethPair::build("p")?, idle: VethPair::build("i")?, rewriting: VethPair::build("w")? };
        networks.idle.start_shim()?;
        networks.rewriting.start_shim()?;
        networks.rewriting.switch_to_second_provider()?;
        Ok(networks)
    }

    /// Gigabits per second.
    fn measure(&self, way: ShimState, flows: usize, span: Duration) -> Result<f64> {
        let network = match way {
            ShimState::Plain | ShimState::PlainWithoutTso => &self.plain,
            ShimState::Idle => &self.idle,
            ShimState::Rewriting => &self.rewriting,
        };
        if way == ShimState::PlainWithoutTso {
            network.set_tso(false)?;
        }
        let flood = BulkConnections::start(network.ends(), 9900, flows)?;
        std::thread::sleep(RAMP_UP);
        let rate = flood.rate(span);
        drop(flood);
        if way == ShimState::PlainWithoutTso {
            network.set_tso(true)?;
        }
        if rate <= 0.0 {
            bail!("{}: nothing arrives", way.name());
        }
        Ok(rate)
    }
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let (rounds, span) = if run.quick { (4, Duration::from_millis(500)) } else { (25, Duration::from_secs(1)) };
    run.set_steps(rounds * FLOWS.len() * STATES.len());
    let networks = VethPairs::build()?;
    let mut all: Vec<(usize, ShimState, Vec<f64>)> =
        FLOWS.into_iter().flat_map(|flows| STATES.map(|way| (flows, way, Vec::new()))).collect();
    for _ in 0..rounds {
        for (flows, way, rates) in &mut all {
            run.step(way.name());
            rates.push(networks.measure(*way, *flows, span)?);
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
