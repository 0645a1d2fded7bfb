//! One uplink: cold starts and hard moves, encrypted and not, and kills and restarts of both daemons between the encrypted ones.

use super::testbed::{Observed, millis, pick};
use crate::experiments::prelude::*;
use crate::load::handover::{OBSERVATION_TIME, replug};
use crate::topology::nemo::{CORRESPONDENT, is_accepted};

/// Packets per second in each direction.
const RATE: u32 = 200;
const PORT: u16 = 9100;
/// How long a registration may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Starts and moves of a quick and of a full run. A start takes most of the time: the kernel verifies the BPF programs.
const STARTS: [usize; 2] = [2, 10];
const MOVES: [usize; 2] = [4, 100];
/// Moves without encryption, which give the median that gaps are compared with.
const PLAIN_MOVES: [usize; 2] = [4, 20];
/// Moves between two ends of a daemon.
const MOVES_PER_RESTART: [usize; 2] = [2, 5];

/// What one kind of path took, milliseconds.
#[derive(Default)]
struct Times {
    /// From the first acknowledgement to the first packet in each direction, the later one.
    first_packets: Vec<f64>,
    gaps: Vec<f64>,
}

/// Steps of the progress, for both kinds of paths.
pub(super) fn steps(run: &Run) -> usize {
    2 * pick(run, STARTS) + pick(run, MOVES) + pick(run, PLAIN_MOVES)
}

/// What the paths are, for the progress.
fn kind(encrypted: bool) -> &'static str {
    if encrypted { "encrypted" } else { "not encrypted" }
}

pub(super) fn measure(run: &mut Run) -> Result<()> {
    let mut times = [Times::default(), Times::default()];
    for (encrypted, of_kind) in [false, true].into_iter().zip(&mut times) {
        run.step(&format!("{}: networks and first start", kind(encrypted)));
        let mut observed = Observed::build(encrypted, &["up0"], "")?;
        let outcome = measure_kind(run, &mut observed, encrypted, of_kind);
        if encrypted {
            observed.count_plaintext(run);
        } else {
            let readable = observed.sightings.lock().plaintext;
            run.require(readable > 0, || "the capture finds no plaintext where nothing is encrypted".to_owned());
        }
        outcome.context(kind(encrypted))?;
    }
    let [plain, encrypted] = times;
    let middle = |values: &[f64]| percentile(values.iter().copied(), 0.5);
    let added = |ours: &[f64], theirs: &[f64]| Some(round(middle(ours)? - middle(theirs)?));
    run.summarise("first_packet_added_ms", added(&encrypted.first_packets, &plain.first_packets));
    run.summarise("hard_gap_added_ms_p50", added(&encrypted.gaps, &plain.gaps));
    for (by, times) in [("tunnel", plain), ("encrypted", encrypted)] {
        run.rows.push(json!({
            "by": by, "first_packet_ms": distribution(times.first_packets), "hard_gap_ms": distribution(times.gaps),
        }));
    }
    Ok(())
}

fn measure_kind(run: &mut Run, observed: &mut Observed, encrypted: bool, times: &mut Times) -> Result<()> {
    let (starts, moves) = (pick(run, STARTS), pick(run, if encrypted { MOVES } else { PLAIN_MOVES }));
    let uplink = observed.vehicle.uplink(0)?;
    let [first, second] = observed.network.visited.each_ref().map(|visited| visited.link);
    let train = Train::start(observed.ends(), PORT, RATE)?;
    let begin = observed.network.emulator.plug(uplink, first)?;
    times.first_packets.push(first_packet(observed, &train, begin)?);
    for number in 2..=starts {
        run.step(&format!("{}: start {number} of {starts}", kind(encrypted)));
        observed.vehicle.daemon.stop()?;
        sleep(OBSERVATION_TIME);
        let begin = clock::unix_micros();
        observed.vehicle.daemon.spawn()?;
        times.first_packets.push(first_packet(observed, &train, begin)?);
    }
    let mut ends = 0;
    for number in 1..=moves {
        run.step(&format!("{}: move {number} of {moves}", kind(encrypted)));
        sleep(OBSERVATION_TIME);
        let begin = clock::unix_micros();
        let up =
            replug(&observed.network, uplink, if number % 2 == 0 { first } else { second })?.context("no carrier")?;
        let accepted = observed.vehicle.daemon.events.wait_for(up, TIMEOUT, is_accepted);
        accepted.with_context(|| format!("not registered after move {number}"))?;
        sleep(OBSERVATION_TIME);
        let silence = train.longest_silence(begin, clock::unix_micros() - 150_000);
        times.gaps.push(millis(0, silence));
        if encrypted && number.is_multiple_of(pick(run, MOVES_PER_RESTART)) {
            end_daemon(observed, ends).with_context(|| format!("restart after move {number}"))?;
            ends += 1;
        }
    }
    if encrypted {
        run.summarise("moves", times.gaps.len());
        run.summarise("restarts", ends + starts - 1);
    }
    Ok(())
}

/// From the first acknowledgement after `begin` to the first packets that arrive at both ends.
fn first_packet(observed: &Observed, train: &Train, begin: u64) -> Result<f64> {
    let accepted = observed
        .vehicle
        .daemon
        .events
        .wait_for(begin, TIMEOUT, is_accepted)
        .context("no acknowledgement after a start")?;
    let moment = accepted.unix_micros;
    let ways = [&train.forward, &train.reverse];
    let arrived =
        || -> Option<Vec<u64>> { ways.into_iter().map(|way| way.first_after(Stamp::Received, moment)).collect() };
    let arrived = clock::wait_for(TIMEOUT, arrived).context("no packets at both ends after a start")?;
    Ok(millis(moment, arrived.into_iter().max().unwrap_or(moment)))
}

/// Kills or stops one of the daemons and starts it again.
fn end_daemon(observed: &mut Observed, number: usize) -> Result<()> {
    let Observed { vehicle, network, .. } = observed;
    let daemon = if number.is_multiple_of(2) { &mut vehicle.daemon } else { &mut network.home_agent };
    match number % 4 {
        0 | 1 => daemon.kill(),
        _ => daemon.stop()?,
    }
    sleep(OBSERVATION_TIME);
    daemon.spawn()?;
    observed.vehicle.wait_until_connected(CORRESPONDENT)
}
