//! Faults of the store and of clocks: partitions, a slow store, the loss of its leader, a member whose clock is wrong.

use super::require_common_table;
use super::rivals::judge;
use crate::experiments::prelude::*;
use crate::load::fleet_updates::{Answer, FleetUpdates};
use crate::topology::fleet::tables::common_table;
use crate::topology::fleet::{FleetNetwork, MEMBERS};
use roam6_sim::LinkSpec;
use std::time::Instant;

/// How long a fault lasts once its effect is there.
const LASTING: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(30);
/// Leaders that are killed, in quick and in full runs.
pub(super) const LEADERS: (usize, usize) = (3, 10);
/// Mobile routers that send while a leader is killed.
const SENDERS: u32 = 200;
/// Interval of their updates.
const PACE: Duration = Duration::from_millis(5);
/// Settings that put the clock of a program ahead (libfaketime); its timers are left alone.
const FAST_CLOCK: [(&str, &str); 3] = [
    ("LD_PRELOAD", "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"),
    ("FAKETIME", "+5s"),
    ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
];
/// Packets per second in each direction while the store is disturbed.
const RATE: u32 = 500;

/// A cut between members.
struct Partition {
    name: &'static str,
    /// Members whose cables are cut.
    cut: &'static [usize],
    /// Members whose nodes of the store do not reach each other.
    apart: Option<(usize, usize)>,
    /// Members that lose the majority, and must not acknowledge.
    degraded: &'static [usize],
}

const PARTITIONS: [Partition; 5] = [
    Partition { name: "ha2 is cut off", cut: &[2], apart: None, degraded: &[2] },
    Partition { name: "ha1 and ha2 are cut off", cut: &[1, 2], apart: None, degraded: &[1, 2, 3] },
    Partition { name: "ha1 and ha2 are apart", cut: &[], apart: Some((1, 2)), degraded: &[] },
    Partition { name: "ha2 and ha3 are apart", cut: &[], apart: Some((2, 3)), degraded: &[] },
    Partition { name: "ha1 and ha3 are apart", cut: &[], apart: Some((1, 3)), degraded: &[] },
];

/// In each partition, mobile routers send with one sequence number to two members.
pub(super) fn measure_partitions(run: &mut Run, network: &FleetNetwork, updates: &mut FleetUpdates) -> Result<()> {
    run.step("partitions");
    let (mut twice, mut slowest, mut heals) = (0, 0.0_f64, 0.0_f64);
    for partition in &PARTITIONS {
        let began = clock::now();
        set_partition(network, partition, true)?;
        let degraded = partition.degraded.iter().map(|number| state_after(network, *number, "degraded", began));
        let degraded = degraded.collect::<Result<Vec<f64>>>()?.into_iter().fold(0.0, f64::max);
        let end = clock::now() + LASTING;
        let mut answered = 0;
        while clock::now() < end {
            let (double, answers) = send_rivals(updates)?;
            twice += double;
            answered += answers;
        }
        let silent = partition.degraded.len() == MEMBERS;
        run.require(!silent || answered == 0, || format!("{}: {answered} updates were acknowledged", partition.name));
        run.require(silent || answered > 0, || format!("{}: no update was acknowledged", partition.name));
        let healed = clock::now();
        set_partition(network, partition, false)?;
        let back = (1..=MEMBERS).map(|number| state_after(network, number, "healthy", healed));
        let back = back.collect::<Result<Vec<f64>>>()?.into_iter().fold(0.0, f64::max);
        slowest = slowest.max(degraded);
        heals = heals.max(back);
        run.rows.push(json!({
            "partition": partition.name, "degraded_ms": round(degraded), "healed_ms": round(back), "answered": answered,
        }));
    }
    run.summarise("partition_degraded_ms_max", round(slowest));
    run.summarise("partition_healed_ms_max", round(heals));
    run.summarise("partition_answered_twice", twice);
    run.require_bound("partition_answered_twice");
    require_common_table(run, network, "partition_divergent")
}

fn set_partition(network: &FleetNetwork, partition: &Partition, on: bool) -> Result<()> {
    partition.cut.iter().try_for_each(|number| network.cut(*number, on))?;
    partition.apart.map_or(Ok(()), |(one, other)| network.separate(one, other, on))
}

