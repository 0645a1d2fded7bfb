//! Encryption by one switch (docs/encryption.md): what an observer of the visited links reads, what moves and the renewal of
//! session keys lose, how much later than without encryption packets pass, what replays and downgrades reach, what paths cost a
//! home agent, and the instructions for each packet beside those of WireGuard alone. On a kernel without WireGuard each part runs in a
//! virtual machine.

mod attacks;
mod cost;
mod moves;
mod paths;
mod registrations;
mod testbed;

use crate::experiments::prelude::*;
use crate::experiments::virtual_machine::{self, Measured};
use crate::topology::chain::Forwarding;

/// The longest time of a part in a virtual machine, in a quick and in a full run.
const LIMITS: [Duration; 2] = [Duration::from_secs(2400), Duration::from_secs(14_400)];

/// A part: its name, the number of its steps, and what it measures.
type Part = (&'static str, fn(&Run) -> usize, fn(&mut Run) -> Result<()>);

/// The part that always runs in a virtual machine.
const INSTRUCTIONS: &str = "instructions";
/// All others.
const PARTS: [Part; 5] = [
    ("moves and restarts", moves::steps, moves::measure),
    ("two uplinks, planned moves", paths::planned_steps, paths::move_planned),
    ("two uplinks, renewal of keys", |_| paths::RENEWAL_STEPS, paths::renew_keys),
    ("replay and downgrade", |_| attacks::STEPS, attacks::measure),
    ("1000 mobile routers", |_| registrations::STEPS, registrations::measure),
];
/// Their figures: one that is absent was not measured.
const FIGURES: [&str; 10] = [
    "plaintext_packets",
    "first_packet_added_ms",
    "hard_gap_added_ms_p50",
    "planned_lost",
    "rekey_lost",
    "weights_both_carry",
    "downgraded",
    "replayed_accepted",
    "registered_1000_s",
    "kb_per_path",
];

/// The key of the reason why nothing was measured.
const ABSENT: &str = "absent";

/// The names of all parts.
pub(super) fn parts() -> impl Iterator<Item = &'static str> {
    PARTS.into_iter().map(|(name, ..)| name).chain([INSTRUCTIONS])
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let missing = Forwarding::WireGuard.unavailable_reason()?;
    if clock::is_emulated() {
        match missing {
            Some(why) => skip(run, &why),
            None if run.selects(INSTRUCTIONS) => cost::measure(run)?,
            None => run_parts(run),
        }
        return Ok(());
    }
    if missing.is_none() {
        run_parts(run);
    }
    let elsewhere = parts().filter(|name| missing.is_some() || *name == INSTRUCTIONS);
    for name in elsewhere.filter(|name| run.selects(name)).collect::<Vec<_>>() {
        measure_elsewhere(run, name);
    }
    if run.part.is_none() && !run.summary.contains_key(ABSENT) {
        require_figures(run, FIGURES.map(str::to_owned));
    }
    Ok(())
}

/// Runs the parts. One that fails is a fault, and hides no figure of another one.
fn run_parts(run: &mut Run) {
    let selected: Vec<&Part> = PARTS.iter().filter(|(name, ..)| run.selects(name)).collect();
    run.set_steps(selected.iter().map(|(_, steps, _)| steps(run)).sum());
    for (name, _, part) in selected {
        run.run_part(name, *part);
    }
}

/// A figure that was not measured is a fault with its name.
fn require_figures(run: &mut Run, names: impl IntoIterator<Item = String>) {
    for name in names {
        let is_measured = run.summary.get(&name).is_some_and(|value| !value.is_null());
        run.require(is_measured, || format!("{name} was not measured"));
    }
}

fn measure_elsewhere(run: &mut Run, part: &str) {
    eprintln!("{part}, in a virtual machine");
    let limit = testbed::pick(run, LIMITS);
    let measured = if part == INSTRUCTIONS { Measured::Instructions } else { Measured::Times };
    match virtual_machine::run_part_again(run, part, measured, limit) {
        Ok(Ok(result)) => virtual_machine::take_over(run, &result),
        Ok(Err(why)) => skip(run, &why),
        Err(error) => run.faults.push(format!("{part}, in the virtual machine: {error:#}")),
    }
}

/// Nothing was measured, and that is no success.
fn skip(run: &mut Run, why: &str) {
    let why = why.trim_start_matches("skipped: ");
    println!("skipped: nemo/encrypted: {why}");
    run.summarise(ABSENT, why);
    run.faults.push(format!("skipped: {why}"));
}
