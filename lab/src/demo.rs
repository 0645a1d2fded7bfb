//! The main job of roam6, shown: a vehicle's network moves through three networks while its connections live on.

use crate::bed::cage::WORK;
use crate::check::{self, Verdict};
use crate::handover::{Move, SETTLE, Traffic, replug};
use crate::narrator::Narrator;
use crate::screen::{Screen, Tone};
use crate::topology::{CORRESPONDENT, HOME_AGENT, Vehicle, World};
use crate::traffic::Delivery;
use anyhow::{Context, Result};
use roam6_proto::Report;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long the vehicle may take to register.
const PATIENCE: Duration = Duration::from_secs(10);

/// The home agent need not look for other owners of a home address when the vehicle leaves home, which takes a second
/// (RFC 6275 §10.3.1): its table is the only one who gives out these addresses.
const TRUSTING: &str = "duplicate_detection = false";

/// Runs the demo; `true` if nothing broke. The picture goes to `svg`, the capture to `capture`.
pub(crate) fn run(svg: Option<&Path>, capture: Option<&Path>) -> Result<bool> {
    let screen = Arc::new(Screen::new());
    let recorded = capture.map_or_else(|| Path::new(WORK).join("demo.pcapng"), Path::to_path_buf);
    screen.moment(Tone::Plain, "building home, FN1, FN2 and backbone, 7 hosts; radvd advertises in FN1 and FN2");
    let mut world = World::build(Duration::from_millis(5), 1, TRUSTING)?;
    world.air.capture(&recorded)?;
    let mut vehicle = world.vehicle(0, &["up1", "up0"])?;
    screen.moment(Tone::Plain, format!("home agent {HOME_AGENT} is 5 ms away; mobile router {}", vehicle.home_address));
    screen.moment(Tone::Plain, format!("node inside {} talks to correspondent {CORRESPONDENT}", vehicle.mnn_address));
    let sources = vec![("mr", vehicle.daemon.events().clone()), ("ha", world.home_agent.events().clone())];
    let narrator = Narrator::start(&screen, sources)?;
    screen.moment(Tone::Act, "up0 into the home link");
    world.air.plug(vehicle.uplink(1)?, world.home)?;
    vehicle.wait_until_connected(CORRESPONDENT)?;
    std::thread::sleep(SETTLE);
    let traffic = Traffic::start(&world, &vehicle)?;
    screen.moment(Tone::Plain, "traffic runs: 100 and 1000 packets/s and a TCP transfer, both ways");
    let moves = travel(&screen, &world, &vehicle, &traffic);
    let deliveries = traffic.finish()?;
    drop(narrator);
    let moves = moves.with_context(|| format!("the mobile router's log:\n{}", tail(&vehicle)))?;
    vehicle.daemon.stop()?;
    world.home_agent.stop()?;
    let clean = [&vehicle.mr, &world.ha].iter().all(|host| host.output("ip", &["link", "show", "nemo0"]).is_err());
    world.air.finish_capture()?;
    let verdict = check::dissect(&recorded)?;
    let sound = conclude(&screen, &moves, &deliveries, &verdict) & clean;
    let ending = if clean { "both daemons ended and left nothing" } else { "A DAEMON LEFT ITS TUNNEL DEVICE BEHIND" };
    screen.line(if clean { Tone::Good } else { Tone::Bad }, ending);
    let (tone, word) = if sound { (Tone::Good, "nothing broke") } else { (Tone::Bad, "SOMETHING BROKE") };
    screen.line(tone, word);
    if let Some(path) = svg {
        screen.draw(path)?;
    }
    Ok(sound)
}

