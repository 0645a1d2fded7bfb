//! Silence of connections after a silent provider failure, by Send Timeout, and if TCP is not told of the path change
//! (the paper's Fig 9).

use crate::experiments::prelude::*;
use crate::topology::providers::{ProviderSettings, Providers};
use roam6_proto::Report;
use roam6_proto::contract::report::ShimReport;

/// Send Timeouts, milliseconds, and the number of failures with each: 45 as in the paper at the short ones. The lists run in
/// parallel to save time.
const RUNS: [&[(u64, usize)]; 2] =
    [&[(500, 45), (1000, 45), (2000, 45)], &[(3000, 12), (5000, 8), (10_000, 5), (15_000, 4)]];
const QUICK: [&[(u64, usize)]; 1] = [&[(500, 8), (1000, 4)]];
/// Of failures other than the paper's: the Send Timeout, and their number in a quick and in a full run.
const OTHER_TIMEOUT: u64 = 1000;
const OTHER_FAILURES: [usize; 2] = [12, 45];
/// One-way delay of a link; a round trip passes four.
const DELAY: Duration = Duration::from_millis(3);
/// Time without a failure between two failures.
const QUIET_TIME: Duration = Duration::from_secs(1);
/// How long a connection may take to continue: longer than TCP's longest retransmission timeout here.
const TIMEOUT: Duration = Duration::from_secs(40);

/// What fails, and of what network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failure {
    /// Whether the providers reach each other: four pairs of locators are usable instead of two.
    peering: bool,
    /// Whether only what the left host sends to its provider is lost, instead of all that the provider carries.
    one_way: bool,
}

/// The failure of the paper.
const PROVIDER: Failure = Failure { peering: false, one_way: false };
/// Others, and their names in keys of the summary.
const OTHERS: [(Failure, &str); 3] = [
    (Failure { peering: true, one_way: false }, "four_pairs"),
    (Failure { peering: false, one_way: true }, "one_way"),
    (Failure { peering: true, one_way: true }, "four_pairs_one_way"),
];

/// The results of one Send Timeout, milliseconds.
struct Case {
    failure: Failure,
    timeout: u64,
    /// Whether TCP was told of the path change.
    told: bool,
    /// A connection with data in one direction, as in the paper.
    tcp: Vec<f64>,
    /// A connection with data in both directions.
    both: Vec<f64>,
    udp: Vec<f64>,
    exploration: Vec<f64>,
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let lists: &[&[(u64, usize)]] = if run.quick { &QUICK } else { &RUNS };
    let [quick, full] = OTHER_FAILURES;
    let others = if run.quick { quick } else { full };
    let steps: usize = lists.iter().flat_map(|list| *list).map(|(_, count)| 2 * count).sum();
    run.set_steps(steps + OTHERS.len() * others);
    let of_list = |(list, told): (&&[(u64, usize)], bool)| {
        list.iter().map(|&(timeout, count)| (Case::new(PROVIDER, timeout, told), count)).collect()
    };
    let lanes = [true, false].iter().flat_map(|told| lists.iter().map(|list| (list, *told))).map(of_list).collect();
    let mut cases = side_by_side(run, lanes)?;
    cases.sort_by_key(|case| (!case.told, case.timeout));
    let lane = |(failure, _): (Failure, &str)| vec![(Case::new(failure, OTHER_TIMEOUT, true), others)];
    cases.extend(side_by_side(run, OTHERS.map(lane).into())?);
    for (told, key) in [(true, "art_minus_tsend_ms"), (false, "art_minus_tsend_untold_ms")] {
        let cases: Vec<&Case> = cases.iter().filter(|case| case.told == told && case.failure == PROVIDER).collect();
        let (tcp, both) = (beyond_timeout(&cases, |case| &case.tcp), beyond_timeout(&cases, |case| &case.both));
        run.estimate(&format!("{key}_p50"), median(&tcp, LEVEL));
        run.estimate(&format!("{key}_both_ways_p50"), median(&both, LEVEL));
        for (name, share) in [("p05", 0.05), ("p95", 0.95)] {
            run.summarise(&format!("{key}_{name}"), percentile(&tcp, share).map(round));
        }
    }
    for (failure, name) in OTHERS {
        let cases: Vec<&Case> = cases.iter().filter(|case| case.failure == failure).collect();
        let tcp = beyond_timeout(&cases, |case| &case.tcp);
        run.estimate(&format!("art_minus_tsend_{name}_ms_p50"), median(&tcp, LEVEL));
    }
    run.summarise("round_trip_ms", (DELAY * 4).as_millis() as u64);
    run.rows = cases.iter().map(Case::row).collect();
    Ok(())
}

/// The silences less the Send Timeout.
fn beyond_timeout(cases: &[&Case], silences: fn(&Case) -> &[f64]) -> Vec<f64> {
    let excess = |case: &&Case| {
        let timeout = case.timeout as f64;
        silences(case).iter().map(|silence| silence - timeout).collect::<Vec<f64>>()
    };
    cases.iter().flat_map(excess).collect()
}

