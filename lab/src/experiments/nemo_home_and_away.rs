//! One uplink at home and one away (RFC 5648 §5.6): the gap when either is pulled or plugged in again.

use super::Experiment;
use crate::bed::{Port, Segment};
use crate::findings::{Findings, distribution, percentile, round};
use crate::load::Delivery;
use crate::load::handover::{HandoverMeasurement, HandoverTraffic, OBSERVATION_TIME, round_trip};
use crate::topology::nemo::{CORRESPONDENT, NemoNetwork, Vehicle};
use crate::ui::Progress;
use anyhow::{Context, Result};
use roam6_proto::Report;
use roam6_proto::contract::report::NemoReport;
use serde_json::json;
use std::thread::sleep;
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "nemo/home-and-away",
    about: "one uplink at home, one away, both in use: gap and loss when either is pulled or comes back",
    run,
};

/// How long both registrations may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The actions of a round, each with the uplink concerned.
const CYCLE: [(&str, UplinkRole, bool); 4] = [
    ("home pulled", UplinkRole::Home, false),
    ("home back", UplinkRole::Home, true),
    ("abroad pulled", UplinkRole::Visited, false),
    ("abroad back", UplinkRole::Visited, true),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum UplinkRole {
    Home,
    Visited,
}

/// One kind of handover under one policy.
struct Series {
    policy: &'static str,
    what: &'static str,
    carrying: bool,
    round_trip: f64,
    measurements: Vec<HandoverMeasurement>,
}

fn run(quick: bool) -> Result<Findings> {
    let times = if quick { 1 } else { 10 };
    let policies = [("home preferred", UplinkRole::Home), ("home as backup", UplinkRole::Visited)];
    let mut progress = Progress::new(times * (CYCLE.len() * policies.len()) as u64);
    let (mut all, mut tcp_survived) = (Vec::new(), true);
    for (policy, preferred) in policies {
        let (series, whole) = measure((policy, preferred), times, &mut progress)?;
        all.extend(series);
        tcp_survived &= whole;
    }
    Ok(summarise(&all, tcp_survived))
}

fn measure(
    (policy, preferred): (&'static str, UplinkRole),
    times: u64,
    progress: &mut Progress,
) -> Result<(Vec<Series>, bool)> {
    let network = NemoNetwork::build(Duration::ZERO, 1, "")?;
    let vehicle = network.vehicle_with(0, &["up0", "up1"], "home_and_away = true\n")?;
    let (first, second) = (vehicle.uplink(0)?, vehicle.uplink(1)?);
    let (at_home, abroad) = if preferred == UplinkRole::Home { (first, second) } else { (second, first) };
    let place = |which| -> (Port, Segment) {
        let [fn1, _] = &network.visited;
        if which == UplinkRole::Home { (at_home, network.home_link) } else { (abroad, fn1.link) }
    };
    let plug = |which| {
        let (port, segment) = place(which);
        let at = network.emulator.plug(port, segment)?;
        wait_both(&vehicle, at).map(|()| Some(at))
    };
    network.emulator.plug(abroad, place(UplinkRole::Visited).1)?;
    vehicle.wait_until_connected(CORRESPONDENT)?;
    plug(UplinkRole::Home)?;
    sleep(OBSERVATION_TIME);
    let round_trip = round_trip(&vehicle)?;
    let traffic = HandoverTraffic::start(&network, &vehicle)?;
    sleep(OBSERVATION_TIME);
    let series = |(what, which, back): (&'static str, UplinkRole, bool)| {
        let carrying = which == preferred && !back;
        Series { policy, what, carrying, round_trip, measurements: Vec::new() }
    };
    let mut all: Vec<Series> = CYCLE.into_iter().map(series).collect();
    for _ in 0..times {
        progress.message(policy);
        for ((what, which, back), series) in CYCLE.into_iter().zip(&mut all) {
            series.measurements.push(traffic.measure(&vehicle, what, || match back {
                true => plug(which),
                false => network.emulator.unplug(place(which).0).map(|_| None),
            })?);
            progress.step();
        }
    }
    let whole = traffic.finish()?.iter().all(Delivery::is_complete);
    Ok((all, whole))
}

fn wait_both(vehicle: &Vehicle, since: u64) -> Result<()> {
    let both =
        |report: &Report| matches!(report, Report::Nemo(NemoReport::Bound { care_of, .. }) if care_of.len() == 2);
    vehicle
        .daemon
        .events()
        .wait_for(since, TIMEOUT, both)
        .context("home and care-of address are not both registered")?;
    Ok(())
}

fn summarise(all: &[Series], tcp_survived: bool) -> Findings {
    let mut findings = Findings::default();
    findings.require(tcp_survived, || "a TCP connection did not survive".to_owned());
    for series in all {
        let figure = |pick: fn(&HandoverMeasurement) -> f64| {
            distribution(&series.measurements.iter().map(pick).collect::<Vec<_>>())
        };
        for one in series.measurements.iter().filter(|one| !(one.recovered && one.tcp_survived)) {
            findings.add_fault(format!("packets or TCP did not continue after a handover: {}", one.row()));
        }
        findings.rows.push(json!({
            "policy": series.policy,
            "what": series.what,
            "moves": series.measurements.len(),
            "gap_fine_ms": figure(|one| one.gap_fine),
            "lost": figure(|one| one.lost as f64),
            "lost_fine": figure(|one| one.lost_fine as f64),
            "each": series.measurements.iter().map(HandoverMeasurement::row).collect::<Vec<_>>(),
        }));
    }
    let pulled: Vec<f64> = all
        .iter()
        .filter(|series| series.carrying)
        .flat_map(|series| series.measurements.iter().map(|one| one.gap_fine - series.round_trip))
        .collect();
    let others = all.iter().filter(|series| !series.carrying).flat_map(|series| &series.measurements);
    let lost: Vec<f64> = others.map(|one| (one.lost + one.lost_fine) as f64).collect();
    findings.summarise("pulled_gap_minus_rtt_ms_p50", percentile(&pulled, 0.5).map(round));
    findings.summarise("otherwise_lost_max", percentile(&lost, 1.0));
    findings.summarise("tcp_survived", u8::from(tcp_survived));
    findings
}
