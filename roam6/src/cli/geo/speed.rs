//! `roam6 geo cert speed`: signatures made and verified a second on one core of this machine, by the functions that the daemon
//! calls.

use crate::cli::output::{print, to_json};
use crate::exit::Failure;
use core::time::Duration;
use nix::time::{ClockId, clock_gettime};
use p256::SecretKey;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use roam6_linux::signature::{SigningKeys, verify};
use roam6_proto::contract::signature::{SignatureAlgorithm, SigningRequest, VerificationRequest};
use rsa::rand_core::OsRng;
use serde::Serialize;
use std::process::ExitCode;

/// CPU time of each measurement.
const SPAN: Duration = Duration::from_secs(1);
/// Operations between two looks at the clock.
const BATCH: u32 = 64;

#[derive(Debug, Serialize)]
struct Speed {
    /// Signatures a second of CPU time.
    sign_per_s: f64,
    /// Verifications a second of CPU time.
    verify_per_s: f64,
}

/// Measures the speed.
///
/// # Errors
/// A signature is not valid, or the clock cannot be read.
pub(super) fn speed(json: bool) -> Result<ExitCode, Failure> {
    let key = SecretKey::random(&mut OsRng);
    let public = key.public_key().to_encoded_point(false);
    let mut keys = SigningKeys::default();
    keys.insert([0; 8], &key.to_bytes(), public.as_bytes()).map_err(Failure::Other)?;
    let request = SigningRequest { id: 0, certificate: vec![0; 8], message: vec![7; 64] };
    let sign_per_s = per_second(|| !keys.sign(&request).signature.is_empty())?;
    let request = VerificationRequest {
        id: 0,
        algorithm: SignatureAlgorithm::EcdsaP256Sha256,
        key: public.as_bytes().to_vec(),
        signature: keys.sign(&request).signature,
        message: request.message,
    };
    let verify_per_s = per_second(|| verify(&request).valid)?;
    let speed = Speed { sign_per_s: sign_per_s.round(), verify_per_s: verify_per_s.round() };
    let text = || {
        let Speed { sign_per_s, verify_per_s } = speed;
        format!("{sign_per_s} signatures and {verify_per_s} verifications a second (ECDSA, NIST P-256, one core)\n")
    };
    Ok(print(&if json { to_json(&speed) } else { text() }))
}

/// How often `act` succeeds in a second of CPU time of this thread.
fn per_second(mut act: impl FnMut() -> bool) -> Result<f64, Failure> {
    let begin = cpu_time()?;
    let (mut count, mut spent) = (0_u32, Duration::ZERO);
    while spent < SPAN {
        for _ in 0..BATCH {
            if !act() {
                return Err(Failure::Other("a signature is not valid".to_owned()));
            }
        }
        count = count.saturating_add(BATCH);
        spent = cpu_time()?.saturating_sub(begin);
    }
    Ok(f64::from(count) / spent.as_secs_f64())
}

fn cpu_time() -> Result<Duration, Failure> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_err(|error| Failure::Other(error.to_string()))?;
    Ok(Duration::from(time))
}
