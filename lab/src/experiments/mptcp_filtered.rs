//! The direct path of a visited network is filtered while the tunnel works (document P2: the tunnel stays useful in networks
//! that filter): whether connections survive, how long they stall, and when they are on the direct path again.

use crate::experiments::prelude::*;
use crate::load::transfer::Arrivals;
use crate::mptcp::{LinkShape, MptcpTestbed, PayloadPath};
use crate::topology::nemo::CORRESPONDENT;

/// Connections of each kind at the same time.
const CONNECTIONS: u16 = 6;
/// The first port.
const FIRST_PORT: u16 = 9700;
/// Octets per second of a connection in each direction, and octets of one write.
const RATE: u64 = 20_000;
const MESSAGE: usize = 1024;
/// Time without a fault before and after.
const SETTLED_TIME: Duration = Duration::from_secs(2);
/// A connection that does not continue by then has ended.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The node retries a path after 10 s, and then with back-off.
const RETURN_TIMEOUT: Duration = Duration::from_secs(60);

/// What the filter of the access router does with packets of the direct path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    /// It drops them.
    Drop,
    /// It answers them by a reset.
    Reset,
    /// It drops them, and was there before the connections.
    FromTheBeginning,
}

const FILTERS: [(Filter, &str); 3] =
    [(Filter::Drop, "drop"), (Filter::Reset, "reset"), (Filter::FromTheBeginning, "from_the_beginning")];

/// Who opens a connection, and at which address of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The correspondent, which knows only the address in the mobile network.
    Inbound,
    /// The node, at its care-of address, which needs the direct path; where that is filtered from the beginning, at its
    /// address in the mobile network.
    Outbound,
}

const WAYS: [(Way, &str); 2] = [(Way::Inbound, "inbound"), (Way::Outbound, "outbound")];

/// The connections of one way, and what was seen of them.
struct Outcome {
    way: &'static str,
    /// The longest silence of each connection at either end, milliseconds.
    gaps: Vec<f64>,
    alive: usize,
    complete: usize,
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let times = if run.quick { 1 } else { 5 };
    run.set_steps(times * FILTERS.len() * 2);
    let testbed = MptcpTestbed::build(LinkShape::PAPER.lossless())?;
    testbed.accept_subflows()?;
    testbed.set_accepted_announcements(2)?;
    testbed.visit(0)?;
    for (filter, name) in FILTERS {
        let (mut outcomes, mut returned) = (Vec::new(), Vec::new());
        for time in 0..times {
            let (of_time, back) = measure(run, &testbed, filter, time).with_context(|| name.to_owned())?;
            outcomes.extend(of_time);
            returned.extend(back);
        }
        report(run, name, &outcomes, &returned, times);
    }
    let all = CONNECTIONS as usize * WAYS.len() * FILTERS.len() * times;
    let alive: u64 = run.rows.iter().filter_map(|row| row.get("alive")?.as_u64()).sum();
    run.summarise("alive_of_all", round(alive as f64 / all as f64));
    run.require_bound("alive_of_all");
    Ok(())
}

/// The connections under one filter, and the time until the direct path is in use after its end, milliseconds.
fn measure(run: &Run, testbed: &MptcpTestbed, filter: Filter, time: usize) -> Result<(Vec<Outcome>, Option<f64>)> {
    run.step(&format!("{filter:?}: filtered"));
    let is_first = filter == Filter::FromTheBeginning;
    if is_first {
        set_filter(testbed, Some(filter))?;
    }
    let port = FIRST_PORT + u16::try_from(time)? * 2 * CONNECTIONS;
    let began = clock::unix_micros();
    let connections = WAYS.iter().zip([port, port + CONNECTIONS]);
    let connections: Vec<_> = connections
        .map(|((way, name), port)| Ok((*name, open(testbed, *way, is_first, port)?)))
        .collect::<Result<_>>()?;
    if !is_first {
        wait_direct(testbed, began, TIMEOUT).context("no connection uses its direct path")?;
    }
    sleep(SETTLED_TIME);
    let begin = if is_first { began } else { clock::unix_micros() };
    if !is_first {
        set_filter(testbed, Some(filter))?;
    }
    let alive: Vec<Vec<bool>> = connections.iter().map(|(_, them)| wait_alive(them)).collect();
    sleep(SETTLED_TIME);
    let end = clock::unix_micros();
    run.step(&format!("{filter:?}: no longer filtered"));
    set_filter(testbed, None)?;
    let lifted = clock::unix_micros();
    let returned = wait_direct(testbed, lifted, RETURN_TIMEOUT).map(|at| (at - lifted) as f64 / 1000.0);
    let mut outcomes = Vec::new();
    for ((way, transfers), alive) in connections.into_iter().zip(alive) {
        // A connection's first octets need a round trip or two.
        let gap = |one: &Transfer| {
            let first = one.arrivals.iter().map(Arrivals::first).max().flatten().unwrap_or(end);
            round(one.longest_silence(begin.max(first), end) as f64 / 1000.0)
        };
        let gaps = transfers.iter().map(gap).collect();
        let mut complete = 0;
        for transfer in transfers {
            complete += usize::from(transfer.finish(TIMEOUT)?.iter().all(Delivery::is_complete));
        }
        outcomes.push(Outcome { way, gaps, alive: alive.into_iter().filter(|alive| *alive).count(), complete });
    }
    Ok((outcomes, returned))
}

