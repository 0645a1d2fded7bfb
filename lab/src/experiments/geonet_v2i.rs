//! Two vehicles meet, come to a roadside unit and part again, with one TCP connection between nodes inside them and one
//! to the Internet. Measures the path of the packets, and the longest silence of each connection.

use crate::experiments::prelude::*;
use crate::topology::roadside::{OctetsByPath, PathKind, PathUsage, RoadsideNetwork};
use std::collections::BTreeSet;

/// A drive: destinations of the vehicles, metres from the roadside unit, and the paths that the first vehicle uses
/// afterwards.
struct Phase {
    what: &'static str,
    places: [f64; 2],
    expected_paths: &'static [PathKind],
}

const PHASES: [Phase; 5] = [
    Phase { what: "apart", places: [500.0, 900.0], expected_paths: &[PathKind::Cellular] },
    Phase { what: "together", places: [500.0, 700.0], expected_paths: &[PathKind::Direct, PathKind::Cellular] },
    Phase {
        what: "together_at_the_roadside",
        places: [100.0, 250.0],
        expected_paths: &[PathKind::Direct, PathKind::Roadside],
    },
    Phase { what: "one_at_the_roadside", places: [100.0, 650.0], expected_paths: &[PathKind::Roadside] },
    Phase { what: "apart_again", places: [-350.0, 650.0], expected_paths: &[PathKind::Cellular] },
];
/// Time to converge after a drive, poll interval, and the time in which paths are then sampled.
const SETTLE: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const SAMPLE_TIME: Duration = Duration::from_secs(1);
/// Speed, metres per second: full run, quick run.
const SPEEDS: [f64; 2] = [50.0, 100.0];
/// Minimum share of the data for a path to count as used.
const MIN_SHARE: f64 = 0.05;
/// Octets per second in each direction.
const RATE: u64 = 60_000;
const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn run(run: &mut Run) -> Result<()> {
    let [slow, fast] = SPEEDS;
    let (rounds, speed) = if run.quick { (1, fast) } else { (5, slow) };
    run.set_steps(rounds * PHASES.len());
    run.step("building the road");
    let [Phase { places, .. }, ..] = PHASES;
    let network = RoadsideNetwork::build(places)?;
    let drive = DriveRun::start(network)?;
    for _ in 0..rounds {
        for phase in &PHASES {
            run.step(phase.what);
            drive.run_phase(phase, speed, run)?;
        }
    }
    drive.finish(run)
}

/// The network with its connections: to the Internet, and to the other vehicle.
struct DriveRun {
    network: RoadsideNetwork,
    path_usage: PathUsage,
    connections: [(&'static str, Transfer); 2],
}

impl DriveRun {
    fn start(network: RoadsideNetwork) -> Result<DriveRun> {
        let [one, other] = &network.vehicles;
        let load = |port| TransferLoad { message: 1000, ..TransferLoad::steady(Protocol::Tcp, port, RATE) };
        let out = Transfer::start([one.vehicle.node(), network.network.correspondent()], load(9800))?;
        let between = Transfer::start([one.vehicle.node(), other.vehicle.node()], load(9801))?;
        let ways = network.watch_paths();
        Ok(DriveRun { path_usage: ways, connections: [("internet", out), ("vehicles", between)], network })
    }

    /// Drives, waits for convergence, and samples the paths of the first vehicle.
    #[expect(clippy::indexing_slicing, reason = "a row is a JSON object")]
    fn run_phase(&self, phase: &Phase, speed: f64, run: &mut Run) -> Result<()> {
        let begin = clock::unix_micros();
        self.network.drive(phase.places, speed)?;
        let arrived = clock::unix_micros();
        let has_converged = || uses_only(phase.expected_paths, &self.path_shares(POLL_INTERVAL)).then_some(());
        clock::wait_for(SETTLE, has_converged);
        let settled = round((clock::unix_micros() - arrived) as f64 / 1000.0);
        let shares = self.path_shares(SAMPLE_TIME);
        let end = clock::unix_micros();
        let as_expected = uses_only(phase.expected_paths, &shares);
        let mut row = json!({
            "phase": phase.what, "metres": phase.places, "ways_right": as_expected, "settled_ms_at_most": settled,
        });
        for (way, share) in shares {
            row[format!("share_{way:?}").to_lowercase()] = json!(round(share));
        }
        for (name, transfer) in &self.connections {
            let longest = transfer.longest_silence(begin, end) as f64 / 1000.0;
            row[format!("silence_ms_{name}")] = json!(round(longest));
        }
        run.require(as_expected, || format!("unexpected paths: {row}"));
        run.rows.push(row);
        Ok(())
    }

    /// Samples the paths of the first vehicle for `span`.
    fn path_shares(&self, span: Duration) -> Vec<(PathKind, f64)> {
        let before = self.path_usage.snapshot();
        sleep(span);
        shares(&before, &self.path_usage.snapshot())
    }

    fn finish(self, run: &mut Run) -> Result<()> {
        let logs = self.network.log_tails();
        let mut tcp_survived = true;
        for (name, transfer) in self.connections {
            let deliveries = transfer.finish(TIMEOUT).with_context(|| format!("the connection {name}\n{logs}"))?;
            tcp_survived &= deliveries.iter().all(Delivery::is_complete);
            let key = format!("silence_ms_{name}");
            let silences = run.rows.iter().filter_map(|row| row.get(&key)?.as_f64());
            let worst = silences.fold(0.0, f64::max);
            run.summarise(&format!("gap_ms_max_{name}"), worst);
        }
        let as_expected = run.rows.iter().all(|row| row["ways_right"] == true);
        run.summarise("ways_right", u8::from(as_expected));
        run.require_tcp(tcp_survived);
        Ok(())
    }
}

/// Whether exactly these paths are used.
fn uses_only(ways: &[PathKind], shares: &[(PathKind, f64)]) -> bool {
    let used: BTreeSet<PathKind> = shares.iter().filter(|(_, share)| *share > MIN_SHARE).map(|(way, _)| *way).collect();
    used == ways.iter().copied().collect()
}

/// Share of each path in the octets of the first vehicle between two snapshots.
fn shares(before: &OctetsByPath, after: &OctetsByPath) -> Vec<(PathKind, f64)> {
    let of = |sent: &OctetsByPath, way| sent.get(&(0, way)).copied().unwrap_or(0);
    let sent =
        [PathKind::Direct, PathKind::Roadside, PathKind::Cellular].map(|way| (way, of(after, way) - of(before, way)));
    let all: u64 = sent.iter().map(|(_, octets)| *octets).sum();
    sent.into_iter().map(|(way, octets)| (way, octets as f64 / all.max(1) as f64)).collect()
}
