//! Processor time: of relayed octets against tunnelled ones, and of flows without a rule where bonding is configured.

use crate::experiments::prelude::*;
use crate::load::chain_bench::ChainBench;
use crate::load::packet_generator::{BURST_PORT, Burst};
use crate::load::tcp_cost;
use crate::topology::bonding::BONDED;
use crate::topology::chain::{self, Chain, Forwarding};

/// The time of a quick and of a full run.
const BUDGETS: [Duration; 2] = [Duration::from_secs(25), Duration::from_secs(240)];
/// Octets of a transfer.
const OCTETS: [usize; 2] = [200_000_000, 1_000_000_000];
/// Octets of a segment, flows, and warm-up frames of a burst.
const PACKET: usize = 250;
const FLOWS: u16 = 8;
const WARM_UP: u32 = 4096;
/// The kinds of forwarding that are compared.
const KINDS: [Forwarding; 2] = [Forwarding::FlowBinding, Forwarding::Bonding];
/// Rounds with the same hosts, whose daemons take longer to start than a round. Other hosts have their memory elsewhere.
const ROUNDS_OF_A_BENCH: usize = 8;

/// The values of each round.
#[derive(Default)]
struct Series {
    /// Processor seconds per gigabit, each way, through the tunnel and relayed.
    octets: [[Vec<f64>; 2]; 2],
    /// Segments of connections without a rule, each way, without bonding and with it.
    bursts: [[Vec<f64>; 2]; 2],
}

pub(super) fn measure(run: &mut Run) -> Result<()> {
    let mut bench = Some(start()?);
    let mut rounds = Rounds::growing(run, BUDGETS);
    let (octets, frames) = if run.quick { (OCTETS[0], 30_000) } else { (OCTETS[1], 120_000) };
    let mut series = Series::default();
    while let Some(at) = rounds.next() {
        if at > 0 && at.is_multiple_of(ROUNDS_OF_A_BENCH) {
            drop(bench.take());
            bench = Some(start()?);
        }
        let Some(bench) = &mut bench else { break };
        let mut of_round = Series::default();
        measure_round(&mut of_round, bench, at, (octets, frames))?;
        if rounds.keep() {
            series.extend(of_round);
        }
        rounds.look(|rounds| series.estimates(rounds));
    }
    run.estimate_all(series.estimates(&rounds));
    run.rows.push(json!({ "kind": "cost", "cpu_seconds_per_gigabit": series.octets, "kpps": series.bursts }));
    rounds.finish(run);
    Ok(())
}

fn start() -> Result<ChainBench> {
    let bench = ChainBench::new(&KINDS)?;
    bench.chain(Forwarding::Bonding)?.wait_for_relays()?;
    Ok(bench)
}

fn measure_round(series: &mut Series, bench: &mut ChainBench, at: usize, (octets, frames): (usize, u32)) -> Result<()> {
    for turn in 0..KINDS.len() {
        let place = (turn + at) % KINDS.len();
        let Some(kind) = KINDS.get(place).copied() else { continue };
        for (way, upward) in [false, true].into_iter().enumerate() {
            let burst = send_segments(bench, (kind, upward), frames)?;
            put(&mut series.bursts, way, place, burst.kpps());
            put(&mut series.octets, way, place, cpu_per_gigabit(bench.chain(kind)?, upward, octets)?);
        }
    }
    Ok(())
}

fn put(series: &mut [[Vec<f64>; 2]; 2], way: usize, place: usize, value: f64) {
    series.get_mut(way).and_then(|kinds| kinds.get_mut(place)).into_iter().for_each(|of| of.push(value));
}

/// Segments of connections that no rule selects.
fn send_segments(bench: &mut ChainBench, (kind, upward): (Forwarding, bool), count: u32) -> Result<Burst> {
    let segment = |flow| chain::tcp_segment(PACKET, upward, (BURST_PORT, 20_000 + flow));
    let burst = bench.send_packets((kind, upward), 0..FLOWS, (WARM_UP, count), segment)?;
    ensure!(burst.arrived > 0, "no segment of a connection without a rule arrived");
    Ok(burst)
}

/// Processor seconds of hosts, relays and softirq threads for a gigabit by one connection.
fn cpu_per_gigabit(chain: &Chain, upward: bool, octets: usize) -> Result<f64> {
    let mut ends = [
        Endpoint { host: &chain.source, address: chain::SOURCE },
        Endpoint { host: &chain.sink, address: chain::SINK },
    ];
    if upward {
        ends.reverse();
    }
    let before = chain.relay_cpu_time()?;
    let hosts = 1.0 / tcp_cost::rate_per_cpu_second_to(ends, BONDED, octets)?;
    let relays = chain.relay_cpu_time()?.saturating_sub(before);
    Ok(hosts + relays.as_secs_f64() / (octets as f64 * 8.0 / 1e9))
}

impl Series {
    fn extend(&mut self, more: Series) {
        let pairs = [(&mut self.octets, more.octets), (&mut self.bursts, more.bursts)];
        for (all, new) in pairs {
            let (all, new) = (all.iter_mut().flatten(), new.into_iter().flatten());
            all.zip(new).for_each(|(all, new)| all.extend(new));
        }
    }

    fn estimates(&self, rounds: &Rounds) -> Vec<NamedEstimate> {
        let ratios = |of: &[[Vec<f64>; 2]; 2]| {
            of.iter().filter_map(|[without, with]| rounds.ratio(with, without)).collect::<Vec<_>>()
        };
        vec![
            ("cpu_per_octet_over_tunnel".to_owned(), Estimate::most(ratios(&self.octets))),
            ("unbonded_over_before".to_owned(), Estimate::least(ratios(&self.bursts))),
        ]
    }
}
