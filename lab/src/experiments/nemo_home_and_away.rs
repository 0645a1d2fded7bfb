//! One uplink at home and one away (RFC 5648 §5.6): the gap when either is pulled or plugged in again.

use super::Experiment;
use crate::bed::{Port, Segment};
use crate::figures::{Findings, percentile, round, spread};
use crate::handover::{Move, SETTLE, Traffic, round_trip};
use crate::progress::Progress;
use crate::topology::{CORRESPONDENT, Vehicle, World};
use crate::traffic::Delivery;
use anyhow::{Context, Result};
use roam6_proto::Report;
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
const PATIENCE: Duration = Duration::from_secs(10);
/// The actions of a round, each with the uplink concerned.
const TURN: [(&str, Which, bool); 4] = [
    ("home pulled", Which::Home, false),
    ("home back", Which::Home, true),
    ("abroad pulled", Which::Abroad, false),
    ("abroad back", Which::Abroad, true),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Home,
    Abroad,
}

/// One kind of handover under one policy.
struct Series {
    policy: &'static str,
    what: &'static str,
    carrying: bool,
    round_trip: f64,
    moves: Vec<Move>,
}

fn run(quick: bool) -> Result<Findings> {
    let times = if quick { 1 } else { 10 };
    let policies = [("home preferred", Which::Home), ("home as backup", Which::Abroad)];
    let mut progress = Progress::new(times * (TURN.len() * policies.len()) as u64);
    let (mut all, mut tcp_survived) = (Vec::new(), true);
    for (policy, preferred) in policies {
        let (series, whole) = measure((policy, preferred), times, &mut progress)?;
        all.extend(series);
        tcp_survived &= whole;
    }
    Ok(report(&all, tcp_survived))
}

fn measure(
    (policy, preferred): (&'static str, Which),
    times: u64,
    progress: &mut Progress,
) -> Result<(Vec<Series>, bool)> {
    let world = World::build(Duration::ZERO, 1, "")?;
    let vehicle = world.vehicle_with(0, &["up0", "up1"], "home_and_away = true\n")?;
    let (first, second) = (vehicle.uplink(0)?, vehicle.uplink(1)?);
    let (at_home, abroad) = if preferred == Which::Home { (first, second) } else { (second, first) };
    let place = |which| -> (Port, Segment) {
        let [fn1, _] = &world.visited;
        if which == Which::Home { (at_home, world.home) } else { (abroad, fn1.link) }
    };
    let plug = |which| {
        let (port, segment) = place(which);
        let at = world.air.plug(port, segment)?;
        wait_both(&vehicle, at).map(|()| Some(at))
    };
    world.air.plug(abroad, place(Which::Abroad).1)?;
    vehicle.wait_until_connected(CORRESPONDENT)?;
    plug(Which::Home)?;
    sleep(SETTLE);
    let round_trip = round_trip(&vehicle)?;
    let traffic = Traffic::start(&world, &vehicle)?;
    sleep(SETTLE);
    let series = |(what, which, back): (&'static str, Which, bool)| {
        let carrying = which == preferred && !back;
        Series { policy, what, carrying, round_trip, moves: Vec::new() }
    };
    let mut all: Vec<Series> = TURN.into_iter().map(series).collect();
    for _ in 0..times {
        progress.say(policy);
        for ((what, which, back), series) in TURN.into_iter().zip(&mut all) {
            series.moves.push(traffic.measure(&vehicle, what, || match back {
                true => plug(which),
                false => world.air.unplug(place(which).0).map(|_| None),
            })?);
            progress.step();
        }
    }
    let whole = traffic.finish()?.iter().all(Delivery::is_whole);
    Ok((all, whole))
}

fn wait_both(vehicle: &Vehicle, since: u64) -> Result<()> {
    let both = |report: &Report| matches!(report, Report::Bound { care_of, .. } if care_of.len() == 2);
    vehicle.daemon.events().wait(since, PATIENCE, both).context("home and away were not registered")?;
    Ok(())
}

fn report(all: &[Series], tcp_survived: bool) -> Findings {
    let mut findings = Findings::default();
    findings.require(tcp_survived, || "a TCP connection did not survive".to_owned());
    for series in all {
        let figure = |pick: fn(&Move) -> f64| spread(&series.moves.iter().map(pick).collect::<Vec<_>>());
        for one in series.moves.iter().filter(|one| !(one.healed && one.tcp_lives)) {
            findings.blame(format!("packets or TCP did not go on after a move: {}", one.row()));
        }
        findings.rows.push(json!({
            "policy": series.policy,
            "what": series.what,
            "moves": series.moves.len(),
            "gap_fine_ms": figure(|one| one.gap_fine),
            "lost": figure(|one| one.lost as f64),
            "lost_fine": figure(|one| one.lost_fine as f64),
            "each": series.moves.iter().map(Move::row).collect::<Vec<_>>(),
        }));
    }
    let pulled: Vec<f64> = all
        .iter()
        .filter(|series| series.carrying)
        .flat_map(|series| series.moves.iter().map(|one| one.gap_fine - series.round_trip))
        .collect();
    let others = all.iter().filter(|series| !series.carrying).flat_map(|series| &series.moves);
    let lost: Vec<f64> = others.map(|one| (one.lost + one.lost_fine) as f64).collect();
    findings.sum_up("pulled_gap_minus_rtt_ms_p50", percentile(&pulled, 0.5).map(round));
    findings.sum_up("otherwise_lost_max", percentile(&lost, 1.0));
    findings.sum_up("tcp_survived", u8::from(tcp_survived));
    findings
}
