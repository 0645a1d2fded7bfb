//! Connections of many nodes to as many addresses at once while the vehicle moves: left as future work in document P2.
//! Each node is a host; the addresses are those of one correspondent.

use super::Experiment;
use crate::clock;
use crate::figures::{Findings, round, spread};
use crate::multipath::passenger::Passenger;
use crate::multipath::{Path, Shape, Spot, Testbed};
use crate::progress::Progress;
use crate::topology::CORRESPONDENT;
use crate::traffic::{Delivery, End, Load, Protocol, Transfer};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::net::Ipv6Addr;
use std::thread::sleep;
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mptcp/many",
    about: "50 nodes inside at once, by classical NEMO and with MPTCP: throughput, fairness, handover gaps",
    run,
};

/// The port of the correspondent's addresses.
const PORT: u16 = 9600;
/// Octets of one write, and of a send buffer.
const MESSAGE: usize = 1024;
const BUFFER: usize = 64 * 1024;
/// Link rate: 40 Mbit/s for all connections together.
const RATE: u64 = 40_000_000;
/// Time for connections to converge to their share of a link.
const WARM: Duration = Duration::from_secs(3);
/// Observation time of a handover.
const WATCHED: Duration = Duration::from_secs(5);

/// The results of all connections of one kind.
struct Outcome {
    name: &'static str,
    /// In FN1 and in FN2: megabits per second of each connection, both directions.
    rates: [Vec<f64>; 2],
    /// The gap of each connection during the handover, milliseconds.
    gaps: Vec<f64>,
    direct_share: [f64; 2],
    whole: usize,
    wrong: u64,
}

fn run(quick: bool) -> Result<Findings> {
    let (nodes, span) = if quick { (10, Duration::from_secs(3)) } else { (50, Duration::from_secs(15)) };
    let mut progress = Progress::new(2 * 4);
    let mut findings = Findings::default();
    for (name, protocol) in [("classical", Protocol::Tcp), ("mptcp", Protocol::Mptcp)] {
        let outcome = measure(name, protocol, nodes, span, &mut progress)?;
        findings.require(outcome.whole == nodes, || {
            format!("{name}: {} of {nodes} nodes received everything", outcome.whole)
        });
        findings.require(outcome.wrong == 0, || {
            format!("{name}: {} packets with a source address of another network", outcome.wrong)
        });
        for (place, rates) in ["fn1", "fn2"].iter().zip(&outcome.rates) {
            findings.sum_up(&format!("{name}_mbit_s_{place}"), round(rates.iter().sum::<f64>()));
            findings.sum_up(&format!("{name}_jain_{place}"), round(jain(rates)));
        }
        findings.sum_up(&format!("{name}_gap_ms"), spread(&outcome.gaps));
        findings.rows.push(outcome.row());
    }
    findings.sum_up("nodes", nodes);
    Ok(findings)
}

fn measure(
    name: &'static str,
    protocol: Protocol,
    nodes: usize,
    span: Duration,
    progress: &mut Progress,
) -> Result<Outcome> {
    progress.say(&format!("{name}: {nodes} nodes board"));
    let testbed = Testbed::build(Shape { rate_bps: RATE, ..Shape::PAPER.lossless() })?;
    testbed.plug(0, Spot::Visited(0))?;
    testbed.wait_home_path()?;
    let passengers: Vec<Passenger> =
        (0..nodes).map(|number| Passenger::board(&testbed, number)).collect::<Result<_>>()?;
    for passenger in &passengers {
        testbed.wait_care_of(&passenger.host, 0)?;
    }
    progress.step();
    progress.say(&format!("{name}: all at once in FN1"));
    let transfers = connect(&testbed, &passengers, protocol)?;
    if protocol == Protocol::Mptcp {
        wait_direct(&testbed, 0)?;
    }
    sleep(WARM);
    let (first, share) = rates(&testbed, &transfers, span);
    progress.step();
    progress.say(&format!("{name}: the vehicle moves to FN2"));
    let began = testbed.unplug(0)?;
    sleep(Duration::from_millis(9));
    testbed.plug(0, Spot::Visited(1))?;
    sleep(WATCHED);
    let end = clock::unix_micros();
    let gap = |transfer: &Transfer| transfer.arrivals().iter().map(|one| one.longest_silence(began, end)).max();
    let gaps = transfers.iter().map(|one| round(gap(one).unwrap_or_default() as f64 / 1000.0)).collect();
    progress.step();
    progress.say(&format!("{name}: all at once in FN2"));
    let (second, share_then) = rates(&testbed, &transfers, span);
    transfers.iter().for_each(Transfer::stop);
    let mut whole = 0;
    for transfer in transfers {
        let deliveries = transfer.finish(Duration::from_secs(30))?;
        whole += usize::from(deliveries.iter().all(Delivery::is_whole));
    }
    progress.step();
    let wrong = testbed.uplinks.wrong();
    Ok(Outcome { name, rates: [first, second], gaps, direct_share: [share, share_then], whole, wrong })
}

