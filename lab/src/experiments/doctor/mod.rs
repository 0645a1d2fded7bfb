//! `roam6 doctor` of real daemons: faults are made one by one, each in a scene of its own, and the first that is named at either
//! end is compared with what was made. A healthy system is examined after nothing, a handover, a reload, and restarts.

mod faults;
mod scene;

use crate::experiments::prelude::*;
use crate::threads::Shared;
use faults::{Asked, Expected, FaultCase};
use scene::{Scene, Verdict};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Scenes at once: they mostly wait.
const SCENES: usize = 4;
/// How long a fault may take to stop traffic.
const LONGEST: Duration = Duration::from_secs(10);
/// How long after that an operator asks.
const REACTION: Duration = Duration::from_secs(5);
/// Examinations of a healthy system, in full and in quick runs.
const HEALTHY_RUNS: (usize, usize) = (100, 12);
/// How long after an event a healthy system is examined, seconds.
const DELAYS: [u64; 6] = [1, 2, 4, 8, 15, 30];

pub(super) fn run(run: &mut Run) -> Result<()> {
    let cases: Vec<&FaultCase> = faults::ALL.iter().filter(|case| case.quick || !run.quick).collect();
    let (full, quick) = HEALTHY_RUNS;
    let healthy = if run.quick { quick } else { full };
    run.set_steps(cases.len() + healthy);
    let (next, done) = (AtomicUsize::new(0), Shared::<Vec<Value>>::default());
    let steps: &Run = run;
    thread::scope(|scope| {
        for worker in 0..SCENES {
            let (next, done, cases) = (&next, &done, &cases);
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    steps.step(case.name);
                    let failed = |error: anyhow::Error| json!({ "fault": case.name, "error": format!("{error:#}") });
                    let row = examine_fault(worker, case).unwrap_or_else(failed);
                    done.lock().push(row);
                }
                let share = healthy / SCENES;
                if let Err(error) = examine_healthy(steps, worker, share, done) {
                    done.lock().push(json!({ "healthy_after": "nothing", "error": format!("{error:#}") }));
                }
            });
        }
    });
    run.rows = std::mem::take(&mut *done.lock());
    summarise(run);
    Ok(())
}

/// Makes a fault, and asks the doctor at both ends.
fn examine_fault(worker: usize, case: &FaultCase) -> Result<Value> {
    let mut scene = Scene::build(worker, case.plan)?;
    (case.make)(&mut scene)?;
    let ceased = match case.asked {
        Asked::AtOnce => false,
        Asked::After(seconds) => {
            sleep(Duration::from_secs(seconds));
            false
        }
        Asked::Ceased => {
            let ceased = clock::wait_for(LONGEST, || (!scene.is_connected()).then_some(())).is_some();
            sleep(REACTION);
            ceased
        }
    };
    let [van, vps] = scene.examine()?;
    let named = is_right(case.van, &van) && is_right(case.vps, &vps);
    Ok(json!({
        "fault": case.name,
        "expected_van": format!("{:?}", case.van), "expected_vps": format!("{:?}", case.vps),
        "van": van.fault, "vps": vps.fault, "van_says": van.text, "vps_says": vps.text,
        "named": named, "healthy": van.is_healthy && vps.is_healthy, "traffic_ceased": ceased,
        "seconds": van.seconds.max(vps.seconds),
    }))
}

/// Whether the doctor says what it shall.
fn is_right(expected: Expected, said: &Verdict) -> bool {
    match expected {
        Expected::Any => true,
        Expected::NoFault => said.fault.is_none(),
        Expected::Fault(id) => said.fault.as_deref() == Some(id),
        Expected::Warning(id) => said.fault.is_none() && said.warnings.iter().any(|warning| warning == id),
    }
}

/// Examines a healthy system so many times.
fn examine_healthy(run: &Run, worker: usize, times: usize, done: &Shared<Vec<Value>>) -> Result<()> {
    let mut scene = Scene::build(worker, |_| {})?;
    for number in 0..times {
        // Half of the times nothing has happened.
        let (event, make) = EVENTS.get(number / 2 % EVENTS.len()).filter(|_| number % 2 == 1).unwrap_or(&QUIET);
        run.step(&format!("healthy, after {event}"));
        make(&mut scene, number / 2)?;
        scene.wait_until_connected()?;
        if number % 2 == 1 {
            let delay = DELAYS.get((number / 2 + worker) % DELAYS.len()).copied().unwrap_or_default();
            sleep(Duration::from_secs(delay));
        }
        let [van, vps] = scene.examine()?;
        done.lock().push(json!({
            "healthy_after": event, "van": van.fault, "vps": vps.fault, "van_says": van.text, "vps_says": vps.text,
            "alarm": van.fault.is_some() || vps.fault.is_some(), "seconds": van.seconds.max(vps.seconds),
        }));
    }
    Ok(())
}

/// What happens to a healthy system; the number counts the events.
type Event = fn(&mut Scene, usize) -> Result<()>;

const QUIET: (&str, Event) = ("nothing", |_, _| Ok(()));

const EVENTS: [(&str, Event); 5] = [
    ("a handover", |scene, number| {
        let [first, second] = scene.access;
        let link = if (number / EVENTS.len()).is_multiple_of(2) { second } else { first };
        scene.emulator.plug(scene.uplink, link).map(drop)
    }),
    ("an attachment", |scene, _| scene.van.ip(&["link set up0 down", "link set up0 up"])),
    ("a reload", |scene, _| scene.router.reload()),
    ("a restart of the mobile router", |scene, _| scene.restart_van(str::to_owned)),
    ("a restart of the home agent", |scene, _| scene.restart_vps(str::to_owned)),
];

fn summarise(run: &mut Run) {
    let is = |row: &&Value, key: &str| row.get(key) == Some(&Value::Bool(true));
    let text = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (faults, healthy): (Vec<&Value>, Vec<&Value>) = run.rows.iter().partition(|row| row.get("fault").is_some());
    let named = faults.iter().filter(|row| is(row, "named")).count();
    let missed: Vec<String> = faults.iter().filter(|row| !is(row, "named")).map(|row| text(row, "fault")).collect();
    let well: Vec<String> = faults.iter().filter(|row| is(row, "healthy")).map(|row| text(row, "fault")).collect();
    let alarms = healthy.iter().filter(|row| is(row, "alarm")).count();
    let seconds = run.rows.iter().filter_map(|row| row.get("seconds")?.as_f64()).fold(0.0, f64::max);
    let (made, examined) = (faults.len(), healthy.len());
    let errors: Vec<String> = run.rows.iter().filter(|row| row.get("error").is_some()).map(Value::to_string).collect();
    run.summarise("faults", made);
    run.summarise("named_first_try", round(named as f64 / made.max(1) as f64));
    run.summarise("called_healthy", well.len());
    run.summarise("healthy_runs", examined);
    run.summarise("false_alarms", alarms);
    run.summarise("seconds_max", seconds);
    run.summarise("not_named_first", missed);
    run.require(errors.is_empty(), || format!("scenes that could not be made: {}", errors.join(", ")));
    run.require(well.is_empty(), || format!("called healthy: {}", well.join(", ")));
    run.require(alarms == 0, || format!("{alarms} false alarms in {examined} examinations of a healthy system"));
}
