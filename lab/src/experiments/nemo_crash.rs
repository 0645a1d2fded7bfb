//! Daemons killed under traffic: lost packets and bindings, and forwarding while the daemon is down.

use crate::bed::Daemon;
use crate::experiments::prelude::*;
use crate::load::handover::{HandoverTraffic, OBSERVATION_TIME, replug};
use crate::topology::chain::{self, Chain, Forwarding};
use crate::topology::nemo::{NO_DAD, NemoNetwork, Vehicle, is_accepted};
use roam6_proto::contract::view::{BindingState, BindingView};

/// Time from the kill to the restart.
const DOWNTIME: Duration = Duration::from_secs(3);
/// Packets per second in each direction, while the ends of a tunnel are restarted.
const RATE: u32 = 1000;
/// Packets of the last moments may still be in flight: how many microseconds.
const IN_FLIGHT: u64 = 150_000;
/// How long recovery may take.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn run(run: &mut Run) -> Result<()> {
    let times = if run.quick { 1 } else { 10 };
    run.set_steps(times * 3 + TUNNELS.len());
    let (mut network, mut vehicle) = NemoNetwork::with_vehicle(Duration::from_millis(5), NO_DAD, "")?;
    let [fn1, fn2] = network.visited.each_ref().map(|visited| visited.link);
    let traffic = HandoverTraffic::start(&network, &vehicle)?;
    sleep(OBSERVATION_TIME);
    for number in 0..times {
        run.step("home agent killed");
        add_row(run, outage(&traffic, "home agent killed, restarted", &mut network.home_agent)?);
        run.step("mobile router killed");
        add_row(run, outage(&traffic, "mobile router killed, restarted", &mut vehicle.daemon)?);
        run.step("home agent killed, vehicle moves");
        let to = if number % 2 == 0 { fn2 } else { fn1 };
        add_row(run, move_while_agent_down(&traffic, &mut network, &vehicle, to)?);
    }
    let deliveries = traffic.finish()?;
    let mut restart_lost = 0;
    for tunnel in TUNNELS {
        run.step(&format!("both ends of {} restarted", tunnel.name()));
        let (row, lost) = restart_ends(tunnel)?;
        run.rows.push(row);
        restart_lost += lost;
    }
    let tcp_survived = deliveries.iter().all(Delivery::is_complete);
    let most = |what: &str| {
        let is_of_kind =
            |row: &&Value| row.get("what").and_then(Value::as_str).is_some_and(|name| name.starts_with(what));
        let lost = |row: &Value| row.get("lost_of_1000_per_s").and_then(Value::as_u64);
        run.rows.iter().filter(is_of_kind).filter_map(lost).max()
    };
    let (agent, router) = (most("home agent killed, restarted"), most("mobile router killed"));
    run.summarise("ha_killed_lost_max", agent);
    run.summarise("mr_killed_lost_max", router);
    run.summarise("restart_lost", restart_lost);
    run.require_tcp(tcp_survived);
    Ok(())
}

fn add_row(run: &mut Run, row: Value) {
    let kept = row.get("binding_kept") == Some(&json!(true));
    run.require(kept, || format!("the binding was lost: {row}"));
    run.rows.push(row);
}

/// Kills a daemon and restarts it; measures the traffic in both phases.
fn outage(traffic: &HandoverTraffic, what: &str, daemon: &mut Daemon) -> Result<Value> {
    let begin = clock::unix_micros();
    daemon.kill();
    sleep(DOWNTIME);
    let restarted = clock::unix_micros();
    daemon.spawn()?;
    let restart = clock::unix_micros() - restarted;
    let kept = clock::wait_for(TIMEOUT, || is_bound(daemon).then_some(())).is_some();
    sleep(OBSERVATION_TIME);
    let end = clock::unix_micros() - IN_FLIGHT;
    let silence = traffic.fine.longest_silence(begin, end);
    Ok(json!({
        "what": what,
        "away_ms": round(DOWNTIME.as_secs_f64() * 1000.0),
        "restart_ms": round(restart as f64 / 1000.0),
        "binding_kept": kept,
        "lost_while_away": traffic.fine.lost(begin, restarted),
        "lost_of_1000_per_s": traffic.fine.lost(begin, end),
        "longest_silence_ms": round(silence as f64 / 1000.0),
    }))
}

/// The tunnels whose ends are restarted.
const TUNNELS: [Forwarding; 3] = [Forwarding::Roam6, Forwarding::Udp4, Forwarding::Udp6];

/// Kills and restarts the home agent, the mobile router, and both together; what was lost of the traffic in both directions.
fn restart_ends(tunnel: Forwarding) -> Result<(Value, usize)> {
    let mut chain = Chain::build(tunnel)?;
    let (source, sink) = (chain.source.clone(), chain.sink.clone());
    let ends = [Endpoint { host: &sink, address: chain::SINK }, Endpoint { host: &source, address: chain::SOURCE }];
    let mut train = Train::start(ends, 9100, RATE)?;
    sleep(OBSERVATION_TIME);
    let begin = clock::unix_micros();
    for killed in [0..1, 1..2, 0..2] {
        let daemons = chain.daemons_mut().get_mut(killed).context("no daemon")?;
        daemons.iter_mut().for_each(Daemon::kill);
        sleep(DOWNTIME);
        for daemon in daemons {
            daemon.spawn()?;
            clock::wait_for(TIMEOUT, || is_bound(daemon).then_some(())).context("the binding was lost")?;
        }
        sleep(OBSERVATION_TIME);
    }
    let end = clock::unix_micros() - IN_FLIGHT;
    train.stop();
    let counts = [&train.forward, &train.reverse].map(|flow| flow.delivery_counts(begin, end));
    let (sent, lost) = (counts.iter().map(|one| one.sent).sum::<usize>(), counts.iter().map(|one| one.lost).sum());
    ensure!(sent > 0, "no traffic");
    Ok((json!({ "what": "both ends restarted", "tunnel": tunnel.name(), "sent": sent, "lost": lost }), lost))
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
    let restarted = clock::unix_micros();
    network.home_agent.spawn()?;
    let running = clock::unix_micros();
    let acknowledged = vehicle.daemon.events.wait_for(up, TIMEOUT, is_accepted);
    sleep(OBSERVATION_TIME);
    let after = |moment: Option<u64>| moment.map(|moment| round((moment as f64 - running as f64) / 1000.0));
    Ok(json!({
        "what": "home agent killed, vehicle moves, restarted",
        "away_ms": round(DOWNTIME.as_secs_f64() * 1000.0),
        "restart_ms": round((running - restarted) as f64 / 1000.0),
        "binding_kept": acknowledged.is_some() && is_bound(&network.home_agent),
        "restart_to_ba_ms": after(acknowledged.map(|event| event.unix_micros)),
        "restart_to_packet_ms": after(traffic.fine.reverse.first_after(Stamp::Received, running)),
    }))
}

/// Whether the daemon has one binding away from home.
fn is_bound(daemon: &Daemon) -> bool {
    let bindings: Vec<BindingView> = daemon.show("bindings").unwrap_or_default();
    bindings.iter().filter(|binding| binding.care_of.is_some() && binding.state == BindingState::Bound).count() == 1
}