/// Waits until a member is in this state: milliseconds since `began`.
fn state_after(network: &FleetNetwork, number: usize, state: &str, began: Instant) -> Result<f64> {
    let member = network.member(number)?;
    let is_there = || (member.state()? == state).then(|| began.elapsed().as_secs_f64() * 1000.0);
    clock::wait_for(TIMEOUT, is_there)
        .with_context(|| format!("ha{number} is not {state}: {}", member.daemon.log_tail()))
}

/// A few mobile routers send one sequence number from two places to two members: how many were accepted twice, and all accepted.
fn send_rivals(updates: &mut FleetUpdates) -> Result<(usize, usize)> {
    let mut sent = Vec::new();
    for router in 0..9 {
        let (one, other) = (router as usize % MEMBERS, (router as usize / MEMBERS + 1) % MEMBERS);
        let first = updates.update(router, 6, false)?;
        let second = updates.rival(&first, 7);
        updates.send(one, &first.packet)?;
        updates.send(other, &second.packet)?;
        sent.push(second);
    }
    let answers = updates.answers_within(Duration::from_millis(300));
    Ok((judge(&answers, &sent).0, answers.iter().filter(|answer| answer.accepts()).count()))
}

/// Nodes of the store are 100 ms and a second apart.
pub(super) fn measure_slow_store(run: &mut Run, network: &FleetNetwork, updates: &mut FleetUpdates) -> Result<()> {
    for (name, round_trip) in [("100", 100), ("1000", 1000)] {
        run.step(&format!("a store with commits of {name} ms"));
        let delay = Duration::from_millis(round_trip) / 4;
        (1..=MEMBERS).try_for_each(|number| network.shape(number, LinkSpec { delay, ..LinkSpec::default() }))?;
        sleep(LASTING);
        let mut delays = Vec::new();
        let mut twice = 0;
        for _ in 0..10 {
            let began = clock::now();
            let update = updates.update(0, 6, false)?;
            updates.send(0, &update.packet)?;
            let answers = updates.answers_within(Duration::from_millis(400));
            twice += judge(&answers, &[]).0;
            if answers.iter().any(|one| one.sequence == update.sequence && one.accepts()) {
                delays.push(began.elapsed().as_secs_f64() * 1000.0);
            }
        }
        let states: Vec<Option<String>> = network.members.iter().map(|member| member.state()).collect();
        let faults: Vec<Value> =
            network.members.iter().filter_map(|member| why(&member.daemon.show("fleet").ok()?)).collect();
        run.rows.push(json!({ "commit_ms": name, "states": states, "why": faults, "acknowledged": delays.len() }));
        run.summarise(&format!("slow_store_{name}_acknowledged"), delays.len());
        run.require(twice == 0, || format!("commits of {name} ms: {twice} sequence numbers were accepted twice"));
        (1..=MEMBERS).try_for_each(|number| network.cut(number, false))?;
        network.wait_all_healthy()?;
    }
    require_common_table(run, network, "slow_store_divergent")
}

/// Why a member is in its state.
fn why(shown: &Value) -> Option<Value> {
    shown.get("why").cloned()
}

/// The member whose node leads the store, from 1.
fn leader(network: &FleetNetwork) -> Option<usize> {
    (1..=MEMBERS).find(|number| {
        let status = network.member(*number).and_then(|member| member.etcdctl(&["endpoint", "status", "-w", "json"]));
        let status: Option<Value> = status.ok().and_then(|text| serde_json::from_str(&text).ok());
        let field = |path: &str| status.as_ref()?.pointer(path)?.as_u64();
        field("/0/Status/leader").is_some_and(|leader| Some(leader) == field("/0/Status/header/member_id"))
    })
}

