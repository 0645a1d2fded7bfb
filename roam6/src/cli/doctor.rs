//! `roam6 doctor`.

use super::output::{print, to_json};
use crate::doctor::{self, Scope};
use crate::exit::Failure;
use clap::Args;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `roam6 doctor`.
#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Send no packets, and print only what is not as it should be
    #[arg(long)]
    quick: bool,
    /// Exit with status 1 for warnings, too
    #[arg(long)]
    strict: bool,
    /// An address beyond the home agent that the mobile network shall reach
    #[arg(long, value_name = "ADDRESS")]
    target: Option<Ipv6Addr>,
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = crate::paths::CONFIG)]
    config: PathBuf,
    /// The daemon's run directory, if not that of the configuration file
    #[arg(long, value_name = "FOLDER")]
    run_dir: Option<PathBuf>,
}

/// Examines this host and what it reaches.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn run(arguments: DoctorArgs) -> Result<ExitCode, Failure> {
    let DoctorArgs { json, quick, strict, target, config, run_dir } = arguments;
    let facts = doctor::gather(&Scope { config, run_dir, quick, target });
    let found = doctor::diagnose(&facts);
    let text = if json { to_json(&doctor::to_json(&facts, &found)) } else { doctor::to_text(&facts, &found, quick) };
    let printed = print(&text);
    let bad = found.first_fault().is_some() || (strict && found.has(doctor::Level::Warning));
    Ok(if bad { ExitCode::FAILURE } else { printed })
}
