//! Compiles the BPF programs of the testbed: packet generator, redirect and counters.

#[path = "../bpf/compile.rs"]
mod compile;

use std::process::ExitCode;

fn main() -> ExitCode {
    compile::all("bpf", &["packet_generator"])
}
