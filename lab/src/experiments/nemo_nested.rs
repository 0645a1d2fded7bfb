//! Nested mobile networks, depth 1 to 3 (RFC 3963 §9, RFC 4888; P1 Fig 2): connectivity, path, delay and MTU, with one
//! home agent for all, and with a home agent for each.

use crate::bed::dissector;
use crate::experiments::prelude::*;
use crate::topology::further_home::FurtherHome;
use crate::topology::nemo::{CORRESPONDENT, NO_DAD, NemoNetwork, Vehicle};
use std::collections::BTreeSet;
use std::path::Path;

const DEPTH: u8 = 3;
/// Octets of the largest echo request, IPv6 header included.
const FULL_MTU: u32 = 1500;
/// Overhead of a tunnel, octets.
const TUNNEL_OVERHEAD: u32 = 40;
/// One-way delay between the backbone and each home agent, milliseconds. All other links have none.
const HOME_DELAY_MS: u64 = 10;

/// The home agents of the nested mobile routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HomeAgents {
    /// One host is the home agent of all.
    One,
    /// Each mobile router has its own, so that a packet visits all of them ("pinball routing").
    Own,
}

impl HomeAgents {
    fn name(self) -> &'static str {
        match self {
            HomeAgents::One => "one",
            HomeAgents::Own => "own",
        }
    }

    /// The round trip of a packet that visits each home agent once in each direction, milliseconds: to it and back.
    fn round_trip_model(self, depth: u8) -> f64 {
        let visits = if self == HomeAgents::Own { depth.into() } else { 1 };
        (visits * 4 * HOME_DELAY_MS) as f64
    }
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    run.set_steps(2 * usize::from(DEPTH));
    let mut errors = Vec::new();
    for agents in [HomeAgents::One, HomeAgents::Own] {
        errors.extend(nest(run, agents)?);
    }
    run.estimate("rtt_over_model_max", Estimate::most(errors));
    let of = |run: &Run, agents: HomeAgents, key: &str| -> Vec<Value> {
        let rows = run.rows.iter().filter(|row| row.get("home_agents") == Some(&json!(agents.name())));
        rows.filter_map(|row| row.get(key).cloned()).collect()
    };
    let reached = |run: &Run, agents| of(run, agents, "connected").iter().filter(|one| **one == json!(true)).count();
    let (by_one, by_own) = (reached(run, HomeAgents::One), reached(run, HomeAgents::Own));
    run.summarise("depth_reached", by_one);
    run.summarise("depth_reached_own_agents", by_own);
    run.summarise("mtu", of(run, HomeAgents::One, "mtu"));
    run.summarise("mtu_own_agents", of(run, HomeAgents::Own, "mtu"));
    let deepest = |agents| of(run, agents, "rtt_ms_p50").last().and_then(Value::as_f64);
    let saved = deepest(HomeAgents::Own).zip(deepest(HomeAgents::One)).map(|(own, one)| round(own - one));
    run.summarise("one_agent_saves_ms_at_depth_3", saved);
    Ok(())
}

/// Nests vehicles in one another as deep as they are connected; round trips over those of the model, by depth.
fn nest(run: &mut Run, agents: HomeAgents) -> Result<Vec<Estimate>> {
    let delay = Duration::from_millis(HOME_DELAY_MS);
    let network = NemoNetwork::build(delay, if agents == HomeAgents::One { DEPTH } else { 1 }, NO_DAD)?;
    let (mut vehicles, mut homes, mut errors): (Vec<Vehicle>, Vec<FurtherHome>, Vec<Estimate>) = Default::default();
    for depth in 1..=DEPTH {
        run.step(&format!("home agents: {}, depth {depth}", agents.name()));
        let vehicle = if agents == HomeAgents::One || depth == 1 {
            network.vehicle(depth - 1, &["up0"])?
        } else {
            let home = FurtherHome::add(&network, depth - 1, delay)?;
            let vehicle = home.vehicle(&network, &["up0"])?;
            homes.push(home);
            vehicle
        };
        let [fn1, _] = &network.visited;
        let parent = vehicles.last().map_or(fn1.link, |parent| parent.ingress_segment);
        network.emulator.plug(vehicle.uplink(0)?, parent)?;
        let connected = vehicle.wait_until_connected(CORRESPONDENT);
        vehicles.push(vehicle);
        let vehicle = vehicles.last().context("no vehicle")?;
        let common = json!({ "home_agents": agents.name(), "depth": depth, "connected": connected.is_ok() });
        if let Err(why) = connected {
            run.rows.push(with_fields(common, json!({ "why": why.to_string() })));
            run.faults.push(format!("home agents: {}, depth {depth}: {why}", agents.name()));
            break;
        }
        sleep(Duration::from_secs(1));
        let (row, times) = measure(&network, vehicle, depth, run.quick)?;
        let model = agents.round_trip_model(depth);
        errors.extend(median(&times.iter().map(|time| time / model).collect::<Vec<_>>(), LEVEL));
        let whole = row.get("tcp_whole").and_then(Value::as_bool).unwrap_or(false);
        run.require(whole, || format!("depth {depth}: TCP did not deliver everything"));
        let mtus = [row.get("mtu"), row.get("mtu_expected")];
        run.require(mtus[0] == mtus[1], || format!("depth {depth}: measured and expected path MTU: {mtus:?}"));
        run.rows.push(with_fields(with_fields(common, json!({ "rtt_ms_model": model })), row));
    }
    Ok(errors)
}

