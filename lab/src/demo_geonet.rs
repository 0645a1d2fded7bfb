//! GeoNetworking, shown: a roadside unit and three vehicles that drive away from it one behind the other, until the first
//! is three hops away, and come back; ping and TCP go on between the first and the roadside unit (EN 302 636-6-1).

use crate::bed::Radvd;
use crate::bed::sandbox::WORK_DIR;
use crate::clock;
use crate::dissector;
use crate::road::{Road, RoadStation, VIRTUAL_LINK, host_address, road_position};
use crate::terminal::{LineStyle, Terminal};
use crate::traffic::{Delivery, Endpoint, Protocol, Transfer, TransferLoad};
use anyhow::{Context, Result};
use roam6_sim::net::track::distance;
use roam6_sim::{RadioSpec, Track};
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// What the roadside unit advertises.
const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x90, 0, 0, 0, 0, 0);
/// Metres that a frame reaches.
const RANGE: f64 = 300.0;
/// Beacons often, and silent neighbours soon forgotten: the hops change while they drive.
const SETTINGS: &str = "beacon = \"300ms\"\nneighbour_lifetime = \"1s\"\npacket_data_rate = 4000000000\n";
/// Metres a second.
const SPEED: f64 = 35.0;
/// Where the vehicles are, metres from the roadside unit: first, second, third.
const MOVES: [(&str, [f64; 3]); 4] = [
    ("all of them at the roadside unit", [120.0, 80.0, 40.0]),
    ("the first drives away, the second follows", [450.0, 230.0, 40.0]),
    ("all drive on: three hops", [690.0, 460.0, 230.0]),
    ("the first comes back", [100.0, 460.0, 230.0]),
];
/// Echoes of each phase.
const ECHOES: usize = 20;
/// A connection that is silent for longer than this is not alive, microseconds.
const MAX_SILENCE: u64 = 6_000_000;
/// How long anything may take until it works at first.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What a phase came to.
struct Phase {
    what: &'static str,
    metres: f64,
    hops: usize,
    received: usize,
    /// Milliseconds.
    round_trip: Option<f64>,
    /// Microseconds.
    longest_silence: u64,
}

/// Everybody.
struct RoadScene {
    road: Road,
    rsu: RoadStation,
    vehicles: [RoadStation; 3],
    _radvd: Radvd,
}

/// Runs the demo; `true` if every byte arrived and nothing was wrong. What was shown goes to `svg`, the capture to
/// `capture`.
pub(crate) fn run(svg: Option<&Path>, capture: Option<&Path>) -> Result<bool> {
    let screen = Terminal::new();
    let recorded = capture.map_or_else(|| Path::new(WORK_DIR).join("demo.pcapng"), Path::to_path_buf);
    screen.timed_line(
        LineStyle::Plain,
        "building a road: a roadside unit, three vehicles, one radio channel that reaches 300 m",
    );
    let mut scene = RoadScene::build()?;
    scene.road.air.capture(&recorded)?;
    let addresses = scene.vehicle_addresses()?;
    for (car, address) in scene.vehicles.iter().zip(&addresses) {
        screen.timed_line(
            LineStyle::Plain,
            format!("{:<6} heard the router's prefix and calls itself {address}", car.host.name()),
        );
    }
    let [first, ..] = addresses;
    let ends = [
        Endpoint { host: &scene.vehicles[0].host, address: first },
        Endpoint { host: &scene.rsu.host, address: host_address(PREFIX, 1) },
    ];
    let transfer = Transfer::start_with(
        ends,
        TransferLoad { message: 1000, ..TransferLoad::steady(Protocol::Tcp, 9700, 50_000) },
    )?;
    screen.timed_line(LineStyle::Action, "the first vehicle and the roadside unit exchange bytes by TCP");
    let phases = MOVES.iter().map(|(what, places)| scene.drive_and_measure(&screen, &transfer, what, *places));
    let phases: Result<Vec<Phase>> = phases.collect();
    let deliveries = transfer.finish(TIMEOUT);
    let phases = phases.with_context(|| scene.logs())?;
    let deliveries = deliveries?;
    scene.road.air.finish_capture()?;
    let sound = print_summary(&screen, &phases, &deliveries, &recorded)? & scene.stop_daemons(&screen)?;
    let (tone, word) =
        if sound { (LineStyle::Success, "nothing broke") } else { (LineStyle::Failure, "SOMETHING BROKE") };
    screen.line(tone, word);
    if let Some(path) = svg {
        screen.write_svg(path)?;
    }
    Ok(sound)
}

