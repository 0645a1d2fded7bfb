//! Commands that query or control a running daemon.

use crate::command_line::ShimCommand;
use crate::control::{MAX_ANSWER, NodeState, Request, Response};
use crate::part::Part;
use crate::render::table::{Paint, Table};
use crate::render::{event, ldm, services, subflows, tables};
use crate::{FAILED, NO_DAEMON};
use roam6_linux::mptcp::diag;
use roam6_proto::base::ids::AddressPair;
use roam6_wire::HomeAddress;
use serde::Serialize;
use std::io::{BufRead, BufReader, ErrorKind, IsTerminal, Read, Write};
use std::net::Ipv6Addr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

/// `roam6 show`.
pub(crate) fn show(part: Part, json: bool, socket: &Path) -> ExitCode {
    if part == Part::Subflows {
        return show_subflows(json, socket);
    }
    let state = match view(part, socket) {
        Ok(state) => state,
        Err(failure) => return failure.exit_code(),
    };
    if json {
        return print(&match part {
            Part::Bindings => to_json(&state.view.bindings),
            Part::Links => to_json(&state.view.links),
            Part::Tunnels => to_json(&state.view.tunnels),
            Part::Endpoints => to_json(&state.view.endpoints),
            Part::Prefixes => to_json(&state.view.prefixes),
            Part::Addresses => to_json(&state.view.addresses),
            Part::Contexts => to_json(&state.view.contexts),
            Part::Stations => to_json(&state.view.stations),
            Part::Position => to_json(&state.view.position),
            Part::Networks => to_json(&state.view.networks),
            Part::Ldm => to_json(&ldm::geojson(&state)),
            Part::Services => to_json(&state.view.services),
            Part::Timers => to_json(&state.view.timers),
            Part::Areas => to_json(&state.view.areas),
            Part::Groups => to_json(&state.view.groups),
            Part::Subflows => String::new(),
            Part::Counters => to_json(&serde_json::json!({ "events": state.view.counters, "packets": state.packets })),
        });
    }
    let table: Table = match part {
        Part::Bindings => tables::bindings(&state),
        Part::Links => tables::links(&state),
        Part::Tunnels => tables::tunnels(&state),
        Part::Endpoints => tables::endpoints(&state),
        Part::Prefixes => tables::prefixes(&state),
        Part::Addresses => tables::addresses(&state),
        Part::Contexts => tables::contexts(&state),
        Part::Stations => tables::stations(&state),
        Part::Position => tables::position(&state),
        Part::Networks => tables::networks(&state),
        Part::Ldm => ldm::table(&state),
        Part::Services => services::table(&state),
        Part::Timers => tables::timers(&state),
        Part::Counters => tables::counters(&state),
        // They have tables of their own: `roam6 geo area show`, `roam6 geo groups`, and [`show_subflows`].
        Part::Areas | Part::Groups | Part::Subflows => Table::new(&[]),
    };
    let notes = if part == Part::Tunnels { tables::firewall(&state) } else { String::new() };
    print(&(table.render(table_style()) + &notes))
}

/// Only a running daemon knows the age of subflows; the kernel has the rest.
fn show_subflows(json: bool, socket: &Path) -> ExitCode {
    let connections = match send_request(&Request::Subflows, socket) {
        Ok(Response::Subflows(connections)) => Ok(*connections),
        Ok(answer) => Err(Failure::unexpected_response(answer)),
        Err(Failure::NoDaemon(_)) => diag::connections().map_err(|error| Failure::Refused(error.to_string())),
        Err(failure) => Err(failure),
    };
    match connections {
        Ok(connections) if json => print(&to_json(&connections)),
        Ok(connections) => print(&subflows::table(&connections).render(table_style())),
        Err(failure) => failure.exit_code(),
    }
}

/// `roam6 metrics`.
pub(crate) fn metrics(socket: &Path) -> ExitCode {
    match send_request(&Request::Metrics, socket) {
        Ok(Response::Metrics(page)) => print(&page),
        Ok(answer) => Failure::unexpected_response(answer).exit_code(),
        Err(failure) => failure.exit_code(),
    }
}

/// `roam6 unbind`.
pub(crate) fn unbind(home_address: Ipv6Addr, socket: &Path) -> ExitCode {
    execute(&Request::Unbind(HomeAddress(home_address)), socket)
}

