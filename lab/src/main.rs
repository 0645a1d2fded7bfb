//! The testbed of roam6: experiments and the demo, on real packets between namespaced hosts.
//!
//! Never part of a router. It runs the built `roam6` as a process, as a user would.

mod bed;
mod clock;
mod experiments;
mod figures;
mod progress;
mod sys;
mod topology;
mod traffic;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs networks that move, on this machine, and measures them.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the experiments.
    List,
    /// Runs one experiment and prints its summary.
    Run {
        /// Its name, as `list` shows it.
        name: String,
        /// Writes the whole result to this file.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Fewer repetitions: under a minute.
        #[arg(long)]
        quick: bool,
    },
}

fn main() -> ExitCode {
    match obey(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("roam6-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn obey(command: Command) -> Result<bool> {
    match command {
        Command::List => {
            for experiment in experiments::ALL {
                println!("{:<16} {}", experiment.name, experiment.about);
            }
            Ok(true)
        }
        Command::Run { name, json, quick } => run(&name, json.as_deref(), quick),
    }
}

fn run(name: &str, json: Option<&Path>, quick: bool) -> Result<bool> {
    let Some(experiment) = experiments::ALL.iter().find(|experiment| experiment.name == name) else {
        bail!("no experiment '{name}'; `roam6-lab list` shows them");
    };
    bed::cage::enter()?;
    let findings = (experiment.run)(quick)?;
    if let Some(path) = json {
        findings.write(name, path)?;
    }
    println!("{}", serde_json::to_string_pretty(&findings.summary)?);
    Ok(findings.sound)
}
