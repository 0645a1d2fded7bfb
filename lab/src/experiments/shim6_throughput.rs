//! Cost of the shim for a bulk transfer: plain TCP, a context without rewriting, a context that rewrites, and plain TCP
//! with segmentation in software, which rewritten packets need too. In turn, one second each.

use super::Experiment;
use crate::figures::{Findings, percentile, round, spread};
use crate::progress::Progress;
use crate::shim6::wired::Wired;
use crate::traffic::Flood;
use anyhow::{Result, bail};
use serde_json::json;
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "shim6/throughput",
    about: "bulk TCP: plain, with a context, rewritten, plain without TSO",
    run,
};

/// Parallel TCP connections.
const FLOWS: [usize; 2] = [1, 4];
/// Ramp-up time of connections before they are measured.
const START: Duration = Duration::from_millis(300);

/// The state of the shim during a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    PlainWithoutTso,
    Idle,
    Rewriting,
}

const WAYS: [Way; 4] = [Way::Plain, Way::Idle, Way::Rewriting, Way::PlainWithoutTso];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Plain => "plain",
            Way::PlainWithoutTso => "plain without TSO",
            Way::Idle => "context, locators are the ULIDs",
            Way::Rewriting => "context, rewriting",
        }
    }
}

/// A pair of hosts for each state that needs its own.
struct Worlds {
    plain: Wired,
    idle: Wired,
    rewriting: Wired,
}

impl Worlds {
    fn build() -> Result<Worlds> {
        let mut worlds = Worlds { plain: Wired::build("p")?, idle: Wired::build("i")?, rewriting: Wired::build("w")? };
        worlds.idle.start_shim()?;
        worlds.rewriting.start_shim()?;
        worlds.rewriting.rewrite()?;
        Ok(worlds)
    }

    /// Gigabits per second.
    fn measure(&self, way: Way, flows: usize, span: Duration) -> Result<f64> {
        let world = match way {
            Way::Plain | Way::PlainWithoutTso => &self.plain,
            Way::Idle => &self.idle,
            Way::Rewriting => &self.rewriting,
        };
        if way == Way::PlainWithoutTso {
            world.set_segmentation(false)?;
        }
        let flood = Flood::start(world.ends(), 9900, flows)?;
        std::thread::sleep(START);
        let rate = flood.rate(span);
        drop(flood);
        if way == Way::PlainWithoutTso {
            world.set_segmentation(true)?;
        }
        if rate <= 0.0 {
            bail!("{}: nothing arrives", way.name());
        }
        Ok(rate)
    }
}

fn run(quick: bool) -> Result<Findings> {
    let (rounds, span) = if quick { (4, Duration::from_millis(500)) } else { (25, Duration::from_secs(1)) };
    let mut progress = Progress::new(rounds * FLOWS.len() as u64);
    progress.say("hosts");
    let worlds = Worlds::build()?;
    let mut findings = Findings::default();
    let mut all: Vec<(usize, Way, Vec<f64>)> =
        FLOWS.into_iter().flat_map(|flows| WAYS.map(|way| (flows, way, Vec::new()))).collect();
    for _ in 0..rounds {
        for (flows, way, rates) in &mut all {
            progress.say(way.name());
            rates.push(worlds.measure(*way, *flows, span)?);
        }
        FLOWS.iter().for_each(|_| progress.step());
    }
    for (flows, way, rates) in &all {
        findings.rows.push(json!({ "flows": flows, "way": way.name(), "gbit_s": spread(rates) }));
    }
    let rates = |flows: usize, way: Way| {
        let found = all.iter().find(|(of, by, _)| (*of, *by) == (flows, way));
        found.map(|(_, _, rates)| rates.as_slice()).unwrap_or_default()
    };
    for (key, of, over) in [
        ("idle_over_plain", Way::Idle, Way::Plain),
        ("rewriting_over_plain_notso", Way::Rewriting, Way::PlainWithoutTso),
        ("rewriting_over_plain", Way::Rewriting, Way::Plain),
    ] {
        let mut worst = f64::INFINITY;
        for flows in FLOWS {
            let ratios: Vec<f64> =
                rates(flows, of).iter().zip(rates(flows, over)).map(|(of, over)| of / over).collect();
            let ratio = percentile(&ratios, 0.5).unwrap_or_default();
            findings.sum_up(&format!("{key}_flows_{flows}"), round(ratio));
            worst = worst.min(ratio);
        }
        findings.sum_up(key, round(worst));
    }
    Ok(findings)
}
