//! Greedy forwarding on one core from and to a packet socket: packets per second by number of neighbours, and latency.

use super::Experiment;
use crate::bed::{Daemon, Host};
use crate::clock;
use crate::findings::{Findings, distribution, percentile, round};
use crate::load::geo_stations::{EmulatedStations, FORWARDER};
use crate::ui::Progress;
use anyhow::{Context, Result};
use serde_json::json;
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "geonet/forwarding",
    about: "packets per second of a forwarder on one core with 1, 10, 50 and 200 neighbours",
    run,
};

const NEIGHBOURS: [u16; 4] = [1, 10, 50, 200];
/// Octets of a frame, Ethernet header included.
const FRAME: usize = 117;
/// Duration of each burst.
const BURST: Duration = Duration::from_secs(3);
/// Packets of the latency measurement, and their interval.
const LATENCY_SAMPLES: usize = 2000;
const PAUSE: Duration = Duration::from_millis(1);
/// No rate limits per source, because all packets have one source. The forwarder sends nothing of its own.
const CONFIG: &str = "[geo]\ninterfaces = [\"radio0\"]\nposition = { latitude = 48.0, longitude = 11.0 }\n\
                      packet_data_rate = 4294967295\nbeacon = \"60s\"\n";

fn run(quick: bool) -> Result<Findings> {
    let rounds = if quick { 1 } else { 5 };
    let mut findings = Findings::default();
    let mut progress = Progress::new((NEIGHBOURS.len() * rounds) as u64);
    let mut rates = vec![Vec::new(); NEIGHBOURS.len()];
    let mut trips = vec![Vec::new(); NEIGHBOURS.len()];
    // In turn, so that load of the machine affects all of them.
    for _ in 0..rounds {
        for (index, neighbours) in NEIGHBOURS.iter().enumerate() {
            progress.message(&format!("{neighbours} neighbours"));
            let seen = measure(*neighbours, quick)?;
            findings.require(seen.is_correct, || {
                format!("{neighbours} neighbours: not every packet was forwarded to the right next hop")
            });
            if let (Some(rates), Some(trips)) = (rates.get_mut(index), trips.get_mut(index)) {
                rates.push(seen.pps);
                trips.extend(seen.latencies);
            }
            progress.step();
        }
    }
    let mut middles = Vec::new();
    for ((neighbours, rates), trips) in NEIGHBOURS.iter().zip(&rates).zip(&trips) {
        let (pps, late) = (percentile(rates, 0.5), percentile(trips, 0.5));
        findings.rows.push(json!({
            "neighbours": neighbours, "frame_octets": FRAME, "pps_of_a_core": distribution(rates), "latency_us": distribution(trips),
        }));
        middles.extend(pps);
        findings.summarise(&format!("greedy_pps_{neighbours}"), pps.map(f64::round));
        findings.summarise(&format!("latency_us_p50_{neighbours}"), late.map(round));
    }
    if let (Some(few), Some(many)) = (middles.first(), middles.last()) {
        findings.summarise("greedy_200_over_1", round(many / few.max(1.0)));
    }
    Ok(findings)
}

/// The result of one burst.
struct BurstResult {
    /// Packets forwarded per second of CPU time.
    pps: f64,
    /// Forwarding latency, microseconds.
    latencies: Vec<f64>,
    /// Whether every checked packet was forwarded once, with one hop less, to the right neighbour.
    is_correct: bool,
}

fn measure(neighbours: u16, quick: bool) -> Result<BurstResult> {
    let (forwarder, network) = (Host::new("forwarder")?, Host::new("network")?);
    forwarder.ip(&[&format!("link add radio0 address {FORWARDER} type veth peer name air0 netns network")])?;
    for (host, name) in [(&forwarder, "radio0"), (&network, "air0")] {
        host.set_sysctl(&format!("ipv6/conf/{name}/disable_ipv6"), "1")?;
        host.ip(&[&format!("link set {name} up")])?;
    }
    let daemon = Daemon::start(&forwarder, CONFIG)?;
    let mut play = EmulatedStations::open(&network, "air0", neighbours)?;
    play.send_beacons()?;
    let known = || wait_for_neighbours(&daemon, neighbours);
    clock::wait_for(Duration::from_secs(10), known).context("the forwarder does not know its neighbours")?;
    let (checked, trips) =
        play.measure_latency(if quick { LATENCY_SAMPLES / 4 } else { LATENCY_SAMPLES }, PAUSE, FRAME)?;
    play.send_beacons()?;
    let before = daemon.usage()?.cpu_time;
    let forwarded = play.send_burst(if quick { BURST / 3 } else { BURST }, FRAME)?;
    let spent = daemon.usage()?.cpu_time.saturating_sub(before);
    Ok(BurstResult {
        pps: forwarded as f64 / spent.as_secs_f64().max(1e-9),
        latencies: trips,
        is_correct: checked && forwarded > 0,
    })
}

fn wait_for_neighbours(daemon: &Daemon, neighbours: u16) -> Option<()> {
    let shown: serde_json::Value = serde_json::from_str(&daemon.query(&["show", "stations", "--json"]).ok()?).ok()?;
    let near =
        shown.as_array()?.iter().filter(|row| row.get("state").and_then(|state| state.as_str()) == Some("neighbour"));
    (near.count() == usize::from(neighbours)).then_some(())
}
