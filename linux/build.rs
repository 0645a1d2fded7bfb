//! Compiles the BPF programs of `bpf/` if the feature `bpf` is enabled.

#[path = "../bpf/compile.rs"]
mod compile;

use std::env;
use std::process::ExitCode;

/// What there is to compile in `../bpf`.
const PROGRAMS: [&str; 5] = ["tc", "xdp", "shim", "tcp_backoff", "relay"];

fn main() -> ExitCode {
    if env::var_os("CARGO_FEATURE_BPF").is_none() {
        return ExitCode::SUCCESS;
    }
    compile::all("../bpf", &PROGRAMS)
}
