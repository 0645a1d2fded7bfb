//! A member that starts while others serve: it is announced when it knows everything, and nothing is lost.

use crate::experiments::prelude::*;
use crate::load::fleet_updates::FleetUpdates;
use crate::topology::fleet::{FleetNetwork, MEMBERS};

/// Updates while it joins, per second.
const INTERVAL: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_secs(120);
/// Packets per second in each direction while it joins.
const RATE: u32 = 500;

pub(super) fn measure(
    run: &mut Run,
    network: &mut FleetNetwork,
    updates: &mut FleetUpdates,
    registered: u32,
) -> Result<()> {
    run.step("a member joins");
    network.member_mut(MEMBERS)?.daemon.kill();
    network.wait_for_routes(MEMBERS - 1)?;
    let train = Train::start([network.vehicle.node(), network.correspondent()], 9300, RATE)?;
    // What changes while it is away, it has to learn.
    updates.register(0..registered.min(1000), 0, 16, |router| router as usize % 2)?;
    let (began, begin) = (clock::now(), clock::unix_micros());
    network.member_mut(MEMBERS)?.daemon.spawn()?;
    let (mut router, mut announced) = (0, None);
    while announced.is_none() {
        ensure!(
            began.elapsed() < TIMEOUT,
            "the member is not announced: {}",
            network.member(MEMBERS)?.daemon.log_tail()
        );
        let update = updates.update(router % registered, 0, false)?;
        updates.send(router as usize % 2, &update.packet)?;
        router += 1;
        updates.answers_within(INTERVAL);
        let member = network.member(MEMBERS)?;
        if member.announced().contains("metric 100") {
            announced = Some((began.elapsed(), member.bindings()?.len(), applied(network, MEMBERS)?));
        }
    }
    let (time, known, applied_then) = announced.context("not announced")?;
    let head = applied(network, 1)?;
    network.wait_all_healthy()?;
    sleep(Duration::from_secs(1));
    let lost = train.lost(begin, clock::unix_micros() - 300_000);
    let expected = network.member(1)?.bindings()?.len();
    run.rows.push(json!({
        "bindings": expected, "joined_s": round(time.as_secs_f64()), "known": known, "applied": applied_then, "head": head,
    }));
    run.summarise("join_bindings", expected);
    run.summarise("join_s", round(time.as_secs_f64()));
    run.summarise("join_missing", expected.saturating_sub(known));
    run.summarise("join_lost", lost);
    run.require_bound("join_missing");
    Ok(())
}

/// Up to which revision a member knows the store.
fn applied(network: &FleetNetwork, number: usize) -> Result<u64> {
    let shown: Value = network.member(number)?.daemon.show("fleet")?;
    shown.get("applied").and_then(Value::as_u64).context("no revision")
}
