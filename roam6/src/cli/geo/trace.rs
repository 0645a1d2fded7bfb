//! `roam6 geo trace`: echo requests with increasing hop limits, until the destination station replies.

use super::args::TraceArgs;
use super::ping::{document, milliseconds};
use super::probes::{Echo, ProbeSession, deadline_in};
use super::target::Target;
use crate::cli::output::print;
use crate::exit::Failure;
use core::time::Duration;
use roam6_proto::contract::config::geo::{EchoId, EchoRequest, PacketParameters};
use roam6_proto::geo::geometry;
use roam6_wire::geo::Coordinates;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

/// Sends the requests, and prints a line for each hop.
///
/// # Errors
/// The daemon does not run, or has refused a request.
pub(crate) fn trace(args: &TraceArgs, target: Target) -> Result<ExitCode, Failure> {
    let (mut session, position) = ProbeSession::start(&args.socket.path())?;
    for hops in 1..=args.hops {
        let probe = EchoId { identifier: 0, sequence: 0 };
        let (spread, parameters) =
            (Duration::ZERO, PacketParameters { hops: Some(hops), ..PacketParameters::default() });
        let request = EchoRequest { id: probe, to: target.to(), octets: 0, parameters, trace: true, spread };
        session.send(hops.into(), request)?;
        let until = deadline_in(args.timeout);
        let echo = await_reply(&mut session, hops, until)?;
        print_hop(hops, echo.as_deref(), position.place, args.json);
        if echo.is_some_and(|echo| echo.arrived) {
            return Ok(ExitCode::SUCCESS);
        }
    }
    Ok(ExitCode::FAILURE)
}

fn await_reply(session: &mut ProbeSession, hops: u8, until: Instant) -> Result<Option<Box<Echo>>, Failure> {
    loop {
        // A late reply of an earlier hop is ignored.
        match session.next(until)? {
            Some(echo) if echo.sequence != u32::from(hops) => {}
            echo => return Ok(echo),
        }
    }
}

fn print_hop(hops: u8, echo: Option<&Echo>, own: Option<Coordinates>, json: bool) {
    let distance = echo.and_then(|echo| Some(geometry::distance(own?, echo.place).floor()));
    let line = match echo {
        Some(echo) if json => document(echo, distance).to_string(),
        None if json => json!({ "sequence": hops, "station": null }).to_string(),
        None => format!("{hops:2}  *"),
        Some(echo) => {
            let distance = distance.map(|metres| format!("{metres} m")).unwrap_or_default();
            format!("{hops:2}  {}  {}  {}  {distance}  {} ms", echo.mid, echo.kind, echo.place, milliseconds(echo.rtt))
        }
    };
    print(&format!("{line}\n"));
}
