//! Resources of idle daemons: memory, wake-ups and CPU time of a registered mobile router and of its home agent.

use crate::experiments::prelude::*;
use crate::topology::nemo::NemoNetwork;

/// Time after the registration until the daemons are idle.
const SETTLE_TIME: Duration = Duration::from_secs(5);
const NO_PROBES: &str = "\n[mobile_router.probe]\nenabled = false\n";

pub(super) fn run(run: &mut Run) -> Result<()> {
    let watched = Duration::from_secs(if run.quick { 10 } else { 60 });
    run.set_steps(2);
    for (probes, extra) in [(true, ""), (false, NO_PROBES)] {
        run.step(if probes { "probing its path" } else { "without probes" });
        let (network, vehicle) = NemoNetwork::with_vehicle(Duration::ZERO, "", extra)?;
        sleep(SETTLE_TIME);
        let daemons = [("mr", &vehicle.daemon), ("ha", &network.home_agent)];
        let usage = || daemons.iter().map(|(_, daemon)| daemon.usage()).collect::<Result<Vec<_>>>();
        let before = usage()?;
        sleep(watched);
        for (((who, _), before), after) in daemons.iter().zip(before).zip(usage()?) {
            let processor_ms = (after.cpu_time - before.cpu_time).as_secs_f64() * 1000.0;
            let figures = json!({
                "resident_kb": after.resident_kb,
                "wakeups_per_s": round((after.wakeups - before.wakeups) as f64 / watched.as_secs_f64()),
                "processor_ms_per_s": round(processor_ms / watched.as_secs_f64()),
            });
            let suffix = if probes { "" } else { "_without_probes" };
            for (key, value) in figures.as_object().into_iter().flatten() {
                run.summarise(&format!("{who}_{key}{suffix}"), value.clone());
            }
            run.rows.push(json!({ "who": who, "probes": probes, "figures": figures }));
        }
    }
    Ok(())
}
