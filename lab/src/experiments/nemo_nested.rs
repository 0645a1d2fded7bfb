//! Nested mobile networks, depth 1 to 3 (RFC 3963 §9, RFC 4888): connectivity, path and MTU.

use super::Experiment;
use crate::bed::host;
use crate::findings::{Findings, percentile, round};
use crate::load::{Delivery, Transfer};
use crate::topology::nemo::{CORRESPONDENT, NemoNetwork, Vehicle};
use crate::ui::Progress;
use anyhow::{Context, Result};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment =
    Experiment { name: "nemo/nested", about: "nested mobile networks, depth 1 to 3: path and MTU", run };

const DEPTH: u8 = 3;
/// Octets of the largest echo request, IPv6 header included.
const FULL_MTU: u32 = 1500;
/// Overhead of a tunnel, octets.
const TUNNEL_OVERHEAD: u32 = 40;

fn run(quick: bool) -> Result<Findings> {
    let mut progress = Progress::new(DEPTH.into());
    let network = NemoNetwork::build(Duration::ZERO, DEPTH, "duplicate_detection = false")?;
    let mut findings = Findings::default();
    let mut vehicles: Vec<Vehicle> = Vec::new();
    for depth in 1..=DEPTH {
        progress.message(&format!("depth {depth}"));
        let vehicle = network.vehicle(depth - 1, &["up0"])?;
        let [fn1, _] = &network.visited;
        let parent = vehicles.last().map_or(fn1.link, |parent| parent.ingress_segment);
        network.emulator.plug(vehicle.uplink(0)?, parent)?;
        let connected = vehicle.wait_until_connected(CORRESPONDENT);
        vehicles.push(vehicle);
        let vehicle = vehicles.last().context("no vehicle")?;
        if let Err(why) = connected {
            findings.rows.push(json!({ "depth": depth, "connected": false, "why": why.to_string() }));
            findings.add_fault(format!("depth {depth}: {why}"));
            break;
        }
        sleep(Duration::from_secs(1));
        let row = measure(&network, vehicle, depth, quick)?;
        let whole = row.get("tcp_whole").and_then(serde_json::Value::as_bool).unwrap_or(false);
        findings.require(whole, || format!("depth {depth}: TCP did not deliver everything"));
        let mtus = [row.get("mtu"), row.get("mtu_expected")];
        findings.require(mtus[0] == mtus[1], || format!("depth {depth}: measured and expected path MTU: {mtus:?}"));
        findings.rows.push(row);
        progress.step();
    }
    let reached = findings.rows.iter().filter(|row| row.get("connected") == Some(&json!(true))).count();
    findings.summarise("depth_reached", reached);
    findings.summarise("mtu", findings.rows.iter().filter_map(|row| row.get("mtu").cloned()).collect::<Vec<_>>());
    Ok(findings)
}

fn measure(network: &NemoNetwork, vehicle: &Vehicle, depth: u8, quick: bool) -> Result<serde_json::Value> {
    let target = CORRESPONDENT.to_string();
    let mtu = discover_path_mtu(vehicle, &target)?;
    let capture = Path::new(crate::bed::sandbox::WORK_DIR).join("nested.pcapng");
    network.emulator.capture(&capture)?;
    let ping = ["-6", "-n", "-c", if quick { "10" } else { "50" }, "-i", "0.02", &target];
    let text = vehicle.mnn.output("ping", &ping)?;
    network.emulator.finish_capture()?;
    let times: Vec<f64> =
        text.lines().filter_map(|line| line.split_once("time=")?.1.split_whitespace().next()?.parse().ok()).collect();
    let transfer = Transfer::start([vehicle.node(), network.correspondent()], 9400, 1_000_000)?;
    sleep(Duration::from_secs(if quick { 1 } else { 5 }));
    let deliveries = transfer.finish(Duration::from_secs(10))?;
    Ok(json!({
        "depth": depth,
        "connected": true,
        "rtt_ms_p50": percentile(&times, 0.5).map(round),
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
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(capture).args(["-Y", "icmpv6.type == 128", "-T", "fields"]);
    let text = host::run_command(command.args([
        "-e",
        "frame.interface_name",
        "-e",
        "ipv6.src",
        "-e",
        "icmpv6.echo.sequence_number",
    ]))?;
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
