//! The paper's five scenarios (document P2, Figs 4 and 5): at home, and in FN1 and FN2 by classical NEMO (C) and with
//! MPTCP (P), whose connections the correspondent opens, or the node at its care-of address; with delegated prefixes, and with
//! those of the visited networks shared, as in the paper. Round trips, and bidirectional throughput of one connection by
//! message size, with that of datagrams beside it.

mod bench;

use crate::experiments::prelude::*;
use crate::mptcp::{AttachmentPoint, CareOfPrefixes, LinkShape, MptcpTestbed};
use bench::{Bench, Outcome, Scenario, Traffic, Way};

/// The paper's message sizes, octets.
const SIZES: &[usize] = &[64, 256, 512, 1024, 1460];
/// Message sizes of the cases that the paper does not have: without loss, with shared prefixes, and with two uplinks.
const FEW_SIZES: &[usize] = &[256, 1460];
const ONE_SIZE: &[usize] = &[1460];
/// Payloads of datagrams, octets: the tunnel lets 1412 pass. At the rate of the link, shorter ones are more than an emulated
/// link carries.
const DATAGRAMS: &[usize] = &[512, 1400];
const LONG_DATAGRAMS: &[usize] = &[1400];

/// Extent of the measurement.
#[derive(Debug, Clone, Copy)]
struct Effort {
    /// The least for an interval of the median is six; with twelve the three largest and smallest are outside of it.
    repetitions: usize,
    /// Of a series.
    echoes: usize,
    /// Excluded beginning of each connection: slow start, and packets still in flight on the initial path.
    warm_up: Duration,
    /// The measured time.
    span: Duration,
}

/// Networks with their links, and what is measured in them.
struct Case {
    shape: LinkShape,
    prefixes: CareOfPrefixes,
    /// Series of echoes, the least for an interval of a ratio of two medians: seven.
    echo_series: usize,
    /// Send buffer, octets: larger than the bandwidth-delay product, but small enough to drain before the next
    /// connection.
    buffer: usize,
    sizes: &'static [usize],
    datagrams: &'static [usize],
    /// Of FN1 and FN2, how many.
    visited: usize,
    /// In how many of these the correspondent opens connections too, and datagrams are sent.
    thorough: usize,
    at_home: bool,
    two_uplinks: bool,
}

const HOME: &[Scenario] = &[Scenario { name: "NS0", way: Way::Classical, direct: &[] }];
const VISITED: [[Scenario; 3]; 2] = [
    [
        Scenario { name: "NS1C", way: Way::Classical, direct: &[] },
        Scenario { name: "NS1P", way: Way::Outbound, direct: &[0] },
        Scenario { name: "NS1P", way: Way::Inbound, direct: &[0] },
    ],
    [
        Scenario { name: "NS2C", way: Way::Classical, direct: &[] },
        Scenario { name: "NS2P", way: Way::Outbound, direct: &[1] },
        Scenario { name: "NS2P", way: Way::Inbound, direct: &[1] },
    ],
];
const BOTH: &[Scenario] = &[
    Scenario { name: "NS12C", way: Way::Classical, direct: &[] },
    Scenario { name: "NS12P", way: Way::Outbound, direct: &[1, 0] },
];

impl Effort {
    fn new(quick: bool) -> Effort {
        let millis = Duration::from_millis;
        if quick {
            Effort { repetitions: 12, echoes: 15, warm_up: millis(500), span: millis(500) }
        } else {
            Effort { repetitions: 12, echoes: 30, warm_up: millis(800), span: millis(1000) }
        }
    }
}