/// One connection for each node, to an address of its own.
fn connect(testbed: &Testbed, passengers: &[Passenger], protocol: Protocol) -> Result<Vec<Transfer>> {
    let cn = &testbed.world.cn;
    let outside = |number: usize| -> Result<Ipv6Addr> {
        let [a, b, c, d, ..] = CORRESPONDENT.segments();
        Ok(Ipv6Addr::new(a, b, c, d, 0, 0, 1, u16::try_from(number)?))
    };
    let mut transfers = Vec::new();
    for (number, passenger) in passengers.iter().enumerate() {
        let address = outside(number)?;
        cn.ip(&[&format!("address add {address}/64 dev eth0 nodad")])?;
        let port = PORT + u16::try_from(number)?;
        let load = Load { protocol, port, message: MESSAGE, rate: None, answered: true, buffer: Some(BUFFER) };
        let ends = [End { host: &passenger.host, address: passenger.address }, End { host: cn, address }];
        transfers.push(Transfer::carry(ends, load).with_context(|| format!("node {number}"))?);
    }
    Ok(transfers)
}

fn wait_direct(testbed: &Testbed, number: usize) -> Result<()> {
    let first = || testbed.paths.first(Path::Direct(number), 0).map(drop);
    clock::wait_for(Duration::from_secs(10), first).context("no connection found its direct path")
}

/// Megabits per second of each connection in the next `span`, and the share on the direct path.
fn rates(testbed: &Testbed, transfers: &[Transfer], span: Duration) -> (Vec<f64>, f64) {
    testbed.paths.clear();
    let begin = clock::unix_micros();
    sleep(span);
    let end = clock::unix_micros();
    let octets = |transfer: &Transfer| -> u64 {
        transfer.arrivals().iter().map(|arrivals| arrivals.until(end) - arrivals.until(begin)).sum()
    };
    let rates = transfers.iter().map(|transfer| octets(transfer) as f64 * 8.0 / (end - begin) as f64).collect();
    (rates, testbed.paths.direct_share(begin, end))
}

/// Jain's fairness index: 1 if all rates are equal, 1/n if one connection has everything.
fn jain(values: &[f64]) -> f64 {
    let (sum, squares) = (values.iter().sum::<f64>(), values.iter().map(|value| value * value).sum::<f64>());
    if squares > 0.0 { sum * sum / (values.len() as f64 * squares) } else { 0.0 }
}

impl Outcome {
    fn row(&self) -> Value {
        let [first, second] = &self.rates;
        let [share, share_then] = self.direct_share;
        json!({
            "mode": self.name,
            "nodes": first.len(),
            "mbit_s_each_fn1": spread(first),
            "mbit_s_each_fn2": spread(second),
            "direct_share_fn1": round(share),
            "direct_share_fn2": round(share_then),
            "gap_ms": spread(&self.gaps),
            "gaps_ms": self.gaps,
            "whole": self.whole,
            "wrong_source_packets": self.wrong,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn fairness_is_one_for_equals_and_low_for_one_who_has_all() {
        assert!((jain(&[2.0, 2.0, 2.0]) - 1.0).abs() < 1e-9);
        assert!((jain(&[3.0, 0.0, 0.0]) - 1.0 / 3.0).abs() < 1e-9);
    }
}
