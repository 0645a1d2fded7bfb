//! The main job of roam6, shown: a vehicle's network moves through three networks while its connections live on.

use crate::bed::Events;
use crate::bed::cage::WORK;
use crate::check::{self, Verdict};
use crate::handover::{Move, SETTLE, Traffic, replug};
use crate::screen::{Screen, Tone};
use crate::topology::{CORRESPONDENT, HOME_AGENT, Vehicle, World};
use crate::traffic::Delivery;
use anyhow::{Context, Result};
use roam6_proto::Report;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    let narrator = Narrator::start(&screen, &world, &vehicle)?;
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
            .wait(at, PATIENCE, |report| matches!(report, Report::AckReceived { status: 0..128, .. }))
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

fn tail(vehicle: &Vehicle) -> String {
    let log = std::fs::read_to_string(vehicle.daemon.log()).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n")
}

/// Tells on the screen what the two daemons report.
struct Narrator {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Narrator {
    fn start(screen: &Arc<Screen>, world: &World, vehicle: &Vehicle) -> Result<Narrator> {
        let stop = Arc::new(AtomicBool::new(false));
        let sources = [("mr", vehicle.daemon.events().clone()), ("ha", world.home_agent.events().clone())];
        let (screen, ended) = (screen.clone(), stop.clone());
        let work = move || narrate(&screen, &sources, &ended);
        let thread = std::thread::Builder::new().name("narrator".into()).spawn(work)?;
        Ok(Narrator { stop, thread: Some(thread) })
    }
}

impl Drop for Narrator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn narrate(screen: &Screen, sources: &[(&str, Events); 2], stop: &AtomicBool) {
    let mut told = [0, 0];
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
        let mut news = Vec::new();
        for ((host, events), told) in sources.iter().zip(&mut told) {
            let new = events.since(*told);
            *told += new.len();
            news.extend(new.into_iter().map(|event| (event.unix_micros, *host, event.report)));
        }
        news.sort_by_key(|(moment, ..)| *moment);
        for (moment, host, report) in news {
            if let Some(text) = sentence(&report) {
                screen.moment_at(moment, Tone::Event, format!("  {host}  {text}"));
            }
        }
    }
}

/// The reports worth a line in the demo.
fn sentence(report: &Report) -> Option<String> {
    let list =
        |addresses: &[std::net::Ipv6Addr]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Some(match report {
        Report::LinkUp { name, .. } => format!("{name} has carrier"),
        Report::LinkDown { name, .. } => format!("{name} lost carrier"),
        Report::RouterFound { router, prefix: Some(prefix), .. } => format!("router {router} advertises {prefix}"),
        Report::UpdateSent { lifetime: Duration::ZERO, sequence, .. } => format!("BU {sequence}: de-registers"),
        Report::UpdateSent { care_of, sequence, lifetime, .. } => {
            format!("BU {sequence}: care-of {}, lifetime {} s", list(care_of), lifetime.as_secs())
        }
        Report::AckReceived { status, sequence, .. } => format!("BA {sequence}: status {status}"),
        Report::AtHome { .. } => "at home, de-registered".to_owned(),
        Report::Registered { home_address, care_of, .. } => {
            format!("binding {home_address} -> {}", list(care_of))
        }
        Report::Deregistered { home_address, .. } => format!("binding of {home_address} ended"),
        Report::PathDown { care_of, why, .. } => format!("path over {care_of} is dead: {why}"),
        Report::Failed { key, why } => format!("refused by the kernel: {key:?}: {why}"),
        _ => return None,
    })
}
