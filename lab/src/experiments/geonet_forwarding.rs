//! Greedy forwarding on one core from and to a packet socket: packets per second by number of neighbours, and latency.

use crate::bed::{Daemon, Host};
use crate::experiments::prelude::*;
use crate::load::geo_stations::{EmulatedStations, FORWARDER};

const NEIGHBOURS: [u16; 4] = [1, 10, 50, 200];
/// Rounds of a quick run, and the time of a full one.
const QUICK: usize = 6;
const BUDGET: Duration = Duration::from_secs(600);
/// Neighbours, packets per second of each round, and latencies.
type Lane = (u16, Vec<f64>, Vec<f64>);
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

pub(super) fn run(run: &mut Run) -> Result<()> {
    let mut rounds = if run.quick { Rounds::fixed(run, QUICK) } else { Rounds::growing(run, [BUDGET; 2]) };
    run.set_steps(rounds.expected());
    let mut results: Vec<Lane> = NEIGHBOURS.map(|neighbours| (neighbours, Vec::new(), Vec::new())).into();
    while let Some(at) = rounds.next() {
        run.step(&format!("round {}", at + 1));
        let of_round = measure_round(run, at)?;
        if rounds.keep() {
            for (neighbours, rates, latencies) in &mut results {
                let own = of_round.iter().filter(|(number, _)| number == neighbours);
                own.for_each(|(_, result)| {
                    rates.push(result.pps);
                    latencies.extend(&result.latencies);
                });
            }
        }
        rounds.look(|rounds| estimates(rounds, &results));
    }
    run.estimate_all(estimates(&rounds, &results));
    rounds.finish(run);
    for (neighbours, rates, latencies) in &results {
        run.rows.push(json!({
            "neighbours": neighbours, "frame_octets": FRAME, "pps_of_a_core": distribution(rates), "latency_us": distribution(latencies),
        }));
        run.summarise(&format!("latency_us_p50_{neighbours}"), percentile(latencies, 0.5).map(round));
    }
    Ok(())
}

/// Measures each number of neighbours once. Another one begins each round, so that a machine that slows down does not look like
/// an effect of their number.
fn measure_round(run: &mut Run, at: usize) -> Result<Vec<(u16, BurstResult)>> {
    let mut turn = NEIGHBOURS;
    turn.rotate_left(at % NEIGHBOURS.len());
    let mut results = Vec::new();
    for neighbours in turn {
        let result = measure(neighbours, run.quick, (FRAME, Frames::Unsecured))?;
        run.require(result.is_correct, || {
            format!("{neighbours} neighbours: not every packet was forwarded to the right next hop")
        });
        results.push((neighbours, result));
    }
    Ok(results)
}

fn estimates(rounds: &Rounds, results: &[Lane]) -> Vec<NamedEstimate> {
    let rate = |(neighbours, rates, _): &Lane| (format!("greedy_pps_{neighbours}"), rounds.median(rates));
    let mut figures: Vec<NamedEstimate> = results.iter().map(rate).collect();
    if let [(_, few, _), .., (_, many, _)] = results {
        figures.push(("greedy_200_over_1".to_owned(), rounds.ratio(many, few)));
    }
    figures
}

/// Which frames are forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frames {
    /// Frames without security.
    Unsecured,
    /// Frames in envelopes, which the forwarder does not verify.
    Secured,
}

/// The result of one burst.
pub(super) struct BurstResult {
    /// Packets forwarded per second of CPU time.
    pub(super) pps: f64,
    /// Forwarding latency, microseconds.
    latencies: Vec<f64>,
    /// Whether every checked packet was forwarded once, with one hop less, to the right neighbour.
    pub(super) is_correct: bool,
}

/// Forwards frames of so many octets among so many neighbours.
pub(super) fn measure(neighbours: u16, quick: bool, (octets, frames): (usize, Frames)) -> Result<BurstResult> {
    let (forwarder, network) = (Host::new("forwarder")?, Host::new("network")?);
    forwarder.ip(&[&format!("link add radio0 address {FORWARDER} type veth peer name air0 netns network")])?;
    for (host, name) in [(&forwarder, "radio0"), (&network, "air0")] {
        host.set_sysctl(&format!("ipv6/conf/{name}/disable_ipv6"), "1")?;
        host.ip(&[&format!("link set {name} up")])?;
    }
    let daemon = Daemon::start(&forwarder, CONFIG)?;
    let mut stations = EmulatedStations::open(&network, "air0", neighbours)?;
    if frames == Frames::Secured {
        stations.secure();
    }
    stations.send_beacons()?;
    let known = || daemon.neighbour_count().ok().filter(|count| *count == usize::from(neighbours));
    clock::wait_for(Duration::from_secs(10), known).context("the forwarder does not know its neighbours")?;
    let (checked, latencies) =
        stations.measure_latency(if quick { LATENCY_SAMPLES / 4 } else { LATENCY_SAMPLES }, PAUSE, octets)?;
    stations.send_beacons()?;
    let before = daemon.usage()?.cpu_time;
    let forwarded = stations.send_burst(if quick { BURST / 3 } else { BURST }, octets)?;
    let spent = daemon.usage()?.cpu_time.saturating_sub(before);
    Ok(BurstResult {
        pps: forwarded as f64 / spent.as_secs_f64().max(1e-9),
        latencies,
        is_correct: checked && forwarded > 0,
    })
}
