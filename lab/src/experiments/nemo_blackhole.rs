//! Black holes: the preferred of two uplinks keeps its carrier and its addresses, but carries nothing from one moment on. How
//! long traffic stands still until it is on the other one: datagrams and a connection, and datagrams that begin only when
//! the path has failed already.

use crate::experiments::prelude::*;
use crate::load::handover::OBSERVATION_TIME;
use crate::topology::nemo::{NemoNetwork, Vehicle};
use crate::topology::two_uplinks::{start_afresh, two_uplinks};
use roam6_sim::LinkSpec;

/// One-way delay to the home agent.
const DELAY: Duration = Duration::from_millis(25);
/// A black hole that is not left by then never is.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Probes and traffic before a black hole.
const KNOWN_TIME: Duration = Duration::from_secs(4);
/// Without traffic before a black hole: longer than a path counts as in use.
const IDLE_TIME: Duration = Duration::from_secs(8);
/// From the black hole on until the first datagram.
const UNNOTICED_TIME: Duration = Duration::from_millis(500);
/// Packets per second of the datagrams in each direction.
const RATE: u32 = 100;
/// Octets per second of the transfer in each direction.
const TRANSFER_RATE: u64 = 500_000;

pub(super) fn run(run: &mut Run) -> Result<()> {
    let times = if run.quick { 4 } else { 20 };
    run.set_steps(times * 3);
    let (network, vehicle) = two_uplinks(DELAY)?;
    let datagrams = fall_silent(run, times, &network, &vehicle, Traffic::Datagrams)?;
    run.summarise("gap_ms_p50", percentile(datagrams.iter().copied(), 0.5).map(round));
    run.summarise("gap_ms_p95", percentile(datagrams, 0.95).map(round));
    let transfer = fall_silent(run, times, &network, &vehicle, Traffic::Transfer)?;
    run.summarise("tcp_gap_ms_p50", percentile(transfer.iter().copied(), 0.5).map(round));
    run.summarise("tcp_gap_ms_p95", percentile(transfer, 0.95).map(round));
    let idle = fall_silent(run, times, &network, &vehicle, Traffic::None)?;
    run.summarise("idle_gap_ms_p50", percentile(idle.iter().copied(), 0.5).map(round));
    run.summarise("idle_gap_ms_p95", percentile(idle, 0.95).map(round));
    Ok(())
}

/// What passes when the path fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traffic {
    Datagrams,
    Transfer,
    None,
}

/// The gaps of so many black holes, milliseconds.
fn fall_silent(
    run: &mut Run,
    times: usize,
    network: &NemoNetwork,
    vehicle: &Vehicle,
    traffic: Traffic,
) -> Result<Vec<f64>> {
    let ends = || [vehicle.node(), network.correspondent()];
    let mut gaps = Vec::new();
    let mut train = (traffic == Traffic::Datagrams).then(|| Train::start(ends(), 9100, RATE)).transpose()?;
    let load = TransferLoad::steady(Protocol::Tcp, 9300, TRANSFER_RATE);
    let transfer = (traffic == Traffic::Transfer).then(|| Transfer::start(ends(), load)).transpose()?;
    for _ in 0..times {
        run.step(&format!("{traffic:?}"));
        sleep(if traffic == Traffic::None { IDLE_TIME } else { KNOWN_TIME });
        let begin = clock::unix_micros();
        network.emulator.shape(network.visited[0].cable, LinkSpec { loss: 1.0, ..LinkSpec::default() });
        let gap = match (&train, &transfer) {
            (Some(train), _) => gap_of(|begin, end| train.longest_silence(begin, end), begin),
            (_, Some(transfer)) => gap_of(|begin, end| transfer.longest_silence(begin, end), begin),
            _ => first_delivery(network, vehicle)?,
        };
        run.require(gap.is_finite(), || format!("{traffic:?}: not left"));
        gaps.push(gap);
        start_afresh(network, vehicle)?;
    }
    if let Some(train) = &mut train {
        train.stop();
    }
    if let Some(transfer) = transfer {
        run.require_tcp(transfer.finish(TIMEOUT)?.iter().all(Delivery::is_complete));
    }
    run.rows.push(json!({ "traffic": format!("{traffic:?}"), "gap_ms": distribution(gaps.iter().copied()) }));
    Ok(gaps)
}

/// The longest silence from a moment on until traffic passes again, milliseconds.
fn gap_of(longest_silence: impl Fn(u64, u64) -> u64, begin: u64) -> f64 {
    sleep(OBSERVATION_TIME);
    // Packets of the last moments may still be in flight.
    let end = clock::unix_micros() - 300_000;
    let silence = longest_silence(begin, end);
    if silence + 500_000 > end - begin { f64::INFINITY } else { silence as f64 / 1000.0 }
}

/// From the first datagrams on, after a pause, until some are delivered in both directions, milliseconds.
fn first_delivery(network: &NemoNetwork, vehicle: &Vehicle) -> Result<f64> {
    sleep(UNNOTICED_TIME);
    let begin = clock::unix_micros();
    let mut train = Train::start([vehicle.node(), network.correspondent()], 9100, RATE)?;
    sleep(OBSERVATION_TIME);
    train.stop();
    let first = [&train.forward, &train.reverse].map(|flow| flow.first_after(Stamp::Received, begin));
    let [Some(up), Some(down)] = first else { return Ok(f64::INFINITY) };
    Ok(up.max(down).saturating_sub(begin) as f64 / 1000.0)
}
