//! `roam6 fleet`: hands this member's work to the others, and takes it up again.

use super::output::{print, rendered};
use super::socket::SocketArgs;
use crate::config;
use crate::control::Request;
use crate::control::client::{execute, view};
use crate::control::part::Part;
use crate::exit::Failure;
use crate::render::fleet;
use clap::Subcommand;
use roam6_proto::contract::command::FleetCommand as Command;
use roam6_proto::contract::fleet::MemberState;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Time between two looks at the state of the daemon.
const POLL: Duration = Duration::from_millis(200);

#[derive(Subcommand)]
pub(crate) enum FleetCommand {
    /// Show the members of the fleet, and tell by the exit status whether this one is healthy
    #[command(after_help = "\
Exit status: 0 this member is healthy; 1 it is not; 3 no running daemon. keepalived can track it.

Example: roam6 fleet status")]
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Hand over to the other members, before an upgrade of this one
    #[command(after_help = "\
The routes of this member get the worse metric, and are withdrawn after the time `drain` of the configuration; it forwards until
it ends. SIGTERM does the same.

Example: roam6 fleet drain --wait")]
    Drain {
        /// Wait until it has handed over
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Serve again after a drain; with --store, write this member's copy of the store into an empty store
    #[command(after_help = "\
With --store: for a fleet whose store is lost without a backup. All members are stopped and the store is empty; one of them writes
its copy, with the bindings and the rows of the prefix table, and then all members are started. Nothing is written into a store
that has the fleet already.

Example: roam6 fleet restore
Example: systemctl stop roam6; roam6 fleet restore --store; systemctl start roam6")]
    Restore {
        /// Write this member's copy of the store into an empty store
        #[arg(long, conflicts_with = "run_dir")]
        store: bool,
        /// The daemon's configuration, with --store
        #[arg(long, value_name = "FILE", default_value = crate::paths::CONFIG, requires = "store")]
        config: PathBuf,
        #[command(flatten)]
        socket: SocketArgs,
    },
}

/// `roam6 fleet`.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn run(command: &FleetCommand) -> Result<ExitCode, Failure> {
    match command {
        FleetCommand::Status { json, socket } => status(*json, &socket.path()),
        FleetCommand::Drain { wait, socket } => drain(*wait, &socket.path()),
        FleetCommand::Restore { store: true, config, .. } => restore_store(config),
        FleetCommand::Restore { socket, .. } => execute(&Request::Fleet(Command::Restore), &socket.path()),
    }
}

fn status(json: bool, socket: &Path) -> Result<ExitCode, Failure> {
    let state = view(Part::Fleet, socket)?;
    let Some(member) = &state.view.fleet else { return Err(no_member()) };
    let text = rendered(json, member, || fleet::table(&state));
    print(&if json { text } else { fleet::head(&state) + &text });
    Ok(if member.state == MemberState::Healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn drain(wait: bool, socket: &Path) -> Result<ExitCode, Failure> {
    execute(&Request::Fleet(Command::Drain), socket)?;
    while wait && state(socket)? == MemberState::Draining {
        std::thread::sleep(POLL);
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the copy of this member into an empty store.
fn restore_store(path: &Path) -> Result<ExitCode, Failure> {
    let config = config::load(path).map_err(Failure::Config)?;
    let options = config.fleet.as_ref().and_then(|fleet| fleet.host_options(&config.state_dir));
    let Some(options) = options else {
        return Err(Failure::Other(format!("{}: no [fleet] with a store", path.display())));
    };
    let is_terminal = std::io::stderr().is_terminal();
    let progress = |done: usize, all: usize| {
        if is_terminal {
            eprint!("\r{done} of {all} keys");
        }
    };
    let written = roam6_linux::fleet::restore(&options.store, progress);
    if is_terminal {
        eprintln!();
    }
    println!("{} keys restored; start all members", written?);
    Ok(ExitCode::SUCCESS)
}

fn state(socket: &Path) -> Result<MemberState, Failure> {
    view(Part::Fleet, socket)?.view.fleet.map(|fleet| fleet.state).ok_or_else(no_member)
}

fn no_member() -> Failure {
    Failure::Other(
        "this daemon is no member of a fleet with a store; docs/fleet.md shows how it becomes one".to_owned(),
    )
}
