//! The paper's five scenarios (document P2, Figs 4 and 5): at home, and in FN1 and FN2 by classical NEMO (C) and with
//! MPTCP (P); round trips, and bidirectional throughput of one connection by message size.

use crate::experiments::prelude::*;
use crate::mptcp::{AttachmentPoint, LinkShape, MptcpTestbed, PayloadPath};

/// The paper's message sizes, octets.
const SIZES: &[usize] = &[64, 256, 512, 1024, 1460];
/// Message sizes of the cases that the paper does not have: without loss, and with two uplinks.
const FEW_SIZES: &[usize] = &[256, 1460];
const ONE_SIZE: &[usize] = &[1460];
/// The first port of the correspondent; each connection has its own port.
const FIRST_PORT: u16 = 10_000;
/// How long a connection may take to use its direct path, although links lose packets.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Extent of the measurement.
#[derive(Debug, Clone, Copy)]
struct Effort {
    repetitions: usize,
    sizes: &'static [usize],
    /// Excluded beginning of each connection: slow start, and packets still in flight on the initial path.
    warm_up: Duration,
    /// The measured time.
    span: Duration,
    /// Echoes of one repetition.
    echoes: usize,
    /// Send buffer, octets: larger than the bandwidth-delay product, but small enough to drain before the next
    /// connection.
    buffer: usize,
}

impl Effort {
    fn new(loss: f64, quick: bool) -> Effort {
        let millis = Duration::from_millis;
        // An interval of a ratio of two medians needs seven; without loss there is no bound.
        let repetitions = match (loss > 0.0, quick) {
            (true, true) => 8,
            (false, true) => 2,
            (_, false) => 10,
        };
        let echoes = if quick { 20 } else { 30 };
        let (warm_up, span) = (millis(800), millis(if quick { 500 } else { 1000 }));
        let (sizes, buffer) = match (loss > 0.0, quick) {
            (true, false) => (SIZES, 64 * 1024),
            (true, true) => (FEW_SIZES, 64 * 1024),
            (false, false) => (FEW_SIZES, 128 * 1024),
            (false, true) => (ONE_SIZE, 128 * 1024),
        };
        Effort { repetitions, sizes, warm_up, span, echoes, buffer }
    }

    /// Number of echo series and connections.
    fn steps(self) -> usize {
        (5 * (self.sizes.len() + 1) + 2 * (ONE_SIZE.len() + 1)) * self.repetitions
    }
}

/// A scenario: place and transport.
#[derive(Debug, Clone, Copy)]
struct Scenario {
    name: &'static str,
    protocol: Protocol,
    /// Access networks whose direct paths carry data.
    direct: &'static [usize],
}

/// The results of one scenario.
#[derive(Debug)]
struct Outcome {
    scenario: Scenario,
    loss: f64,
    /// Medians of each repetition, milliseconds.
    round_trips: Vec<f64>,
    /// For each size the runs of all repetitions.
    runs: Vec<(usize, Vec<ThroughputRun>)>,
}

/// One connection. Rates in megabits per second.
#[derive(Debug, Clone, Copy)]
struct ThroughputRun {
    both: f64,
    out: f64,
    direct_share: f64,
    whole: bool,
}

const HOME: &[Scenario] = &[Scenario { name: "NS0", protocol: Protocol::Tcp, direct: &[] }];
const FN1: &[Scenario] = &[
    Scenario { name: "NS1C", protocol: Protocol::Tcp, direct: &[] },
    Scenario { name: "NS1P", protocol: Protocol::Mptcp, direct: &[0] },
];
const FN2: &[Scenario] = &[
    Scenario { name: "NS2C", protocol: Protocol::Tcp, direct: &[] },
    Scenario { name: "NS2P", protocol: Protocol::Mptcp, direct: &[1] },
];
const BOTH: &[Scenario] = &[
    Scenario { name: "NS12C", protocol: Protocol::Tcp, direct: &[] },
    Scenario { name: "NS12P", protocol: Protocol::Mptcp, direct: &[1, 0] },
];

