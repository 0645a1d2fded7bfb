//! Two vehicles meet, come to a roadside unit and part again, with one TCP connection between nodes inside them and one
//! to the Internet. Measures the path of the packets, and the longest silence of each connection.

use super::Experiment;
use crate::clock;
use crate::driveby::{Scene, Sent, Way, Ways};
use crate::figures::{Findings, round};
use crate::progress::Progress;
use crate::traffic::{End, Load, Protocol, Transfer};
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "geonet/v2i",
    about: "two vehicles and a roadside unit: direct, roadside and cellular paths; TCP survives",
    run,
};

/// A drive: destinations of the vehicles, metres from the roadside unit, and the paths that the first vehicle uses
/// afterwards.
struct Phase {
    what: &'static str,
    places: [f64; 2],
    ways: &'static [Way],
}

const PHASES: [Phase; 5] = [
    Phase { what: "apart", places: [500.0, 900.0], ways: &[Way::Cellular] },
    Phase { what: "together", places: [500.0, 700.0], ways: &[Way::Direct, Way::Cellular] },
    Phase { what: "together_at_the_roadside", places: [100.0, 250.0], ways: &[Way::Direct, Way::Roadside] },
    Phase { what: "one_at_the_roadside", places: [100.0, 650.0], ways: &[Way::Roadside] },
    Phase { what: "apart_again", places: [-350.0, 650.0], ways: &[Way::Cellular] },
];
/// Time to converge after a drive, poll interval, and the time in which paths are then sampled.
const SETTLE: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_secs(1);
/// Speed, metres per second: full run, quick run.
const SPEEDS: [f64; 2] = [50.0, 100.0];
/// Minimum share of the data for a path to count as used.
const GOES: f64 = 0.05;
/// Octets per second in each direction.
const RATE: u64 = 60_000;
const PATIENCE: Duration = Duration::from_secs(20);

fn run(quick: bool) -> Result<Findings> {
    let [slow, fast] = SPEEDS;
    let (rounds, speed) = if quick { (1, fast) } else { (5, slow) };
    let mut findings = Findings::default();
    let mut progress = Progress::new((rounds * PHASES.len()) as u64);
    progress.say("building the road");
    let [Phase { places, .. }, ..] = PHASES;
    let scene = Scene::build(places)?;
    let drive = Drive::start(scene)?;
    for _ in 0..rounds {
        for phase in &PHASES {
            progress.say(phase.what);
            drive.go(phase, speed, &mut findings)?;
            progress.step();
        }
    }
    drive.finish(findings)
}

/// The network with its connections: to the Internet, and to the other vehicle.
struct Drive {
    scene: Scene,
    ways: Ways,
    connections: [(&'static str, Transfer); 2],
}

impl Drive {
    fn start(scene: Scene) -> Result<Drive> {
        let [one, other] = &scene.cars;
        let carry = |ends: [End<'_>; 2], port| {
            Transfer::carry(ends, Load { message: 1000, ..Load::steady(Protocol::Tcp, port, RATE) })
        };
        let out = carry([one.vehicle.node(), scene.world.correspondent()], 9800)?;
        let between = carry([one.vehicle.node(), other.vehicle.node()], 9801)?;
        let ways = scene.watch();
        Ok(Drive { ways, connections: [("internet", out), ("vehicles", between)], scene })
    }

    /// Drives, waits for convergence, and samples the paths of the first vehicle.
    fn go(&self, phase: &Phase, speed: f64, findings: &mut Findings) -> Result<()> {
        let begin = clock::unix_micros();
        self.scene.drive(phase.places, speed)?;
        let there = clock::unix_micros();
        let now = || clock::unix_micros() - there;
        while !are(phase.ways, &self.look(GLANCE)) && u128::from(now()) < SETTLE.as_micros() {}
        let settled = now();
        let shares = self.look(LOOK);
        let end = clock::unix_micros();
        let right = are(phase.ways, &shares);
        let settled = round(settled as f64 / 1000.0);
        let known = [
            ("phase", json!(phase.what)),
            ("metres", json!(phase.places)),
            ("ways_right", json!(right)),
            ("settled_ms_at_most", json!(settled)),
        ];
        let mut row: Map<String, Value> = known.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        for (way, share) in shares {
            row.insert(format!("share_{way:?}").to_lowercase(), json!(round(share)));
        }
        for (name, transfer) in &self.connections {
            let silences = transfer.arrivals().iter().map(|arrivals| arrivals.longest_silence(begin, end));
            let longest = silences.max().unwrap_or(0) as f64 / 1000.0;
            row.insert(format!("silence_ms_{name}"), json!(round(longest)));
        }
        let row = Value::Object(row);
        findings.require(right, || format!("packets did not go the way they should: {row}"));
        findings.rows.push(row);
        Ok(())
    }

    /// Samples the paths of the first vehicle for `span`.
    fn look(&self, span: Duration) -> Vec<(Way, f64)> {
        let before = self.ways.until_now();
        sleep(span);
        shares(&before, &self.ways.until_now())
    }

    fn finish(self, mut findings: Findings) -> Result<Findings> {
        let logs = self.scene.logs();
        let mut whole = true;
        for (name, transfer) in self.connections {
            let deliveries = transfer.finish(PATIENCE).with_context(|| format!("the connection {name}\n{logs}"))?;
            whole &= deliveries.iter().all(crate::traffic::Delivery::is_whole);
        }
        for name in ["internet", "vehicles"] {
            let key = format!("silence_ms_{name}");
            let silences = findings.rows.iter().filter_map(|row| row.get(&key)?.as_f64());
            let worst = silences.fold(0.0, f64::max);
            findings.sum_up(&format!("gap_ms_max_{name}"), worst);
        }
        let right = |row: &Value| row.get("ways_right").and_then(Value::as_bool) == Some(true);
        let right = findings.rows.iter().all(right);
        findings.sum_up("ways_right", u8::from(right));
        findings.sum_up("tcp_survived", u8::from(whole));
        findings.require(whole, || "a TCP connection did not survive".to_owned());
        Ok(findings)
    }
}

/// Whether exactly these paths are used.
fn are(ways: &[Way], shares: &[(Way, f64)]) -> bool {
    let gone: BTreeSet<Way> = shares.iter().filter(|(_, share)| *share > GOES).map(|(way, _)| *way).collect();
    gone == ways.iter().copied().collect()
}

/// Share of each path in the octets of the first vehicle between two snapshots.
fn shares(before: &Sent, after: &Sent) -> Vec<(Way, f64)> {
    let of = |sent: &Sent, way| sent.get(&(0, way)).copied().unwrap_or(0);
    let sent = [Way::Direct, Way::Roadside, Way::Cellular].map(|way| (way, of(after, way) - of(before, way)));
    let all: u64 = sent.iter().map(|(_, octets)| *octets).sum();
    sent.into_iter().map(|(way, octets)| (way, octets as f64 / all.max(1) as f64)).collect()
}
