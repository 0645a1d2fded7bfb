//! A home agent is killed and restarted, and all its mobile routers register at the same time: time until it answers,
//! time until all have an acknowledgement, and lost bindings.

use crate::bed::{Daemon, sandbox};
use crate::experiments::prelude::*;
use crate::load::registrations::{RegistrationLoad, care_of};
use roam6_wire::CareOfAddress;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Instant;

/// Updates in flight before the storm.
const WINDOW: usize = 64;
/// Updates sent before acknowledgements are read.
const SEND_BURST: usize = 64;
/// Retransmission timeouts of a mobile router: initial, doubled each time, and maximum (RFC 6275 §12).
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(32);
/// Timeout of the storm.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(super) fn run(run: &mut Run) -> Result<()> {
    let size: u32 = if run.quick { 10_000 } else { 100_000 };
    run.set_steps(3);
    let (folder, kind) = sandbox::disk_dir()?;
    let mut load = RegistrationLoad::start(size, Some(&folder))?;
    run.step(&format!("{size} register, journal {kind}"));
    load.register(&(0..size).collect::<Vec<_>>(), WINDOW)?;

    run.step("the home agent is killed");
    load.daemon.kill();
    let began = clock::now();
    load.daemon.spawn()?;
    let ready = began.elapsed();
    let recalled = binding_count(&load.daemon)?;

    run.step("all register at once");
    let storm = Storm::run_storm(&mut load)?;
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
    run.summarise("settled_s", round(storm.duration.as_secs_f64()));
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

/// The result.
struct Storm {
    duration: Duration,
    /// From the first update of all mobile routers to the acknowledgement of each one's last update, milliseconds.
    delays: Vec<f64>,
    sent: u64,
    /// Acknowledgements of updates that had already been retransmitted.
    late_answers: u64,
    waiting: BTreeMap<CareOfAddress, Waiting>,
    due: BinaryHeap<Reverse<(Instant, u32)>>,
}

struct Waiting {
    number: u32,
    since: Instant,
    timeout: Duration,
}

impl Storm {
    fn run_storm(load: &mut RegistrationLoad) -> Result<Storm> {
        let mut storm = Storm {
            duration: Duration::ZERO,
            delays: Vec::new(),
            sent: 0,
            late_answers: 0,
            waiting: BTreeMap::new(),
            due: BinaryHeap::new(),
        };
        let began = clock::now();
        for number in 0..load.size {
            let waiting = Waiting { number, since: began, timeout: INITIAL_TIMEOUT };
            storm.waiting.insert(care_of(number), waiting);
            storm.send(load, number, INITIAL_TIMEOUT)?;
            if storm.sent.is_multiple_of(SEND_BURST as u64) {
                storm.receive_answers(load)?;
            }
        }
        while !storm.waiting.is_empty() {
            if began.elapsed() > TIMEOUT {
                bail!("{} mobile routers have no acknowledgement after {} s", storm.waiting.len(), TIMEOUT.as_secs());
            }
            load.taps.uplink.wait(20);
            storm.receive_answers(load)?;
            storm.retransmit(load)?;
        }
        storm.duration = began.elapsed();
        Ok(storm)
    }

    fn send(&mut self, load: &mut RegistrationLoad, number: u32, timeout: Duration) -> Result<()> {
        load.send_update(number)?;
        self.sent += 1;
        self.due.push(Reverse((clock::now() + timeout, number)));
        Ok(())
    }

    /// Only acknowledgements of the last update count, as at a mobile router (RFC 6275 §11.7.3).
    fn receive_answers(&mut self, load: &mut RegistrationLoad) -> Result<()> {
        while let Some((to, sequence)) = load.next_acknowledgement()? {
            let Some(waiting) = self.waiting.get(&to) else { continue };
            if load.sequences.get(waiting.number as usize) == Some(&sequence) {
                self.delays.push(waiting.since.elapsed().as_secs_f64() * 1000.0);
                self.waiting.remove(&to);
            } else {
                self.late_answers += 1;
            }
        }
        Ok(())
    }

    fn retransmit(&mut self, load: &mut RegistrationLoad) -> Result<()> {
        for _ in 0..SEND_BURST {
            let Some(Reverse((_, number))) = self.due.peek().copied().filter(|Reverse((at, _))| *at <= clock::now())
            else {
                break;
            };
            self.due.pop();
            if let Some(waiting) = self.waiting.get_mut(&care_of(number)) {
                waiting.timeout = (waiting.timeout * 2).min(MAX_TIMEOUT);
                let timeout = waiting.timeout;
                self.send(load, number, timeout)?;
            }
        }
        Ok(())
    }
}
