//! A home agent loses power under traffic, and returns: the gap until the other one of `home_agents` carries both
//! directions, over uplinks with IPv6, IPv4, IPv4 behind a NAT, and where nothing but UDP passes over either. All settings, lifetimes
//! too, have their defaults.

use crate::experiments::prelude::*;
use crate::load::handover::OBSERVATION_TIME;
use crate::topology::home_agents::{Access, HomeAgentPair};
use roam6_proto::Report;
use roam6_proto::contract::report::NemoReport;
use std::net::Ipv6Addr;

/// One-way delay to each home agent.
const DELAY: Duration = Duration::from_millis(25);
/// A home agent that is not replaced by then never is.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Packets per second of the datagrams in each direction.
const RATE: u32 = 100;
/// Octets per second of the transfer in each direction.
const TRANSFER_RATE: u64 = 200_000;

/// The uplink of a quick run: that by which the vehicle learns least.
const QUICK: &str = "nat_udp";

const ACCESSES: [(&str, Access); 5] = [
    ("ipv6", Access::Ipv6),
    ("ipv4", Access::Ipv4),
    ("nat", Access::Translated),
    ("nat_udp", Access::UdpOnly),
    ("ipv6_udp", Access::UdpOverIpv6),
];

/// Extent of the measurement.
struct Effort {
    /// Failures over each uplink: an interval of the median needs six.
    times: usize,
    /// Time without a fault before each one.
    quiet: Duration,
    /// How long a home agent that is back is watched.
    watch: Duration,
}

/// Upward and downward gaps, milliseconds, and changes of the home agent after it was replaced.
#[derive(Default)]
struct Outcome {
    up: Vec<f64>,
    down: Vec<f64>,
    returned_changes: usize,
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let seconds = Duration::from_secs;
    let effort = if run.quick {
        Effort { times: 6, quiet: seconds(1), watch: seconds(4) }
    } else {
        Effort { times: 10, quiet: seconds(5), watch: seconds(8) }
    };
    let is_measured = |(name, _): &&(&str, Access)| !run.quick || *name == QUICK;
    let accesses: Vec<_> = ACCESSES.iter().filter(is_measured).copied().collect();
    run.set_steps(effort.times * accesses.len());
    let (mut survived, mut changes, mut medians) = (true, 0, Vec::new());
    for (name, access) in accesses {
        let (outcome, whole) = fail_over(run, name, access, &effort).with_context(|| name.to_owned())?;
        survived &= whole;
        changes += outcome.returned_changes;
        for (way, gaps) in [("up", outcome.up), ("down", outcome.down)] {
            let median = median(&gaps, LEVEL);
            medians.extend(median.clone());
            run.estimate(&format!("gap_ms_p50_{name}_{way}"), median);
            run.rows.push(json!({ "uplink": name, "way": way, "gap_ms": distribution(gaps) }));
        }
    }
    run.estimate("gap_ms_p50", Estimate::most(medians));
    run.summarise("returned_changes", changes);
    run.require_tcp(survived);
    Ok(())
}

/// Lets the home agent in use fail so many times, the other one each time; also returns whether TCP survived all.
fn fail_over(run: &Run, name: &str, access: Access, effort: &Effort) -> Result<(Outcome, bool)> {
    let mut pair = HomeAgentPair::build(access, DELAY)?;
    let ends = || [pair.vehicle.node(), pair.correspondent()];
    let mut train = Train::start(ends(), 9100, RATE)?;
    let transfer = Transfer::start(ends(), TransferLoad::steady(Protocol::Tcp, 9300, TRANSFER_RATE))?;
    sleep(OBSERVATION_TIME);
    let mut outcome = Outcome::default();
    for number in 0..effort.times {
        run.step(&format!("{name}: a home agent fails"));
        sleep(effort.quiet);
        let failing = number % 2;
        let begin = clock::unix_micros();
        pair.power_off(failing)?;
        let replaced = wait_bound(&pair, begin, 1 - failing);
        pair.route_home(1 - failing)?;
        sleep(OBSERVATION_TIME);
        let end = clock::unix_micros() - 150_000;
        let gap = |silence: u64| if replaced.is_some() { silence as f64 / 1000.0 } else { f64::INFINITY };
        outcome.up.push(gap(train.forward.longest_silence(Stamp::Sent, begin, end)));
        outcome.down.push(gap(train.reverse.longest_silence(Stamp::Received, begin, end)));
        // It returns, and nothing changes.
        pair.power_on(failing, DELAY)?;
        let back = clock::unix_micros();
        sleep(effort.watch);
        outcome.returned_changes += changes_since(&pair, back, 1 - failing);
    }
    train.stop();
    Ok((outcome, transfer.finish(TIMEOUT)?.iter().all(Delivery::is_complete)))
}

/// The home agent that has accepted a registration, if the report is about that.
fn bound_to(report: &Report) -> Option<Ipv6Addr> {
    match report {
        Report::Nemo(NemoReport::Bound { home_agent, .. }) => Some(*home_agent),
        _ => None,
    }
}

/// Waits until the vehicle is bound to this home agent; the time.
fn wait_bound(pair: &HomeAgentPair, since: u64, number: usize) -> Option<u64> {
    let address = pair.home_agents.get(number)?.address;
    let events = &pair.vehicle.daemon.events;
    events.wait_for(since, TIMEOUT, |report| bound_to(report) == Some(address)).map(|event| event.unix_micros)
}

/// How often the vehicle was bound to another home agent than this one.
fn changes_since(pair: &HomeAgentPair, since: u64, number: usize) -> usize {
    let address = pair.home_agents.get(number).map(|site| site.address);
    let events = pair.vehicle.daemon.events.events_from(0);
    let bound = events.iter().filter(|event| event.unix_micros >= since).filter_map(|event| bound_to(&event.report));
    bound.filter(|home_agent| Some(*home_agent) != address).count()
}
