//! A campus server with millions of flows a day, in virtual time: simultaneous contexts by idle timeout (the paper's
//! Fig 11). The results are reproducible.

use crate::experiments::prelude::*;
use roam6_sim::campus::{self, ServerLoad, Trace, TraceSpec};

/// Idle timeouts of contexts, seconds.
const TIMEOUTS: [u64; 6] = [5, 10, 30, 60, 120, 300];
const QUICK: [u64; 2] = [10, 60];
/// Seed of the random generator.
const SEED: u64 = 2010;

pub(super) fn run(run: &mut Run) -> Result<()> {
    let (timeouts, flows) = if run.quick { (&QUICK[..], 100_000) } else { (&TIMEOUTS[..], 3_000_000) };
    // A shorter day has the same flow rate.
    let usual = TraceSpec { flows: 3_000_000, ..TraceSpec::default() };
    let shape = TraceSpec { flows, day: usual.day.mul_f64(flows as f64 / usual.flows as f64), ..usual };
    run.set_steps(timeouts.len());
    for (timeout, busy) in run_parallel(run, timeouts, shape)? {
        run.rows.push(json!({
            "idle_timeout_s": timeout,
            "flows": busy.flows,
            "contexts_made": busy.made,
            "contexts_at_once_max": busy.most,
            "contexts_at_once_p95": busy.p95,
            "contexts_at_once_mean": round(busy.mean),
        }));
        run.summarise(&format!("contexts_at_once_max_after_{timeout}_s"), busy.most);
        run.require(busy.left == 0, || format!("idle timeout {timeout} s: {} contexts left at the end", busy.left));
    }
    Ok(())
}

/// One day for each timeout, as many in parallel as there are processors.
fn run_parallel(run: &Run, timeouts: &[u64], shape: TraceSpec) -> Result<Vec<(u64, ServerLoad)>> {
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    let day = |timeout: u64| {
        run.step(&format!("idle timeout {timeout} s"));
        (timeout, campus::run(Trace::new(shape, SEED), Duration::from_secs(timeout)))
    };
    let mut days = std::thread::scope(|scope| {
        let lane = |lane| timeouts.iter().skip(lane).step_by(lanes).map(|timeout| day(*timeout)).collect::<Vec<_>>();
        let threads: Vec<_> = (0..lanes).map(|number| scope.spawn(move || lane(number))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a simulated day panicked")))
            .collect::<Result<Vec<_>>>()
    })?
    .concat();
    days.sort_by_key(|(timeout, _)| *timeout);
    Ok(days)
}
