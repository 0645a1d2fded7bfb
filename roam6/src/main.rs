//! roam6: the daemon and its command line.

mod client;
mod command_line;
mod config;
mod control;
mod daemon;
mod denm;
mod enroll;
mod geo;
mod host_check;
mod identity;
#[cfg(any(test, feature = "manual"))]
mod manual;
mod mptcp;
mod part;
mod render;

use clap::Parser;
use command_line::{Command, CommandLine, MptcpCommand};
use daemon::signals::BlockedSignals;
use std::process::ExitCode;

/// Exit status: failure.
const FAILED: u8 = 1;
/// Exit status: invalid command line or configuration.
const USAGE_ERROR: u8 = 2;
/// Exit status: no daemon runs.
const NO_DAEMON: u8 = 3;

fn main() -> ExitCode {
    // First of all, so that a signal during the daemon's start is neither lost nor kills it halfway.
    let blocked = BlockedSignals::begin();
    let verb = CommandLine::parse().command;
    if !matches!(verb, Command::Run(_)) {
        blocked.restore();
    }
    match verb {
        Command::Run(run) => match daemon::run(run.into()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(daemon::Failure::Config(problems)) => config_error(&problems),
            Err(daemon::Failure::Other(why)) => {
                eprintln!("roam6: {why}");
                ExitCode::from(FAILED)
            }
        },
        Command::Check { file, json } => match config::load(&file.path()) {
            // The daemon itself would serve the other rows.
            Ok(config) if !config.refused_rows().is_empty() => config_error(config.refused_rows()),
            Ok(config) => {
                for warning in host_check::warnings(&config) {
                    eprintln!("warning: {warning}");
                }
                client::print(&render::summary::render(&config, json))
            }
            Err(problems) => config_error(&problems),
        },
        Command::Show { what, json, socket } => client::show(what, json, &socket.path()),
        Command::Watch { json, socket } => client::watch(json, &socket.path()),
        Command::Metrics { socket } => client::metrics(&socket.path()),
        Command::Unbind { home_address, socket } => client::unbind(home_address, &socket.path()),
        Command::Mptcp(MptcpCommand::Run { command }) => roam6_mptcp_run::run(&command),
        Command::Mptcp(MptcpCommand::Become { supervisor_socket: passage, command }) => {
            roam6_mptcp_run::become_command(passage, &command)
        }
        Command::Mptcp(MptcpCommand::Give) => roam6_mptcp_run::serve_remaining(),
        Command::Mptcp(MptcpCommand::Status { json }) => mptcp::status::show(json),
        Command::Keygen { spi, ipsec } => enroll::keygen(spi, ipsec),
        Command::Enroll(enroll) => enroll::enroll(&enroll),
        Command::Shim(verb) => client::shim(&verb),
        Command::Geo(verb) => geo::run(&verb),
        Command::Denm(verb) => denm::run(&verb),
        Command::Cga(verb) => identity::cga(&verb),
        Command::Hba(verb) => identity::hba(&verb),
        #[cfg(feature = "manual")]
        Command::Manual { folder } => match manual::write(&folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("roam6: {}: {why}", folder.display());
                ExitCode::from(FAILED)
            }
        },
    }
}

/// Reports arguments that clap cannot validate.
fn usage_error(why: &str) -> ExitCode {
    eprintln!("roam6: {why}");
    ExitCode::from(USAGE_ERROR)
}

fn config_error(problems: &[config::source::Problem]) -> ExitCode {
    for problem in problems {
        eprintln!("{problem}");
    }
    ExitCode::from(USAGE_ERROR)
}
