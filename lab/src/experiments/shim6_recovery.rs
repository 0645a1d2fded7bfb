//! How long connections are silent when a provider fails without a word, by Send Timeout (the paper's Fig 9).

use super::Experiment;
use crate::clock;
use crate::figures::{Findings, percentile, round, spread};
use crate::progress::Progress;
use crate::providers::{Providers, Settings};
use crate::traffic::{Load, Protocol, Stamp, Train, Transfer};
use anyhow::Result;
use roam6_proto::Report;
use serde_json::json;
use std::thread::sleep;
use std::time::Duration;

/// See the file's head.
pub(crate) const EXPERIMENT: Experiment =
    Experiment { name: "shim6/recovery", about: "a provider fails silently: how long TCP and UDP stand still", run };

/// Send Timeouts, milliseconds, and how often a provider fails with each.
const RUNS: [(u64, usize); 7] = [(500, 20), (1000, 20), (2000, 20), (3000, 10), (5000, 5), (10_000, 3), (15_000, 3)];
const QUICK: [(u64, usize); 2] = [(500, 4), (1000, 3)];
/// One-way delay of a cable; a round trip passes four.
const DELAY: Duration = Duration::from_millis(3);
/// How long all is well between two failures.
const PEACE: Duration = Duration::from_millis(1500);

fn run(quick: bool) -> Result<Findings> {
    let runs: &[(u64, usize)] = if quick { &QUICK } else { &RUNS };
    let mut findings = Findings { sound: true, ..Findings::default() };
    let mut progress = Progress::new(runs.iter().map(|(_, count)| *count as u64).sum());
    let mut beyond = Vec::new();
    for (timeout, count) in runs {
        progress.say(&format!("Send Timeout {timeout} ms"));
        let (tcp, udp, found) = measure(*timeout, *count, &mut progress)?;
        beyond.extend(tcp.iter().map(|silence| silence - *timeout as f64));
        findings.rows.push(json!({
            "send_timeout_ms": timeout,
            "tcp_silent_ms": spread(&tcp),
            "udp_silent_ms": spread(&udp),
            "search_ms": spread(&found),
        }));
    }
    findings.sum_up("art_minus_tsend_ms_p50", percentile(&beyond, 0.5).map(round));
    findings.sum_up("art_minus_tsend_ms_p95", percentile(&beyond, 0.95).map(round));
    findings.sum_up("round_trip_ms", (DELAY * 4).as_millis() as u64);
    Ok(findings)
}

/// Silences of TCP and UDP and times of the search, milliseconds.
fn measure(timeout: u64, count: usize, progress: &mut Progress) -> Result<(Vec<f64>, Vec<f64>, Vec<f64>)> {
    let shim = format!("send_timeout = \"{timeout}ms\"\n");
    let world = Providers::build(Settings { delay: DELAY, shim: &shim })?;
    // A thousand octets every ten milliseconds, each way.
    let load = Load { message: 1000, ..Load::steady(Protocol::Tcp, 9700, 100_000) };
    let transfer = Transfer::carry(world.ends(), load)?;
    let mut train = Train::start(world.ends(), 9800, 100)?;
    world.await_both(0, "a context", |report| matches!(report, Report::ContextUp { .. }))?;
    let (mut tcp, mut udp, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..count {
        sleep(PEACE);
        // Each time the provider that carries it.
        let provider = round % 2;
        let at = world.silence(provider)?;
        let changed = |report: &Report| matches!(report, Report::PathChanged { .. });
        world.await_both(at, "another path", changed)?;
        sleep(PEACE);
        world.mend(provider)?;
        let now = clock::unix_micros();
        let most = |silences: [u64; 2]| silences.into_iter().max().unwrap_or_default() as f64 / 1000.0;
        let [there, back] = transfer.arrivals();
        tcp.push(most([there.longest_silence(at, now), back.longest_silence(at, now)]));
        udp.push(most([
            train.forth.longest_silence(Stamp::Received, at, now),
            train.back.longest_silence(Stamp::Received, at, now),
        ]));
        for side in &world.sides {
            if let Some(Report::PathChanged { after, .. }) =
                side.daemon.events().first(at, changed).map(|event| event.report)
            {
                found.push(after.as_secs_f64() * 1000.0);
            }
        }
        progress.step();
    }
    train.stop();
    transfer.finish(Duration::from_secs(20))?;
    Ok((tcp, udp, found))
}
