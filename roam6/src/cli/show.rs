//! `roam6 show`, `roam6 watch` and `roam6 metrics`: the state of the running daemon.

use super::output::{print, table_style, to_json};
use crate::control::client::{Failure, connect, send_request, view};
use crate::control::part::Part;
use crate::control::{Request, Response};
use crate::render::table::Table;
use crate::render::{event, ldm, services, subflows, tables};
use roam6_linux::mptcp::diag;
use std::io::{BufRead, BufReader, Write};
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
