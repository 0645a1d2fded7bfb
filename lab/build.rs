//! Compiles the BPF programs of the testbed: what blows packets into it, passes them on and counts them.

#[path = "../bpf/compile.rs"]
mod compile;

use std::process::ExitCode;

fn main() -> ExitCode {
    compile::all("bpf", &["wind"])
}