/// The fields of both objects.
fn with_fields(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}

/// The figures of a depth, and its round-trip times in milliseconds.
fn measure(network: &NemoNetwork, vehicle: &Vehicle, depth: u8, quick: bool) -> Result<(Value, Vec<f64>)> {
    let target = CORRESPONDENT.to_string();
    let mtu = discover_path_mtu(vehicle, &target)?;
    let capture = Path::new(crate::bed::sandbox::WORK_DIR).join("nested.pcapng");
    network.emulator.capture(&capture)?;
    let times = vehicle.mnn.ping(if quick { 10 } else { 50 }, &["-i", "0.02", &target])?;
    network.emulator.finish_capture()?;
    let transfer = Transfer::start(
        [vehicle.node(), network.correspondent()],
        TransferLoad::steady(Protocol::Tcp, 9400, 1_000_000),
    )?;
    sleep(Duration::from_secs(if quick { 1 } else { 5 }));
    let deliveries = transfer.finish(Duration::from_secs(10))?;
    let row = json!({
        "rtt_ms_p50": round(percentile(&times, 0.5).context("no echo was answered")?),
        "mtu": mtu,
        "mtu_expected": FULL_MTU - TUNNEL_OVERHEAD * u32::from(depth),
        "path": tunnel_path(&capture)?,
        "tcp_whole": deliveries.iter().all(Delivery::is_complete),
        "tcp_bytes": deliveries.iter().map(|delivery| delivery.received.bytes).sum::<u64>(),
    });
    Ok((row, times))
}

/// The path MTU that the mobile network node's kernel has learnt from Packet Too Big after a full-size packet, octets.
fn discover_path_mtu(vehicle: &Vehicle, target: &str) -> Result<u32> {
    let size = (FULL_MTU - 48).to_string();
    for _ in 0..4 {
        // Fails while Packet Too Big messages arrive, by which the kernel learns.
        let ping = ["-6", "-n", "-M", "do", "-c", "2", "-i", "0.1", "-W", "1", "-s", &size, target];
        vehicle.mnn.output("ping", &ping).ok();
    }
    let route = vehicle.mnn.output("ip", &["-6", "route", "get", target])?;
    let mut words = route.split_whitespace().skip_while(|word| *word != "mtu").skip(1);
    Ok(words.next().and_then(|word| word.parse().ok()).unwrap_or(FULL_MTU))
}

/// The links that an echo request passed, in order, with the number of IPv6 headers it had there.
fn tunnel_path(capture: &Path) -> Result<Vec<String>> {
    let fields = ["-e", "frame.interface_name", "-e", "ipv6.src", "-e", "icmpv6.echo.sequence_number"];
    let text = dissector::tshark(capture, "icmpv6.type == 128", &[&["-T", "fields"], &fields[..]].concat())?;
    let mut seen = BTreeSet::new();
    let mut links = Vec::new();
    for line in text.lines() {
        let mut columns = line.split('\t');
        let (Some(link), Some(sources), Some("5")) = (columns.next(), columns.next(), columns.next()) else { continue };
        let hop = format!("{link} ({} headers)", sources.split(',').count());
        // The same link is passed again between several home agents: each passage counts once.
        if seen.insert(hop.clone()) {
            links.push(hop);
        }
    }
    Ok(links)
}
