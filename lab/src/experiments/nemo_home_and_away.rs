//! One uplink at home and one away (RFC 5648 §5.6): the gap when either is pulled or plugged in again.

use crate::bed::{Port, Segment};
use crate::experiments::prelude::*;
use crate::load::Delivery;
use crate::load::handover::{HandoverSeries, HandoverTraffic, OBSERVATION_TIME, round_trip};
use crate::topology::nemo::{CORRESPONDENT, NemoNetwork};

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
    handovers: HandoverSeries,
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let times = if run.quick { 1 } else { 10 };
    let policies = [("home preferred", UplinkRole::Home), ("home as backup", UplinkRole::Visited)];
    run.set_steps(times * CYCLE.len() * policies.len());
    let (mut all, mut tcp_survived) = (Vec::new(), true);
    for policy in policies {
        let (series, whole) = measure(run, policy, times)?;
        all.extend(series);
        tcp_survived &= whole;
    }
    run.require_tcp(tcp_survived);
    summarise(run, &all);
    Ok(())
}

/// The series of one policy, and whether TCP survived.
fn measure(run: &Run, policy: (&'static str, UplinkRole), times: usize) -> Result<(Vec<Series>, bool)> {
    let (policy, preferred) = policy;
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
        vehicle.wait_registered(at, 2).map(|()| Some(at))
    };
    network.emulator.plug(abroad, place(UplinkRole::Visited).1)?;
    vehicle.wait_until_connected(CORRESPONDENT)?;
    plug(UplinkRole::Home)?;
    sleep(OBSERVATION_TIME);
    let round_trip = round_trip(&vehicle)?;
    let traffic = HandoverTraffic::start(&network, &vehicle)?;
    sleep(OBSERVATION_TIME);
    let mut all = CYCLE.map(|(what, which, back)| {
        let handovers = HandoverSeries { round_trip, measurements: Vec::new() };
        Series { policy, what, carrying: which == preferred && !back, handovers }
    });
    for _ in 0..times {
        for ((what, which, back), series) in CYCLE.into_iter().zip(&mut all) {
            run.step(policy);
            series.handovers.measurements.push(traffic.measure(&vehicle, what, || match back {
                true => plug(which),
                false => network.emulator.unplug(place(which).0).map(|_| None),
            })?);
        }
    }
    Ok((all.into(), traffic.finish()?.iter().all(Delivery::is_complete)))
}

fn summarise(run: &mut Run, all: &[Series]) {
    for Series { policy, what, handovers, .. } in all {
        handovers.report(run, json!({ "policy": policy, "what": what }));
    }
    let series = |carrying| all.iter().filter(move |series| series.carrying == carrying).map(|one| &one.handovers);
    let pulled = series(true).flat_map(|one| one.each(|one| one.gap_fine).map(|gap| gap - one.round_trip));
    let lost = series(false).flat_map(|one| one.each(|one| (one.lost + one.lost_fine) as f64));
    run.estimate("pulled_gap_minus_rtt_ms_p50", median(&pulled.collect::<Vec<_>>(), LEVEL));
    run.summarise("otherwise_lost_max", percentile(lost, 1.0));
}