impl RoadScene {
    fn build() -> Result<RoadScene> {
        let road = Road::new(RadioSpec::its_g5(RANGE), SETTINGS)?;
        let [(_, begin), ..] = MOVES;
        let rsu = road.add_station("rsu", "roadside-unit", Track::standing(road_position(0.0)))?;
        rsu.host.ip(&[&format!("address add {}/64 dev {VIRTUAL_LINK} nodad", host_address(PREFIX, 1))])?;
        let car = |name, metres| road.add_station(name, "passenger-car", Track::standing(road_position(metres)));
        let [one, two, three] = begin;
        let cars = [car("first", one)?, car("second", two)?, car("third", three)?];
        let radvd = Radvd::start_roadside(&rsu.host, VIRTUAL_LINK, &format!("{PREFIX}/64"))?;
        Ok(RoadScene { road, rsu, vehicles: cars, _radvd: radvd })
    }

    /// The address that each vehicle has made itself from the advertised prefix.
    fn vehicle_addresses(&self) -> Result<[Ipv6Addr; 3]> {
        let find = |car: &RoadStation| {
            let ask = || {
                let shown = car
                    .host
                    .output("ip", &["-6", "-o", "address", "show", "dev", VIRTUAL_LINK, "scope", "global"])
                    .ok()?;
                let word = shown.split_whitespace().find(|word| word.ends_with("/64"))?;
                let address = word.split('/').next()?.parse().ok();
                address.filter(|_| !shown.contains("tentative"))
            };
            clock::wait_for(TIMEOUT, ask).with_context(|| format!("{} has no address", car.host.name()))
        };
        let [one, two, three] = &self.vehicles;
        Ok([find(one)?, find(two)?, find(three)?])
    }

    /// Drives the vehicles to these places, and looks how it is there.
    fn drive_and_measure(
        &self,
        screen: &Terminal,
        transfer: &Transfer,
        what: &'static str,
        places: [f64; 3],
    ) -> Result<Phase> {
        screen.timed_line(LineStyle::Action, what);
        let begin = clock::unix_micros();
        let goals = self.vehicles.iter().map(|car| car.radio).zip(places);
        sleep(self.road.set_destinations(goals, SPEED)? + Duration::from_secs(2));
        let trips = self.ping()?;
        let end = clock::unix_micros();
        let silent =
            transfer.arrivals().iter().map(|arrivals| arrivals.longest_silence(begin, end)).max().unwrap_or(u64::MAX);
        let metres = distance(road_position(0.0), road_position(places[0]));
        let phase = Phase {
            what,
            metres,
            hops: hop_count(&places),
            received: trips.len(),
            round_trip: crate::findings::percentile(&trips, 0.5),
            longest_silence: silent,
        };
        screen.timed_line(phase.line_style(), phase.summary());
        Ok(phase)
    }

    /// Round trips from the first vehicle to the roadside unit, milliseconds.
    fn ping(&self) -> Result<Vec<f64>> {
        let (count, to) = (ECHOES.to_string(), host_address(PREFIX, 1).to_string());
        let [first, ..] = &self.vehicles;
        let mut ping = first.host.command("ping");
        ping.args(["-6", "-n", "-i", "0.1", "-W", "2", "-c", &count, &to]).stderr(Stdio::null());
        let text = ping.output()?.stdout;
        let text = String::from_utf8_lossy(&text);
        Ok(text.lines().filter_map(|line| line.split("time=").nth(1)?.split(' ').next()?.parse().ok()).collect())
    }

