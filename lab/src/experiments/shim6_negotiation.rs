//! Duration of a context establishment, from I1 to R2, by address proof and number of locators (the paper's Fig 7). All
//! pairs of hosts exist at the same time and are measured in turn.

use crate::experiments::prelude::*;
use crate::topology::handshake_pair::{AddressProof, HandshakePair};

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

impl Case {
    fn shown_locators(&self) -> u8 {
        if self.proof == AddressProof::None { 1 } else { self.locators }
    }
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let (proofs, turns) = if run.quick { (&QUICK[..], 30) } else { (&PROOFS[..], 100) };
    run.set_steps(proofs.len() * COUNTS.len() + turns);
    let mut cases = Vec::new();
    for proof in proofs {
        // Without a proof there is one locator: each address is used alone.
        let counts = if *proof == AddressProof::None { &COUNTS[..1] } else { &COUNTS[..] };
        for &locators in counts {
            run.step(&format!("{}, {locators} locators", proof.name()));
            let network = HandshakePair::build(*proof, locators, &cases.len().to_string())?;
            cases.push(Case { proof: *proof, locators, network, times: Vec::new() });
        }
    }
    // The first handshake of a pair includes link-layer address resolution.
    for case in &cases {
        case.network.negotiate()?;
    }
    for _ in 0..turns {
        run.step("handshakes");
        let began = clock::now();
        for case in &mut cases {
            case.times.push(case.network.negotiate()?.as_secs_f64() * 1000.0);
        }
        std::thread::sleep(TRIGGER_PAUSE.saturating_sub(began.elapsed()));
    }
    summarise(run, &cases, proofs);
    Ok(())
}

fn summarise(run: &mut Run, cases: &[Case], proofs: &[AddressProof]) {
    let row = |case: &Case| json!({ "proof": case.proof.name(), "locators": case.shown_locators(), "i1_to_r2_ms": distribution(&case.times) });
    run.rows.extend(cases.iter().map(row));
    let [fewest, .., most] = COUNTS;
    let hba = ratios_of(cases, (AddressProof::Hba, fewest), (AddressProof::None, fewest));
    run.estimate("hba_over_none", median(&hba, LEVEL));
    let effect = |proof: &AddressProof| median(&ratios_of(cases, (*proof, most), (*proof, fewest)), LEVEL);
    let effects = proofs.iter().filter(|proof| **proof != AddressProof::None).filter_map(effect);
    run.estimate("locators_effect", Estimate::most(effects));
}

/// Ratios of the durations, turn by turn.
fn ratios_of(cases: &[Case], of: (AddressProof, u8), over: (AddressProof, u8)) -> Vec<f64> {
    let times = |wanted| {
        let case = cases.iter().find(|case| (case.proof, case.locators) == wanted);
        case.map(|case| case.times.as_slice()).unwrap_or_default()
    };
    ratios(times(of), times(over))
}