/// The node that leads the store is killed while updates come: how long none is acknowledged.
pub(super) fn measure_leader_loss(run: &mut Run, network: &mut FleetNetwork, updates: &mut FleetUpdates) -> Result<()> {
    let (times, mut gaps) = (if run.quick { LEADERS.0 } else { LEADERS.1 }, Vec::new());
    let train = Train::start([network.vehicle.node(), network.correspondent()], 9200, RATE)?;
    let begin = clock::unix_micros();
    for _ in 0..times {
        run.step("the leader of the store dies");
        let number = clock::wait_for(TIMEOUT, || leader(network)).context("the store has no leader")?;
        // Its own member cannot acknowledge until the node is back.
        let others: Vec<usize> = (0..MEMBERS).filter(|member| member + 1 != number).collect();
        longest_gap(updates, &others, Duration::from_millis(500))?;
        network.member_mut(number)?.store.kill();
        gaps.push(longest_gap(updates, &others, Duration::from_secs(5))?);
        network.member_mut(number)?.store.spawn()?;
        network.wait_all_healthy()?;
    }
    let lost = train.lost(begin, clock::unix_micros() - 300_000);
    run.rows.push(json!({ "leaders_killed": times, "without_acknowledgement_ms": distribution(&gaps), "lost": lost }));
    run.summarise("leader_loss_ms_max", percentile(&gaps, 1.0).map(round));
    run.summarise("leader_loss_lost", lost);
    Ok(())
}

/// Mobile routers send updates to these members for some time; the longest time between two acknowledgements, milliseconds.
fn longest_gap(updates: &mut FleetUpdates, members: &[usize], time: Duration) -> Result<f64> {
    let (began, mut last, mut longest, mut next) = (clock::now(), clock::now(), 0.0_f64, 0_u32);
    while began.elapsed() < time {
        let update = updates.update(next % SENDERS, 8, false)?;
        let member = members.get(next as usize % members.len().max(1)).copied().unwrap_or_default();
        updates.send(member, &update.packet)?;
        next += 1;
        if updates.answers_within(PACE).iter().any(|answer| answer.accepts()) {
            longest = longest.max(last.elapsed().as_secs_f64() * 1000.0);
            last = clock::now();
        }
    }
    Ok(longest.max(last.elapsed().as_secs_f64() * 1000.0))
}

/// A member is started with a clock that is five seconds ahead.
pub(super) fn measure_wrong_clock(run: &mut Run, network: &mut FleetNetwork, updates: &mut FleetUpdates) -> Result<()> {
    run.step("a clock that is wrong");
    let (before, _) = common_table(&network.members)?;
    let member = network.member_mut(MEMBERS)?;
    member.daemon.stop()?;
    member.daemon.environment = FAST_CLOCK.map(|(name, value)| (name, value.to_owned())).to_vec();
    member.daemon.spawn()?;
    let skew = clock::wait_for(TIMEOUT, || seen_skew(network)).unwrap_or_default();
    sleep(LASTING);
    let state = network.member(MEMBERS)?.state();
    let answered = {
        let update = updates.update(0, 9, false)?;
        updates.send(MEMBERS - 1, &update.packet)?;
        let of_update = |one: &&Answer| one.member == MEMBERS - 1 && one.sequence == update.sequence && one.accepts();
        updates.answers_within(Duration::from_millis(500)).iter().filter(of_update).count()
    };
    let kept = network.member(1)?.bindings()?;
    let deleted = before.keys().filter(|home| !kept.contains_key(*home)).count();
    let member = network.member_mut(MEMBERS)?;
    member.daemon.stop()?;
    member.daemon.environment.clear();
    member.daemon.spawn()?;
    network.wait_all_healthy()?;
    run.rows.push(json!({ "clock_ahead_ms": skew / 1000, "state": state, "answered": answered, "deleted": deleted }));
    run.summarise("fast_clock_deleted", deleted);
    run.summarise("fast_clock_answered", answered);
    run.summarise("fast_clock_seen_ms", skew / 1000);
    run.require(skew > 3_000_000, || format!("the other members see a difference of {skew} microseconds"));
    run.require_bound("fast_clock_deleted");
    run.require_bound("fast_clock_answered");
    Ok(())
}

/// By how much the first member sees the clock of the last one ahead, microseconds, once that is seconds.
fn seen_skew(network: &FleetNetwork) -> Option<i64> {
    let shown: Value = network.member(1).ok()?.daemon.show("fleet").ok()?;
    let members = shown.get("members")?.as_array()?;
    let skews = members.iter().filter_map(|member| member.get("skew_micros")?.as_i64());
    skews.map(|skew| -skew).find(|ahead| *ahead > 1_000_000)
}
