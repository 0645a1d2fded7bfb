//! GeoNetworking, shown: a roadside unit and three vehicles that drive away from it one behind the other, until the first
//! is three hops away, and come back; ping and TCP go on between the first and the roadside unit (EN 302 636-6-1).

use crate::bed::Advertiser;
use crate::bed::cage::WORK;
use crate::check;
use crate::clock;
use crate::road::{LINK, Road, Station, at, member};
use crate::screen::{Screen, Tone};
use crate::traffic::{Delivery, End, Load, Protocol, Transfer};
use anyhow::{Context, Result};
use roam6_sim::track::distance;
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
const PHASES: [(&str, [f64; 3]); 4] = [
    ("all of them at the roadside unit", [120.0, 80.0, 40.0]),
    ("the first drives away, the second follows", [450.0, 230.0, 40.0]),
    ("all drive on: three hops", [690.0, 460.0, 230.0]),
    ("the first comes back", [100.0, 460.0, 230.0]),
];
/// Echoes of each phase.
const ECHOES: usize = 20;
/// A connection that is silent for longer than this is not alive, microseconds.
const ALIVE: u64 = 6_000_000;
/// How long anything may take until it works at first.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a phase came to.
struct Phase {
    what: &'static str,
    metres: f64,
    hops: usize,
    received: usize,
    /// Milliseconds.
    trip: Option<f64>,
    /// Microseconds.
    silent: u64,
}

/// Everybody.
struct Scene {
    road: Road,
    rsu: Station,
    cars: [Station; 3],
    _radvd: Advertiser,
}

/// Runs the demo; `true` if every byte arrived and nothing was wrong. What was shown goes to `svg`, the capture to
/// `capture`.
pub(crate) fn run(svg: Option<&Path>, capture: Option<&Path>) -> Result<bool> {
    let screen = Screen::new();
    let recorded = capture.map_or_else(|| Path::new(WORK).join("demo.pcapng"), Path::to_path_buf);
    screen
        .moment(Tone::Plain, "building a road: a roadside unit, three vehicles, one radio channel that reaches 300 m");
    let mut scene = Scene::build()?;
    scene.road.air.capture(&recorded)?;
    let addresses = scene.addresses()?;
    for (car, address) in scene.cars.iter().zip(&addresses) {
        screen.moment(
            Tone::Plain,
            format!("{:<6} heard the router's prefix and calls itself {address}", car.host.name()),
        );
    }
    let [first, ..] = addresses;
    let ends =
        [End { host: &scene.cars[0].host, address: first }, End { host: &scene.rsu.host, address: member(PREFIX, 1) }];
    let transfer = Transfer::carry(ends, Load { message: 1000, ..Load::steady(Protocol::Tcp, 9700, 50_000) })?;
    screen.moment(Tone::Act, "the first vehicle and the roadside unit exchange bytes by TCP");
    let phases = PHASES.iter().map(|(what, places)| scene.drive(&screen, &transfer, what, *places));
    let phases: Result<Vec<Phase>> = phases.collect();
    let deliveries = transfer.finish(PATIENCE);
    let phases = phases.with_context(|| scene.logs())?;
    let deliveries = deliveries?;
    scene.road.air.finish_capture()?;
    let sound = conclude(&screen, &phases, &deliveries, &recorded)? & scene.leave(&screen)?;
    let (tone, word) = if sound { (Tone::Good, "nothing broke") } else { (Tone::Bad, "SOMETHING BROKE") };
    screen.line(tone, word);
    if let Some(path) = svg {
        screen.draw(path)?;
    }
    Ok(sound)
}

impl Scene {
    fn build() -> Result<Scene> {
        let road = Road::new(RadioSpec::its_g5(RANGE), SETTINGS)?;
        let [(_, begin), ..] = PHASES;
        let rsu = road.add("rsu", "roadside-unit", Track::standing(at(0.0)))?;
        rsu.host.ip(&[&format!("address add {}/64 dev {LINK} nodad", member(PREFIX, 1))])?;
        let car = |name, metres| road.add(name, "passenger-car", Track::standing(at(metres)));
        let [one, two, three] = begin;
        let cars = [car("first", one)?, car("second", two)?, car("third", three)?];
        let radvd = Advertiser::at_roadside(&rsu.host, LINK, &format!("{PREFIX}/64"))?;
        Ok(Scene { road, rsu, cars, _radvd: radvd })
    }

    /// The address that each vehicle has made itself from the advertised prefix.
    fn addresses(&self) -> Result<[Ipv6Addr; 3]> {
        let find = |car: &Station| {
            let ask = || {
                let shown =
                    car.host.output("ip", &["-6", "-o", "address", "show", "dev", LINK, "scope", "global"]).ok()?;
                let word = shown.split_whitespace().find(|word| word.ends_with("/64"))?;
                let address = word.split('/').next()?.parse().ok();
                address.filter(|_| !shown.contains("tentative"))
            };
            clock::wait_for(PATIENCE, ask).with_context(|| format!("{} has no address", car.host.name()))
        };
        let [one, two, three] = &self.cars;
        Ok([find(one)?, find(two)?, find(three)?])
    }

