//! A home agent is killed and restarted, and all its mobile routers register at the same time: time until it answers,
//! time until all have an acknowledgement, and lost bindings.

use super::Experiment;
use crate::bed::{Daemon, cage};
use crate::clock;
use crate::crowd::{Crowd, care_of};
use crate::figures::{Findings, percentile, round, spread};
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use roam6_wire::CareOfAddress;
use serde_json::json;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "nemo/storm",
    about: "100 000 mobile routers register at once after the home agent was killed",
    run,
};

/// Updates in flight before the storm.
const WINDOW: usize = 64;
/// Updates sent before acknowledgements are read.
const GUST: usize = 64;
/// Retransmission timeouts of a mobile router: initial, doubled each time, and maximum (RFC 6275 §12).
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(32);
/// Timeout of the storm.
const PATIENCE: Duration = Duration::from_secs(120);

fn run(quick: bool) -> Result<Findings> {
    let size: u32 = if quick { 10_000 } else { 100_000 };
    let mut progress = Progress::new(3);
    let (folder, kind) = cage::disk()?;
    let mut crowd = Crowd::gather(size, Some(&folder))?;
    progress.say(&format!("{size} register, journal {kind}"));
    crowd.register(&(0..size).collect::<Vec<_>>(), WINDOW)?;
    progress.step();

    progress.say("the home agent is killed");
    crowd.daemon.kill();
    let began = clock::now();
    crowd.daemon.run()?;
    let ready = began.elapsed();
    let recalled = bound(&crowd.daemon)?;
    progress.step();

    progress.say("everybody at once");
    let storm = Storm::rage(&mut crowd)?;
    let left = bound(&crowd.daemon)?;
    progress.step();

    let mut findings = Findings::default();
    findings.require(recalled == size, || format!("{recalled} of {size} bindings after the restart"));
    findings.require(left == size, || format!("{left} of {size} bindings after the storm"));
    findings.rows.push(json!({
        "mobile_routers": size,
        "journal": kind,
        "recalled": recalled,
        "bound_after": left,
        "answer_ms": spread(&storm.delays),
        "answers_in_vain": storm.in_vain,
    }));
    findings.sum_up("mobile_routers", size);
    findings.sum_up("lost_bindings", (size - recalled).max(size - left));
    findings.sum_up("ready_s", round(ready.as_secs_f64()));
    findings.sum_up("settled_s", round(storm.lasted.as_secs_f64()));
    findings.sum_up("answer_ms_p50", percentile(&storm.delays, 0.5).map(round));
    findings.sum_up("updates_per_router", round(storm.sent as f64 / f64::from(size)));
    Ok(findings)
}

/// The home agent's number of bindings.
fn bound(daemon: &Daemon) -> Result<u32> {
    let page = daemon.ask(&["metrics"])?;
    let line = page.lines().find_map(|line| line.strip_prefix("roam6_bindings{role=\"home_agent\",state=\"bound\"} "));
    Ok(line.context("no bindings in the metrics")?.trim().parse()?)
}

/// The result.
struct Storm {
    lasted: Duration,
    /// From the first update of all mobile routers to the acknowledgement of each one's last update, milliseconds.
    delays: Vec<f64>,
    sent: u64,
    /// Acknowledgements of updates that had already been retransmitted.
    in_vain: u64,
    waiting: BTreeMap<CareOfAddress, Waiting>,
    due: BinaryHeap<Reverse<(Instant, u32)>>,
}

struct Waiting {
    number: u32,
    since: Instant,
    timeout: Duration,
}

impl Storm {
    fn rage(crowd: &mut Crowd) -> Result<Storm> {
        let mut storm = Storm {
            lasted: Duration::ZERO,
            delays: Vec::new(),
            sent: 0,
            in_vain: 0,
            waiting: BTreeMap::new(),
            due: BinaryHeap::new(),
        };
        let began = clock::now();
        for number in 0..crowd.size {
            let waiting = Waiting { number, since: began, timeout: INITIAL_TIMEOUT };
            storm.waiting.insert(care_of(number), waiting);
            storm.send(crowd, number, INITIAL_TIMEOUT)?;
            if storm.sent.is_multiple_of(GUST as u64) {
                storm.hear(crowd)?;
            }
        }
        while !storm.waiting.is_empty() {
            if began.elapsed() > PATIENCE {
                bail!("{} mobile routers have no answer after {} s", storm.waiting.len(), PATIENCE.as_secs());
            }
            crowd.sides.uplink.wait(20);
            storm.hear(crowd)?;
            storm.repeat(crowd)?;
        }
        storm.lasted = began.elapsed();
        Ok(storm)
    }

    fn send(&mut self, crowd: &mut Crowd, number: u32, timeout: Duration) -> Result<()> {
        crowd.send(number)?;
        self.sent += 1;
        self.due.push(Reverse((clock::now() + timeout, number)));
        Ok(())
    }

    /// Only acknowledgements of the last update count, as at a mobile router (RFC 6275 §11.7.3).
    fn hear(&mut self, crowd: &mut Crowd) -> Result<()> {
        while let Some((to, sequence)) = crowd.hear()? {
            let Some(waiting) = self.waiting.get(&to) else { continue };
            if crowd.sequences.get(waiting.number as usize) == Some(&sequence) {
                self.delays.push(waiting.since.elapsed().as_secs_f64() * 1000.0);
                self.waiting.remove(&to);
            } else {
                self.in_vain += 1;
            }
        }
        Ok(())
    }

    fn repeat(&mut self, crowd: &mut Crowd) -> Result<()> {
        for _ in 0..GUST {
            let Some(Reverse((_, number))) = self.due.peek().copied().filter(|Reverse((at, _))| *at <= clock::now())
            else {
                break;
            };
            self.due.pop();
            if let Some(waiting) = self.waiting.get_mut(&care_of(number)) {
                waiting.timeout = (waiting.timeout * 2).min(MAX_TIMEOUT);
                let timeout = waiting.timeout;
                self.send(crowd, number, timeout)?;
            }
        }
        Ok(())
    }
}
