//! Encryption by one switch (docs/encryption.md): what an observer of the visited links reads, what moves and the renewal of
//! session keys lose, how much later than without encryption packets pass, what replays and downgrades reach, and the instructions
//! for each packet beside those of WireGuard alone. On a kernel without WireGuard it runs itself in a virtual machine.

mod attacks;
mod cost;
mod moves;
mod paths;
mod testbed;

use crate::experiments::prelude::*;
use crate::experiments::virtual_machine::{self, Processors};
use crate::run::Part;
use crate::topology::chain::Forwarding;

/// The longest time of a virtual machine, in a quick and in a full run.
const LIMITS: [Duration; 2] = [Duration::from_secs(900), Duration::from_secs(5400)];

/// All but the instructions.
const PARTS: [Part; 4] = [
    ("moves and restarts", moves::measure),
    ("two uplinks, planned moves", paths::move_planned),
    ("two uplinks, renewal of session keys", paths::renew_keys),
    ("replay and downgrade", attacks::measure),
];

pub(super) fn run(run: &mut Run) -> Result<()> {
    if clock::counts_instructions() {
        return cost::measure(run);
    }
    let missing = Forwarding::WireGuard.unavailable_reason()?;
    if virtual_machine::is_inside() {
        if let Some(why) = missing {
            skip(run, &why);
        } else {
            run.run_parts(&PARTS);
        }
        return Ok(());
    }
    match missing {
        None => run.run_parts(&PARTS),
        Some(_) => measure_elsewhere(run, Processors::Timed),
    }
    measure_elsewhere(run, Processors::Counted);
    Ok(())
}

fn measure_elsewhere(run: &mut Run, processors: Processors) {
    let limit = testbed::pick(run, LIMITS);
    match virtual_machine::run_again(run, processors, limit) {
        Ok(Ok(result)) => virtual_machine::take_over(run, &result),
        Ok(Err(why)) => skip(run, &why),
        Err(error) => run.faults.push(format!("in the virtual machine: {error:#}")),
    }
}

/// Nothing was measured, and that is no success.
fn skip(run: &mut Run, why: &str) {
    let why = why.trim_start_matches("skipped: ");
    println!("skipped: nemo/encrypted: {why}");
    run.summarise("absent", why);
    run.faults.push(format!("skipped: {why}"));
}
