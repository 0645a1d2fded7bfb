//! Daemons killed under traffic: lost packets and bindings, and forwarding while the daemon is down.

use super::Experiment;
use crate::bed::Daemon;
use crate::clock;
use crate::findings::{Findings, round};
use crate::load::handover::{HandoverTraffic, OBSERVATION_TIME, replug};
use crate::load::{Delivery, Stamp};
use crate::topology::nemo::{CORRESPONDENT, NemoNetwork, Vehicle};
use crate::ui::Progress;
use anyhow::{Context, Result};
use roam6_proto::Report;
use roam6_proto::contract::report::NemoReport;
use roam6_proto::contract::view::{BindingState, BindingView};
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment =
    Experiment { name: "nemo/crash", about: "kill -9 of home agent and mobile router under traffic", run };

/// Time from the kill to the restart.
const DOWNTIME: Duration = Duration::from_secs(3);
/// How long recovery may take.
const TIMEOUT: Duration = Duration::from_secs(10);

fn run(quick: bool) -> Result<Findings> {
    let times = if quick { 1 } else { 10 };
    let mut progress = Progress::new(times * 3);
    let mut network = NemoNetwork::build(Duration::from_millis(5), 1, "duplicate_detection = false")?;
    let mut vehicle = network.vehicle(0, &["up0"])?;
    let uplink = vehicle.uplink(0)?;
    let networks = [network.visited[0].link, network.visited[1].link];
    let [fn1, fn2] = networks;
    network.emulator.plug(uplink, fn1)?;
    vehicle.wait_until_connected(CORRESPONDENT)?;
    let traffic = HandoverTraffic::start(&network, &vehicle)?;
    sleep(OBSERVATION_TIME);
    let mut findings = Findings::default();
    for number in 0..times {
        progress.message("home agent killed");
        let row = outage(&traffic, "home agent killed, restarted", &mut network.home_agent, |daemon| {
            has_bindings(daemon, 1)
        })?;
        add_row(&mut findings, row);
        progress.step();
        progress.message("mobile router killed");
        let row =
            outage(&traffic, "mobile router killed, restarted", &mut vehicle.daemon, |daemon| has_bindings(daemon, 1))?;
        add_row(&mut findings, row);
        progress.step();
        progress.message("home agent killed, vehicle moves");
        let to = if number % 2 == 0 { fn2 } else { fn1 };
        let row = move_while_agent_down(&traffic, &mut network, &vehicle, to)?;
        add_row(&mut findings, row);
        progress.step();
    }
    let deliveries = traffic.finish()?;
    let whole = deliveries.iter().all(Delivery::is_complete);
    findings.require(whole, || "the transfer did not survive".to_owned());
    let most = |what: &str| {
        let told = |row: &&Value| row.get("what").and_then(Value::as_str).is_some_and(|name| name.starts_with(what));
        let lost = |row: &Value| row.get("lost_of_1000_per_s").and_then(Value::as_u64);
        findings.rows.iter().filter(told).filter_map(lost).max()
    };
    let (agent, router) = (most("home agent killed, restarted"), most("mobile router killed"));
    findings.summarise("ha_killed_lost_max", agent);
    findings.summarise("mr_killed_lost_max", router);
    findings.summarise("tcp_survived", u8::from(whole));
    Ok(findings)
}

fn add_row(findings: &mut Findings, row: Value) {
    let kept = row.get("binding_kept") == Some(&json!(true));
    findings.require(kept, || format!("the binding was lost: {row}"));
    findings.rows.push(row);
}

/// Kills a daemon and restarts it; measures the traffic in both phases.
fn outage(
    traffic: &HandoverTraffic,
    what: &str,
    daemon: &mut Daemon,
    is_well: impl Fn(&Daemon) -> bool,
) -> Result<Value> {
    let begin = clock::unix_micros();
    daemon.kill();
    sleep(DOWNTIME);
    let back = clock::unix_micros();
    daemon.spawn()?;
    let restart = clock::unix_micros() - back;
    let well = clock::wait_for(TIMEOUT, || is_well(daemon).then_some(())).is_some();
    sleep(OBSERVATION_TIME);
    let end = clock::unix_micros() - 150_000;
    let lost = |from, to| {
        traffic.fine.forward.delivery_counts(from, to).lost + traffic.fine.reverse.delivery_counts(from, to).lost
    };
    let silence = traffic.fine.forward.longest_silence(Stamp::Sent, begin, end);
    let silence = silence.max(traffic.fine.reverse.longest_silence(Stamp::Received, begin, end));
    Ok(json!({
        "what": what,
        "away_ms": round(DOWNTIME.as_secs_f64() * 1000.0),
        "restart_ms": round(restart as f64 / 1000.0),
        "binding_kept": well,
        "lost_while_away": lost(begin, back),
        "lost_of_1000_per_s": lost(begin, end),
        "longest_silence_ms": round(silence as f64 / 1000.0),
    }))
}

/// The vehicle moves while its home agent is down, and registers once the home agent is up.
fn move_while_agent_down(
    traffic: &HandoverTraffic,
    network: &mut NemoNetwork,
    vehicle: &Vehicle,
    to: crate::bed::Segment,
) -> Result<Value> {
    network.home_agent.kill();
    let up = replug(network, vehicle.uplink(0)?, to)?.context("no carrier")?;
    sleep(DOWNTIME);
    let back = clock::unix_micros();
    network.home_agent.spawn()?;
    let alive = clock::unix_micros();
    let accepted =
        |report: &Report| matches!(report, Report::Nemo(NemoReport::AcknowledgementReceived { status: 0..128, .. }));
    let acknowledged = vehicle.daemon.events().wait_for(up, TIMEOUT, accepted);
    sleep(OBSERVATION_TIME);
    let after = |moment: Option<u64>| moment.map(|moment| round((moment as f64 - alive as f64) / 1000.0));
    Ok(json!({
        "what": "home agent killed, vehicle moves, restarted",
        "away_ms": round(DOWNTIME.as_secs_f64() * 1000.0),
        "restart_ms": round((alive - back) as f64 / 1000.0),
        "binding_kept": acknowledged.is_some() && has_bindings(&network.home_agent, 1),
        "restart_to_ba_ms": after(acknowledged.map(|event| event.unix_micros)),
        "restart_to_packet_ms": after(traffic.fine.reverse.first_after(Stamp::Received, alive)),
    }))
}

/// Whether the daemon has so many bindings away from home.
fn has_bindings(daemon: &Daemon, count: usize) -> bool {
    let text = daemon.query(&["show", "bindings", "--json"]).unwrap_or_default();
    let bindings: Vec<BindingView> = serde_json::from_str(&text).unwrap_or_default();
    bindings.iter().filter(|binding| binding.care_of.is_some() && binding.state == BindingState::Bound).count() == count
}