pub(super) fn run(run: &mut Run) -> Result<()> {
    let shapes =
        [LinkShape::PAPER, LinkShape::PAPER.lossless()].map(|shape| (shape, Effort::new(shape.loss, run.quick)));
    run.set_steps(shapes.iter().map(|(_, effort)| effort.steps()).sum());
    let mut outcomes = Vec::new();
    for (shape, effort) in shapes {
        let testbed = MptcpTestbed::build(shape)?;
        let mut bench = Bench { run, testbed: &testbed, effort, loss: shape.loss, port: FIRST_PORT };
        testbed.plug(0, AttachmentPoint::Home)?;
        testbed.wait_home_path()?;
        outcomes.extend(bench.compare(HOME, effort.sizes)?);
        for (number, scenarios) in [(0, FN1), (1, FN2)] {
            testbed.unplug(0)?;
            testbed.visit(number)?;
            outcomes.extend(bench.compare(scenarios, effort.sizes)?);
        }
        testbed.plug(1, AttachmentPoint::Visited(0))?;
        testbed.wait_care_of(&testbed.vehicle.mnn, 0)?;
        outcomes.extend(bench.compare(BOTH, ONE_SIZE)?);
        let sources = testbed.source_monitor.observations();
        let wrong = sources.wrong_source;
        run.require(wrong == 0, || format!("{wrong} packets with a wrong source"));
        run.rows.push(json!({
            "loss": shape.loss,
            "uplink_packets": sources.sent,
            "wrong_source_packets": wrong,
            "wrong_sources": sources.samples,
            "tunnel_overhead_percent_of_full_packets": sources.overhead().map(round),
        }));
    }
    summarise(run, &outcomes);
    Ok(())
}

/// Measures scenarios in one place.
struct Bench<'a> {
    run: &'a Run,
    testbed: &'a MptcpTestbed,
    effort: Effort,
    loss: f64,
    port: u16,
}

impl Bench<'_> {
    /// Measures all scenarios in turn, so that disturbances affect all of them.
    fn compare(&mut self, scenarios: &[Scenario], sizes: &[usize]) -> Result<Vec<Outcome>> {
        let empty = |scenario: &Scenario| Outcome {
            scenario: *scenario,
            loss: self.loss,
            round_trips: Vec::new(),
            runs: sizes.iter().map(|size| (*size, Vec::new())).collect(),
        };
        let (mut outcomes, percent): (Vec<Outcome>, f64) = (scenarios.iter().map(empty).collect(), self.loss * 100.0);
        for _ in 0..self.effort.repetitions {
            for outcome in &mut outcomes {
                self.run.step(&format!("{} at {percent} % loss: echoes", outcome.scenario.name));
                let direct = outcome.scenario.direct.first().copied();
                outcome.round_trips.push(self.testbed.round_trip(direct, self.effort.echoes)?);
            }
            for index in 0..sizes.len() {
                for outcome in &mut outcomes {
                    let Some((size, runs)) = outcome.runs.get_mut(index) else { continue };
                    let scenario = outcome.scenario;
                    self.run.step(&format!("{} at {percent} % loss: messages of {size}", scenario.name));
                    runs.push(self.throughput(scenario, *size).with_context(|| scenario.name.to_owned())?);
                }
            }
        }
        Ok(outcomes)
    }

    fn throughput(&mut self, scenario: Scenario, message: usize) -> Result<ThroughputRun> {
        self.port += 1;
        let Scenario { protocol, direct, .. } = scenario;
        let (port, buffer) = (self.port, Some(self.effort.buffer));
        let load = TransferLoad { protocol, port, message, rate: None, answered: true, buffer };
        let testbed = self.testbed;
        testbed.path_monitor.clear();
        let started = clock::unix_micros();
        let transfer = Transfer::start(testbed.ends(), load)?;
        let found = |number: &usize| testbed.path_monitor.first_use(PayloadPath::Direct(*number), started).is_some();
        let ready = clock::wait_for(TIMEOUT, || direct.iter().all(found).then_some(()));
        ready.with_context(|| format!("the connection did not find its direct path:\n{}", testbed.diagnostics()))?;
        sleep(self.effort.warm_up);
        let begin = clock::unix_micros();
        sleep(self.effort.span);
        let end = clock::unix_micros();
        let arrived = transfer.arrivals.each_ref().map(|arrivals| arrivals.total_at(end) - arrivals.total_at(begin));
        let deliveries = transfer.finish(Duration::from_secs(30))?;
        let megabits = |octets: u64| octets as f64 * 8.0 / (end - begin) as f64;
        let [out, back] = arrived;
        Ok(ThroughputRun {
            both: megabits(out + back),
            out: megabits(out),
            direct_share: testbed.path_monitor.direct_share(begin, end),
            whole: deliveries.iter().all(Delivery::is_complete),
        })
    }
}

