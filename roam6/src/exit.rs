//! Exit statuses of the program.

use std::process::ExitCode;

/// Failure.
pub(crate) const FAILED: u8 = 1;
/// Invalid command line or configuration.
pub(crate) const USAGE_ERROR: u8 = 2;
/// No daemon runs.
pub(crate) const NO_DAEMON: u8 = 3;

/// Prints why a command has failed.
pub(crate) fn failure(why: &str) -> ExitCode {
    eprintln!("roam6: {why}");
    ExitCode::from(FAILED)
}

/// Prints a problem with arguments that clap cannot validate.
pub(crate) fn usage_error(why: &str) -> ExitCode {
    eprintln!("roam6: {why}");
    ExitCode::from(USAGE_ERROR)
}
