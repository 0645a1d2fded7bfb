//! roam6: the daemon and its command line.

mod cli;
mod config;
mod control;
mod daemon;
mod exit;
mod files;
mod host_check;
mod identity;
mod paths;
mod render;

use clap::Parser;
use cli::args::{Command, CommandLine, MptcpCommand, RunArgs};
use cli::{bindings, denm, enroll, geo, mptcp, output, show};
use control::client::Failure;
use daemon::signals::BlockedSignals;
use daemon::{Level, Options};
use exit::{USAGE_ERROR, failure};
use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all, so that a signal during the daemon's start is neither lost nor kills it halfway.
    let blocked = BlockedSignals::begin();
    let command = CommandLine::parse().command;
    if !matches!(command, Command::Run(_)) {
        blocked.restore();
    }
    match command {
        Command::Run(run) => match daemon::run(options(run)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(daemon::Failure::Config(problems)) => config_error(&problems),
            Err(daemon::Failure::Other(why)) => failure(&why),
        },
        Command::Check { file, json } => match config::load(&file.path()) {
            // The daemon itself would serve the other rows.
            Ok(config) if !config.refused_rows().is_empty() => config_error(config.refused_rows()),
            Ok(config) => {
                for warning in host_check::warnings(&config) {
                    eprintln!("warning: {warning}");
                }
                output::print(&render::summary::render(&config, json))
            }
            Err(problems) => config_error(&problems),
        },
        Command::Show { what, json, socket } => {
            show::show(what, json, &socket.path()).unwrap_or_else(Failure::exit_code)
        }
        Command::Watch { json, socket } => show::watch(json, &socket.path()).unwrap_or_else(Failure::exit_code),
        Command::Metrics { socket } => show::metrics(&socket.path()).unwrap_or_else(Failure::exit_code),
        Command::Unbind { home_address, socket } => bindings::unbind(home_address, &socket.path()),
        Command::Mptcp(MptcpCommand::Run { command }) => roam6_mptcp_run::run(&command),
        Command::Mptcp(MptcpCommand::Become { supervisor_socket: socket, command }) => {
            roam6_mptcp_run::become_command(socket, &command)
        }
        Command::Mptcp(MptcpCommand::Give) => roam6_mptcp_run::serve_remaining(),
        Command::Mptcp(MptcpCommand::Status { json }) => mptcp::show(json),
        Command::Keygen { spi, ipsec } => enroll::keygen(spi, ipsec),
        Command::Enroll(enroll) => enroll::enroll(&enroll),
        Command::Shim(command) => bindings::shim(&command),
        Command::Geo(command) => geo::run(&command),
        Command::Denm(command) => denm::run(&command),
        Command::Cga(command) => cli::identity::cga(&command),
        Command::Hba(command) => cli::identity::hba(&command),
        #[cfg(feature = "manual")]
        Command::Manual { folder } => match cli::manual::write(&folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => failure(&format!("{}: {why}", folder.display())),
        },
    }
}

fn options(run: RunArgs) -> Options {
    let level = if run.verbose { Level::Debug } else { Level::Info };
    Options { config: run.file.path(), record: run.record, level, keep: run.keep }
}

fn config_error(problems: &[config::source::Problem]) -> ExitCode {
    for problem in problems {
        eprintln!("{problem}");
    }
    ExitCode::from(USAGE_ERROR)
}