/// Runs the lanes in parallel, because they mostly wait: cases, each with its number of failures.
fn side_by_side(run: &Run, lanes: Vec<Vec<(Case, usize)>>) -> Result<Vec<Case>> {
    std::thread::scope(|scope| {
        let measure_lane = |(number, lane): (usize, Vec<(Case, usize)>)| {
            let label = number.to_string();
            let one = move |(case, count): (Case, usize)| case.measure(run, count, &label);
            scope.spawn(move || lane.into_iter().map(one).collect::<Result<Vec<Case>>>())
        };
        let threads: Vec<_> = lanes.into_iter().enumerate().map(measure_lane).collect();
        let mut cases = Vec::new();
        for thread in threads {
            cases.extend(thread.join().map_err(|_| anyhow!("a measurement thread panicked"))??);
        }
        Ok(cases)
    })
}

impl Case {
    fn new(failure: Failure, timeout: u64, told: bool) -> Case {
        let [tcp, both, udp, exploration] = [(); 4].map(|()| Vec::new());
        Case { failure, timeout, told, tcp, both, udp, exploration }
    }

    /// Builds the network, and lets it fail `count` times.
    fn measure(mut self, run: &Run, count: usize, label: &str) -> Result<Case> {
        let timeout = self.timeout;
        let shim = format!("send_timeout = \"{timeout}ms\"\nreturn_after = \"0s\"\n");
        let peering = self.failure.peering;
        let network = Providers::build(ProviderSettings { delay: DELAY, shim_config: &shim, label, peering })?;
        if !self.told {
            network.discard_path_change_icmp()?;
        }
        // A thousand octets every ten milliseconds, on one connection in one direction and on another in both.
        let load = |port| TransferLoad { message: 1000, ..TransferLoad::steady(Protocol::Tcp, port, 100_000) };
        let one_way = Transfer::start(network.ends(), TransferLoad { answered: false, ..load(9700) })?;
        let transfers = [one_way, Transfer::start(network.ends(), load(9701))?];
        let mut train = Train::start(network.ends(), 9800, 100)?;
        network.wait_both(0, "a context", |report| matches!(report, Report::Shim(ShimReport::ContextUp { .. })))?;
        for _ in 0..count {
            run.step(&format!("Send Timeout {timeout} ms"));
            sleep(QUIET_TIME);
            self.fail_once(&network, &transfers, &train)?;
        }
        train.stop();
        for transfer in transfers {
            transfer.finish(Duration::from_secs(20))?;
        }
        Ok(self)
    }

    fn row(&self) -> Value {
        json!({
            "pairs": if self.failure.peering { 4 } else { 2 },
            "failure": if self.failure.one_way { "one direction" } else { "both directions" },
            "failures": self.tcp.len(),
            "send_timeout_ms": self.timeout,
            "tcp_is_told": self.told,
            "tcp_silent_ms": distribution(&self.tcp),
            "tcp_both_ways_silent_ms": distribution(&self.both),
            "udp_silent_ms": distribution(&self.udp),
            "search_ms": distribution(&self.exploration),
        })
    }

    /// One provider fails, and is restored once all traffic uses the other.
    fn fail_once(&mut self, network: &Providers, transfers: &[Transfer; 2], train: &Train) -> Result<()> {
        let [left, _] = &network.hosts;
        let changed = |report: &Report| matches!(report, Report::Shim(ShimReport::PathChanged { .. }));
        // Where the providers reach each other, the hosts may use different ones.
        let provider = if self.failure == PROVIDER { network.current_provider()? } else { left.await_provider()? };
        let (at, moved) = if self.failure.one_way {
            let at = network.black_hole_from(left, provider)?;
            // What the other host sends arrives: it may keep its path.
            (at, left.wait(at, "another path", changed)?)
        } else {
            let at = network.black_hole(provider)?;
            (at, network.wait_both(at, "another path", changed)?)
        };
        let [one_way, both_ways] = transfers;
        let ([one_way_arrivals, _], [forward, reverse]) = (&one_way.arrivals, &both_ways.arrivals);
        let goes_on = || {
            let now = clock::unix_micros();
            [one_way_arrivals, forward, reverse]
                .iter()
                .all(|arrivals| arrivals.total_at(now) > arrivals.total_at(moved))
                .then_some(())
        };
        clock::wait_for(TIMEOUT, goes_on).context("TCP does not continue")?;
        sleep(QUIET_TIME);
        if self.failure.one_way {
            network.restore_from(left, provider)?;
        } else {
            network.restore(provider)?;
        }
        let now = clock::unix_micros();
        let most = |silences: [u64; 2]| silences.into_iter().max().unwrap_or_default() as f64 / 1000.0;
        self.tcp.push(most([one_way_arrivals.longest_silence(at, now); 2]));
        self.both.push(most([forward.longest_silence(at, now), reverse.longest_silence(at, now)]));
        self.udp.push(most([
            train.forward.longest_silence(Stamp::Received, at, now),
            train.reverse.longest_silence(Stamp::Received, at, now),
        ]));
        for side in &network.hosts {
            if let Some(Report::Shim(ShimReport::PathChanged { after, .. })) =
                side.daemon.events.first_since(at, changed).map(|event| event.report)
            {
                self.exploration.push(after.as_secs_f64() * 1000.0);
            }
        }
        Ok(())
    }
}
