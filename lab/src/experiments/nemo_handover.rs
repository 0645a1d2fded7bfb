//! Gap and loss of a mobile network for each kind of handover (RFC 3963; not measured in P1).

use crate::experiments::prelude::*;
use crate::load::Delivery;
use crate::load::handover::{
    HandoverMeasurement, HandoverSeries, HandoverTraffic, OBSERVATION_TIME, replug, round_trip,
};
use crate::topology::nemo::{CORRESPONDENT, NemoNetwork, Vehicle};
use roam6_sim::LinkSpec;

/// One-way delays to the home agent, milliseconds.
const DELAYS: [u64; 2] = [0, 25];

/// Measures so many handovers of each of its kinds at one delay. The series, and whether TCP survived.
type Measure = fn(&Run, u64, usize) -> Result<(Vec<Series>, bool)>;

/// All handovers of one kind at one delay.
struct Series {
    kind: &'static str,
    delay: u64,
    handovers: HandoverSeries,
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    // An interval of a median needs six values; with nine, one that is late is outside of it. A handover with two uplinks takes
    // five times as long as one without: a quick run has fewer of them, and at the longer delay alone.
    let (times, far) = if run.quick { ([9, 6], DELAYS.split_at(1).1) } else { ([30; 2], &DELAYS[..]) };
    let delays: [&[u64]; 2] = [&DELAYS, far];
    run.set_steps(times[0] * delays[0].len() + 3 * times[1] * delays[1].len());
    let (mut all, mut tcp_survived) = (Vec::new(), true);
    let measures: [Measure; 2] = [one_uplink, two_uplinks];
    for ((measure, delays), times) in measures.into_iter().zip(delays).zip(times) {
        for delay in delays {
            let (series, survived) = measure(run, *delay, times)?;
            all.extend(series);
            tcp_survived &= survived;
        }
    }
    run.require_tcp(tcp_survived);
    summarise(run, &all);
    Ok(())
}

/// One uplink, re-plugged between the two access networks.
fn one_uplink(run: &Run, delay: u64, times: usize) -> Result<(Vec<Series>, bool)> {
    let (network, vehicle) = NemoNetwork::with_vehicle(Duration::from_millis(delay), "", "")?;
    let (uplink, [fn1, fn2]) = (vehicle.uplink(0)?, &network.visited);
    sleep(OBSERVATION_TIME);
    let round_trip = round_trip(&vehicle)?;
    let traffic = HandoverTraffic::start(&network, &vehicle)?;
    sleep(OBSERVATION_TIME);
    let mut measurements = Vec::new();
    for number in 0..times {
        run.step(&format!("hard handovers, {delay} ms"));
        let to = if number % 2 == 0 { fn2.link } else { fn1.link };
        measurements.push(traffic.measure(&vehicle, "hard", || replug(&network, uplink, to))?);
    }
    let survived = traffic.finish()?.iter().all(Delivery::is_complete);
    Ok((vec![Series { kind: "hard", delay, handovers: HandoverSeries { round_trip, measurements } }], survived))
}

