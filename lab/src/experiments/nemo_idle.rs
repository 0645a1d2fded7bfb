//! Resources of idle daemons: memory, wake-ups and CPU time of a registered mobile router and of its home agent; and what
//! an uplink costs that carries no traffic, in use or in reserve.

use crate::experiments::prelude::*;
use crate::topology::nemo::{CORRESPONDENT, HOME_AGENT, NemoNetwork};
use roam6_wire::ip6::Datagram;

/// Time after the registration until the daemons are idle.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// Seconds of a month of 30 days.
const MONTH_SECONDS: f64 = 30.0 * 86_400.0;
const NO_PROBES: &str = "\n[mobile_router.probe]\nenabled = false\n";
const PAGE: &str = "\n[web]\nlisten = \"127.0.0.1:9107\"\n";
/// Each case, the suffix of its figures, and the settings of the mobile router.
const CASES: [(&str, &str, &[&str]); 3] = [
    ("probing its path", "", &[]),
    ("without probes", "_without_probes", &[NO_PROBES]),
    ("without probes, with a status page", "_with_page", &[NO_PROBES, PAGE]),
];

pub(super) fn run(run: &mut Run) -> Result<()> {
    let watched = Duration::from_secs(if run.quick { 10 } else { 60 });
    run.set_steps(CASES.len() + 1);
    for (case, suffix, settings) in CASES {
        run.step(case);
        let (network, vehicle) = NemoNetwork::with_vehicle(Duration::ZERO, "", &settings.concat())?;
        sleep(SETTLE_TIME);
        let daemons = [("mr", &vehicle.daemon), ("ha", &network.home_agent)];
        let usage = || daemons.iter().map(|(_, daemon)| daemon.usage()).collect::<Result<Vec<_>>>();
        let before = usage()?;
        sleep(watched);
        for (((who, daemon), before), after) in daemons.iter().zip(before).zip(usage()?) {
            let processor_ms = (after.cpu_time - before.cpu_time).as_secs_f64() * 1000.0;
            let figures = json!({
                "resident_kb": after.resident_kb,
                "private_kb": daemon.anonymous_memory()? / 1024,
                "wakeups_per_s": round((after.wakeups - before.wakeups) as f64 / watched.as_secs_f64()),
                "processor_ms_per_s": round(processor_ms / watched.as_secs_f64()),
            });
            for (key, value) in figures.as_object().into_iter().flatten() {
                run.summarise(&format!("{who}_{key}{suffix}"), value.clone());
            }
            run.rows.push(json!({ "who": who, "case": case, "figures": figures }));
        }
    }
    run.step("two uplinks without traffic");
    uplink_traffic(run)
}

/// The octets between the home agent and each of two uplinks without traffic, IPv6 headers included, in both directions.
fn uplink_traffic(run: &mut Run) -> Result<()> {
    // Not shorter than several probes; the long one has an update too.
    let watched = Duration::from_secs(if run.quick { 85 } else { 600 });
    let network = NemoNetwork::build(Duration::from_millis(25), 1, "")?;
    let vehicle = network.vehicle(0, &["up0", "up1"])?;
    let [fn1, fn2] = &network.visited;
    network.emulator.plug(vehicle.uplink(0)?, fn1.link)?;
    vehicle.wait_until_connected(CORRESPONDENT)?;
    vehicle.wait_registered(network.emulator.plug(vehicle.uplink(1)?, fn2.link)?, 2)?;
    sleep(SETTLE_TIME * 2);
    let links = [("primary", fn1.link), ("standby", fn2.link)];
    let octets = network.emulator.collect(move |octets: &mut [u64; 2], observed| {
        let Some(index) = links.iter().position(|(_, link)| observed.segment == *link) else { return };
        let parsed = observed.packet().and_then(|packet| Some((packet, Datagram::parse(packet).ok()?)));
        if let Some((packet, datagram)) = parsed
            && [datagram.source, datagram.destination].contains(&HOME_AGENT)
            && let Some(octets) = octets.get_mut(index)
        {
            *octets += packet.len() as u64;
        }
    });
    sleep(watched);
    let octets = *octets.lock();
    for ((name, _), octets) in links.iter().zip(octets) {
        run.require(octets > 0, || format!("no probe of the {name} uplink was seen"));
        let month = round(octets as f64 / 1e6 * MONTH_SECONDS / watched.as_secs_f64());
        run.rows
            .push(json!({ "uplink": name, "watched_s": watched.as_secs(), "octets": octets, "mb_per_month": month }));
        run.summarise(&format!("{name}_mb_per_month"), month);
    }
    Ok(())
}
