//! Nested mobile networks, depth 1 to 3 (RFC 3963 §9, RFC 4888): connectivity, path and MTU.

use crate::bed::dissector;
use crate::experiments::prelude::*;
use crate::topology::nemo::{CORRESPONDENT, NO_DAD, NemoNetwork, Vehicle};
use std::collections::BTreeSet;
use std::path::Path;

const DEPTH: u8 = 3;
/// Octets of the largest echo request, IPv6 header included.
const FULL_MTU: u32 = 1500;
/// Overhead of a tunnel, octets.
const TUNNEL_OVERHEAD: u32 = 40;

pub(super) fn run(run: &mut Run) -> Result<()> {
    run.set_steps(DEPTH.into());
    let network = NemoNetwork::build(Duration::ZERO, DEPTH, NO_DAD)?;
    let mut vehicles: Vec<Vehicle> = Vec::new();
    for depth in 1..=DEPTH {
        run.step(&format!("depth {depth}"));
        let vehicle = network.vehicle(depth - 1, &["up0"])?;
        let [fn1, _] = &network.visited;
        let parent = vehicles.last().map_or(fn1.link, |parent| parent.ingress_segment);
        network.emulator.plug(vehicle.uplink(0)?, parent)?;
        let connected = vehicle.wait_until_connected(CORRESPONDENT);
        vehicles.push(vehicle);
        let vehicle = vehicles.last().context("no vehicle")?;
        if let Err(why) = connected {
            run.rows.push(json!({ "depth": depth, "connected": false, "why": why.to_string() }));
            run.faults.push(format!("depth {depth}: {why}"));
            break;
        }
        sleep(Duration::from_secs(1));
        let row = measure(&network, vehicle, depth, run.quick)?;
        let whole = row.get("tcp_whole").and_then(serde_json::Value::as_bool).unwrap_or(false);
        run.require(whole, || format!("depth {depth}: TCP did not deliver everything"));
        let mtus = [row.get("mtu"), row.get("mtu_expected")];
        run.require(mtus[0] == mtus[1], || format!("depth {depth}: measured and expected path MTU: {mtus:?}"));
        run.rows.push(row);
    }
    let reached = run.rows.iter().filter(|row| row.get("connected") == Some(&json!(true))).count();
    run.summarise("depth_reached", reached);
    run.summarise("mtu", run.rows.iter().filter_map(|row| row.get("mtu").cloned()).collect::<Vec<_>>());
    Ok(())
}

fn measure(network: &NemoNetwork, vehicle: &Vehicle, depth: u8, quick: bool) -> Result<serde_json::Value> {
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
    Ok(json!({
        "depth": depth,
        "connected": true,
        "rtt_ms_p50": round(percentile(&times, 0.5).context("no echo was answered")?),
        "mtu": mtu,
        "mtu_expected": FULL_MTU - TUNNEL_OVERHEAD * u32::from(depth),
        "path": tunnel_path(&capture)?,
        "tcp_whole": deliveries.iter().all(Delivery::is_complete),
        "tcp_bytes": deliveries.iter().map(|delivery| delivery.received.bytes).sum::<u64>(),
    }))
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
