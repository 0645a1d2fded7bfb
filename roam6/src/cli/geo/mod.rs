//! `roam6 geo`: queries of the running daemon's GeoNetworking station, and probes sent by it.

pub(crate) mod args;
#[cfg(feature = "geo-security")]
pub(crate) mod authority;
#[cfg(feature = "geo-security")]
mod capture;
#[cfg(feature = "geo-security")]
mod cert;
#[cfg(feature = "geo-security")]
pub(crate) mod lists;
mod ping;
mod probes;
#[cfg(feature = "geo-security")]
mod provisioning;
#[cfg(feature = "geo-security")]
mod speed;
pub(crate) mod target;
mod trace;

use crate::cli::output::{print, rendered, table_style, to_json};
use crate::control::Request;
use crate::control::client::{execute, view};
use crate::control::part::Part;
use crate::exit::Failure;
use crate::render::table::Table;
use crate::render::tables;
use args::{AreaCommand, GeoCommand};
#[cfg(feature = "geo-security")]
use args::{CertCommand, PseudonymCommand};
#[cfg(feature = "geo-security")]
use core::time::Duration;
use roam6_proto::contract::config::geo::{DestinationScope, GeoDestination};
use roam6_proto::contract::view::{GroupView, StationState};
use std::path::Path;
use std::process::ExitCode;
use target::{ScopeText, Target};

/// Why a daemon without GeoNetworking refuses.
const NO_STATION: &str =
    "this daemon is not a GeoNetworking station; add a [geo] table to its configuration (docs/geo.md)";

/// Runs the subcommand.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn run(command: &GeoCommand) -> Result<ExitCode, Failure> {
    match command {
        GeoCommand::Neighbours { json, socket } => neighbours(*json, &socket.path()),
        GeoCommand::Ping(args) => ping::ping(args, args.target().map_err(Failure::Usage)?),
        GeoCommand::Trace(args) => {
            let mid = target::parse_station(&args.station).map_err(Failure::Usage)?;
            trace::trace(args, Target::Station(mid))
        }
        GeoCommand::Groups { json, socket } => groups(*json, &socket.path()),
        GeoCommand::Area(AreaCommand::Add { address, shape, socket }) => {
            let scope = ScopeText::parse(shape).map_err(Failure::Usage)?;
            if matches!(scope, DestinationScope::Hops(_)) && !address.is_multicast() {
                return Err(Failure::Usage(format!("{address} is not a multicast address; hops reach all stations")));
            }
            add_area(GeoDestination { address: *address, scope }, &socket.path())
        }
        GeoCommand::Area(AreaCommand::Del { address, socket }) => execute(&Request::DropArea(*address), &socket.path()),
        GeoCommand::Area(AreaCommand::Show { json, socket }) => areas(*json, &socket.path()),
        #[cfg(feature = "geo-security")]
        GeoCommand::Pseudonym(PseudonymCommand::Change { socket }) => {
            execute(&Request::ChangePseudonym, &socket.path())
        }
        #[cfg(feature = "geo-security")]
        GeoCommand::Pseudonym(PseudonymCommand::Lock { seconds, socket }) => {
            execute(&Request::LockPseudonym(Duration::from_secs((*seconds).into())), &socket.path())
        }
        #[cfg(feature = "geo-security")]
        GeoCommand::Pseudonym(PseudonymCommand::Unlock { socket }) => {
            execute(&Request::LockPseudonym(Duration::ZERO), &socket.path())
        }
        #[cfg(feature = "geo-security")]
        GeoCommand::Cert(CertCommand::Show { file, json }) => cert::show(file, *json),
        #[cfg(feature = "geo-security")]
        GeoCommand::Cert(CertCommand::Make(args)) => authority::make(args),
        #[cfg(feature = "geo-security")]
        GeoCommand::Cert(CertCommand::Enrol(args)) => provisioning::enrol(args),
        #[cfg(feature = "geo-security")]
        GeoCommand::Cert(CertCommand::Authorize(args)) => provisioning::authorize(args),
        #[cfg(feature = "geo-security")]
        GeoCommand::Cert(CertCommand::Register(args)) => provisioning::register(args),
        #[cfg(feature = "geo-security")]
        GeoCommand::Cert(CertCommand::Serve(args)) => provisioning::serve(args),
        #[cfg(feature = "geo-security")]
        GeoCommand::Cert(CertCommand::Revoke(args)) => lists::revoke(args),
        #[cfg(feature = "geo-security")]
        GeoCommand::Cert(CertCommand::TrustLists(args)) => lists::issue_trust_lists(args),
        #[cfg(feature = "geo-security")]
        GeoCommand::Cert(CertCommand::Verify { files }) => authority::verify_chain(files),
        #[cfg(feature = "geo-security")]
        GeoCommand::Cert(CertCommand::Speed { json }) => speed::speed(*json),
    }
}

fn neighbours(json: bool, socket: &Path) -> Result<ExitCode, Failure> {
    let mut state = view(Part::Stations, socket)?;
    state.view.stations.retain(|station| station.state == StationState::Neighbour);
    Ok(print(&rendered(json, &state.view.stations, || tables::stations(&state))))
}

fn groups(json: bool, socket: &Path) -> Result<ExitCode, Failure> {
    let groups = view(Part::Groups, socket)?.view.groups;
    if json {
        return Ok(print(&to_json(&groups)));
    }
    let areas = view(Part::Areas, socket)?.view.areas;
    let mut table = Table::new(&["GROUP", "LINK", "AREA"]);
    for GroupView { link, group } in &groups {
        let bound = areas.iter().find(|bound| bound.address == *group);
        let area = bound.map_or_else(|| "that of the link".to_owned(), |bound| ScopeText::format(&bound.scope));
        table.push(vec![group.to_string(), link.clone(), area]);
    }
    Ok(print(&table.render(table_style())))
}

fn areas(json: bool, socket: &Path) -> Result<ExitCode, Failure> {
    let areas = view(Part::Areas, socket)?.view.areas;
    if json {
        return Ok(print(&to_json(&areas)));
    }
    let table = Table::of(
        &areas,
        &[
            ("ADDRESS", |row| row.address.to_string()),
            ("KIND", |row| if row.address.is_multicast() { "all in" } else { "any in" }.to_owned()),
            ("AREA", |row| ScopeText::format(&row.scope)),
        ],
    );
    Ok(print(&table.render(table_style())))
}

/// The daemon has refused the mapping if it is not listed afterwards; its log has the reason.
fn add_area(destination: GeoDestination, socket: &Path) -> Result<ExitCode, Failure> {
    execute(&Request::PutArea(destination), socket)?;
    if view(Part::Areas, socket)?.view.areas.contains(&destination) {
        return Ok(ExitCode::SUCCESS);
    }
    let why = match view(Part::Position, socket)?.view.position {
        None => NO_STATION,
        Some(_) => "the area is larger than max_area, or too many areas are mapped; the daemon's log has the reason",
    };
    Err(Failure::Other(why.to_owned()))
}
