//! Duration of a context establishment, from I1 to R2, by address proof and number of locators (the paper's Fig 7). All
//! pairs of hosts exist at the same time and are measured in turn.

use super::Experiment;
use crate::clock;
use crate::findings::{Findings, distribution, percentile, round};
use crate::topology::handshake_pair::{AddressProof, HandshakePair};
use crate::ui::Progress;
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment =
    Experiment { name: "shim6/negotiation", about: "I1 to R2: no proof, HBA, CGA; 2, 5 and 10 locators", run };

const PROOFS: [AddressProof; 7] = [
    AddressProof::None,
    AddressProof::Hba,
    AddressProof::HbaWithKey("rsa-2048"),
    AddressProof::Cga("p256"),
    AddressProof::Cga("rsa-1024"),
    AddressProof::Cga("rsa-2048"),
    AddressProof::Cga("rsa-3072"),
];
const QUICK: [AddressProof; 3] = [AddressProof::None, AddressProof::Hba, AddressProof::Cga("rsa-2048")];
/// Numbers of locators in ascending order.
const COUNTS: [u8; 3] = [2, 5, 10];
/// Flows are reported to the engine once a second.
const TRIGGER_PAUSE: Duration = Duration::from_millis(1100);

/// One pair of hosts.
struct Case {
    proof: AddressProof,
    locators: u8,
    network: HandshakePair,
    /// Milliseconds of each turn.
    times: Vec<f64>,
}

fn run(quick: bool) -> Result<Findings> {
    let (proofs, turns) = if quick { (&QUICK[..], 15) } else { (&PROOFS[..], 100) };
    let mut progress = Progress::new(proofs.len() as u64 * COUNTS.len() as u64 + turns);
    let mut cases = Vec::new();
    for proof in proofs {
        for locators in COUNTS {
            progress.message(&format!("{}, {locators} locators", proof.name()));
            let network = HandshakePair::build(*proof, locators, &cases.len().to_string())?;
            cases.push(Case { proof: *proof, locators, network, times: Vec::new() });
            progress.step();
        }
    }
    // The first handshake of a pair includes link-layer address resolution.
    for case in &cases {
        case.network.negotiate()?;
    }
    for _ in 0..turns {
        progress.message("handshakes");
        let began = clock::now();
        for case in &mut cases {
            case.times.push(case.network.negotiate()?.as_secs_f64() * 1000.0);
        }
        std::thread::sleep(TRIGGER_PAUSE.saturating_sub(began.elapsed()));
        progress.step();
    }
    Ok(summarise(&cases, proofs))
}

fn summarise(cases: &[Case], proofs: &[AddressProof]) -> Findings {
    let mut findings = Findings::default();
    for Case { proof, locators, times, .. } in cases {
        let row = json!({ "proof": proof.name(), "locators": locators, "i1_to_r2_ms": distribution(times) });
        findings.rows.push(row);
    }
    let hba: Vec<f64> = COUNTS
        .iter()
        .flat_map(|count| ratios(cases, (AddressProof::Hba, *count), (AddressProof::None, *count)))
        .collect();
    findings.summarise("hba_over_none", percentile(&hba, 0.5).map(round));
    let [fewest, .., most] = COUNTS;
    let effect = |proof: &AddressProof| percentile(&ratios(cases, (*proof, most), (*proof, fewest)), 0.5);
    let effects = proofs.iter().filter(|proof| **proof != AddressProof::None).filter_map(effect);
    findings.summarise("locators_effect", round(effects.fold(0.0, f64::max)));
    findings
}

/// Ratios of the durations, turn by turn.
fn ratios(cases: &[Case], of: (AddressProof, u8), over: (AddressProof, u8)) -> Vec<f64> {
    let times = |wanted| {
        let case = cases.iter().find(|case| (case.proof, case.locators) == wanted);
        case.map(|case| case.times.as_slice()).unwrap_or_default()
    };
    times(of).iter().zip(times(over)).map(|(one, other)| one / other).collect()
}