/// All moves in turn.
fn travel(screen: &Screen, world: &World, vehicle: &Vehicle, traffic: &Traffic) -> Result<Vec<Move>> {
    let (up1, up0) = (vehicle.uplink(0)?, vehicle.uplink(1)?);
    let [fn1, fn2] = &world.visited;
    let mut moves = Vec::new();
    for (name, to) in
        [("home -> FN1", fn1.link), ("FN1 -> FN2", fn2.link), ("FN2 -> home", world.home), ("home -> FN1", fn1.link)]
    {
        screen.moment(Tone::Act, format!("{name}: up0 pulled and plugged into the other network"));
        let measured = traffic.measure(vehicle, name, || replug(world, up0, to))?;
        show(screen, &measured, traffic);
        moves.push(measured);
    }
    let name = "FN1 -> FN2, both up";
    screen.moment(Tone::Act, format!("{name}: up1, the better uplink, comes up in FN2 while up0 stays"));
    let measured = traffic.measure(vehicle, name, || {
        let at = world.air.plug(up1, fn2.link)?;
        vehicle
            .daemon
            .events()
            .wait(at, PATIENCE, |report| matches!(report, Report::AcknowledgementReceived { status: 0..128, .. }))
            .context("no acknowledgement for the second uplink")?;
        std::thread::sleep(Duration::from_millis(300));
        screen.moment(Tone::Act, "up0 pulled: nothing depends on it any more");
        world.air.unplug(up0)?;
        Ok(Some(at))
    })?;
    show(screen, &measured, traffic);
    moves.push(measured);
    Ok(moves)
}

fn show(screen: &Screen, measured: &Move, traffic: &Traffic) {
    let tone = if measured.healed && measured.tcp_lives { Tone::Good } else { Tone::Bad };
    let [forth, back] = traffic.transferred().map(|bytes| bytes as f64 / 1e6);
    let text = format!(
        "{}: silent for {:.1} ms, {} of the 100/s packets lost; TCP so far {forth:.2} MB out, {back:.2} MB in",
        measured.what, measured.gap_fine, measured.lost
    );
    screen.moment(tone, text);
}

/// The table and the verdict.
fn conclude(screen: &Screen, moves: &[Move], deliveries: &[Delivery; 2], verdict: &Verdict) -> bool {
    let mut sound = verdict.complaints.is_empty() && verdict.mobility > 0 && verdict.tunnelled > 0;
    screen.line(Tone::Plain, "");
    screen.line(
        Tone::Act,
        format!(
            "{:<20} {:>8} {:>12} {:>9} {:>9} {:>12} {:>6} {:>7}  {}",
            "move", "gap ms", "link-up..RA", "RA..BU", "BU..BA", "BA..packet", "lost", "of1000", "TCP"
        ),
    );
    let part = |value: Option<f64>| value.map_or("-".to_owned(), |millis| format!("{:.1}", millis.max(0.0)));
    for one in moves {
        let [ra, bu, ba, packet] = one.parts;
        let whole = one.healed && one.tcp_lives && !(one.what.contains("both") && one.lost_fine > 0);
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
            if one.tcp_lives { "lives" } else { "DEAD" }
        );
        screen.line(if whole { Tone::Good } else { Tone::Bad }, row);
    }
    for (direction, delivery) in ["out", "in "].iter().zip(deliveries) {
        let (tone, word) = if delivery.is_whole() { (Tone::Good, "equal") } else { (Tone::Bad, "DIFFERENT") };
        sound &= delivery.is_whole();
        let (sent, received) = (&delivery.sent, &delivery.received);
        let digest = received.digest.get(..16).unwrap_or_default();
        let error = received.error.as_ref().or(sent.error.as_ref()).map(|why| format!(" ({why})")).unwrap_or_default();
        let text = format!(
            "TCP {direction}: {} bytes sent, {} received, sha256 {digest}.. {word}{error}",
            sent.bytes, received.bytes
        );
        screen.line(tone, text);
    }
    let tone = if verdict.complaints.is_empty() { Tone::Good } else { Tone::Bad };
    let Verdict { frames, mobility, tunnelled, complaints } = verdict;
    screen.line(
        tone,
        format!(
            "tshark: {frames} frames, {mobility} mobility messages, {tunnelled} tunnelled packets, {} malformed or wrong",
            complaints.len()
        ),
    );
    for complaint in complaints.iter().take(5) {
        screen.line(Tone::Bad, format!("  {complaint}"));
    }
    sound
}

/// The last lines of the mobile router's log.
pub(crate) fn tail(vehicle: &Vehicle) -> String {
    let log = std::fs::read_to_string(vehicle.daemon.log()).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n")
}
