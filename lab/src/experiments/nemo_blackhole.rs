//! Black holes: the preferred of two uplinks keeps its carrier and its addresses, but carries nothing from one moment on. How
//! long traffic stands still until it is on the other one: datagrams and a connection, and datagrams that begin only when
//! the path has failed already. The correspondent is beside the home agent.

use crate::bed::ObservedFrame;
use crate::experiments::prelude::*;
use crate::load::handover::OBSERVATION_TIME;
use crate::statistics::longest_silence;
use crate::threads::Shared;
use crate::topology::nemo::{CORRESPONDENT, NemoNetwork, Vehicle};
use crate::topology::two_uplinks::{start_afresh, two_uplinks};
use roam6_sim::LinkSpec;
use std::net::Ipv6Addr;

/// One-way delay to the home agent, by either uplink.
const DELAY: Duration = Duration::from_millis(25);
/// The protocol number of TCP.
const TCP: u8 = 6;
/// A black hole that is not left by then never is.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Probes and traffic before a black hole.
const KNOWN_TIME: Duration = Duration::from_secs(4);
/// Without traffic before a black hole: longer than a path counts as in use.
const IDLE_TIME: Duration = Duration::from_secs(8);
/// From the black hole on until the first datagram.
const UNNOTICED_TIME: Duration = Duration::from_millis(500);
/// Packets of the last moments may still be in flight: how many microseconds.
const IN_FLIGHT: u64 = 300_000;
/// Packets per second of the datagrams in each direction.
const RATE: u32 = 100;
/// Octets per second of the transfer in each direction.
const TRANSFER_RATE: u64 = 500_000;

pub(super) fn run(run: &mut Run) -> Result<()> {
    let times = if run.quick { 6 } else { 20 };
    run.set_steps(times * 3);
    let access = LinkSpec { delay: DELAY, ..LinkSpec::default() };
    let (network, vehicle) = two_uplinks(Duration::ZERO, access)?;
    let bed = Bed { segments: Segments::collect(&network, &vehicle), network, vehicle, access };
    let [datagrams, _] = bed.fall_silent(run, times, Traffic::Datagrams)?;
    summarise(run, "gap_ms", &datagrams);
    let [stream, segments] = bed.fall_silent(run, times, Traffic::Transfer)?;
    summarise(run, "tcp_gap_ms", &segments);
    summarise(run, "tcp_stream_gap_ms", &stream);
    let [idle, _] = bed.fall_silent(run, times, Traffic::None)?;
    summarise(run, "idle_gap_ms", &idle);
    Ok(())
}

fn summarise(run: &mut Run, name: &str, gaps: &[f64]) {
    run.estimate(&format!("{name}_p50"), median(gaps, LEVEL));
    run.summarise(&format!("{name}_p95"), percentile(gaps, 0.95).map(round));
    run.summarise(&format!("{name}_max"), percentile(gaps, 1.0).map(round));
}

/// When TCP segments left the tunnel: towards the correspondent, and towards the node inside; microseconds since 1970.
struct Segments(Shared<[Vec<u64>; 2]>);

impl Segments {
    fn collect(network: &NemoNetwork, vehicle: &Vehicle) -> Segments {
        let exits = [(network.home_cable, CORRESPONDENT), (vehicle.ingress_segment, vehicle.mnn_address)];
        Segments(network.emulator.collect(move |times: &mut [Vec<u64>; 2], observed| {
            let destination = destination_of_segment(observed);
            for (times, (segment, address)) in times.iter_mut().zip(exits) {
                if observed.segment == segment && destination == Some(address) {
                    times.push(observed.unix_micros);
                }
            }
        }))
    }

    /// The longest silence of a direction that overlaps this span, microseconds.
    fn longest_silence(&self, begin: u64, end: u64) -> u64 {
        let times = self.0.lock();
        let silences = times.each_ref().map(|times| longest_silence(times.iter().copied(), begin, end));
        silences.into_iter().max().unwrap_or_default()
    }
}

/// The destination of a TCP segment without an outer header.
fn destination_of_segment(observed: &ObservedFrame<'_>) -> Option<Ipv6Addr> {
    let packet = observed.packet().filter(|packet| packet.get(6) == Some(&TCP))?;
    let octets: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
    Some(octets.into())
}

/// What passes when the path fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traffic {
    Datagrams,
    Transfer,
    None,
}

/// The networks.
struct Bed {
    network: NemoNetwork,
    vehicle: Vehicle,
    /// Between each access network and the backbone.
    access: LinkSpec,
    segments: Segments,
}

impl Bed {
    /// The gaps of so many black holes, milliseconds: between datagrams, or octets of the stream, that are delivered; and
    /// between segments of a connection.
    fn fall_silent(&self, run: &mut Run, times: usize, traffic: Traffic) -> Result<[Vec<f64>; 2]> {
        let Bed { network, vehicle, access, segments } = self;
        let ends = || [vehicle.node(), network.correspondent()];
        let (mut gaps, mut of_segments) = (Vec::new(), Vec::new());
        let mut train = (traffic == Traffic::Datagrams).then(|| Train::start(ends(), 9100, RATE)).transpose()?;
        let load = TransferLoad::steady(Protocol::Tcp, 9300, TRANSFER_RATE);
        let transfer = (traffic == Traffic::Transfer).then(|| Transfer::start(ends(), load)).transpose()?;
        for _ in 0..times {
            run.step(&format!("{traffic:?}"));
            sleep(if traffic == Traffic::None { IDLE_TIME } else { KNOWN_TIME });
            let begin = clock::unix_micros();
            network.emulator.shape(network.visited[0].cable, LinkSpec { loss: 1.0, ..*access });
            let gap = match (&train, &transfer) {
                (Some(train), _) => gap_of(|begin, end| train.longest_silence(begin, end), begin),
                (_, Some(transfer)) => {
                    let gap = gap_of(|begin, end| transfer.longest_silence(begin, end), begin);
                    let until = clock::unix_micros() - IN_FLIGHT;
                    of_segments.push(segments.longest_silence(begin, until) as f64 / 1000.0);
                    gap
                }
                _ => first_delivery(network, vehicle)?,
            };
            run.require(gap.is_finite(), || format!("{traffic:?}: not left"));
            gaps.push(gap);
            start_afresh(network, vehicle, *access)?;
        }
        if let Some(train) = &mut train {
            train.stop();
        }
        if let Some(transfer) = transfer {
            run.require_tcp(transfer.finish(TIMEOUT)?.iter().all(Delivery::is_complete));
        }
        run.rows.push(json!({
            "traffic": format!("{traffic:?}"),
            "gap_ms": distribution(gaps.iter().copied()),
            "gap_of_segments_ms": distribution(of_segments.iter().copied()),
        }));
        Ok([gaps, of_segments])
    }
}

/// The longest silence from a moment on until traffic passes again, milliseconds.
fn gap_of(longest_silence: impl Fn(u64, u64) -> u64, begin: u64) -> f64 {
    sleep(OBSERVATION_TIME);
    let end = clock::unix_micros() - IN_FLIGHT;
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