/// Two registered uplinks; the first loses its carrier, comes back, and becomes a black hole.
fn two_uplinks(run: &Run, delay: u64, times: usize) -> Result<(Vec<Series>, bool)> {
    let network = NemoNetwork::build(Duration::from_millis(delay), 1, "")?;
    let vehicle = network.vehicle(0, &["up0", "up1"])?;
    let (up0, up1) = (vehicle.uplink(0)?, vehicle.uplink(1)?);
    let [fn1, fn2] = &network.visited;
    network.emulator.plug(up0, fn1.link)?;
    vehicle.wait_until_connected(CORRESPONDENT)?;
    vehicle.wait_registered(network.emulator.plug(up1, fn2.link)?, 2)?;
    sleep(OBSERVATION_TIME);
    let round_trip = round_trip(&vehicle)?;
    let traffic = HandoverTraffic::start(&network, &vehicle)?;
    sleep(OBSERVATION_TIME);
    let mut series = ["linkdown", "planned", "blackhole"].map(|kind| Series {
        kind,
        delay,
        handovers: HandoverSeries { round_trip, measurements: Vec::new() },
    });
    for _ in 0..times {
        for Series { kind, handovers, .. } in &mut series {
            run.step(&format!("two uplinks, {delay} ms"));
            handovers.measurements.push(traffic.measure(&vehicle, *kind, || match *kind {
                "linkdown" => network.emulator.unplug(up0).map(|_| None),
                "planned" => replug_preferred(&network, &vehicle),
                _ => {
                    network.emulator.shape(fn1.cable, LinkSpec { loss: 1.0, ..LinkSpec::default() });
                    Ok(None)
                }
            })?);
        }
        // A failed path is used again only after a hold-down time; a new registration starts afresh.
        network.emulator.shape(fn1.cable, LinkSpec::default());
        network.emulator.unplug(up0)?;
        sleep(OBSERVATION_TIME);
        replug_preferred(&network, &vehicle)?;
        sleep(OBSERVATION_TIME);
    }
    Ok((series.into(), traffic.finish()?.iter().all(Delivery::is_complete)))
}

/// Plugs the preferred uplink in again and waits until it is registered: traffic moves to it while the other stays up.
fn replug_preferred(network: &NemoNetwork, vehicle: &Vehicle) -> Result<Option<u64>> {
    let [fn1, _] = &network.visited;
    let at = network.emulator.plug(vehicle.uplink(0)?, fn1.link)?;
    vehicle.wait_registered(at, 2).map(|()| Some(at))
}

fn summarise(run: &mut Run, all: &[Series]) {
    for Series { kind, delay, handovers } in all {
        let row = json!({
            "kind": kind,
            "one_way_delay_ms": delay,
            "round_trip_ms": handovers.round_trip,
            "gap_ms": distribution(handovers.each(|one| one.gap)),
            "link_up_to_packet_ms": distribution(handovers.measurements.iter().filter_map(|one| one.from_link_up)),
            "parts_p50_ms": phase_medians(&handovers.measurements),
            "healed": handovers.measurements.iter().filter(|one| one.recovered).count(),
        });
        handovers.report(run, row);
    }
    let of = |kind: &'static str| all.iter().filter(move |series| series.kind == kind).map(|series| &series.handovers);
    let planned = of("planned").flat_map(|series| series.each(|one| (one.lost + one.lost_fine) as f64));
    run.summarise("planned_lost_max", percentile(planned, 1.0));
    // The larger of both delays, each less its own round-trip time.
    let worst = |kind, pick: fn(&HandoverMeasurement) -> f64, less: bool| {
        let medians = of(kind).filter_map(move |series| {
            let less = if less { series.round_trip } else { 0.0 };
            median(&series.each(pick).map(|gap| gap - less).collect::<Vec<_>>(), LEVEL)
        });
        Estimate::most(medians)
    };
    let from_link_up = |one: &HandoverMeasurement| one.from_link_up.unwrap_or(f64::INFINITY);
    run.estimate("linkdown_gap_minus_rtt_ms_p50", worst("linkdown", |one| one.gap_fine, true));
    run.estimate("hard_gap_minus_rtt_ms_p50", worst("hard", from_link_up, true));
    run.estimate("blackhole_gap_ms_p50", worst("blackhole", |one| one.gap_fine, false));
}

fn phase_medians(measurements: &[HandoverMeasurement]) -> Value {
    let names = ["link_up_to_ra", "ra_to_bu", "bu_to_ba", "ba_to_packet"];
    let medians = names.iter().enumerate().map(|(index, name)| {
        let phases = measurements.iter().filter_map(|one| one.phases.get(index).copied().flatten());
        ((*name).to_owned(), json!(percentile(phases, 0.5).map(round)))
    });
    Value::Object(medians.collect())
}
