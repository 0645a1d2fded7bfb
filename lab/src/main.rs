//! The testbed of roam6: experiments and the demo, on real packets between namespaced hosts.
//!
//! Never part of a router. It runs the built `roam6` as a process, as a user would.

mod attacks;
mod bed;
mod chain;
mod chart;
mod check;
mod clock;
mod crowd;
mod demo;
mod demo_geonet;
mod demo_mptcp;
mod demo_shim6;
mod driveby;
mod experiments;
mod figures;
mod handover;
mod live;
mod multipath;
mod narrator;
mod plots;
mod progress;
mod providers;
mod report;
mod road;
mod screen;
mod shim6;
mod sys;
mod topology;
mod traffic;

use anyhow::{Result, bail};
use clap::{CommandFactory, Parser, Subcommand};
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
    /// Runs every experiment and writes one page of all figures, beside the papers' and the bounds. Goes on where it stopped.
    #[command(after_help = "Example: roam6-lab report --quick --into target/report")]
    Report {
        /// Fewer repetitions of each.
        #[arg(long)]
        quick: bool,
        /// Only experiments whose names begin so, as 'nemo/'.
        #[arg(long, value_name = "BEGINNING", default_value = "")]
        only: String,
        /// Also runs those that there is a result of.
        #[arg(long)]
        again: bool,
        /// Runs nothing: draws the results that are there.
        #[arg(long)]
        draw: bool,
        /// The folder of the results and of index.html.
        #[arg(long, value_name = "FOLDER", default_value = "target/report")]
        into: PathBuf,
    },
    /// Draws the figures of a result that `run --json` wrote, beside what the paper says.
    Plot {
        /// The result.
        result: PathBuf,
        /// Draws into this file.
        #[arg(long, value_name = "FILE")]
        svg: PathBuf,
    },
    /// A vehicle goes home, FN1, FN2, home, FN1 and FN2 again under traffic; fails if anything breaks.
    Demo {
        /// Draws what was shown into this file.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        /// Keeps the capture of all links in this file (pcapng).
        #[arg(long, value_name = "FILE")]
        capture: Option<PathBuf>,
    },
    /// One transfer goes by the tunnel, straight, moves, and goes straight again; shows which path its bytes took.
    DemoMptcp {
        /// Draws the paths of the bytes over time into this file.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        /// Keeps the capture of all links in this file (pcapng).
        #[arg(long, value_name = "FILE")]
        capture: Option<PathBuf>,
    },
    /// Two hosts, two providers: one provider after the other fails under two connections, and they go on.
    DemoShim6 {
        /// Draws what was shown into this file.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        /// Keeps the capture of all links in this file (pcapng).
        #[arg(long, value_name = "FILE")]
        capture: Option<PathBuf>,
    },
    /// Three vehicles and a roadside unit move; ping and TCP go on over one, two and three hops of GeoNetworking.
    DemoGeonet {
        /// Draws what was shown into this file.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        /// Keeps the capture of the channel in this file (pcapng).
        #[arg(long, value_name = "FILE")]
        capture: Option<PathBuf>,
    },
    /// Shows networks in a browser while they run: drag the vehicle into another and watch its connections; or watch
    /// vehicles on a road.
    #[command(after_help = "Example: roam6-lab live geonet --port 8080, then open http://127.0.0.1:8080/")]
    Live {
        /// What to show.
        #[arg(value_enum, default_value_t = live::Show::Nemo)]
        what: live::Show,
        /// Port of 127.0.0.1 to serve the page on; 0 for any that is free.
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// Ends what an earlier run has left behind: nothing, unless it hangs.
    Clean,
    /// Prints what a shell completes these commands by.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
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
        Command::Demo { svg, capture } => {
            bed::cage::enter()?;
            demo::run(svg.as_deref(), capture.as_deref())
        }
        Command::DemoMptcp { svg, capture } => {
            bed::cage::enter()?;
            demo_mptcp::run(svg.as_deref(), capture.as_deref())
        }
        Command::DemoGeonet { svg, capture } => {
            bed::cage::enter()?;
            demo_geonet::run(svg.as_deref(), capture.as_deref())
        }
        Command::DemoShim6 { svg, capture } => {
            bed::cage::enter()?;
            demo_shim6::run(svg.as_deref(), capture.as_deref())
        }
        Command::Plot { result, svg } => plots::draw(&result, &svg).map(|()| true),
        Command::Report { quick, only, again, draw, into } => {
            report::run(&report::Wish { quick, only, again, draw, into })
        }
        Command::Live { what, port } => live::run(what, port),
        Command::Clean => bed::cage::clean(),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "roam6-lab", &mut std::io::stdout());
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
    let run = figures::Run::begin(quick);
    let findings = (experiment.run)(quick)?;
    if let Some(path) = json {
        findings.write(name, &run, path)?;
    }
    println!("{}", serde_json::to_string_pretty(&findings.summary)?);
    for fault in findings.faults() {
        eprintln!("not as it should be: {fault}");
    }
    Ok(findings.is_sound())
}
