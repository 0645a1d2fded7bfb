//! Duration of a context establishment, from I1 to R2, by address proof and number of locators (the paper's Fig 7). All
//! pairs of hosts exist at the same time and are measured in turn.

use super::Experiment;
use crate::clock;
use crate::figures::{Findings, percentile, round, spread};
use crate::progress::Progress;
use crate::shim6::neighbours::{Neighbours, Proof};
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment =
    Experiment { name: "shim6/negotiation", about: "I1 to R2: no proof, HBA, CGA; 2, 5 and 10 locators", run };

const PROOFS: [Proof; 7] = [
    Proof::None,
    Proof::Hba,
    Proof::HbaWithKey("rsa-2048"),
    Proof::Cga("p256"),
    Proof::Cga("rsa-1024"),
    Proof::Cga("rsa-2048"),
    Proof::Cga("rsa-3072"),
];
const QUICK: [Proof; 3] = [Proof::None, Proof::Hba, Proof::Cga("rsa-2048")];
/// Numbers of locators in ascending order.
const COUNTS: [u8; 3] = [2, 5, 10];
/// Flows are reported to the engine once a second.
const TURN: Duration = Duration::from_millis(1100);

/// One pair of hosts.
struct Case {
    proof: Proof,
    locators: u8,
    world: Neighbours,
    /// Milliseconds of each turn.
    times: Vec<f64>,
}

fn run(quick: bool) -> Result<Findings> {
    let (proofs, turns) = if quick { (&QUICK[..], 15) } else { (&PROOFS[..], 100) };
    let mut progress = Progress::new(proofs.len() as u64 * COUNTS.len() as u64 + turns);
    let mut cases = Vec::new();
    for proof in proofs {
        for locators in COUNTS {
            progress.say(&format!("{}, {locators} locators", proof.name()));
            let world = Neighbours::build(*proof, locators, &cases.len().to_string())?;
            cases.push(Case { proof: *proof, locators, world, times: Vec::new() });
            progress.step();
        }
    }
    // The first handshake of a pair includes link-layer address resolution.
    for case in &cases {
        case.world.negotiate()?;
    }
    for _ in 0..turns {
        progress.say("handshakes");
        let began = clock::now();
        for case in &mut cases {
            case.times.push(case.world.negotiate()?.as_secs_f64() * 1000.0);
        }
        std::thread::sleep(TURN.saturating_sub(began.elapsed()));
        progress.step();
    }
    Ok(sum_up(&cases, proofs))
}

fn sum_up(cases: &[Case], proofs: &[Proof]) -> Findings {
    let mut findings = Findings::default();
    for Case { proof, locators, times, .. } in cases {
        let row = json!({ "proof": proof.name(), "locators": locators, "i1_to_r2_ms": spread(times) });
        findings.rows.push(row);
    }
    let hba: Vec<f64> =
        COUNTS.iter().flat_map(|count| ratios(cases, (Proof::Hba, *count), (Proof::None, *count))).collect();
    findings.sum_up("hba_over_none", percentile(&hba, 0.5).map(round));
    let [fewest, .., most] = COUNTS;
    let effect = |proof: &Proof| percentile(&ratios(cases, (*proof, most), (*proof, fewest)), 0.5);
    let effects = proofs.iter().filter(|proof| **proof != Proof::None).filter_map(effect);
    findings.sum_up("locators_effect", round(effects.fold(0.0, f64::max)));
    findings
}

/// Ratios of the durations, turn by turn.
fn ratios(cases: &[Case], of: (Proof, u8), over: (Proof, u8)) -> Vec<f64> {
    let times = |wanted| {
        let case = cases.iter().find(|case| (case.proof, case.locators) == wanted);
        case.map(|case| case.times.as_slice()).unwrap_or_default()
    };
    times(of).iter().zip(times(over)).map(|(one, other)| one / other).collect()
}
