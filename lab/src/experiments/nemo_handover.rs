//! Gap and loss of a mobile network for each kind of handover (RFC 3963; not measured in P1).

use super::Experiment;
use crate::findings::{Findings, distribution, percentile, round};
use crate::load::handover::{HandoverMeasurement, HandoverTraffic, OBSERVATION_TIME, replug, round_trip};
use crate::topology::nemo::{CORRESPONDENT, NemoNetwork, Vehicle};
use crate::ui::Progress;
use anyhow::{Context, Result};
use roam6_proto::Report;
use roam6_proto::contract::report::NemoReport;
use roam6_sim::LinkSpec;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "nemo/handover",
    about: "gap and loss of planned, link-down, hard and black-hole handovers",
    run,
};

/// One-way delays to the home agent, milliseconds.
const DELAYS: [u64; 2] = [0, 25];
/// How long the second uplink may take to take over or to come back.
const TIMEOUT: Duration = Duration::from_secs(10);

/// All handovers of one kind at one delay.
struct Series {
    kind: &'static str,
    delay: u64,
    round_trip: f64,
    measurements: Vec<HandoverMeasurement>,
}

fn run(quick: bool) -> Result<Findings> {
    let times = if quick { 2 } else { 30 };
    let mut progress = Progress::new(times * 4 * DELAYS.len() as u64);
    let mut all = Vec::new();
    let mut tcp_survived = true;
    for delay in DELAYS {
        let (series, whole) = one_uplink(delay, times, &mut progress)?;
        all.push(series);
        tcp_survived &= whole;
        let (series, whole) = two_uplinks(delay, times, &mut progress)?;
        all.extend(series);
        tcp_survived &= whole;
    }
    Ok(summarise(&all, tcp_survived))
}

/// One uplink, re-plugged between the two access networks.
fn one_uplink(delay: u64, times: u64, progress: &mut Progress) -> Result<(Series, bool)> {
    let network = NemoNetwork::build(Duration::from_millis(delay), 1, "")?;
    let vehicle = network.vehicle(0, &["up0"])?;
    let uplink = vehicle.uplink(0)?;
    let [fn1, fn2] = &network.visited;
    network.emulator.plug(uplink, fn1.link)?;
    vehicle.wait_until_connected(CORRESPONDENT)?;
    sleep(OBSERVATION_TIME);
    let round_trip = round_trip(&vehicle)?;
    let traffic = HandoverTraffic::start(&network, &vehicle)?;
    sleep(OBSERVATION_TIME);
    let mut moves = Vec::new();
    for number in 0..times {
        progress.message(&format!("hard handovers, {delay} ms"));
        let to = if number % 2 == 0 { fn2.link } else { fn1.link };
        moves.push(traffic.measure(&vehicle, "hard", || replug(&network, uplink, to))?);
        progress.step();
    }
    let whole = traffic.finish()?.iter().all(crate::load::Delivery::is_complete);
    Ok((Series { kind: "hard", delay, round_trip, measurements: moves }, whole))
}

/// Two registered uplinks; the first loses its carrier, comes back, and becomes a black hole.
fn two_uplinks(delay: u64, times: u64, progress: &mut Progress) -> Result<(Vec<Series>, bool)> {
    let network = NemoNetwork::build(Duration::from_millis(delay), 1, "")?;
    let vehicle = network.vehicle(0, &["up0", "up1"])?;
    let (up0, up1) = (vehicle.uplink(0)?, vehicle.uplink(1)?);
    let [fn1, fn2] = &network.visited;
    network.emulator.plug(up0, fn1.link)?;
    vehicle.wait_until_connected(CORRESPONDENT)?;
    let second = network.emulator.plug(up1, fn2.link)?;
    wait_registered(&vehicle, second)?;
    sleep(OBSERVATION_TIME);
    let round_trip = round_trip(&vehicle)?;
    let traffic = HandoverTraffic::start(&network, &vehicle)?;
    sleep(OBSERVATION_TIME);
    let (mut link_down, mut planned, mut black_hole) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..times {
        progress.message(&format!("two uplinks, {delay} ms"));
        link_down.push(traffic.measure(&vehicle, "linkdown", || network.emulator.unplug(up0).map(|_| None))?);
        progress.step();
        planned.push(traffic.measure(&vehicle, "planned", || replug_preferred(&network, &vehicle))?);
        progress.step();
        black_hole.push(traffic.measure(&vehicle, "blackhole", || {
            network.emulator.shape(fn1.cable, LinkSpec { loss: 1.0, ..LinkSpec::default() });
            Ok(None)
        })?);
        progress.step();
        // A failed path is used again only after a hold-down time; a new registration starts afresh.
        network.emulator.shape(fn1.cable, LinkSpec::default());
        network.emulator.unplug(up0)?;
        sleep(OBSERVATION_TIME);
        replug_preferred(&network, &vehicle)?;
        sleep(OBSERVATION_TIME);
    }
    let whole = traffic.finish()?.iter().all(crate::load::Delivery::is_complete);
    let series = |kind, moves| Series { kind, delay, round_trip, measurements: moves };
    Ok((vec![series("linkdown", link_down), series("planned", planned), series("blackhole", black_hole)], whole))
}