/// `roam6 shim`.
pub(crate) fn shim(verb: &ShimCommand) -> ExitCode {
    match verb {
        ShimCommand::Use { local, peer, context, mark, socket } => {
            let context = match context.as_deref() {
                Some([local, peer]) => Some(AddressPair { local: *local, peer: *peer }),
                _ => None,
            };
            let (mark, path) = (*mark, AddressPair { local: *local, peer: *peer });
            execute(&Request::UsePath { context, mark, path }, &socket.path())
        }
        ShimCommand::End { local, peer, socket } => {
            execute(&Request::EndContext(AddressPair { local: *local, peer: *peer }), &socket.path())
        }
    }
}

/// Sends a request that the daemon executes without returning data.
pub(crate) fn execute(request: &Request, socket: &Path) -> ExitCode {
    match send_request(request, socket) {
        Ok(Response::Done) => ExitCode::SUCCESS,
        Ok(answer) => Failure::unexpected_response(answer).exit_code(),
        Err(failure) => failure.exit_code(),
    }
}

/// `roam6 watch`: prints events until the daemon stops or the reader closes the pipe.
pub(crate) fn watch(json: bool, socket: &Path) -> ExitCode {
    let stream = match connect(&Request::Watch, socket) {
        Ok(stream) => stream,
        Err(failure) => return failure.exit_code(),
    };
    let mut stdout = std::io::stdout().lock();
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { break };
        if let Ok(Response::Error(why)) = serde_json::from_str(&line) {
            return Failure::Refused(why).exit_code();
        }
        let line = if json { line } else { event::render(&line) };
        if writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_err() {
            return ExitCode::SUCCESS;
        }
    }
    Failure::NoDaemon("the daemon has stopped".to_owned()).exit_code()
}

/// Prints a text to standard output; a closed pipe is not a failure.
pub(crate) fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Failure::Refused(error.to_string()).exit_code(),
        _ => ExitCode::SUCCESS,
    }
}

/// Why a command has no response.
pub(crate) enum Failure {
    /// No daemon runs.
    NoDaemon(String),
    /// The daemon has refused the request.
    Refused(String),
}

impl Failure {
    /// The failure for a response that does not fit the request.
    pub(crate) fn unexpected_response(answer: Response) -> Failure {
        match answer {
            Response::Error(why) => Failure::Refused(why),
            _ => Failure::Refused("unexpected response from the daemon; does it have a different version?".to_owned()),
        }
    }

    /// Prints the reason and returns the exit status.
    pub(crate) fn exit_code(self) -> ExitCode {
        let (why, code) = match self {
            Failure::NoDaemon(why) => (why, NO_DAEMON),
            Failure::Refused(why) => (why, FAILED),
        };
        eprintln!("roam6: {why}");
        ExitCode::from(code)
    }
}

/// Fetches one part of the daemon's state.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn view(part: Part, socket: &Path) -> Result<NodeState, Failure> {
    match send_request(&Request::Part(part), socket)? {
        Response::State(state) => Ok(*state),
        answer => Err(Failure::unexpected_response(answer)),
    }
}

/// Sends a request and reads its response.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn send_request(request: &Request, socket: &Path) -> Result<Response, Failure> {
    let mut line = String::new();
    let read = BufReader::new(connect(request, socket)?.take(MAX_ANSWER)).read_line(&mut line);
    read.map_err(|error| Failure::NoDaemon(format!("{}: {error}", socket.display())))?;
    serde_json::from_str(&line).map_err(|error| Failure::Refused(format!("{}: {error}", socket.display())))
}

/// Sends a request; the response is to be read from the stream.
///
/// # Errors
/// No daemon runs, or the caller may not access its socket.
pub(crate) fn connect(request: &Request, socket: &Path) -> Result<UnixStream, Failure> {
    let failure = |error: std::io::Error| {
        let hint = match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                "is roam6 running? (systemctl status roam6; or give its run_dir with --run-dir)"
            }
            ErrorKind::PermissionDenied => "run this as root, or as a member of the group named in [control]",
            _ => "",
        };
        Failure::NoDaemon(format!("{}: {error}; {hint}", socket.display()))
    };
    let mut stream = UnixStream::connect(socket).map_err(failure)?;
    let request = serde_json::to_string(request).unwrap_or_default();
    stream.write_all(format!("{request}\n").as_bytes()).map_err(failure)?;
    Ok(stream)
}

/// Indented JSON with a newline at its end.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// Colours if standard output is a terminal, unless `NO_COLOR` is set.
pub(crate) fn table_style() -> Paint {
    let wanted = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if wanted { Paint::Colour } else { Paint::Plain }
}
