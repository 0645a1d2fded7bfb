//! Silence of connections after a silent provider failure, by Send Timeout, and if TCP is not told of the path change
//! (the paper's Fig 9).

use crate::experiments::prelude::*;
use crate::topology::providers::{ProviderSettings, Providers};
use roam6_proto::Report;
use roam6_proto::contract::report::ShimReport;

/// Send Timeouts, milliseconds, and the number of failures with each; the lists run in parallel to save time.
const RUNS: [&[(u64, usize)]; 2] =
    [&[(500, 20), (1000, 20), (2000, 20)], &[(3000, 8), (5000, 5), (10_000, 3), (15_000, 3)]];
const QUICK: [&[(u64, usize)]; 1] = [&[(500, 8), (1000, 4)]];
/// One-way delay of a link; a round trip passes four.
const DELAY: Duration = Duration::from_millis(3);
/// Time without a failure between two failures.
const QUIET_TIME: Duration = Duration::from_secs(1);
/// How long a connection may take to continue: longer than TCP's longest retransmission timeout here.
const TIMEOUT: Duration = Duration::from_secs(40);

/// The results of one Send Timeout, milliseconds.
struct Case {
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
    let steps = lists.iter().flat_map(|list| *list).map(|(_, count)| 2 * count).sum();
    run.set_steps(steps);
    let mut cases = side_by_side(run, lists)?;
    cases.sort_by_key(|case| (!case.told, case.timeout));
    for (told, key) in [(true, "art_minus_tsend_ms"), (false, "art_minus_tsend_untold_ms")] {
        let cases = || cases.iter().filter(|case| case.told == told);
        let beyond = |silences: fn(&Case) -> &[f64]| {
            let excess = |case| silences(case).iter().map(|silence| silence - case.timeout as f64);
            cases().flat_map(excess).collect::<Vec<f64>>()
        };
        let (tcp, both) = (beyond(|case| &case.tcp), beyond(|case| &case.both));
        run.estimate(&format!("{key}_p50"), median(&tcp, LEVEL));
        run.estimate(&format!("{key}_both_ways_p50"), median(&both, LEVEL));
        for (name, share) in [("p05", 0.05), ("p95", 0.95)] {
            run.summarise(&format!("{key}_{name}"), percentile(&tcp, share).map(round));
        }
    }
    run.summarise("round_trip_ms", (DELAY * 4).as_millis() as u64);
    run.rows = cases.iter().map(Case::row).collect();
    Ok(())
}

/// Runs each list of Send Timeouts with TCP told and not told, all in parallel, because they mostly wait.
fn side_by_side(run: &Run, lists: &[&[(u64, usize)]]) -> Result<Vec<Case>> {
    std::thread::scope(|scope| {
        let mut lanes = Vec::new();
        for (number, list) in lists.iter().enumerate() {
            for told in [true, false] {
                let label = format!("{number}{}", if told { "t" } else { "n" });
                lanes.push(scope.spawn(move || {
                    let one = |(timeout, count): &(u64, usize)| measure(run, (*timeout, told), *count, &label);
                    list.iter().map(one).collect::<Result<Vec<Case>>>()
                }));
            }
        }
        let mut cases = Vec::new();
        for lane in lanes {
            cases.extend(lane.join().map_err(|_| anyhow!("a measurement thread panicked"))??);
        }
        Ok(cases)
    })
}

fn measure(run: &Run, (timeout, told): (u64, bool), count: usize, label: &str) -> Result<Case> {
    let shim = format!("send_timeout = \"{timeout}ms\"\nreturn_after = \"0s\"\n");
    let network = Providers::build(ProviderSettings { delay: DELAY, shim_config: &shim, label })?;
    if !told {
        network.discard_path_change_icmp()?;
    }
    // A thousand octets every ten milliseconds, on one connection in one direction and on another in both.
    let load = |port| TransferLoad { message: 1000, ..TransferLoad::steady(Protocol::Tcp, port, 100_000) };
    let one_way = Transfer::start(network.ends(), TransferLoad { answered: false, ..load(9700) })?;
    let transfers = [one_way, Transfer::start(network.ends(), load(9701))?];
    let mut train = Train::start(network.ends(), 9800, 100)?;
    network.wait_both(0, "a context", |report| matches!(report, Report::Shim(ShimReport::ContextUp { .. })))?;
    let mut case = Case { timeout, told, tcp: Vec::new(), both: Vec::new(), udp: Vec::new(), exploration: Vec::new() };
    for _ in 0..count {
        run.step(&format!("Send Timeout {timeout} ms"));
        sleep(QUIET_TIME);
        case.fail_provider(&network, network.current_provider()?, &transfers, &train)?;
    }
    train.stop();
    for transfer in transfers {
        transfer.finish(Duration::from_secs(20))?;
    }
    Ok(case)
}

impl Case {
    fn row(&self) -> Value {
        json!({
            "send_timeout_ms": self.timeout,
            "tcp_is_told": self.told,
            "tcp_silent_ms": distribution(&self.tcp),
            "tcp_both_ways_silent_ms": distribution(&self.both),
            "udp_silent_ms": distribution(&self.udp),
            "search_ms": distribution(&self.exploration),
        })
    }

    /// One provider fails, and is restored once all traffic uses the other.
    fn fail_provider(
        &mut self,
        network: &Providers,
        provider: usize,
        transfers: &[Transfer; 2],
        train: &Train,
    ) -> Result<()> {
        let at = network.black_hole(provider)?;
        let changed = |report: &Report| matches!(report, Report::Shim(ShimReport::PathChanged { .. }));
        let moved = network.wait_both(at, "another path", changed)?;
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
        network.restore(provider)?;
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