fn report(run: &mut Run, filter: &str, outcomes: &[Outcome], returned: &[f64], times: usize) {
    for (_, way) in WAYS {
        let of_way = || outcomes.iter().filter(|outcome| outcome.way == way);
        let gaps: Vec<f64> = of_way().flat_map(|outcome| outcome.gaps.clone()).collect();
        let count = |pick: fn(&Outcome) -> usize| of_way().map(pick).sum::<usize>();
        let (alive, complete, all) = (count(|one| one.alive), count(|one| one.complete), gaps.len());
        run.require(complete == all, || {
            format!("{filter}, {way}: {complete} of {all} connections delivered everything")
        });
        run.rows.push(json!({
            "filter": filter.replace('_', " "),
            "way": way,
            "gap_ms": distribution(&gaps),
            "gaps_ms": gaps,
            "alive": alive,
            "of": all,
            "whole": complete,
        }));
        run.estimate(&format!("gap_ms_p50_{filter}_{way}"), median(&gaps, LEVEL));
        run.summarise(&format!("gap_ms_max_{filter}_{way}"), percentile(&gaps, 1.0).map(round));
    }
    run.require(returned.len() == times, || format!("{filter}: the direct path was not used again"));
    run.rows.push(json!({ "filter": filter.replace('_', " "), "to_direct_after_ms": distribution(returned) }));
    run.summarise(&format!("direct_again_ms_max_{filter}"), percentile(returned, 1.0).map(round));
}

/// Opens connections at ports from this one on.
fn open(testbed: &MptcpTestbed, way: Way, is_filtered: bool, first_port: u16) -> Result<Vec<Transfer>> {
    let [mut node, _] = testbed.ends();
    if way == Way::Outbound && !is_filtered {
        node.address = testbed.wait_care_of(node.host, 0)?;
    }
    let address = node.address;
    let start = |port| {
        let load = TransferLoad { message: MESSAGE, ..TransferLoad::steady(Protocol::Mptcp, port, RATE) };
        let [node, correspondent] = testbed.ends();
        let node = Endpoint { address, ..node };
        let ends = if way == Way::Inbound { [correspondent, node] } else { [node, correspondent] };
        Transfer::start(ends, load)
    };
    (first_port..first_port + CONNECTIONS).map(start).collect()
}

/// Whether bytes arrive at both ends of each connection: one after the other, so that a long wait for one serves all.
fn wait_alive(transfers: &[Transfer]) -> Vec<bool> {
    transfers.iter().map(|transfer| transfer.is_progressing(TIMEOUT)).collect()
}

/// The first payload on the direct path after a moment, microseconds since 1970.
fn wait_direct(testbed: &MptcpTestbed, since: u64, timeout: Duration) -> Option<u64> {
    clock::wait_for(timeout, || testbed.path_monitor.first_use(PayloadPath::Direct(0), since))
}

/// Makes the access router filter TCP between visitors and the correspondent, or ends that.
fn set_filter(testbed: &MptcpTestbed, filter: Option<Filter>) -> Result<()> {
    let router = testbed.access_router(0)?;
    let Some(filter) = filter else { return router.output("nft", &["delete table ip6 filtered"]).map(drop) };
    let verdict = if filter == Filter::Reset { "reject with tcp reset" } else { "drop" };
    let rules = format!(
        "table ip6 filtered {{ chain forward {{ type filter hook forward priority 0; policy accept; \
         ip6 saddr {CORRESPONDENT} ip6 nexthdr tcp {verdict}; ip6 daddr {CORRESPONDENT} ip6 nexthdr tcp {verdict}; }}; }}"
    );
    router.output("nft", &[&rules]).map(drop)
}