    /// Drives the vehicles to these places, and looks how it is there.
    fn drive(&self, screen: &Screen, transfer: &Transfer, what: &'static str, places: [f64; 3]) -> Result<Phase> {
        screen.moment(Tone::Act, what);
        let begin = clock::unix_micros();
        let goals = self.cars.iter().map(|car| car.radio).zip(places);
        sleep(self.road.drive(goals, SPEED)? + Duration::from_secs(2));
        let trips = self.ping()?;
        let end = clock::unix_micros();
        let silent =
            transfer.arrivals().iter().map(|arrivals| arrivals.longest_silence(begin, end)).max().unwrap_or(u64::MAX);
        let metres = distance(at(0.0), at(places[0]));
        let phase = Phase {
            what,
            metres,
            hops: hops(&places),
            received: trips.len(),
            trip: crate::figures::percentile(&trips, 0.5),
            silent,
        };
        screen.moment(phase.tone(), phase.sentence());
        Ok(phase)
    }

    /// Round trips from the first vehicle to the roadside unit, milliseconds.
    fn ping(&self) -> Result<Vec<f64>> {
        let (count, to) = (ECHOES.to_string(), member(PREFIX, 1).to_string());
        let [first, ..] = &self.cars;
        let mut ping = first.host.command("ping");
        ping.args(["-6", "-n", "-i", "0.1", "-W", "2", "-c", &count, &to]).stderr(Stdio::null());
        let text = ping.output()?.stdout;
        let text = String::from_utf8_lossy(&text);
        Ok(text.lines().filter_map(|line| line.split("time=").nth(1)?.split(' ').next()?.parse().ok()).collect())
    }

    /// Ends every daemon and looks what it has left.
    fn leave(&mut self, screen: &Screen) -> Result<bool> {
        let mut sound = true;
        for station in self.cars.iter_mut().chain([&mut self.rsu]) {
            station.daemon.stop()?;
            let tidy = station.host.output("ip", &["link", "show", LINK]).is_err();
            sound &= tidy;
            let word = if tidy { "nothing" } else { "SOMETHING" };
            screen.line(
                if tidy { Tone::Good } else { Tone::Bad },
                format!("{} ended and left {word}", station.host.name()),
            );
        }
        Ok(sound)
    }

    fn logs(&self) -> String {
        let mut text = String::new();
        for station in self.cars.iter().chain([&self.rsu]) {
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
        self.received == ECHOES && self.silent < ALIVE
    }

    fn tone(&self) -> Tone {
        if self.is_good() { Tone::Good } else { Tone::Bad }
    }

    fn sentence(&self) -> String {
        let trip = self.trip.map_or("no answer".to_owned(), |trip| format!("round trip {trip:.1} ms"));
        format!(
            "  {:.0} m, hops: {}, {trip}, {} of {ECHOES} echoes; TCP was silent for {:.0} ms at most",
            self.metres,
            self.hops,
            self.received,
            self.silent as f64 / 1000.0
        )
    }
}

/// Hops from the first vehicle to the roadside unit, each to the nearest to it that is in range.
fn hops(places: &[f64; 3]) -> usize {
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

fn conclude(screen: &Screen, phases: &[Phase], deliveries: &[Delivery; 2], recorded: &Path) -> Result<bool> {
    let mut sound = true;
    let mut say = |good: bool, text: String| {
        sound &= good;
        screen.line(if good { Tone::Good } else { Tone::Bad }, text);
    };
    say(
        true,
        format!("{:<44} {:>6} {:>5} {:>9} {:>11} {:>11}", "", "away", "hops", "echoes", "round trip", "TCP silent"),
    );
    for phase in phases {
        let trip = phase.trip.map_or("-".to_owned(), |trip| format!("{trip:.1} ms"));
        let (away, silent) = (format!("{:.0} m", phase.metres), format!("{:.0} ms", phase.silent as f64 / 1000.0));
        let echoes = format!("{}/{ECHOES}", phase.received);
        say(
            phase.is_good(),
            format!("{:<44} {away:>6} {:>5} {echoes:>9} {trip:>11} {silent:>11}", phase.what, phase.hops),
        );
    }
    for (direction, delivery) in ["out", "in "].iter().zip(deliveries) {
        let (sent, received) = (&delivery.sent, &delivery.received);
        let digest = received.digest.get(..16).unwrap_or_default();
        let word = if delivery.is_whole() { "equal" } else { "DIFFERENT" };
        let text = format!(
            "TCP {direction}: {} bytes sent, {} received, sha256 {digest}.. {word}",
            sent.bytes, received.bytes
        );
        say(delivery.is_whole(), text);
    }
    let verdict = check::dissect(recorded)?;
    let packets = check::tshark(recorded, "gnw", &[])?.lines().count();
    let wrong = verdict.complaints.len();
    say(wrong == 0 && packets > 0, format!("tshark: {packets} GeoNetworking packets, {wrong} malformed or wrong"));
    for complaint in verdict.complaints.iter().take(5) {
        say(false, format!("  {complaint}"));
    }
    Ok(sound)
}