impl Case {
    fn all(quick: bool) -> [Case; 3] {
        let lossy = Case {
            shape: LinkShape::PAPER,
            prefixes: CareOfPrefixes::Delegated,
            echo_series: 12,
            buffer: 64 * 1024,
            sizes: if quick { ONE_SIZE } else { SIZES },
            datagrams: if quick { LONG_DATAGRAMS } else { DATAGRAMS },
            visited: 2,
            thorough: if quick { 1 } else { 2 },
            at_home: true,
            two_uplinks: false,
        };
        let shared = Case {
            prefixes: CareOfPrefixes::Shared,
            echo_series: 1,
            sizes: if quick { ONE_SIZE } else { FEW_SIZES },
            datagrams: &[],
            visited: if quick { 1 } else { 2 },
            at_home: false,
            ..lossy
        };
        let lossless = Case {
            shape: LinkShape::PAPER.lossless(),
            echo_series: 1,
            buffer: 128 * 1024,
            sizes: if quick { ONE_SIZE } else { FEW_SIZES },
            datagrams: &[],
            visited: if quick { 1 } else { 2 },
            thorough: 0,
            at_home: !quick,
            two_uplinks: !quick,
            ..lossy
        };
        [lossy, shared, lossless]
    }

    /// The scenarios of access network `number`.
    fn scenarios(&self, number: usize) -> Vec<Scenario> {
        let all = VISITED.get(number).into_iter().flatten();
        all.filter(|scenario| number < self.thorough || scenario.way != Way::Inbound).copied().collect()
    }

    /// Number of connections, trains of datagrams and series of echoes.
    fn steps(&self, effort: Effort) -> usize {
        let of = |scenarios: &[Scenario], sizes: &[usize]| {
            let echoes = scenarios.iter().filter(|scenario| scenario.way != Way::Inbound).count();
            echoes * self.echo_series + scenarios.len() * sizes.len() * effort.repetitions
        };
        let home = if self.at_home { of(HOME, self.sizes) } else { 0 };
        let both = if self.two_uplinks { of(BOTH, ONE_SIZE) } else { 0 };
        let datagrams = (usize::from(self.at_home) + 2 * self.thorough) * self.datagrams.len() * effort.repetitions;
        let visited: usize = (0..self.visited).map(|number| of(&self.scenarios(number), self.sizes)).sum();
        home + both + visited + datagrams
    }

    fn measure(&self, run: &mut Run, effort: Effort) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        let testbed = MptcpTestbed::build_with(self.shape, self.prefixes)?;
        testbed.accept_subflows()?;
        let mut bench = Bench::new(run, &testbed, effort, self);
        testbed.plug(0, AttachmentPoint::Home)?;
        testbed.wait_home_path()?;
        if self.at_home {
            outcomes.extend(bench.compare(HOME, Traffic::Stream, self.sizes)?);
            outcomes.extend(bench.compare(HOME, Traffic::Datagrams, self.datagrams)?);
        }
        for number in 0..self.visited {
            testbed.unplug(0)?;
            testbed.visit(number)?;
            let scenarios = self.scenarios(number);
            bench.enter(number)?;
            outcomes.extend(bench.compare(&scenarios, Traffic::Stream, self.sizes)?);
            let [classical, outbound, ..] = scenarios.as_slice() else { bail!("too few scenarios") };
            if number >= self.thorough {
                continue;
            }
            outcomes.extend(bench.compare(&[*classical, *outbound], Traffic::Datagrams, self.datagrams)?);
        }
        if self.two_uplinks {
            testbed.plug(1, AttachmentPoint::Visited(0))?;
            testbed.wait_care_of(&testbed.vehicle.mnn, 0)?;
            outcomes.extend(bench.compare(BOTH, Traffic::Stream, ONE_SIZE)?);
        }
        let sources = testbed.source_monitor.observations();
        let wrong = sources.wrong_source;
        run.require(wrong == 0, || format!("{wrong} packets with a wrong source"));
        run.rows.push(json!({
            "loss": self.shape.loss,
            "care_of_prefixes": self.prefixes.name(),
            "uplink_packets": sources.sent,
            "wrong_source_packets": wrong,
            "wrong_sources": sources.samples,
            "tunnel_overhead_percent_of_full_packets": sources.overhead().map(round),
        }));
        Ok(outcomes)
    }
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let (effort, cases) = (Effort::new(run.quick), Case::all(run.quick));
    run.set_steps(cases.iter().map(|case| case.steps(effort)).sum());
    let mut outcomes = Vec::new();
    for case in cases {
        outcomes.extend(case.measure(run, effort)?);
    }
    for outcome in &outcomes {
        let row = outcome.row();
        run.require(outcome.is_whole(), || format!("a transfer was not delivered completely: {row}"));
        run.rows.push(row);
    }
    let outcomes = Outcomes(outcomes);
    run.estimate_all(outcomes.round_trips());
    run.estimate_all(outcomes.gains());
    let is_required =
        |key: &&String| key.starts_with("rtt_") || key.starts_with("gain_ns") && !key.ends_with("lossless");
    let required: Vec<String> = run.summary.keys().filter(is_required).cloned().collect();
    required.iter().for_each(|key| run.require_bound(key));
    let measured =
        run.rows.iter().filter_map(|row| row.get("tunnel_overhead_percent_of_full_packets")?.as_f64()).reduce(f64::max);
    run.summarise("tunnel_overhead_percent", json!({ "computed": round(40.0 / 1460.0 * 100.0), "measured": measured }));
    Ok(())
}

