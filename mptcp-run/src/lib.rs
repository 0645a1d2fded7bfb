//! Runs a program whose TCP sockets are MPTCP, unmodified and statically linked programs too: `roam6 mptcp run -- COMMAND`.
//!
//! A seccomp filter in the command's process notifies a supervisor of each TCP socket it opens, and the supervisor opens an
//! MPTCP socket in its place (seccomp_unotify(2), Linux 5.14). Since 6.6 the kernel can do that by itself, but for root
//! only, and only where BPF may change what kernel functions return.

mod filter;
mod launcher;
mod supervisor;
mod sys;

pub use launcher::{become_command, run, serve_remaining};

use std::io;

/// Adds to an error that it is of the seccomp filter.
fn of_filter(error: impl Into<io::Error>) -> io::Error {
    let error = error.into();
    io::Error::new(error.kind(), format!("seccomp filter: {error}"))
}
