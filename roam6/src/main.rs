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
mod render;

use clap::Parser;
use command_line::{CommandLine, Mptcp, Verb};
use daemon::signals::Blocked;
use std::process::ExitCode;

/// Exit status: failure.
const FAILED: u8 = 1;
/// Exit status: invalid command line or configuration.
const WRONG: u8 = 2;
/// Exit status: no daemon runs.
const ABSENT: u8 = 3;

fn main() -> ExitCode {
    // First of all, so that a signal during the daemon's start is neither lost nor kills it halfway.
    let blocked = Blocked::begin();
    let verb = CommandLine::parse().verb;
    if !matches!(verb, Verb::Run(_)) {
        blocked.end();
    }
    match verb {
        Verb::Run(run) => match daemon::run(run.into()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(daemon::Failure::Config(problems)) => wrong(&problems),
            Err(daemon::Failure::Other(why)) => {
                eprintln!("roam6: {why}");
                ExitCode::from(FAILED)
            }
        },
        Verb::Check { file, json } => match config::load(&file.path()) {
            // The daemon itself would serve the other rows.
            Ok(config) if !config.refused_rows().is_empty() => wrong(config.refused_rows()),
            Ok(config) => {
                for warning in host_check::warnings(&config) {
                    eprintln!("warning: {warning}");
                }
                client::print(&render::summary::render(&config, json))
            }
            Err(problems) => wrong(&problems),
        },
        Verb::Show { what, json, socket } => client::show(what, json, &socket.path()),
        Verb::Watch { json, socket } => client::watch(json, &socket.path()),
        Verb::Metrics { socket } => client::metrics(&socket.path()),
        Verb::Unbind { home_address, socket } => client::unbind(home_address, &socket.path()),
        Verb::Mptcp(Mptcp::Run { command }) => mptcp::run::run(&command),
        Verb::Mptcp(Mptcp::Become { passage, command }) => mptcp::run::become_command(passage, &command),
        Verb::Mptcp(Mptcp::Give) => mptcp::run::give_on(),
        Verb::Mptcp(Mptcp::Status { json }) => mptcp::status::show(json),
        Verb::Keygen { spi, ipsec } => enroll::keygen(spi, ipsec),
        Verb::Enroll(enroll) => enroll::enroll(&enroll),
        Verb::Shim(verb) => client::shim(&verb),
        Verb::Geo(verb) => geo::run(&verb),
        Verb::Denm(verb) => denm::run(&verb),
        Verb::Cga(verb) => identity::cga(&verb),
        Verb::Hba(verb) => identity::hba(&verb),
        #[cfg(feature = "manual")]
        Verb::Manual { folder } => match manual::write(&folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("roam6: {}: {why}", folder.display());
                ExitCode::from(FAILED)
            }
        },
    }
}

/// Reports arguments that clap cannot validate.
fn wrong_words(why: &str) -> ExitCode {
    eprintln!("roam6: {why}");
    ExitCode::from(WRONG)
}

fn wrong(problems: &[config::source::Problem]) -> ExitCode {
    for problem in problems {
        eprintln!("{problem}");
    }
    ExitCode::from(WRONG)
}
