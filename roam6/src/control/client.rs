//! A client of the control socket.

use super::part::Part;
use super::{MAX_ANSWER, NodeState, Request, Response};
use crate::exit::Failure;
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

/// Most bindings whose rows are part of an overview.
const MAX_BINDINGS: u64 = 20_000;

/// Sends a request that the daemon executes without returning data.
///
/// # Errors
/// No daemon runs, or it has refused the request.
pub(crate) fn execute(request: &Request, socket: &Path) -> Result<ExitCode, Failure> {
    match send_request(request, socket)? {
        Response::Done => Ok(ExitCode::SUCCESS),
        response => Err(Failure::unexpected_response(response)),
    }
}

/// Fetches one part of the daemon's state.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn view(part: Part, socket: &Path) -> Result<NodeState, Failure> {
    match send_request(&Request::Part(part), socket)? {
        Response::State(state) => Ok(*state),
        response => Err(Failure::unexpected_response(response)),
    }
}

/// Fetches the whole state, but no rows of a home agent with many bindings.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn overview(socket: &Path) -> Result<NodeState, Failure> {
    let counters = view(Part::Counters, socket)?;
    let bindings = counters.view.counters.gauges.get(&"home_agent_bindings".to_owned());
    if bindings.is_some_and(|bindings| *bindings > MAX_BINDINGS) {
        return Ok(counters);
    }
    match send_request(&Request::View, socket)? {
        Response::State(state) => Ok(*state),
        response => Err(Failure::unexpected_response(response)),
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
    parse_response(&line).map_err(|error| Failure::Other(format!("{}: {error}", socket.display())))
}

/// Reads a response. It is parsed first, and then of which type it is: the code for that is the smaller one.
pub(crate) fn parse_response(line: &str) -> serde_json::Result<Response> {
    serde_json::from_slice::<Value>(line.as_bytes()).and_then(serde_json::from_value)
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