/// Plugs the preferred uplink in again and waits until it is registered: traffic moves to it while the other stays up.
fn replug_preferred(network: &NemoNetwork, vehicle: &Vehicle) -> Result<Option<u64>> {
    let [fn1, _] = &network.visited;
    let at = network.emulator.plug(vehicle.uplink(0)?, fn1.link)?;
    wait_registered(vehicle, at)?;
    Ok(Some(at))
}

fn wait_registered(vehicle: &Vehicle, since: u64) -> Result<()> {
    let both =
        |report: &Report| matches!(report, Report::Nemo(NemoReport::Bound { care_of, .. }) if care_of.len() == 2);
    vehicle.daemon.events().wait_for(since, TIMEOUT, both).context("the two uplinks are not both registered")?;
    Ok(())
}

fn summarise(all: &[Series], tcp_survived: bool) -> Findings {
    let mut findings = Findings::default();
    findings.require(tcp_survived, || "a TCP connection did not survive".to_owned());
    for series in all {
        let figure = |pick: fn(&HandoverMeasurement) -> f64| {
            distribution(&series.measurements.iter().map(pick).collect::<Vec<_>>())
        };
        let from_up: Vec<f64> = series.measurements.iter().filter_map(|one| one.from_link_up).collect();
        for one in series.measurements.iter().filter(|one| !(one.recovered && one.tcp_survived)) {
            findings.add_fault(format!("packets or TCP did not continue after a handover: {}", one.row()));
        }
        findings.rows.push(json!({
            "kind": series.kind,
            "one_way_delay_ms": series.delay,
            "round_trip_ms": series.round_trip,
            "moves": series.measurements.len(),
            "gap_ms": figure(|one| one.gap),
            "gap_fine_ms": figure(|one| one.gap_fine),
            "link_up_to_packet_ms": distribution(&from_up),
            "parts_p50_ms": phase_medians(series),
            "lost": figure(|one| one.lost as f64),
            "lost_fine": figure(|one| one.lost_fine as f64),
            "healed": series.measurements.iter().filter(|one| one.recovered).count(),
            "each": series.measurements.iter().map(HandoverMeasurement::row).collect::<Vec<_>>(),
        }));
    }
    let of = |kind: &'static str| all.iter().filter(move |series| series.kind == kind);
    let planned: Vec<f64> =
        of("planned").flat_map(|one| &one.measurements).map(|one| (one.lost + one.lost_fine) as f64).collect();
    // The larger of both delays, each less its own round-trip time.
    let worst = |kind, pick: fn(&HandoverMeasurement) -> f64, less: bool| {
        let medians = of(kind).filter_map(move |series| {
            let values: Vec<f64> = series.measurements.iter().map(pick).collect();
            Some(percentile(&values, 0.5)? - if less { series.round_trip } else { 0.0 })
        });
        medians.fold(None, |worst: Option<f64>, value| Some(worst.map_or(value, |worst| worst.max(value)))).map(round)
    };
    findings.summarise("planned_lost_max", percentile(&planned, 1.0));
    findings.summarise("linkdown_gap_minus_rtt_ms_p50", worst("linkdown", |one| one.gap_fine, true));
    findings
        .summarise("hard_gap_minus_rtt_ms_p50", worst("hard", |one| one.from_link_up.unwrap_or(f64::INFINITY), true));
    findings.summarise("blackhole_gap_ms_p50", worst("blackhole", |one| one.gap_fine, false));
    findings.summarise("tcp_survived", u8::from(tcp_survived));
    findings
}

fn phase_medians(series: &Series) -> Value {
    let names = ["link_up_to_ra", "ra_to_bu", "bu_to_ba", "ba_to_packet"];
    let medians = names.iter().enumerate().map(|(index, name)| {
        let values: Vec<f64> =
            series.measurements.iter().filter_map(|one| one.phases.get(index).copied().flatten()).collect();
        ((*name).to_owned(), json!(percentile(&values, 0.5).map(round)))
    });
    Value::Object(medians.collect())
}
