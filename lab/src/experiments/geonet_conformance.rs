//! Conformance of GeoNetworking and of IPv6 over it: purposes in the groups of ETSI TS 102 871-2 and TS 102 859-2, each
//! checked against a roam6 in its initial state.

use crate::conformance::{self, Outcome, Purpose};
use crate::experiments::prelude::*;

/// Purposes that roam6 does not fulfil by choice: docs/geo.md has the reasons.
const ARGUED: [&str; 1] = ["TP/GEONW/PON/SQN/BV-01"];

pub(super) fn run(run: &mut Run) -> Result<()> {
    let purposes = conformance::purposes();
    run.set_steps(purposes.len());
    let outcomes = {
        let progress = &*run;
        conformance::run(&purposes, |purpose| progress.step(&purpose.id))
    };
    for Outcome { purpose, verdict } in &outcomes {
        let Some(purpose) = purposes.get(*purpose) else { continue };
        let is_argued = ARGUED.contains(&purpose.id.as_str());
        run.rows.push(json!({
            "purpose": purpose.id, "clause": purpose.clause, "about": purpose.about,
            "verdict": match verdict { Ok(()) => "pass", Err(_) if is_argued => "argued", Err(_) => "fail" },
            "why": verdict.as_ref().err(),
        }));
        if let Err(why) = verdict {
            run.require(is_argued, || format!("{}: {why}", purpose.id));
        }
    }
    let passed = |wanted: &dyn Fn(&Purpose) -> bool| {
        let all = outcomes.iter().filter(|outcome| purposes.get(outcome.purpose).is_some_and(wanted));
        all.clone().filter(|outcome| outcome.verdict.is_ok()).count()
    };
    run.summarise("purposes", purposes.len());
    run.summarise("purposes_passed", passed(&|_| true));
    run.summarise("purposes_failed", purposes.len() - passed(&|_| true) - ARGUED.len());
    run.summarise("purposes_argued", ARGUED.len());
    run.summarise("ipv6_purposes_passed", passed(&Purpose::is_of_ipv6));
    run.summarise("standard_identifiers", purposes.iter().filter(|it| it.has_standard_identifier()).count());
    Ok(())
}
