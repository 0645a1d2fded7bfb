//! A home agent is killed and restarted, and all its mobile routers register at the same time: time until it answers,
//! time until all have an acknowledgement, and lost bindings.

use crate::bed::{Daemon, sandbox};
use crate::experiments::prelude::*;
use crate::load::registrations::RegistrationLoad;

/// Updates in flight before the storm.
const WINDOW: usize = 64;

pub(super) fn run(run: &mut Run) -> Result<()> {
    let size: u32 = if run.quick { 10_000 } else { 100_000 };
    run.set_steps(3);
    let (folder, kind) = sandbox::disk_dir()?;
    let mut load = RegistrationLoad::start(size, Some(&folder))?;
    run.step(&format!("{size} register, journal {kind}"));
    let all: Vec<u32> = (0..size).collect();
    load.register(&all, WINDOW)?;

    run.step("the home agent is killed");
    load.daemon.kill();
    let began = clock::now();
    load.daemon.spawn()?;
    let ready = began.elapsed();
    let recalled = binding_count(&load.daemon)?;

    run.step("all register at once");
    let began = clock::now();
    let storm = load.register(&all, all.len())?;
    let settled = began.elapsed();
    let left = binding_count(&load.daemon)?;

    run.require(recalled == size, || format!("{recalled} of {size} bindings after the restart"));
    run.require(left == size, || format!("{left} of {size} bindings after the storm"));
    run.rows.push(json!({
        "mobile_routers": size,
        "journal": kind,
        "recalled": recalled,
        "bound_after": left,
        "answer_ms": distribution(&storm.delays),
        "answers_in_vain": storm.late_answers,
    }));
    run.summarise("mobile_routers", size);
    run.summarise("lost_bindings", (size - recalled).max(size - left));
    run.summarise("ready_s", round(ready.as_secs_f64()));
    run.summarise("settled_s", round(settled.as_secs_f64()));
    run.summarise("answer_ms_p50", percentile(&storm.delays, 0.5).map(round));
    run.summarise("updates_per_router", round(storm.sent as f64 / f64::from(size)));
    Ok(())
}

/// The home agent's number of bindings.
fn binding_count(daemon: &Daemon) -> Result<u32> {
    let page = daemon.query(&["metrics"])?;
    let line = page.lines().find_map(|line| line.strip_prefix("roam6_bindings{role=\"home_agent\",state=\"bound\"} "));
    Ok(line.context("no bindings in the metrics")?.trim().parse()?)
}
