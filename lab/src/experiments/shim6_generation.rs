//! Generation of addresses with proof of work: candidates per second compared with OpenSSL's SHA-1 on the same core,
//! and the time of a whole generation (the paper's Fig 6).

use crate::bed::daemon::binary;
use crate::bed::host::run_command as output;
use crate::experiments::prelude::*;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use roam6_cga_search::{Job, Method};
use roam6_proto::crypto::cga::Sec;
use std::collections::BTreeMap;
use std::process::Command;

/// Hides the SHA instructions from OpenSSL (bit 29 of CPUID leaf 7, EBX), to emulate a processor with AVX2 only.
const NO_SHA_MASK: &str = ":~0x20000000";
/// Octets that are hashed for an HBA set of two prefixes without a key, and where the counter is among them.
const HBA_OCTETS: usize = 127;
const HBA_COUNTER_AT: usize = 80;
/// Candidates of a round.
const CANDIDATES: u64 = 5 << 20;
/// Rounds of the ratio to OpenSSL: its interval needs six.
const RATE_ROUNDS: usize = 6;
/// The generated addresses: arguments of `roam6`.
const METHODS: [(&str, &[&str]); 5] = [
    ("hba", &["hba", "generate"]),
    ("cga p256", &["cga", "generate", "--key", "p256"]),
    ("cga rsa-1024", &["cga", "generate", "--key", "rsa-1024"]),
    ("cga rsa-2048", &["cga", "generate", "--key", "rsa-2048"]),
    ("hba rsa-2048", &["hba", "generate", "--key", "rsa-2048"]),
];

/// Sec, and threads: those of the paper, and two, as many as small machines have. Sec 0 has nothing to search for.
const EFFORTS: [(&str, &str); 4] = [("0", "1"), ("1", "1"), ("1", "2"), ("1", "8")];
/// Sec 2 is generated once, in a full run; on one thread, and on as many as the paper had.
const LONG_EFFORTS: [(&str, &str); 2] = [("2", "1"), ("2", "8")];
/// The method whose input is the shortest: the fewest seconds for Sec 2.
const LONG_METHOD: &[&str] = &["hba", "generate"];
/// Numbers of addresses of a host.
const ADDRESSES: [usize; 4] = [1, 2, 5, 10];

pub(super) fn run(run: &mut Run) -> Result<()> {
    let rounds = if run.quick { 3 } else { 15 };
    run.set_steps(2 + METHODS.len() + if run.quick { 0 } else { LONG_EFFORTS.len() });
    run.step("rates");
    let ratios = (0..RATE_ROUNDS).map(|_| rate_over_openssl()).collect::<Result<Vec<f64>>>()?;
    run.estimate("rate_over_openssl", median(&ratios, LEVEL));
    let mut rates: Vec<Value> =
        serde_json::from_str(&output(&mut on_first_core(&[&binary()?.to_string_lossy(), "cga", "speed", "--json"]))?)?;
    let mut by_octets = BTreeMap::new();
    for row in &mut rates {
        let octets = row["octets"].as_u64().context("no length")?;
        let rate = row["hashes_per_s"].as_f64().context("no rate")?;
        for (name, processor) in [("openssl", None), ("openssl_without_sha", Some(NO_SHA_MASK))] {
            // Several implementations hash as many octets.
            let plain = match by_octets.get(&(name, octets)) {
                Some(known) => *known,
                None => openssl(octets, processor)?,
            };
            by_octets.insert((name, octets), plain);
            row[format!("{name}_hashes_per_s")] = plain.round().into();
            row[format!("over_{name}")] = round(rate / plain).into();
        }
    }
    // The first row of an input has the fastest implementation.
    let best = rates.iter().find(|row| row["input"] == "hba").context("no rate for HBA")?;
    let avx2 = rates.iter().find(|row| row["input"] == "hba" && row["method"] == "AVX2");
    run.summarise("avx2_over_openssl_without_sha", avx2.map(|row| row["over_openssl_without_sha"].clone()));
    run.summarise("method", best["method"].clone());
    run.summarise("sec2_hba_seconds", round(best["sec2_seconds"].as_f64().unwrap_or(f64::NAN)));
    run.rows = rates;
    run.summarise("cores", std::thread::available_parallelism().map_or(0, usize::from));
    for (kind, words) in METHODS {
        run.step(kind);
        for (sec, threads) in EFFORTS {
            let times = (0..rounds).map(|_| generate(words, sec, threads, 2)).collect::<Result<Vec<f64>>>()?;
            run.rows.push(
                json!({ "generate": kind, "addresses": 2, "sec": sec, "threads": threads, "ms": distribution(&times) }),
            );
        }
    }
    measure_by_addresses(run, rounds)?;
    if !run.quick {
        measure_long(run)?;
    }
    Ok(())
}

