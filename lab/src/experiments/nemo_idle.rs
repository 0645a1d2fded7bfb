//! Resources of idle daemons: memory, wake-ups and CPU time of a registered mobile router and of its home agent.

use super::Experiment;
use crate::bed::{Daemon, ResourceUsage};

use crate::findings::{Findings, round};
use crate::topology::nemo::{CORRESPONDENT, NemoNetwork};
use crate::ui::Progress;
use anyhow::Result;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment =
    Experiment { name: "nemo/idle", about: "memory, wake-ups and CPU time without traffic", run };

/// Time after the registration until the daemons are idle.
const SETTLE_TIME: Duration = Duration::from_secs(5);
const NO_PROBES: &str = "\n[mobile_router.probe]\nenabled = false\n";

fn run(quick: bool) -> Result<Findings> {
    let watched = Duration::from_secs(if quick { 10 } else { 60 });
    let mut findings = Findings::default();
    let mut progress = Progress::new(2);
    for (probes, extra) in [(true, ""), (false, NO_PROBES)] {
        progress.message(if probes { "probing its path" } else { "without probes" });
        let network = NemoNetwork::build(Duration::ZERO, 1, "")?;
        let vehicle = network.vehicle_with(0, &["up0"], extra)?;
        network.emulator.plug(vehicle.uplink(0)?, network.visited[0].link)?;
        vehicle.wait_until_connected(CORRESPONDENT)?;
        sleep(SETTLE_TIME);
        let daemons = [("mr", &vehicle.daemon), ("ha", &network.home_agent)];
        for (who, figures) in measure_usage(&daemons, watched)? {
            let suffix = if probes { "" } else { "_without_probes" };
            for key in ["resident_kb", "wakeups_per_s", "processor_ms_per_s"] {
                findings.summarise(&format!("{who}_{key}{suffix}"), figures.get(key).cloned());
            }
            findings.rows.push(json!({ "who": who, "probes": probes, "figures": figures }));
        }
        progress.step();
    }
    Ok(findings)
}

fn measure_usage<'a>(daemons: &[(&'a str, &Daemon)], span: Duration) -> Result<Vec<(&'a str, Value)>> {
    let usage = || daemons.iter().map(|(_, daemon)| daemon.usage()).collect::<Result<Vec<ResourceUsage>>>();
    let before = usage()?;
    sleep(span);
    let after = usage()?;
    let seconds = span.as_secs_f64();
    let figures = before.iter().zip(&after).map(|(before, after)| {
        json!({
            "resident_kb": after.resident_kb,
            "wakeups_per_s": round((after.wakeups - before.wakeups) as f64 / seconds),
            "processor_ms_per_s": round((after.cpu_time - before.cpu_time).as_secs_f64() * 1000.0 / seconds),
        })
    });
    Ok(daemons.iter().map(|(who, _)| *who).zip(figures).collect())
}
