//! Black holes: the preferred of two uplinks keeps its carrier and its addresses, but carries nothing from one moment on. How
//! long traffic is interrupted until it is on the other one: datagrams and a connection, and datagrams that begin only when
//! the path has failed already, each of a vehicle of its own. The correspondent is beside the home agent.

use crate::bed::ObservedFrame;
use crate::experiments::prelude::*;
use crate::load::handover::OBSERVATION_TIME;
use crate::statistics::longest_silence;
use crate::threads::Shared;
use crate::topology::nemo::{CORRESPONDENT, NemoNetwork, Vehicle};
use crate::topology::two_uplinks::{start_afresh, vehicles_with_two_uplinks};
use roam6_sim::LinkSpec;
use std::net::Ipv6Addr;

/// One-way delay to the home agent, by either uplink.
const DELAY: Duration = Duration::from_millis(25);
/// The protocol number of TCP.
const TCP: u8 = 6;
/// A black hole that is not left by then never is.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Before a black hole: longer than a path without traffic counts as in use.
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
    run.set_steps(times);
    let access = LinkSpec { delay: DELAY, ..LinkSpec::default() };
    let (network, vehicles) = vehicles_with_two_uplinks(Duration::ZERO, access)?;
    let bed = Bed { segments: Segments::collect(&network, &vehicles[1]), network, vehicles, access };
    let gaps = bed.fall_silent(run, times)?;
    for (name, what, values) in [
        ("gap_ms", "datagrams", &gaps.datagrams),
        ("tcp_gap_ms", "segments of a connection", &gaps.segments),
        ("tcp_stream_gap_ms", "octets of its stream", &gaps.stream),
        ("idle_gap_ms", "datagrams after a pause", &gaps.idle),
    ] {
        run.require(values.iter().all(|gap| gap.is_finite()), || format!("{name}: a black hole was not left"));
        summarise(run, name, values);
        run.rows.push(json!({ "what": what, "gap_ms": distribution(values), "gaps_ms": values }));
    }
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

/// The gaps of all black holes, milliseconds.
#[derive(Default)]
struct Gaps {
    /// Between datagrams that are delivered.
    datagrams: Vec<f64>,
    /// Between octets of a stream that are delivered, and between its segments.
    stream: Vec<f64>,
    segments: Vec<f64>,
    /// Until the first datagrams after a pause are delivered.
    idle: Vec<f64>,
}

/// The networks.
struct Bed {
    network: NemoNetwork,
    /// With datagrams, with a connection, and without traffic.
    vehicles: [Vehicle; 3],
    /// Between each access network and the backbone.
    access: LinkSpec,
    segments: Segments,
}

impl Bed {
    /// The gaps of so many black holes.
    fn fall_silent(&self, run: &mut Run, times: usize) -> Result<Gaps> {
        let Bed { network, vehicles, access, segments } = self;
        let [talking, connected, idle] = vehicles;
        let mut train = Train::start([talking.node(), network.correspondent()], 9100, RATE)?;
        let load = TransferLoad::steady(Protocol::Tcp, 9300, TRANSFER_RATE);
        let transfer = Transfer::start([connected.node(), network.correspondent()], load)?;
        let mut gaps = Gaps::default();
        for _ in 0..times {
            run.step("a black hole");
            sleep(IDLE_TIME);
            let begin = clock::unix_micros();
            network.emulator.shape(network.visited[0].cable, LinkSpec { loss: 1.0, ..*access });
            sleep(UNNOTICED_TIME);
            gaps.idle.push(first_delivery(network, idle)?);
            gaps.datagrams.push(gap_of(|begin, end| train.longest_silence(begin, end), begin));
            gaps.stream.push(gap_of(|begin, end| transfer.longest_silence(begin, end), begin));
            gaps.segments.push(gap_of(|begin, end| segments.longest_silence(begin, end), begin));
            start_afresh(network, &[talking, connected, idle], *access)?;
        }
        train.stop();
        run.require_tcp(transfer.finish(TIMEOUT)?.iter().all(Delivery::is_complete));
        Ok(gaps)
    }
}

/// The longest silence from a moment on until now, milliseconds; infinite if traffic has not passed again.
fn gap_of(longest_silence: impl Fn(u64, u64) -> u64, begin: u64) -> f64 {
    let end = clock::unix_micros() - IN_FLIGHT;
    let silence = longest_silence(begin, end);
    if silence + 500_000 > end - begin { f64::INFINITY } else { silence as f64 / 1000.0 }
}

/// From the first datagrams on, after a pause, until some are delivered in both directions, milliseconds.
fn first_delivery(network: &NemoNetwork, vehicle: &Vehicle) -> Result<f64> {
    let begin = clock::unix_micros();
    let mut train = Train::start([vehicle.node(), network.correspondent()], 9110, RATE)?;
    sleep(OBSERVATION_TIME);
    train.stop();
    let first = [&train.forward, &train.reverse].map(|flow| flow.first_after(Stamp::Received, begin));
    let [Some(up), Some(down)] = first else { return Ok(f64::INFINITY) };
    Ok(up.max(down).saturating_sub(begin) as f64 / 1000.0)
}
