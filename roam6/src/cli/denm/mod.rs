//! `roam6 denm`: event notifications, sent by the running daemon's station.

pub(crate) mod args;

use crate::cli::geo::target::AreaText;
use crate::cli::output::print;
use crate::control::Request;
use crate::control::client::{Failure, execute, view};
use crate::control::part::Part;
use crate::exit::usage_error;
use args::{DenmCommand, EventArgs};
use roam6_proto::contract::config::facilities::{DenmEvent, DenmRequest, EventId};
use roam6_proto::contract::view::LdmEventView;
use roam6_wire::geo::Coordinates;
use std::path::Path;
use std::process::ExitCode;

/// Runs the subcommand.
pub(crate) fn run(command: &DenmCommand) -> ExitCode {
    let done = match command {
        DenmCommand::Send(args) => match to_event(args) {
            Ok(event) => send(event, &args.socket.path()),
            Err(why) => return usage_error(&why),
        },
        DenmCommand::Update { event: name, args } => match to_event(args) {
            Ok(event) => update(*name, event, &args.socket.path()),
            Err(why) => return usage_error(&why),
        },
        DenmCommand::Cancel { event, socket } => cancel(*event, &socket.path()),
    };
    done.unwrap_or_else(Failure::exit_code)
}

fn to_event(args: &EventArgs) -> Result<DenmEvent, String> {
    let place = match args.at.as_deref() {
        Some([latitude, longitude]) => {
            let place = Coordinates::from_degrees(*latitude, *longitude);
            Some(place.ok_or_else(|| format!("{latitude} {longitude} is not a latitude and a longitude"))?)
        }
        _ => None,
    };
    Ok(DenmEvent {
        tag: std::process::id(),
        cause: (args.cause, args.sub),
        quality: args.quality,
        place,
        area: AreaText::parse(&args.area)?,
        validity: args.validity,
        repetition: args.repeat.map(|interval| (interval, args.lasting.unwrap_or(args.validity))),
    })
}

/// The daemon lists the event with its tag if it has accepted it; otherwise its log has the reason.
fn send(event: DenmEvent, socket: &Path) -> Result<ExitCode, Failure> {
    let tag = event.tag;
    let done = send_order(DenmRequest::Trigger(event), socket);
    if done != ExitCode::SUCCESS {
        return Ok(done);
    }
    let own = events(socket)?;
    let own = own.iter().filter(|event| event.tag == Some(tag));
    match own.max_by_key(|event| event.name) {
        Some(event) => Ok(print(&format!("{}\n", event.name))),
        None => Err(Failure::Refused("the daemon has not accepted the event; its log has the reason".to_owned())),
    }
}

/// A station can update only its own events.
fn update(name: EventId, event: DenmEvent, socket: &Path) -> Result<ExitCode, Failure> {
    let is_own = events(socket)?.iter().any(|event| event.name == name && event.tag.is_some());
    match is_own {
        true => Ok(send_order(DenmRequest::Update(name, event), socket)),
        false => Err(unknown_event(name, "of this station")),
    }
}

fn cancel(name: EventId, socket: &Path) -> Result<ExitCode, Failure> {
    let is_known = events(socket)?.iter().any(|event| event.name == name);
    match is_known {
        true => Ok(send_order(DenmRequest::Terminate(name), socket)),
        false => Err(unknown_event(name, "that is known")),
    }
}

fn send_order(what: DenmRequest, socket: &Path) -> ExitCode {
    execute(&Request::Denm(Box::new(what)), socket)
}

fn events(socket: &Path) -> Result<Vec<LdmEventView>, Failure> {
    let ldm = view(Part::Ldm, socket)?.view.ldm;
    let why = "this daemon has no facilities layer; add facilities = { } to its [geo] table (docs/geo.md)";
    ldm.station.map(|_| ldm.events).ok_or_else(|| Failure::Refused(why.to_owned()))
}

fn unknown_event(name: EventId, which: &str) -> Failure {
    Failure::Refused(format!("{name} is not an event {which}; `roam6 show ldm` lists the events"))
}