    /// Ends every daemon and looks what it has left.
    fn stop_daemons(&mut self, screen: &Terminal) -> Result<bool> {
        let mut sound = true;
        for station in self.vehicles.iter_mut().chain([&mut self.rsu]) {
            station.daemon.stop()?;
            let tidy = station.host.output("ip", &["link", "show", VIRTUAL_LINK]).is_err();
            sound &= tidy;
            let word = if tidy { "nothing" } else { "SOMETHING" };
            screen.line(
                if tidy { LineStyle::Success } else { LineStyle::Failure },
                format!("{} ended and left {word}", station.host.name()),
            );
        }
        Ok(sound)
    }

    fn logs(&self) -> String {
        let mut text = String::new();
        for station in self.vehicles.iter().chain([&self.rsu]) {
            let log = std::fs::read_to_string(station.daemon.log()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n");
            text.push_str(&format!("the log of {}:\n{tail}\n", station.host.name()));
        }
        text
    }
}

impl Phase {
    fn is_good(&self) -> bool {
        self.received == ECHOES && self.longest_silence < MAX_SILENCE
    }

    fn line_style(&self) -> LineStyle {
        if self.is_good() { LineStyle::Success } else { LineStyle::Failure }
    }

    fn summary(&self) -> String {
        let trip = self.round_trip.map_or("no answer".to_owned(), |trip| format!("round trip {trip:.1} ms"));
        format!(
            "  {:.0} m, hops: {}, {trip}, {} of {ECHOES} echoes; TCP was silent for {:.0} ms at most",
            self.metres,
            self.hops,
            self.received,
            self.longest_silence as f64 / 1000.0
        )
    }
}

/// Hops from the first vehicle to the roadside unit, each to the nearest to it that is in range.
fn hop_count(places: &[f64; 3]) -> usize {
    let [mut here, ..] = *places;
    let mut hops = 0;
    while here > 0.0 {
        let next = places.iter().copied().chain([0.0]).filter(|place| here - place <= RANGE).fold(here, f64::min);
        if next >= here {
            return usize::MAX;
        }
        (here, hops) = (next, hops + 1);
    }
    hops
}

fn print_summary(screen: &Terminal, phases: &[Phase], deliveries: &[Delivery; 2], recorded: &Path) -> Result<bool> {
    let mut sound = true;
    let mut say = |good: bool, text: String| {
        sound &= good;
        screen.line(if good { LineStyle::Success } else { LineStyle::Failure }, text);
    };
    say(
        true,
        format!("{:<44} {:>6} {:>5} {:>9} {:>11} {:>11}", "", "away", "hops", "echoes", "round trip", "TCP silent"),
    );
    for phase in phases {
        let trip = phase.round_trip.map_or("-".to_owned(), |trip| format!("{trip:.1} ms"));
        let (away, silent) =
            (format!("{:.0} m", phase.metres), format!("{:.0} ms", phase.longest_silence as f64 / 1000.0));
        let echoes = format!("{}/{ECHOES}", phase.received);
        say(
            phase.is_good(),
            format!("{:<44} {away:>6} {:>5} {echoes:>9} {trip:>11} {silent:>11}", phase.what, phase.hops),
        );
    }
    for (direction, delivery) in ["out", "in "].iter().zip(deliveries) {
        let (sent, received) = (&delivery.sent, &delivery.received);
        let digest = received.digest.get(..16).unwrap_or_default();
        let word = if delivery.is_complete() { "equal" } else { "DIFFERENT" };
        let text = format!(
            "TCP {direction}: {} bytes sent, {} received, sha256 {digest}.. {word}",
            sent.bytes, received.bytes
        );
        say(delivery.is_complete(), text);
    }
    let verdict = dissector::dissect(recorded)?;
    let packets = dissector::tshark(recorded, "gnw", &[])?.lines().count();
    let wrong = verdict.errors.len();
    say(wrong == 0 && packets > 0, format!("tshark: {packets} GeoNetworking packets, {wrong} malformed or wrong"));
    for complaint in verdict.errors.iter().take(5) {
        say(false, format!("  {complaint}"));
    }
    Ok(sound)
}
