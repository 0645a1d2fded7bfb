//! roam6: the daemon and its command line.

#[cfg(feature = "geo-security")]
mod certificate;
mod cli;
mod config;
mod control;
mod daemon;
#[cfg(feature = "doctor")]
mod doctor;
mod exit;
mod files;
mod host_check;
mod identity;
mod invitation;
mod join;
mod paths;
mod render;
mod service;
#[cfg(feature = "setup")]
mod setup;
#[cfg(feature = "web")]
mod web;

use clap::Parser;
use cli::args::{Command, CommandLine, MptcpCommand, RunArgs};
use cli::{bindings, denm, enroll, geo, mptcp, output, show};
use daemon::signals::BlockedSignals;
use daemon::{Level, Options};
use exit::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all, so that a signal during the daemon's start is neither lost nor kills it halfway.
    let blocked = BlockedSignals::begin();
    let command = CommandLine::parse().command;
    if !matches!(command, Command::Run(_)) {
        blocked.restore();
    }
    execute(command).unwrap_or_else(Failure::exit_code)
}

fn execute(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(run) => daemon::run(options(run)).map(|()| ExitCode::SUCCESS),
        Command::Check { file, json } => {
            let config = config::load(&file.path()).map_err(Failure::Config)?;
            // The daemon itself would serve the other rows.
            if !config.refused_rows().is_empty() {
                return Err(Failure::Config(config.refused_rows().to_vec()));
            }
            for warning in host_check::warnings(&config) {
                eprintln!("warning: {warning}");
            }
            Ok(output::print(&render::summary::render(&config, json)))
        }
        Command::Show { what, json, socket } => show::show(what, json, &socket.path()),
        Command::Status(arguments) => cli::status::run(&arguments),
        Command::Watch { json, socket } => show::watch(json, &socket.path()),
        #[cfg(feature = "doctor")]
        Command::Doctor(arguments) => cli::doctor::run(arguments),
        Command::Metrics { socket } => show::metrics(&socket.path()),
        #[cfg(feature = "web")]
        Command::Web(args) => cli::web::serve(args),
        #[cfg(feature = "web")]
        Command::WebPassword(args) => cli::web::write_password(&args),
        Command::Unbind { home_address, socket } => bindings::unbind(home_address, &socket.path()),
        Command::Rekey { socket } => bindings::rekey(&socket.path()),
        #[cfg(feature = "fleet")]
        Command::Fleet(command) => cli::fleet::run(&command),
        #[cfg(feature = "relay")]
        Command::Relay(file) => cli::relay::run(&file.path()),
        Command::Mptcp(MptcpCommand::Run { command }) => Ok(roam6_mptcp_run::run(&command)),
        Command::Mptcp(MptcpCommand::Become { supervisor_socket: socket, command }) => {
            Ok(roam6_mptcp_run::become_command(socket, &command))
        }
        Command::Mptcp(MptcpCommand::Give) => Ok(roam6_mptcp_run::serve_remaining()),
        Command::Mptcp(MptcpCommand::Status { json }) => mptcp::show(json),
        #[cfg(feature = "bpf")]
        Command::Keygen { renew: true, socket, .. } => bindings::renew_keys(&socket.path()),
        Command::Keygen { spi, ipsec, .. } => enroll::keygen(spi, ipsec),
        Command::Enroll(enroll) => enroll::enroll(&enroll),
        #[cfg(feature = "setup")]
        Command::Setup(args) => cli::setup::setup(&args),
        #[cfg(feature = "setup")]
        Command::Invite(args) => cli::invite::invite(&args),
        #[cfg(feature = "setup")]
        Command::Invitations(args) => cli::invite::list(&args),
        #[cfg(feature = "setup")]
        Command::Revoke(args) => cli::invite::revoke(&args),
        Command::Join(args) => cli::join::join(&args),
        Command::Shim(command) => bindings::shim(&command),
        Command::Geo(command) => geo::run(&command),
        Command::Denm(command) => denm::run(&command),
        Command::Cga(command) => cli::identity::cga(&command),
        Command::Hba(command) => cli::identity::hba(&command),
        #[cfg(feature = "manual")]
        Command::Manual { folder } => match cli::manual::write(&folder) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(why) => Err(Failure::Other(format!("{}: {why}", folder.display()))),
        },
    }
}

fn options(run: RunArgs) -> Options {
    let level = if run.verbose { Level::Debug } else { Level::Info };
    Options { config: run.file.path(), record: run.record, level, keep: run.keep }
}
