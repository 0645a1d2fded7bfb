//! `roam6 cga speed`: hash rate of each implementation, and the time that each Sec value takes on this machine.

use super::progress_meter::format_seconds;
use crate::cli::output::{print, table_style, to_json};
use crate::render::table::Table;
use nix::time::{ClockId, clock_gettime};
use roam6_cga_search::{Job, Method};
use roam6_proto::crypto::cga::Sec;
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;

/// Name, octets hashed, and offset of the counter: an HBA set of two prefixes without a key, and CGAs by type of key.
const INPUTS: [(&str, usize, usize); 5] = [
    ("hba", 127, 80),
    ("cga p256", 116, 0),
    ("cga rsa-1024", 187, 0),
    ("cga rsa-2048", 319, 0),
    ("cga rsa-3072", 447, 0),
];
/// Candidates in one round, and rounds; the best counts, because other processes use the processor as well.
const CANDIDATES_PER_ROUND: u64 = 1 << 20;
const ROUNDS: u64 = 5;

#[derive(Serialize)]
struct Speed {
    input: &'static str,
    octets: usize,
    method: String,
    /// Rate of one thread, in processor time.
    hashes_per_s: f64,
    /// Expected duration with one thread.
    sec1_seconds: f64,
    sec2_seconds: f64,
}

pub(super) fn run(json: bool) -> ExitCode {
    let methods = Method::available();
    let all = INPUTS.iter().flat_map(|input| methods.iter().filter_map(|method| measure(*input, *method)));
    let speeds: Vec<Speed> = all.collect();
    if json {
        return print(&to_json(&speeds));
    }
    let table = Table::of(
        &speeds,
        &[
            ("INPUT", |speed| speed.input.to_owned()),
            ("OCTETS", |speed| speed.octets.to_string()),
            ("METHOD", |speed| speed.method.clone()),
            ("MILLION/S", |speed| format!("{:.1}", speed.hashes_per_s / 1e6)),
            ("SEC 1", |speed| format_seconds(speed.sec1_seconds)),
            ("SEC 2", |speed| format_seconds(speed.sec2_seconds)),
        ],
    );
    print(&table.render(table_style()))
}

fn measure((input, octets, at): (&'static str, usize, usize), method: Method) -> Option<Speed> {
    let sec2 = Sec::new(2)?;
    let job = Job::new(&vec![0; octets], at, sec2)?;
    let mut rate = 0_f64;
    for round in 0..ROUNDS {
        let before = processor_time();
        // A hit would end the round early; these inputs have none.
        std::hint::black_box(job.scan(method, round * CANDIDATES_PER_ROUND..(round + 1) * CANDIDATES_PER_ROUND));
        rate = rate.max(CANDIDATES_PER_ROUND as f64 / processor_time().saturating_sub(before).as_secs_f64());
    }
    let seconds = |sec: Sec| sec.expected_tries() as f64 / rate;
    Some(Speed {
        input,
        octets,
        method: method.to_string(),
        hashes_per_s: rate.round(),
        sec1_seconds: seconds(Sec::new(1)?),
        sec2_seconds: seconds(sec2),
    })
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