/// Sec 1 by the number of addresses: one search serves all of a set or of a key.
fn measure_by_addresses(run: &mut Run, rounds: usize) -> Result<()> {
    run.step("numbers of addresses");
    for (kind, words) in METHODS.into_iter().filter(|(kind, _)| ["hba", "cga p256"].contains(kind)) {
        for addresses in ADDRESSES {
            let times = (0..rounds).map(|_| generate(words, "1", "1", addresses)).collect::<Result<Vec<f64>>>()?;
            run.rows.push(json!({ "by_addresses": kind, "addresses": addresses, "set_ms": distribution(&times) }));
        }
    }
    Ok(())
}

/// Sec 2, once for each number of threads: the time varies like that of any search without memory.
fn measure_long(run: &mut Run) -> Result<()> {
    for (sec, threads) in LONG_EFFORTS {
        run.step(&format!("Sec {sec}, threads: {threads}"));
        let seconds = round(generate(LONG_METHOD, sec, threads, 2)? / 1000.0);
        run.rows.push(json!({ "long": "hba", "addresses": 2, "sec": sec, "threads": threads, "seconds": seconds }));
        run.summarise(&format!("sec{sec}_hba_measured_seconds_threads_{threads}"), seconds);
    }
    Ok(())
}

/// The fastest implementation for an HBA set of two prefixes, over OpenSSL's SHA-1 of as many octets just after it.
fn rate_over_openssl() -> Result<f64> {
    let octets = HBA_OCTETS as u64;
    let own =
        std::thread::scope(|scope| scope.spawn(hba_rate).join()).map_err(|_| anyhow!("the search panicked"))??;
    Ok(own / openssl(octets, None)?)
}

/// Candidates of an HBA set per second of CPU time on the first core, as by `roam6 cga speed`.
fn hba_rate() -> Result<f64> {
    let mut first = CpuSet::new();
    first.set(0)?;
    sched_setaffinity(Pid::from_raw(0), &first)?;
    let sec = Sec::new(2).context("no Sec of 2")?;
    let job = Job::new(&[0; HBA_OCTETS], HBA_COUNTER_AT, sec).context("the input is too short")?;
    let before = clock::thread_cpu_time();
    // A hit would end the search early; this input has none.
    std::hint::black_box(job.scan(Method::best(), 0..CANDIDATES));
    Ok(CANDIDATES as f64 / clock::thread_cpu_time().saturating_sub(before).as_secs_f64())
}

/// Generates addresses with a new key; milliseconds, program start included.
fn generate(words: &[&str], sec: &str, threads: &str, addresses: usize) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let began = clock::now();
    let prefixes = (0..addresses).flat_map(|number| ["--prefix".to_owned(), format!("2001:db8:{number:x}::/64")]);
    let file = folder.path().join("host.toml");
    output(Command::new(binary()?).args(words).args(["--sec", sec, "--threads", threads]).args(prefixes).arg(&file))?;
    let took = began.elapsed().as_secs_f64() * 1000.0;
    let verb = words.first().copied().unwrap_or_default();
    output(Command::new(binary()?).args([verb, "verify"]).arg(&file))?;
    Ok(took)
}

/// OpenSSL's hashes of `octets` per second of CPU time, sequential; `processor` is its OPENSSL_ia32cap.
fn openssl(octets: u64, processor: Option<&str>) -> Result<f64> {
    let octets_text = octets.to_string();
    let words = ["openssl", "speed", "-mr", "-bytes", &octets_text, "-seconds", "1", "sha1"];
    let text = output(on_first_core(&words).envs(processor.map(|processor| ("OPENSSL_ia32cap", processor))))?;
    let line = text.lines().find(|line| line.starts_with("+F:")).context("openssl speed printed nothing")?;
    let per_second: f64 =
        line.rsplit(':').next().unwrap_or_default().parse().context("no figure in the output of openssl speed")?;
    Ok(per_second / octets as f64)
}

/// A command that runs on the first core.
fn on_first_core(words: &[&str]) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).args(words);
    command
}
