//! Connections of many nodes to as many correspondents at once while the vehicle moves: left as future work in document P2.
//! Each node and each correspondent is a host.

use crate::bed::Host;
use crate::experiments::prelude::*;
use crate::mptcp::node::MptcpNode;
use crate::mptcp::{AttachmentPoint, LinkShape, MptcpTestbed, PayloadPath};
use std::net::Ipv6Addr;

/// The port of the correspondents.
const PORT: u16 = 9600;
/// Octets of one write, and of a send buffer.
const MESSAGE: usize = 1024;
const BUFFER: usize = 64 * 1024;
/// Link rate: 40 Mbit/s for all connections together.
const RATE: u64 = 40_000_000;
/// Time for connections to converge to their share of a link.
const WARM_UP: Duration = Duration::from_secs(3);
/// Observation time of a handover.
const OBSERVATION_TIME: Duration = Duration::from_secs(5);

/// The results of all connections of one kind.
struct Outcome {
    name: &'static str,
    /// In FN1 and in FN2: megabits per second of each connection, both directions.
    rates: [Vec<f64>; 2],
    /// The gap of each connection during the handover, milliseconds.
    gaps: Vec<f64>,
    direct_share: [f64; 2],
    complete: usize,
    wrong_source: u64,
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let (nodes, span) = if run.quick { (10, Duration::from_secs(3)) } else { (50, Duration::from_secs(15)) };
    run.set_steps(2 * 4);
    for (name, protocol) in [("classical", Protocol::Tcp), ("mptcp", Protocol::Mptcp)] {
        let outcome = measure(run, (name, protocol), nodes, span)?;
        run.require(outcome.complete == nodes, || {
            format!("{name}: {} of {nodes} nodes received everything", outcome.complete)
        });
        run.require(outcome.wrong_source == 0, || {
            format!("{name}: {} packets with a source address of another network", outcome.wrong_source)
        });
        for (place, rates) in ["fn1", "fn2"].iter().zip(&outcome.rates) {
            run.summarise(&format!("{name}_mbit_s_{place}"), round(rates.iter().sum::<f64>()));
            run.summarise(&format!("{name}_jain_{place}"), round(jain(rates)));
        }
        run.summarise(&format!("{name}_gap_ms"), distribution(&outcome.gaps));
        run.rows.push(outcome.row());
    }
    run.summarise("nodes", nodes);
    run.summarise("correspondents", nodes);
    Ok(())
}

fn measure(run: &Run, (name, protocol): (&'static str, Protocol), nodes: usize, span: Duration) -> Result<Outcome> {
    run.step(&format!("{name}: {nodes} nodes connect"));
    let testbed = MptcpTestbed::build(LinkShape { rate_bps: RATE, ..LinkShape::PAPER.lossless() })?;
    testbed.plug(0, AttachmentPoint::Visited(0))?;
    testbed.wait_home_path()?;
    let passengers: Vec<MptcpNode> =
        (0..nodes).map(|number| MptcpNode::attach(&testbed, number)).collect::<Result<_>>()?;
    for passenger in &passengers {
        testbed.wait_care_of(&passenger.host, 0)?;
    }
    let correspondents: Vec<(Host, Ipv6Addr)> =
        (0..nodes).map(|number| testbed.add_correspondent(u16::try_from(number)?)).collect::<Result<_>>()?;
    run.step(&format!("{name}: throughput in FN1"));
    let transfers = connect(&correspondents, &passengers, protocol)?;
    if protocol == Protocol::Mptcp {
        wait_direct(&testbed, 0)?;
    }
    sleep(WARM_UP);
    let (first, share) = rates(&testbed, &transfers, span);
    run.step(&format!("{name}: the vehicle moves to FN2"));
    let began = clock::unix_micros();
    testbed.replug(AttachmentPoint::Visited(1))?;
    sleep(OBSERVATION_TIME);
    let end = clock::unix_micros();
    let gaps = transfers.iter().map(|one| round(one.longest_silence(began, end) as f64 / 1000.0)).collect();
    run.step(&format!("{name}: throughput in FN2"));
    let (second, share_then) = rates(&testbed, &transfers, span);
    transfers.iter().for_each(Transfer::stop);
    let mut complete = 0;
    for transfer in transfers {
        let deliveries = transfer.finish(Duration::from_secs(30))?;
        complete += usize::from(deliveries.iter().all(Delivery::is_complete));
    }
    let (rates, direct_share) = ([first, second], [share, share_then]);
    Ok(Outcome {
        name,
        rates,
        gaps,
        direct_share,
        complete,
        wrong_source: testbed.source_monitor.observations().wrong_source,
    })
}

/// One connection for each node, to a correspondent of its own.
fn connect(correspondents: &[(Host, Ipv6Addr)], passengers: &[MptcpNode], protocol: Protocol) -> Result<Vec<Transfer>> {
    let load =
        TransferLoad { protocol, port: PORT, message: MESSAGE, rate: None, answered: true, buffer: Some(BUFFER) };
    let connect = |(number, (passenger, (host, address))): (usize, (&MptcpNode, &(Host, Ipv6Addr)))| {
        let far = Endpoint { host, address: *address };
        let ends = [Endpoint { host: &passenger.host, address: passenger.address }, far];
        Transfer::start(ends, load).with_context(|| format!("node {number}"))
    };
    passengers.iter().zip(correspondents).enumerate().map(connect).collect()
}

fn wait_direct(testbed: &MptcpTestbed, number: usize) -> Result<()> {
    let first = || testbed.path_monitor.first_use(PayloadPath::Direct(number), 0).map(drop);
    clock::wait_for(Duration::from_secs(10), first).context("no connection uses its direct path")
}

/// Megabits per second of each connection in the next `span`, and the share on the direct path.
fn rates(testbed: &MptcpTestbed, transfers: &[Transfer], span: Duration) -> (Vec<f64>, f64) {
    testbed.path_monitor.clear();
    let begin = clock::unix_micros();
    sleep(span);
    let end = clock::unix_micros();
    let octets = |transfer: &Transfer| -> u64 {
        transfer.arrivals.iter().map(|arrivals| arrivals.total_at(end) - arrivals.total_at(begin)).sum()
    };
    let rates = transfers.iter().map(|transfer| octets(transfer) as f64 * 8.0 / (end - begin) as f64).collect();
    (rates, testbed.path_monitor.direct_share(begin, end))
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
            "mbit_s_each_fn1": distribution(first),
            "mbit_s_each_fn2": distribution(second),
            "direct_share_fn1": round(share),
            "direct_share_fn2": round(share_then),
            "gap_ms": distribution(&self.gaps),
            "gaps_ms": self.gaps,
            "whole": self.complete,
            "wrong_source_packets": self.wrong_source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn jain_index_is_one_for_equal_rates_and_low_for_one_flow() {
        assert!((jain(&[2.0, 2.0, 2.0]) - 1.0).abs() < 1e-9);
        assert!((jain(&[3.0, 0.0, 0.0]) - 1.0 / 3.0).abs() < 1e-9);
    }
}
