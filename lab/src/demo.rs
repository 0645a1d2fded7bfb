//! The main job of roam6, shown: a vehicle's network moves through three networks while its connections live on.

use crate::bed::sandbox::WORK_DIR;
use crate::dissector::{self, Dissection};
use crate::event_printer::EventPrinter;
use crate::handover::{HandoverMeasurement, HandoverTraffic, OBSERVATION_TIME, replug};
use crate::terminal::{LineStyle, Terminal};
use crate::topology::{CORRESPONDENT, HOME_AGENT, NemoNetwork, Vehicle};
use crate::traffic::Delivery;
use anyhow::{Context, Result};
use roam6_proto::Report;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long the vehicle may take to register.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The home agent need not look for other owners of a home address when the vehicle leaves home, which takes a second
/// (RFC 6275 §10.3.1): its table is the only one who gives out these addresses.
const NO_DAD: &str = "duplicate_detection = false";

/// Runs the demo; `true` if nothing broke. The picture goes to `svg`, the capture to `capture`.
pub(crate) fn run(svg: Option<&Path>, capture: Option<&Path>) -> Result<bool> {
    let screen = Arc::new(Terminal::new());
    let recorded = capture.map_or_else(|| Path::new(WORK_DIR).join("demo.pcapng"), Path::to_path_buf);
    screen
        .timed_line(LineStyle::Plain, "building home, FN1, FN2 and backbone, 7 hosts; radvd advertises in FN1 and FN2");
    let mut world = NemoNetwork::build(Duration::from_millis(5), 1, NO_DAD)?;
    world.emulator.capture(&recorded)?;
    let mut vehicle = world.vehicle(0, &["up1", "up0"])?;
    screen.timed_line(
        LineStyle::Plain,
        format!("home agent {HOME_AGENT} is 5 ms away; mobile router {}", vehicle.home_address),
    );
    screen.timed_line(
        LineStyle::Plain,
        format!("node inside {} talks to correspondent {CORRESPONDENT}", vehicle.mnn_address),
    );
    let sources = vec![("mr", vehicle.daemon.events().clone()), ("ha", world.home_agent.events().clone())];
    let narrator = EventPrinter::start(&screen, sources)?;
    screen.timed_line(LineStyle::Action, "up0 into the home link");
    world.emulator.plug(vehicle.uplink(1)?, world.home_link)?;
    vehicle.wait_until_connected(CORRESPONDENT)?;
    std::thread::sleep(OBSERVATION_TIME);
    let traffic = HandoverTraffic::start(&world, &vehicle)?;
    screen.timed_line(LineStyle::Plain, "traffic runs: 100 and 1000 packets/s and a TCP transfer, both ways");
    let moves = run_moves(&screen, &world, &vehicle, &traffic);
    let deliveries = traffic.finish()?;
    drop(narrator);
    let moves = moves.with_context(|| format!("the mobile router's log:\n{}", log_tail(&vehicle)))?;
    vehicle.daemon.stop()?;
    world.home_agent.stop()?;
    let clean = [&vehicle.mr, &world.ha].iter().all(|host| host.output("ip", &["link", "show", "nemo0"]).is_err());
    world.emulator.finish_capture()?;
    let verdict = dissector::dissect(&recorded)?;
    let sound = print_summary(&screen, &moves, &deliveries, &verdict) & clean;
    let ending = if clean { "both daemons ended and left nothing" } else { "A DAEMON LEFT ITS TUNNEL DEVICE BEHIND" };
    screen.line(if clean { LineStyle::Success } else { LineStyle::Failure }, ending);
    let (tone, word) =
        if sound { (LineStyle::Success, "nothing broke") } else { (LineStyle::Failure, "SOMETHING BROKE") };
    screen.line(tone, word);
    if let Some(path) = svg {
        screen.write_svg(path)?;
    }
    Ok(sound)
}