/// The results of all cases.
struct Outcomes(Vec<Outcome>);

impl Outcomes {
    fn find(
        &self,
        name: &str,
        way: Way,
        traffic: Traffic,
        (loss, prefixes): (f64, CareOfPrefixes),
    ) -> Option<&Outcome> {
        let is_it = |one: &&Outcome| {
            (one.scenario.name, one.scenario.way, one.traffic, one.prefixes) == (name, way, traffic, prefixes)
                && one.loss.total_cmp(&loss).is_eq()
        };
        self.0.iter().find(is_it)
    }

    fn round_trips(&self) -> Vec<NamedEstimate> {
        let case = (LinkShape::PAPER.loss, CareOfPrefixes::Delegated);
        let of = |name, way| Some(self.find(name, way, Traffic::Stream, case)?.round_trips.as_slice());
        // Those of different places are measured one after the other.
        let over_home = of("NS1P", Way::Outbound)
            .zip(of("NS0", Way::Classical))
            .and_then(|(visited, home)| ratio_of_medians(visited, home, LEVEL));
        let within = |above, below| median(&ratios(of(above, Way::Classical)?, of(below, Way::Outbound)?), LEVEL);
        vec![
            ("rtt_ns1p_over_ns0".to_owned(), over_home),
            ("rtt_ns1c_over_ns1p".to_owned(), within("NS1C", "NS1P")),
            ("rtt_ns2c_over_ns2p".to_owned(), within("NS2C", "NS2P")),
        ]
    }

    /// Gains of P over C in each place: of each kind of connection, the least of these, of datagrams, and without loss. Those
    /// that were not measured are left out.
    fn gains(&self) -> Vec<NamedEstimate> {
        let loss = LinkShape::PAPER.loss;
        let mut gains = Vec::new();
        for place in [1, 2] {
            let gain = |way, traffic, case| self.gain(place, way, traffic, case);
            let mut of_place = Vec::new();
            for (suffix, prefixes) in [("", CareOfPrefixes::Delegated), ("_shared", CareOfPrefixes::Shared)] {
                for (opened, way) in [("inbound", Way::Inbound), ("outbound", Way::Outbound)] {
                    let own = gain(way, Traffic::Stream, (loss, prefixes));
                    of_place.push((format!("gain_ns{place}_{opened}{suffix}"), own));
                }
            }
            let least = Estimate::least(of_place.iter().filter_map(|(_, own)| own.clone()));
            gains.push((format!("gain_ns{place}"), least));
            gains.extend(of_place);
            let delegated = |loss| (loss, CareOfPrefixes::Delegated);
            let lossless = gain(Way::Outbound, Traffic::Stream, delegated(0.0));
            gains.push((format!("gain_ns{place}_lossless"), lossless));
            gains.push((format!("gain_udp_ns{place}"), gain(Way::Outbound, Traffic::Datagrams, delegated(loss))));
        }
        let lossless = (0.0, CareOfPrefixes::Delegated);
        let largest = |name| Some(self.find(name, Way::Outbound, Traffic::Stream, lossless)?.largest());
        let over = largest("NS12P").zip(largest("NS1P")).and_then(|(both, one)| ratio_of_medians(&both, &one, LEVEL));
        gains.push(("gain_two_uplinks_lossless".to_owned(), over));
        let lossy =
            |name, way| Some(self.find(name, way, Traffic::Stream, (loss, CareOfPrefixes::Delegated))?.throughput());
        let over_home = lossy("NS1P", Way::Outbound).zip(lossy("NS0", Way::Classical));
        let over_home = over_home.and_then(|(visited, home)| ratio_of_medians(&visited, &home, LEVEL));
        gains.push(("throughput_ns1p_over_ns0".to_owned(), over_home));
        gains.into_iter().filter(|(_, gain)| gain.is_some()).collect()
    }

