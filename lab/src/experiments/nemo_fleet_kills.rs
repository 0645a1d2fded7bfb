//! Members of a fleet and nodes of its store are killed without end while mobile routers register, move and leave: every
//! acknowledgement is compared with the store and with the tables of all members.

use crate::experiments::prelude::*;
use crate::load::fleet_updates::{FleetUpdates, Update};
use crate::load::registrations::home_address;
use crate::topology::fleet::tables::differing_from_store;
use crate::topology::fleet::{FleetNetwork, FleetSetup, MEMBERS, Member};
use roam6_proto::Entropy;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Kills, in quick and in full runs.
const KILLS: (usize, usize) = (30, 1000);
/// Mobile routers.
const ROUTERS: u32 = 500;
/// Time between two updates: 500 a second.
const INTERVAL: Duration = Duration::from_millis(2);
/// Kills after which the load pauses, and everything is compared.
const COMPARED: usize = 50;
/// A mobile router without an answer sends its next update after this time.
const PATIENCE: Duration = Duration::from_millis(1500);
/// A killed program is started again after a time between these, milliseconds.
const DOWN: (u64, u64) = (50, 1200);
/// Time between two kills, milliseconds.
const PAUSE: (u64, u64) = (100, 900);
/// One of so many updates is a farewell.
const FAREWELLS: u64 = 5;
/// Places of each mobile router.
const PLACES: u64 = 8;

/// What a mobile router knows.
#[derive(Default, Clone)]
struct Router {
    /// The last update that was acknowledged.
    acknowledged: Option<Update>,
    /// Later ones, of which the store may have any.
    sent: Vec<Update>,
    waits_since: Option<Instant>,
}

/// What was found so far.
#[derive(Default)]
struct Findings {
    acknowledged: u64,
    farewells: u64,
    lost: usize,
    undone: usize,
    divergent: Vec<String>,
    comparisons: usize,
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let kills = if run.quick { KILLS.0 } else { KILLS.1 };
    let parts = kills.div_ceil(COMPARED);
    run.set_steps(parts);
    let mut network = FleetNetwork::build(&FleetSetup { routers: ROUTERS, ..FleetSetup::default() })?;
    let mut updates = FleetUpdates::new(std::mem::take(&mut network.taps), ROUTERS);
    let mut routers = vec![Router::default(); ROUTERS as usize];
    let mut findings = Findings::default();
    let (mut killed, mut rng) = ([0, 0], Entropy::seed_from_u64(1));
    for part in 0..parts {
        run.step(&format!("kills {} to {}", part * COMPARED + 1, (part + 1) * COMPARED));
        let (count, seed) = (COMPARED.min(kills - part * COMPARED), rng.below(u64::MAX));
        let stop = AtomicBool::new(false);
        let by_kind = std::thread::scope(|scope| -> Result<[usize; 2]> {
            let killer = scope.spawn(|| {
                let done = kill(&mut network.members, count, seed);
                stop.store(true, Ordering::Relaxed);
                done
            });
            load(&mut updates, &mut routers, &mut findings, &mut rng, &stop)?;
            killer.join().map_err(|_| anyhow!("the thread that kills has panicked"))?
        })?;
        killed.iter_mut().zip(by_kind).for_each(|(all, some)| *all += some);
        network.members.iter().try_for_each(|member| member.wait_for_state("healthy"))?;
        compare(&network.members, &updates, &mut routers, &mut findings)?;
    }
    summarise(run, &findings, killed);
    Ok(())
}

fn summarise(run: &mut Run, findings: &Findings, [members, nodes]: [usize; 2]) {
    run.rows.push(json!({
        "members_killed": members,
        "nodes_killed": nodes,
        "acknowledged": findings.acknowledged,
        "farewells": findings.farewells,
        "comparisons": findings.comparisons,
        "divergent": findings.divergent,
    }));
    run.summarise("kills", members + nodes);
    run.summarise("acknowledged", findings.acknowledged);
    run.summarise("acknowledged_lost", findings.lost);
    run.summarise("farewells_undone", findings.undone);
    run.summarise("members_divergent", findings.divergent.len());
    for name in ["acknowledged_lost", "farewells_undone", "members_divergent"] {
        run.require_bound(name);
    }
}

