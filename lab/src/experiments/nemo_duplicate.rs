//! Duplicated flows: datagrams in both directions by two uplinks at once (RFC 8655 §3.2.2.2). What is lost and delivered twice
//! while the links are cut alternately, with loss on both, and with one that is slower; and what flows without such a rule pay.

use crate::bed::Daemon;
use crate::experiments::prelude::*;
use crate::load::chain_bench::ChainBench;
use crate::load::packet_generator::Burst;
use crate::topology::chain::Forwarding;
use crate::topology::nemo::{CORRESPONDENT, NemoNetwork, Vehicle};
use roam6_sim::LinkSpec;

/// Two uplinks of one priority, with the probes of the defaults. Datagrams to and from this port are sent twice, others by the
/// first uplink.
const CONFIG: &str = "sharing = \"weights\"\n\n\
    [[mobile_router.flow]]\nprotocol = \"udp\"\ninside_ports = \"9100\"\nduplicate = 2\n\n\
    [[mobile_router.flow]]\nprotocol = \"udp\"\ninside_ports = \"9200\"\nuplink = \"up0\"\n";
const DUPLICATED_PORT: u16 = 9100;
const SINGLE_PORT: u16 = 9200;
/// One-way delay to the home agent.
const DELAY: Duration = Duration::from_millis(10);
/// Datagrams per second in each direction.
const RATE: u32 = 500;
const CUTS: usize = 12;
/// Of each cut, and until the next one of the other link.
const CUT_TIME: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(450);
/// Until late copies have arrived.
const SETTLE_TIME: Duration = Duration::from_millis(700);
const LOSS: f64 = 0.2;
/// By which one link is slower.
const SLOWER: Duration = Duration::from_millis(80);
const TIMEOUT: Duration = Duration::from_secs(20);
/// The time of a quick and of a full run of the cost.
const BUDGETS: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(240)];
/// Octets of a packet, flows, and warm-up frames of a burst.
const PACKET: usize = 250;
const FLOWS: u16 = 8;
const WARM_UP: u32 = 4096;

pub(super) fn run(run: &mut Run) -> Result<()> {
    let rounds = Rounds::growing(run, BUDGETS);
    run.set_steps(4 + rounds.expected());
    {
        let network = NemoNetwork::build(DELAY, 1, "")?;
        let vehicle = network.vehicle_with(0, &["up0", "up1"], CONFIG)?;
        plug(&network, &vehicle)?;
        let ends = || [vehicle.node(), network.correspondent()];
        let train = Train::start(ends(), DUPLICATED_PORT, RATE)?;
        run.step("both ends duplicate");
        wait_duplicating(&network, &vehicle)?;
        cut_alternately(run, &network, &train);
        lose(run, &network, &train);
        let single = Train::start(ends(), SINGLE_PORT, RATE)?;
        slow_down(run, &network, [&train, &single]);
    }
    run.step("flows without the rule");
    measure_cost(run, rounds)
}

/// Attaches both uplinks, and waits until both are registered.
fn plug(network: &NemoNetwork, vehicle: &Vehicle) -> Result<()> {
    network.emulator.plug(vehicle.uplink(0)?, network.visited[0].link)?;
    vehicle.wait_until_connected(CORRESPONDENT)?;
    let plugged = network.emulator.plug(vehicle.uplink(1)?, network.visited[1].link)?;
    vehicle.wait_registered(plugged, 2)
}

fn wait_duplicating(network: &NemoNetwork, vehicle: &Vehicle) -> Result<()> {
    let eliminated = |daemon: &Daemon| daemon.counters("packets").ok()?.get("eliminated").copied();
    let ends = [&vehicle.daemon, &network.home_agent];
    let both = || ends.iter().all(|end| eliminated(end).is_some_and(|count| count > 100)).then_some(());
    let logs = || ends.map(|end| end.log_tail()).concat();
    clock::wait_for(TIMEOUT, both).with_context(|| format!("packets are not sent twice at both ends; {}", logs()))
}

/// The datagrams of both directions of a time: sent, lost, delivered twice.
fn observe(train: &Train, act: impl FnOnce()) -> [usize; 3] {
    let begin = clock::unix_micros();
    act();
    let end = clock::unix_micros();
    sleep(SETTLE_TIME);
    let ways = [&train.forward, &train.reverse].map(|way| way.delivery_counts(begin, end));
    [ways.map(|way| way.sent), ways.map(|way| way.lost), ways.map(|way| way.duplicated)].map(|both| both.iter().sum())
}

fn cut_alternately(run: &mut Run, network: &NemoNetwork, train: &Train) {
    run.step("alternate cuts");
    let mut cuts = Vec::new();
    let [sent, lost, duplicates] = observe(train, || {
        for visited in network.visited.iter().cycle().take(CUTS) {
            let cable = visited.cable;
            cuts.push(clock::unix_micros());
            network.emulator.shape(cable, LinkSpec { loss: 1.0, ..LinkSpec::default() });
            sleep(CUT_TIME);
            network.emulator.shape(cable, LinkSpec::default());
            sleep(PAUSE);
        }
    });
    run.rows.extend(lost_datagrams(train, &cuts));
    run.summarise("packets_through_cuts", sent);
    run.summarise("lost", lost);
    run.summarise("duplicates", duplicates);
}

