//! `roam6 show`, `roam6 watch` and `roam6 metrics`: the state of the running daemon.

use super::output::{print, rendered};
use crate::control::client::{connect, parse_response, send_request, view};
use crate::control::part::Part;
#[cfg(feature = "bpf")]
use crate::control::path_keys::path_keys;
use crate::control::{Request, Response};
use crate::exit::Failure;
#[cfg(feature = "fleet")]
use crate::render::fleet;
#[cfg(feature = "bpf")]
use crate::render::keys;
use crate::render::table::Table;
use crate::render::{event, ldm, services, subflows, tables};
use roam6_linux::mptcp::diag;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

/// `roam6 show`.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn show(part: Part, json: bool, socket: &Path) -> Result<ExitCode, Failure> {
    if part == Part::Subflows {
        return show_subflows(json, socket);
    }
    #[cfg(feature = "bpf")]
    if part == Part::Keys {
        return show_keys(json, socket);
    }
    #[cfg(feature = "relay")]
    if part == Part::Flows {
        return super::relay::show_flows(json, socket);
    }
    let state = view(part, socket)?;
    let view = &state.view;
    let text = match part {
        Part::Bindings => rendered(json, &view.bindings, || tables::bindings(&state)),
        Part::Links => rendered(json, &view.links, || tables::links(&state)),
        Part::Tunnels => rendered(json, &view.tunnels, || tables::tunnels(&state)),
        Part::Endpoints => rendered(json, &view.endpoints, || tables::endpoints(&state)),
        Part::Prefixes => rendered(json, &view.prefixes, || tables::prefixes(&state)),
        Part::Addresses => rendered(json, &view.addresses, || tables::addresses(&state)),
        Part::Contexts => rendered(json, &view.contexts, || tables::contexts(&state)),
        Part::Stations => rendered(json, &view.stations, || tables::stations(&state)),
        Part::Position => rendered(json, &view.position, || tables::position(&state)),
        #[cfg(feature = "dcc")]
        Part::Channels => rendered(json, &view.channels, || tables::channels(&state)),
        Part::Networks => rendered(json, &view.networks, || tables::networks(&state)),
        Part::Ldm => rendered(json, &ldm::geojson(&state), || ldm::table(&state)),
        Part::Services => rendered(json, &view.services, || services::table(&state)),
        #[cfg(feature = "fleet")]
        Part::Fleet => rendered(json, &view.fleet, || fleet::table(&state)),
        Part::Timers => rendered(json, &view.timers, || tables::timers(&state)),
        Part::Counters => {
            let counters = serde_json::json!({ "events": view.counters, "packets": state.packets });
            rendered(json, &counters, || tables::counters(&state))
        }
        // They have tables of their own: `roam6 geo area show`, `roam6 geo groups`, `roam6 invitations`, [`show_subflows`] and
        // [`show_keys`].
        Part::Invitations => rendered(json, &view.invitations, || Table::new(&[])),
        Part::Areas => rendered(json, &view.areas, || Table::new(&[])),
        Part::Groups => rendered(json, &view.groups, || Table::new(&[])),
        Part::Subflows => String::new(),
        #[cfg(feature = "bpf")]
        Part::Keys => String::new(),
        #[cfg(feature = "relay")]
        Part::Flows => String::new(),
    };
    #[cfg(feature = "fleet")]
    let text = if part == Part::Fleet && !json { fleet::head(&state) + &text } else { text };
    let notes = if part == Part::Tunnels && !json { tables::firewall(&state) } else { String::new() };
    Ok(print(&(text + &notes)))
}

/// Only a running daemon has the age of subflows; the rest is from the kernel.
fn show_subflows(json: bool, socket: &Path) -> Result<ExitCode, Failure> {
    let connections = match send_request(&Request::Subflows, socket) {
        Ok(Response::Subflows(connections)) => *connections,
        Ok(response) => return Err(Failure::unexpected_response(response)),
        Err(Failure::NoDaemon(_)) => diag::connections()?,
        Err(failure) => return Err(failure),
    };
    Ok(print(&rendered(json, &connections, || subflows::table(&connections))))
}

/// The kernel has them, daemon or not.
#[cfg(feature = "bpf")]
fn show_keys(json: bool, socket: &Path) -> Result<ExitCode, Failure> {
    let sessions = match send_request(&Request::Keys, socket) {
        Ok(Response::Keys(sessions)) => sessions,
        Ok(response) => return Err(Failure::unexpected_response(response)),
        Err(Failure::NoDaemon(_)) => path_keys(None)?,
        Err(failure) => return Err(failure),
    };
    Ok(print(&rendered(json, &sessions, || keys::table(&sessions))))
}

/// `roam6 metrics`.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn metrics(socket: &Path) -> Result<ExitCode, Failure> {
    match send_request(&Request::Metrics, socket)? {
        Response::Metrics(page) => Ok(print(&page)),
        response => Err(Failure::unexpected_response(response)),
    }
}

/// `roam6 watch`: prints events until the daemon stops or the reader closes the pipe.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn watch(json: bool, socket: &Path) -> Result<ExitCode, Failure> {
    let stream = connect(&Request::Watch, socket)?;
    let mut stdout = std::io::stdout().lock();
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { break };
        if let Ok(Response::Error(why)) = parse_response(&line) {
            return Err(Failure::Other(why));
        }
        let line = if json { line } else { event::render(&line) };
        if writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    Err(Failure::NoDaemon("the daemon has stopped".to_owned()))
}