/// Kills members and nodes in turn of chance, `count` in all, and starts each again; the numbers of both.
fn kill(members: &mut [Member], count: usize, seed: u64) -> Result<[usize; 2]> {
    let (mut rng, mut killed) = (Entropy::seed_from_u64(seed), [0, 0]);
    let mut between = |(least, most): (u64, u64)| least + rng.below(most - least);
    for _ in 0..count {
        sleep(Duration::from_millis(between(PAUSE)));
        let which = usize::try_from(between((0, MEMBERS as u64)))?;
        let (is_node, down) = (between((0, 2)) == 1, Duration::from_millis(between(DOWN)));
        let member = members.get_mut(which).context("no such member")?;
        if is_node {
            member.store.kill();
            sleep(down);
            member.store.spawn()?;
            killed[1] += 1;
        } else {
            member.daemon.kill();
            sleep(down);
            member.daemon.spawn()?;
            killed[0] += 1;
        }
    }
    Ok(killed)
}

/// Mobile routers send 500 updates a second, each at a member of chance, until `stop`; answers are noted.
fn load(
    updates: &mut FleetUpdates,
    routers: &mut [Router],
    findings: &mut Findings,
    rng: &mut Entropy,
    stop: &AtomicBool,
) -> Result<()> {
    let mut next = clock::now();
    while !stop.load(Ordering::Relaxed) {
        next += INTERVAL;
        let chosen = u32::try_from(rng.below(u64::from(ROUTERS)))?;
        let router = routers.get_mut(chosen as usize).context("no such router")?;
        if router.waits_since.is_none_or(|since| since.elapsed() > PATIENCE) {
            let place = u32::try_from(rng.below(PLACES))?;
            let update = updates.update(chosen, place, rng.below(FAREWELLS) == 0)?;
            router.waits_since = Some(clock::now());
            router.sent.push(update.clone());
            updates.send(usize::try_from(rng.below(MEMBERS as u64))?, &update.packet)?;
        }
        note(updates, routers, findings);
        sleep(next.saturating_duration_since(clock::now()));
    }
    // The last answers.
    sleep(Duration::from_secs(3));
    note(updates, routers, findings);
    routers.iter_mut().for_each(|router| router.waits_since = None);
    Ok(())
}

/// Notes which updates were acknowledged.
fn note(updates: &mut FleetUpdates, routers: &mut [Router], findings: &mut Findings) {
    for answer in updates.answers() {
        let Some(router) = routers.get_mut(answer.router as usize) else { continue };
        let Some(place) = router.sent.iter().position(|update| update.sequence == answer.sequence) else { continue };
        router.waits_since = None;
        if !answer.accepts() {
            continue;
        }
        findings.acknowledged += 1;
        router.acknowledged = router.sent.get(place).cloned();
        findings.farewells += u64::from(router.acknowledged.as_ref().is_some_and(|update| update.is_farewell));
        router.sent.drain(..=place);
    }
}

/// Compares what was acknowledged with the store, and the store with every member.
fn compare(members: &[Member], updates: &FleetUpdates, routers: &mut [Router], findings: &mut Findings) -> Result<()> {
    findings.comparisons += 1;
    let stored = members.first().context("no members")?.stored()?;
    for (number, router) in routers.iter().enumerate() {
        let Some(last) = &router.acknowledged else { continue };
        let state = stored.get(&home_address(u32::try_from(number)?).0.to_string());
        let of = |update: &Update| {
            let care_of = updates.care_of(update.router, update.place).0.to_string();
            (!update.is_farewell).then(|| (u64::from(update.sequence.0), care_of))
        };
        // An update after it may have taken effect without an answer.
        let is_kept = [last].into_iter().chain(&router.sent).any(|update| of(update).as_ref() == state);
        match (is_kept, last.is_farewell) {
            (false, true) => findings.undone += 1,
            (false, false) => findings.lost += 1,
            (true, _) => {}
        }
    }
    findings.divergent.extend(differing_from_store(members)?);
    Ok(())
}