/// All moves in turn.
fn run_moves(
    screen: &Terminal,
    world: &NemoNetwork,
    vehicle: &Vehicle,
    traffic: &HandoverTraffic,
) -> Result<Vec<HandoverMeasurement>> {
    let (up1, up0) = (vehicle.uplink(0)?, vehicle.uplink(1)?);
    let [fn1, fn2] = &world.visited;
    let mut moves = Vec::new();
    for (name, to) in [
        ("home -> FN1", fn1.link),
        ("FN1 -> FN2", fn2.link),
        ("FN2 -> home", world.home_link),
        ("home -> FN1", fn1.link),
    ] {
        screen.timed_line(LineStyle::Action, format!("{name}: up0 pulled and plugged into the other network"));
        let measured = traffic.measure(vehicle, name, || replug(world, up0, to))?;
        print_move(screen, &measured, traffic);
        moves.push(measured);
    }
    let name = "FN1 -> FN2, both up";
    screen.timed_line(LineStyle::Action, format!("{name}: up1, the better uplink, comes up in FN2 while up0 stays"));
    let measured = traffic.measure(vehicle, name, || {
        let at = world.emulator.plug(up1, fn2.link)?;
        vehicle
            .daemon
            .events()
            .wait_for(at, TIMEOUT, |report| matches!(report, Report::AcknowledgementReceived { status: 0..128, .. }))
            .context("no acknowledgement for the second uplink")?;
        std::thread::sleep(Duration::from_millis(300));
        screen.timed_line(LineStyle::Action, "up0 pulled: nothing depends on it any more");
        world.emulator.unplug(up0)?;
        Ok(Some(at))
    })?;
    print_move(screen, &measured, traffic);
    moves.push(measured);
    Ok(moves)
}

fn print_move(screen: &Terminal, measured: &HandoverMeasurement, traffic: &HandoverTraffic) {
    let tone = if measured.recovered && measured.tcp_survived { LineStyle::Success } else { LineStyle::Failure };
    let [forth, back] = traffic.transferred_octets().map(|bytes| bytes as f64 / 1e6);
    let text = format!(
        "{}: silent for {:.1} ms, {} of the 100/s packets lost; TCP so far {forth:.2} MB out, {back:.2} MB in",
        measured.what, measured.gap_fine, measured.lost
    );
    screen.timed_line(tone, text);
}

/// The table and the verdict.
fn print_summary(
    screen: &Terminal,
    moves: &[HandoverMeasurement],
    deliveries: &[Delivery; 2],
    verdict: &Dissection,
) -> bool {
    let mut sound = verdict.errors.is_empty() && verdict.mobility_messages > 0 && verdict.tunnelled > 0;
    screen.line(LineStyle::Plain, "");
    screen.line(
        LineStyle::Action,
        format!(
            "{:<20} {:>8} {:>12} {:>9} {:>9} {:>12} {:>6} {:>7}  {}",
            "move", "gap ms", "link-up..RA", "RA..BU", "BU..BA", "BA..packet", "lost", "of1000", "TCP"
        ),
    );
    let part = |value: Option<f64>| value.map_or("-".to_owned(), |millis| format!("{:.1}", millis.max(0.0)));
    for one in moves {
        let [ra, bu, ba, packet] = one.phases;
        let whole = one.recovered && one.tcp_survived && !(one.what.contains("both") && one.lost_fine > 0);
        sound &= whole;
        let row = format!(
            "{:<20} {:>8.1} {:>12} {:>9} {:>9} {:>12} {:>6} {:>7}  {}",
            one.what,
            one.gap_fine,
            part(ra),
            part(bu),
            part(ba),
            part(packet),
            one.lost,
            one.lost_fine,
            if one.tcp_survived { "lives" } else { "DEAD" }
        );
        screen.line(if whole { LineStyle::Success } else { LineStyle::Failure }, row);
    }
    for (direction, delivery) in ["out", "in "].iter().zip(deliveries) {
        let (tone, word) =
            if delivery.is_complete() { (LineStyle::Success, "equal") } else { (LineStyle::Failure, "DIFFERENT") };
        sound &= delivery.is_complete();
        let (sent, received) = (&delivery.sent, &delivery.received);
        let digest = received.digest.get(..16).unwrap_or_default();
        let error = received.error.as_ref().or(sent.error.as_ref()).map(|why| format!(" ({why})")).unwrap_or_default();
        let text = format!(
            "TCP {direction}: {} bytes sent, {} received, sha256 {digest}.. {word}{error}",
            sent.bytes, received.bytes
        );
        screen.line(tone, text);
    }
    let tone = if verdict.errors.is_empty() { LineStyle::Success } else { LineStyle::Failure };
    let Dissection { frames, mobility_messages: mobility, tunnelled, errors: complaints } = verdict;
    screen.line(
        tone,
        format!(
            "tshark: {frames} frames, {mobility} mobility messages, {tunnelled} tunnelled packets, {} malformed or wrong",
            complaints.len()
        ),
    );
    for complaint in complaints.iter().take(5) {
        screen.line(LineStyle::Failure, format!("  {complaint}"));
    }
    sound
}

/// The last lines of the mobile router's log.
pub(crate) fn log_tail(vehicle: &Vehicle) -> String {
    let log = std::fs::read_to_string(vehicle.daemon.log()).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n")
}
