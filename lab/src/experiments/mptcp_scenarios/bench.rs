//! Measurement of scenarios in one place, in turn.

use super::{Case, Effort};
use crate::experiments::prelude::*;
use crate::load::packet_train::Pattern;
use crate::mptcp::{CareOfPrefixes, MptcpTestbed, PayloadPath};
use std::net::Ipv6Addr;

/// The first port; each connection has its own one.
const FIRST_PORT: u16 = 10_000;
/// How long a connection may take to use its direct path, although links lose packets.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Octets that a datagram has on a link beside its payload: Ethernet, IPv6 and UDP.
const DATAGRAM_HEADERS: usize = 62;
/// The rate of datagrams over that of a link.
const OFFERED: f64 = 1.05;
/// The interval of datagrams in one direction over that in the other: at equal rates one direction of a shared link may take every place
/// that becomes free in its queue, and nothing of the other arrives.
const PHASE_DRIFT: f64 = 0.98;
/// Time until the queues of all links are full.
const DATAGRAM_WARM_UP: Duration = Duration::from_millis(250);

/// Place and transport.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) way: Way,
    /// Access networks whose direct paths carry data.
    pub(super) direct: &'static [usize],
}

/// How the traffic of a scenario begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// TCP from the address in the mobile network.
    Classical,
    /// MPTCP; the correspondent opens the connection, and knows only the address in the mobile network.
    Inbound,
    /// MPTCP; the node opens the connection at its care-of address.
    Outbound,
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Traffic {
    /// A connection.
    Stream,
    /// Datagrams in both directions, somewhat more than a link carries. They have no path but that of their addresses.
    Datagrams,
}

/// The results of one scenario.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) scenario: Scenario,
    pub(super) traffic: Traffic,
    pub(super) prefixes: CareOfPrefixes,
    pub(super) loss: f64,
    /// Medians of each series of echoes, milliseconds.
    pub(super) round_trips: Vec<f64>,
    /// For each size the runs of all repetitions.
    pub(super) runs: Vec<(usize, Vec<ThroughputRun>)>,
}

/// One connection. Rates in megabits per second.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThroughputRun {
    pub(super) both: f64,
    pub(super) out: f64,
    pub(super) direct_share: f64,
    pub(super) whole: bool,
}

/// Measures scenarios in one place.
pub(super) struct Bench<'a> {
    run: &'a Run,
    testbed: &'a MptcpTestbed,
    effort: Effort,
    case: &'a Case,
    /// The address of the node in the visited network.
    care_of: Option<Ipv6Addr>,
    port: u16,
}

