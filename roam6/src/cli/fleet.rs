//! `roam6 fleet`: hands this member's work to the others, and takes it up again.

use super::output::{print, rendered};
use super::socket::SocketArgs;
use crate::control::Request;
use crate::control::client::{execute, view};
use crate::control::part::Part;
use crate::exit::Failure;
use crate::render::fleet;
use clap::Subcommand;
use roam6_proto::contract::command::FleetCommand as Command;
use roam6_proto::contract::fleet::MemberState;
use std::path::Path;
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
    /// Serve again after a drain
    #[command(after_help = "Example: roam6 fleet restore")]
    Restore {
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
        FleetCommand::Restore { socket } => execute(&Request::Fleet(Command::Restore), &socket.path()),
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

fn state(socket: &Path) -> Result<MemberState, Failure> {
    view(Part::Fleet, socket)?.view.fleet.map(|fleet| fleet.state).ok_or_else(no_member)
}

fn no_member() -> Failure {
    Failure::Other(
        "this daemon is no member of a fleet with a store; docs/fleet.md shows how it becomes one".to_owned(),
    )
}
