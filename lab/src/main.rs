//! The testbed of roam6: experiments and demos with real packets between network namespaces.
//!
//! Not part of a router. It runs the built `roam6` as a process, as a user would.

mod attacks;
mod bed;
mod clock;
mod conformance;
mod demo;
mod experiments;
mod judge;
mod live;
mod load;
mod mptcp;
mod report;
mod rounds;
mod run;
mod statistics;
mod sys;
mod threads;
mod topology;
mod ui;

use anyhow::{Result, bail, ensure};
use clap::{CommandFactory, Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs mobile networks in network namespaces of this machine, and measures them.
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
    #[command(after_help = "Example: roam6-lab run mptcp/bonding --quick --part goodput")]
    Run {
        /// Its name, as listed by `list`.
        name: String,
        /// Writes the result (JSON) to this file.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Fewer repetitions: about a minute.
        #[arg(long)]
        quick: bool,
        /// Runs only the parts that have TEXT in their names, as the progress shows them; mptcp/bonding and nemo/encrypted have
        /// parts.
        #[arg(long, value_name = "TEXT")]
        part: Option<String>,
    },
    /// Runs every experiment and writes one page of all figures, with the papers' values and the bounds. Continues where it was
    /// stopped.
    #[command(after_help = "Example: roam6-lab report --quick --into target/report")]
    Report(report::ReportOptions),
    /// Compares the verdicts of two reports of the same version: fails if fewer than 95 % of the bounds have the same one.
    #[command(after_help = "Example: roam6-lab verdicts /tmp/earlier target/report")]
    Verdicts {
        /// A directory of results.
        folder: PathBuf,
        /// Another one.
        other: PathBuf,
    },
    /// Shows each figure and table of the papers: what the paper says, what was measured here, and why it differs. Runs nothing.
    #[command(after_help = "Example: roam6-lab papers --into target/report")]
    Papers {
        /// The directory of the results.
        #[arg(long, value_name = "FOLDER", default_value = "target/report")]
        into: PathBuf,
    },
    /// Draws the charts of a result written by `run --json`, with the paper's values.
    Plot {
        /// The result file.
        result: PathBuf,
        /// Writes the charts to this file.
        #[arg(long, value_name = "FILE")]
        svg: PathBuf,
    },
    /// NEMO: a vehicle moves home, FN1, FN2, home, FN1, FN2 under traffic; fails if a connection breaks.
    Demo(demo::Options),
    /// MPTCP: one transfer uses the tunnel, the direct path, moves, and uses the next direct path; shows the path of its bytes.
    DemoMptcp(demo::Options),
    /// Bonding: one TCP download over two uplinks at once, of which one is pulled and comes back; shows the octets of each uplink.
    DemoBonding(demo::Options),
    /// Shim6: two hosts, two providers; one provider after the other fails under two connections, which survive.
    DemoShim6(demo::Options),
    /// GeoNetworking: ping and TCP between a moving vehicle and a roadside unit over one, two and three hops.
    DemoGeonet {
        #[command(flatten)]
        options: demo::Options,
        /// All stations sign their packets and verify those of others.
        #[arg(long)]
        secured: bool,
    },
    /// A fleet: three home agents are one; one is cut off, one loses the store, one is upgraded; fails if a connection breaks.
    DemoFleet(demo::Options),
    /// Shows running networks in a browser: drag the vehicle into another network and watch its connections, or watch
    /// vehicles on a road.
    #[command(after_help = "Example: roam6-lab live geonet --port 8080, then open http://127.0.0.1:8080/")]
    Live {
        /// The network to show.
        #[arg(value_enum, default_value_t = live::Subject::Nemo)]
        what: live::Subject,
        /// Port on 127.0.0.1 to serve the page on; 0: any free port.
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// Kills processes of earlier runs; only a hanging run leaves any.
    Clean,
    /// Prints the completion script of a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    match execute(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("roam6-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn execute(command: Command) -> Result<bool> {
    match command {
        Command::List => {
            for experiment in experiments::ALL {
                println!("{:<16} {}", experiment.name, experiment.about);
            }
            Ok(true)
        }
        Command::Demo(options) => demo::run(demo::nemo::scene, &options),
        Command::DemoMptcp(options) => demo::run(demo::mptcp::scene, &options),
        Command::DemoBonding(options) => demo::run(demo::bonding::scene, &options),
        Command::DemoShim6(options) => demo::run(demo::shim6::scene, &options),
        Command::DemoGeonet { options, secured: false } => demo::run(demo::geonet::scene, &options),
        Command::DemoGeonet { options, secured: true } => demo::run(demo::geonet::secured_scene, &options),
        Command::DemoFleet(options) => demo::run(demo::fleet::scene, &options),
        Command::Plot { result, svg } => report::plot(&result, &svg).map(|()| true),
        Command::Papers { into } => report::papers_table::print(&into).map(|()| true),
        Command::Verdicts { folder, other } => report::verdicts::compare(&folder, &other),
        Command::Report(options) => report::run(&options),
        Command::Live { what, port } => live::run(what, port),
        Command::Clean => bed::sandbox::clean(),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "roam6-lab", &mut std::io::stdout());
            Ok(true)
        }
        Command::Run { name, json, quick, part } => run_experiment(&name, json.as_deref(), quick, part.as_deref()),
    }
}

fn run_experiment(name: &str, json: Option<&Path>, quick: bool, part: Option<&str>) -> Result<bool> {
    let Some(experiment) = experiments::ALL.iter().find(|experiment| experiment.name == name) else {
        bail!("no experiment '{name}'; `roam6-lab list` shows them");
    };
    if let Some(text) = part {
        let parts = experiments::parts_of(name);
        ensure!(!parts.is_empty(), "{name} has no parts; leave out --part");
        let is_there = parts.iter().any(|part| part.contains(text));
        ensure!(is_there, "no part of {name} has '{text}' in its name; it has: {}", parts.join("; "));
    }
    bed::sandbox::enter()?;
    let mut run = run::Run::begin(name, quick, part);
    if let Err(error) = (experiment.run)(&mut run) {
        if run.summary.is_empty() {
            return Err(error);
        }
        // The figures measured before it are kept.
        run.faults.push(format!("{error:#}"));
    }
    if let Some(path) = json {
        run.write(path)?;
    }
    println!("{}", serde_json::to_string_pretty(&run.summary)?);
    for fault in &run.faults {
        eprintln!("failed check: {fault}");
    }
    Ok(run.is_sound())
}