impl<'a> Bench<'a> {
    pub(super) fn new(run: &'a Run, testbed: &'a MptcpTestbed, effort: Effort, case: &'a Case) -> Bench<'a> {
        Bench { run, testbed, effort, case, care_of: None, port: FIRST_PORT }
    }

    /// The vehicle is in access network `number`.
    pub(super) fn enter(&mut self, number: usize) -> Result<()> {
        self.care_of = Some(self.testbed.wait_care_of(&self.testbed.vehicle.mnn, number)?);
        Ok(())
    }

    /// Measures all scenarios in turn, so that disturbances affect all of them.
    pub(super) fn compare(
        &mut self,
        scenarios: &[Scenario],
        traffic: Traffic,
        sizes: &[usize],
    ) -> Result<Vec<Outcome>> {
        if sizes.is_empty() {
            return Ok(Vec::new());
        }
        let loss = self.case.shape.loss;
        let empty = |scenario: &Scenario| Outcome {
            scenario: *scenario,
            traffic,
            prefixes: self.case.prefixes,
            loss,
            round_trips: Vec::new(),
            runs: sizes.iter().map(|size| (*size, Vec::new())).collect(),
        };
        let mut outcomes: Vec<Outcome> = scenarios.iter().map(empty).collect();
        if traffic == Traffic::Stream {
            for _ in 0..self.case.echo_series {
                outcomes.iter_mut().try_for_each(|outcome| self.echo(outcome))?;
            }
        }
        for number in 0..self.effort.repetitions {
            // A place has three at most: each one is first, second and last equally often.
            let first = number % outcomes.len().max(1);
            for index in 0..sizes.len() {
                let (before, after) = outcomes.split_at_mut(first);
                for outcome in after.iter_mut().chain(before) {
                    let Some((size, runs)) = outcome.runs.get_mut(index) else { continue };
                    let scenario = outcome.scenario;
                    let what = format!("{}, {traffic:?} of {size}, {} % loss", scenario.label(), loss * 100.0);
                    self.run.step(&what);
                    let measured = match traffic {
                        Traffic::Stream => self.stream(scenario, *size),
                        Traffic::Datagrams => self.datagrams(scenario, *size),
                    };
                    runs.push(measured.context(what)?);
                }
            }
        }
        Ok(outcomes)
    }

    /// A series of echoes. From where a connection is opened makes no difference to them.
    fn echo(&self, outcome: &mut Outcome) -> Result<()> {
        let scenario = outcome.scenario;
        if scenario.way == Way::Inbound {
            return Ok(());
        }
        self.run.step(&format!("{}: echoes", scenario.label()));
        let [from, _] = self.ends(scenario)?;
        outcome.round_trips.push(self.testbed.round_trip_from(from.address, self.effort.echoes)?);
        Ok(())
    }

    /// The end that opens a connection, and the other one.
    fn ends(&self, scenario: Scenario) -> Result<[Endpoint<'a>; 2]> {
        let [node, correspondent] = self.testbed.ends();
        Ok(match scenario.way {
            Way::Classical => [node, correspondent],
            Way::Inbound => [correspondent, node],
            Way::Outbound => {
                let address = self.care_of.context("no care-of address")?;
                [Endpoint { address, ..node }, correspondent]
            }
        })
    }

    fn stream(&mut self, scenario: Scenario, message: usize) -> Result<ThroughputRun> {
        self.port += 1;
        let protocol = if scenario.way == Way::Classical { Protocol::Tcp } else { Protocol::Mptcp };
        let (port, buffer) = (self.port, Some(self.case.buffer));
        let load = TransferLoad { protocol, port, message, rate: None, answered: true, buffer };
        let testbed = self.testbed;
        // The node announces its care-of addresses; only the peer that cannot be joined otherwise has to use them.
        testbed.set_accepted_announcements(if scenario.way == Way::Inbound { 2 } else { 0 })?;
        testbed.path_monitor.clear();
        let started = clock::unix_micros();
        let transfer = Transfer::start(self.ends(scenario)?, load)?;
        let found = |number: &usize| testbed.path_monitor.first_use(PayloadPath::Direct(*number), started).is_some();
        let ready = clock::wait_for(TIMEOUT, || scenario.direct.iter().all(found).then_some(()));
        ready.with_context(|| format!("the connection did not find its direct path:\n{}", testbed.diagnostics()))?;
        sleep(self.effort.warm_up);
        let begin = clock::unix_micros();
        sleep(self.effort.span);
        let end = clock::unix_micros();
        let arrived = transfer.arrivals.each_ref().map(|arrivals| arrivals.total_at(end) - arrivals.total_at(begin));
        let deliveries = transfer.finish(Duration::from_secs(30))?;
        let [mut out, mut back] = arrived.map(|octets| octets as f64 * 8.0 / (end - begin) as f64);
        if scenario.way == Way::Inbound {
            (out, back) = (back, out);
        }
        Ok(ThroughputRun {
            both: out + back,
            out,
            direct_share: testbed.path_monitor.direct_share(begin, end),
            whole: deliveries.iter().all(Delivery::is_complete),
        })
    }

    fn datagrams(&mut self, scenario: Scenario, octets: usize) -> Result<ThroughputRun> {
        self.port += 1;
        let bits = ((octets + DATAGRAM_HEADERS) * 8) as f64;
        let interval = Duration::from_secs_f64(bits / (self.case.shape.rate_bps as f64 * OFFERED));
        let pattern = Pattern { octets, interval, burst: |_| 1 };
        let patterns = [pattern, Pattern { interval: interval.mul_f64(PHASE_DRIFT), ..pattern }];
        let mut train = Train::start_with(self.ends(scenario)?, self.port, patterns)?;
        sleep(DATAGRAM_WARM_UP);
        let begin = clock::unix_micros();
        sleep(self.effort.span);
        let end = clock::unix_micros();
        train.stop();
        let [out, back] = [&train.forward, &train.reverse].map(|flow| {
            let arrived = flow.received_since(begin).into_iter().filter(|time| *time < end).count();
            (arrived * octets * 8) as f64 / (end - begin) as f64
        });
        ensure!(out > 0.0 && back > 0.0, "no datagram arrived: {out} and {back} Mbit/s");
        let direct_share = if scenario.way == Way::Classical { 0.0 } else { 1.0 };
        Ok(ThroughputRun { both: out + back, out, direct_share, whole: true })
    }
}

impl Scenario {
    /// Its name, and the end that opens its connections if that differs within the scenario.
    fn label(self) -> String {
        match self.way {
            Way::Classical => self.name.to_owned(),
            Way::Inbound => format!("{}, inbound", self.name),
            Way::Outbound => format!("{}, outbound", self.name),
        }
    }
}

impl Outcome {
    pub(super) fn is_whole(&self) -> bool {
        self.runs.iter().flat_map(|(_, runs)| runs).all(|run| run.whole)
    }

    pub(super) fn row(&self) -> Value {
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
        let mut row = json!({
            "scenario": self.scenario.name,
            "label": self.scenario.label(),
            "opened": format!("{:?}", self.scenario.way).to_lowercase(),
            "traffic": format!("{:?}", self.traffic).to_lowercase(),
            "care_of_prefixes": self.prefixes.name(),
            "loss": self.loss,
            "throughput": runs.collect::<Vec<_>>(),
        });
        if let Some(row) = row.as_object_mut().filter(|_| !self.round_trips.is_empty()) {
            row.insert("rtt_ms".to_owned(), distribution(&self.round_trips));
            row.insert("rtt_each".to_owned(), json!(self.round_trips));
        }
        row
    }

    /// Throughput of the largest messages in each repetition.
    pub(super) fn largest(&self) -> Vec<f64> {
        self.runs.last().into_iter().flat_map(|(_, runs)| runs).map(|run| run.both).collect()
    }

    /// Mean over the sizes of the throughput in each repetition, so that each size has the same weight.
    pub(super) fn throughput(&self) -> Vec<f64> {
        let sizes = self.runs.len().max(1) as f64;
        let sum =
            |number: usize| self.runs.iter().filter_map(|(_, runs)| runs.get(number)).map(|run| run.both).sum::<f64>();
        let repetitions = self.runs.iter().map(|(_, runs)| runs.len()).min().unwrap_or_default();
        (0..repetitions).map(|number| sum(number) / sizes).collect()
    }
}