    /// The median of the ratio of P and C of the same repetition.
    fn gain(&self, place: usize, way: Way, traffic: Traffic, case: (f64, CareOfPrefixes)) -> Option<Estimate> {
        let of = |kind: &str, way| Some(self.find(&format!("NS{place}{kind}"), way, traffic, case)?.throughput());
        median(&ratios(&of("P", way)?, &of("C", Way::Classical)?), LEVEL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::ThroughputRun;

    fn outcome(name: &'static str, way: Way, prefixes: CareOfPrefixes, rates: [f64; 6]) -> Outcome {
        let scenario = Scenario { name, way, direct: &[] };
        let runs = rates.map(|both| ThroughputRun { both, out: both / 2.0, direct_share: 1.0, whole: true });
        Outcome {
            scenario,
            traffic: Traffic::Stream,
            prefixes,
            loss: 0.05,
            round_trips: vec![20.0; 8],
            runs: vec![(1460, runs.to_vec())],
        }
    }

    #[test]
    fn gains_are_ratios_of_the_same_repetition_and_the_least_one_counts() {
        use CareOfPrefixes::{Delegated, Shared};
        let outcomes = Outcomes(vec![
            outcome("NS1C", Way::Classical, Delegated, [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]),
            outcome("NS1P", Way::Outbound, Delegated, [3.0, 6.0, 3.0, 6.0, 3.0, 6.0]),
            outcome("NS1P", Way::Inbound, Delegated, [2.0, 5.0, 2.0, 5.0, 2.0, 5.0]),
            outcome("NS1C", Way::Classical, Shared, [1.0; 6]),
            outcome("NS1P", Way::Outbound, Shared, [1.5; 6]),
        ]);
        let gains = outcomes.gains();
        let of = |key: &str| gains.iter().find(|(name, _)| name == key).and_then(|(_, gain)| gain.clone());
        let ends = |key: &str| of(key).map(|gain| (gain.low, gain.value, gain.high));
        assert_eq!(ends("gain_ns1_outbound"), Some((Some(3.0), 3.0, Some(3.0))));
        assert_eq!(ends("gain_ns1_inbound"), Some((Some(2.0), 2.25, Some(2.5))));
        assert_eq!(ends("gain_ns1_outbound_shared"), Some((Some(1.5), 1.5, Some(1.5))));
        assert_eq!(ends("gain_ns1"), Some((Some(1.5), 1.5, Some(1.5))));
        assert!(gains.iter().all(|(key, _)| !key.contains("ns2") && !key.contains("udp")), "not measured: {gains:?}");
    }

    #[test]
    fn each_ratio_of_a_quick_run_has_an_interval() {
        let [Case { echo_series, .. }, ..] = Case::all(true);
        assert!(median(&vec![1.0; Effort::new(true).repetitions], LEVEL).unwrap().low.is_some());
        assert!(ratio_of_medians(&vec![1.0; echo_series], &vec![1.0; echo_series], LEVEL).unwrap().low.is_some());
    }
}