impl Outcome {
    fn row(&self) -> Value {
        let runs = self.runs.iter().map(|(size, runs)| {
            let figure = |pick: fn(&ThroughputRun) -> f64| distribution(runs.iter().map(pick));
            json!({
                "message": size,
                "mbit_s": figure(|run| run.both),
                "mbit_s_out": figure(|run| run.out),
                "direct_share": figure(|run| run.direct_share),
                "whole": runs.iter().all(|run| run.whole),
                "each": runs.iter().map(|run| round(run.both)).collect::<Vec<_>>(),
            })
        });
        json!({
            "scenario": self.scenario.name,
            "loss": self.loss,
            "rtt_ms": distribution(&self.round_trips),
            "rtt_each": self.round_trips,
            "throughput": runs.collect::<Vec<_>>(),
        })
    }

    fn rtt(&self) -> Vec<f64> {
        self.round_trips.clone()
    }

    /// Throughput of the largest messages in each repetition.
    fn largest(&self) -> Vec<f64> {
        self.runs.last().into_iter().flat_map(|(_, runs)| runs).map(|run| run.both).collect()
    }

    /// Mean over the sizes of the throughput in each repetition, so that each size has the same weight.
    fn throughput(&self) -> Vec<f64> {
        let sizes = self.runs.len().max(1) as f64;
        let sum =
            |number: usize| self.runs.iter().filter_map(|(_, runs)| runs.get(number)).map(|run| run.both).sum::<f64>();
        let repetitions = self.runs.iter().map(|(_, runs)| runs.len()).min().unwrap_or_default();
        (0..repetitions).map(|number| sum(number) / sizes).collect()
    }
}

fn summarise(run: &mut Run, outcomes: &[Outcome]) {
    for outcome in outcomes {
        let whole = outcome.runs.iter().flat_map(|(_, runs)| runs).all(|run| run.whole);
        let row = outcome.row();
        run.require(whole, || format!("a transfer was not delivered completely: {row}"));
        run.rows.push(row);
    }
    let find = |name: &str, loss: f64| {
        outcomes.iter().find(|outcome| outcome.scenario.name == name && outcome.loss.total_cmp(&loss).is_eq())
    };
    // The scenarios of a place are measured in turn, those of different places one after the other.
    let ratio = |figure: fn(&Outcome) -> Vec<f64>, above: &str, below: &str, loss: f64| {
        let (above, below) = (figure(find(above, loss)?), figure(find(below, loss)?));
        ratio_of_medians(&above, &below, LEVEL)
    };
    let loss = LinkShape::PAPER.loss;
    for (key, figure, above, below, loss) in [
        ("rtt_ns1p_over_ns0", Outcome::rtt as fn(&Outcome) -> Vec<f64>, "NS1P", "NS0", loss),
        ("rtt_ns1c_over_ns1p", Outcome::rtt, "NS1C", "NS1P", loss),
        ("rtt_ns2c_over_ns2p", Outcome::rtt, "NS2C", "NS2P", loss),
        ("gain_ns1", Outcome::throughput, "NS1P", "NS1C", loss),
        ("gain_ns2", Outcome::throughput, "NS2P", "NS2C", loss),
        ("throughput_ns1p_over_ns0", Outcome::throughput, "NS1P", "NS0", loss),
        ("gain_ns1_lossless", Outcome::throughput, "NS1P", "NS1C", 0.0),
        ("gain_ns2_lossless", Outcome::throughput, "NS2P", "NS2C", 0.0),
        ("gain_two_uplinks_lossless", Outcome::largest, "NS12P", "NS1P", 0.0),
    ] {
        run.estimate(key, ratio(figure, above, below, loss));
        run.require_bound(key);
    }
    let measured =
        run.rows.iter().filter_map(|row| row.get("tunnel_overhead_percent_of_full_packets")?.as_f64()).reduce(f64::max);
    run.summarise("tunnel_overhead_percent", json!({ "computed": round(40.0 / 1460.0 * 100.0), "measured": measured }));
}