/// Which cut each lost datagram was sent after, by its number, and how long after.
fn lost_datagrams(train: &Train, cuts: &[u64]) -> Vec<Value> {
    let begin = cuts.first().copied().unwrap_or(u64::MAX);
    let end = cuts.last().map_or(0, |last| last + (CUT_TIME + PAUSE).as_micros() as u64);
    let mut rows = Vec::new();
    for (direction, way) in [("outbound", &train.forward), ("inbound", &train.reverse)] {
        for lost in way.datagrams(begin, end).iter().filter(|datagram| datagram.received.is_none()) {
            let cut = cuts.partition_point(|cut| *cut <= lost.sent).saturating_sub(1);
            let after = lost.sent.saturating_sub(cuts.get(cut).copied().unwrap_or(lost.sent));
            rows.push(json!({ "kind": "lost", "direction": direction, "cut": cut, "after_ms": after as f64 / 1000.0 }));
        }
    }
    rows
}

fn lose(run: &mut Run, network: &NemoNetwork, train: &Train) {
    run.step("loss on both links");
    let shape = |spec| network.visited.iter().for_each(|visited| network.emulator.shape(visited.cable, spec));
    shape(LinkSpec { loss: LOSS, ..LinkSpec::default() });
    let [sent, lost, duplicates] = observe(train, || sleep(Duration::from_secs(if run.quick { 8 } else { 60 })));
    shape(LinkSpec::default());
    run.summarise("arrive_at_20_percent_loss", round(1.0 - lost as f64 / sent.max(1) as f64));
    run.rows.push(json!({ "loss": LOSS, "sent": sent, "lost": lost, "duplicates": duplicates }));
    run.require(duplicates == 0, || format!("{duplicates} datagrams delivered twice at {LOSS} loss"));
}

/// The delay of duplicated datagrams against those of a flow by the faster link alone, at the same time.
fn slow_down(run: &mut Run, network: &NemoNetwork, [train, single]: [&Train; 2]) {
    run.step("a slower link");
    network.emulator.shape(network.visited[1].cable, LinkSpec { delay: SLOWER, ..LinkSpec::default() });
    sleep(SETTLE_TIME);
    let begin = clock::unix_micros();
    let [sent, lost, duplicates] = observe(train, || sleep(Duration::from_secs(if run.quick { 6 } else { 30 })));
    let end = clock::unix_micros();
    network.emulator.shape(network.visited[1].cable, LinkSpec::default());
    let p99 = |train: &Train| {
        let both = [&train.forward, &train.reverse].map(|way| way.datagrams(begin, end));
        let delays = both.iter().flatten().filter_map(|one| Some((one.received? - one.sent) as f64 / 1000.0));
        percentile(delays, 0.99).unwrap_or(f64::INFINITY)
    };
    let (twice, once) = (p99(train), p99(single));
    run.summarise("later_than_faster_ms_p99", round(twice - once));
    run.rows.push(json!({ "slower_ms": SLOWER.as_millis() as u64, "duplicated_ms_p99": round(twice),
        "faster_alone_ms_p99": round(once), "sent": sent, "lost": lost, "duplicates": duplicates }));
    run.require(duplicates == 0, || format!("{duplicates} datagrams delivered twice over unequal links"));
}

/// Packets per second of processor time of flows without a rule to duplicate, in a tunnel with such a rule and in one without.
fn measure_cost(run: &mut Run, mut rounds: Rounds) -> Result<()> {
    let frames = if run.quick { 30_000 } else { 120_000 };
    let kinds = [Forwarding::FlowBinding, Forwarding::Duplicate];
    let mut bursts: Vec<(usize, bool, Burst)> = Vec::new();
    while let Some(at) = rounds.next() {
        run.step(&format!("cost, round {}", at + 1));
        let mut bench = ChainBench::new(&kinds)?;
        let mut of_round = Vec::new();
        for upward in [false, true] {
            for turn in 0..kinds.len() {
                let place = (turn + at) % kinds.len();
                let Some(kind) = kinds.get(place) else { continue };
                let burst = bench.send_burst((*kind, upward), PACKET, 0..FLOWS, (WARM_UP, frames))?;
                of_round.push((place, upward, burst));
            }
        }
        if rounds.keep() {
            bursts.extend(of_round);
        }
        rounds.look(|rounds| vec![("unduplicated_over_before".to_owned(), cost(rounds, &bursts))]);
    }
    run.estimate("unduplicated_over_before", cost(&rounds, &bursts));
    rounds.finish(run);
    Ok(())
}

fn cost(rounds: &Rounds, bursts: &[(usize, bool, Burst)]) -> Option<Estimate> {
    let rates = |place: usize, upward: bool| -> Vec<f64> {
        let of = bursts.iter().filter(|(at, way, _)| (*at, *way) == (place, upward));
        of.map(|(_, _, burst)| burst.kpps()).collect()
    };
    Estimate::least([false, true].into_iter().filter_map(|way| rounds.ratio(&rates(1, way), &rates(0, way))))
}
