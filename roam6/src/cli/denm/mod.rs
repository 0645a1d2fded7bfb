//! `roam6 denm`: event notifications, sent by the running daemon's station.

pub(crate) mod args;

use crate::cli::geo::target::AreaText;
use crate::cli::output::print;
use crate::control::Request;
use crate::control::client::{execute, view};
use crate::control::part::Part;
use crate::exit::Failure;
use args::{DenmCommand, EventArgs};
use roam6_proto::contract::config::facilities::{DenmEvent, DenmRequest, EventId};
use roam6_proto::contract::config::geo::PacketParameters;
use roam6_proto::contract::view::LdmEventView;
use roam6_wire::geo::Coordinates;
use std::path::Path;
use std::process::ExitCode;

/// Runs the subcommand.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn run(command: &DenmCommand) -> Result<ExitCode, Failure> {
    match command {
        DenmCommand::Send(args) => send(to_event(args).map_err(Failure::Usage)?, &args.socket.path()),
        DenmCommand::Update { event: name, args } => {
            update(*name, to_event(args).map_err(Failure::Usage)?, &args.socket.path())
        }
        DenmCommand::Cancel { event, socket } => cancel(*event, &socket.path()),
    }
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
        parameters: PacketParameters { hops: args.hops, ..args.parameters.parameters() },
    })
}

/// The daemon lists the event with its tag if it has accepted it; otherwise its log has the reason.
fn send(event: DenmEvent, socket: &Path) -> Result<ExitCode, Failure> {
    let tag = event.tag;
    send_order(DenmRequest::Trigger(event), socket)?;
    let own = events(socket)?;
    let own = own.iter().filter(|event| event.tag == Some(tag));
    match own.max_by_key(|event| event.name) {
        Some(event) => Ok(print(&format!("{}\n", event.name))),
        None => Err(Failure::Other("the daemon has not accepted the event; its log has the reason".to_owned())),
    }
}

/// A station can update only its own events.
fn update(name: EventId, event: DenmEvent, socket: &Path) -> Result<ExitCode, Failure> {
    let is_own = events(socket)?.iter().any(|event| event.name == name && event.tag.is_some());
    match is_own {
        true => send_order(DenmRequest::Update(name, event), socket),
        false => Err(unknown_event(name, "of this station")),
    }
}

fn cancel(name: EventId, socket: &Path) -> Result<ExitCode, Failure> {
    let is_known = events(socket)?.iter().any(|event| event.name == name);
    match is_known {
        true => send_order(DenmRequest::Terminate(name), socket),
        false => Err(unknown_event(name, "that is known")),
    }
}

fn send_order(what: DenmRequest, socket: &Path) -> Result<ExitCode, Failure> {
    execute(&Request::Denm(Box::new(what)), socket)
}

fn events(socket: &Path) -> Result<Vec<LdmEventView>, Failure> {
    let ldm = view(Part::Ldm, socket)?.view.ldm;
    let why = "this daemon has no facilities layer; add facilities = { } to its [geo] table (docs/geo.md)";
    ldm.station.map(|_| ldm.events).ok_or_else(|| Failure::Other(why.to_owned()))
}

fn unknown_event(name: EventId, which: &str) -> Failure {
    Failure::Other(format!("{name} is not an event {which}; `roam6 show ldm` lists the events"))
}
