//! Echo requests of the GeoNetworking layer, sent by the daemon on request; the replies arrive as events.

use super::NO_STATION;
use crate::control::Request;
use crate::control::client::{connect, execute, view};
use crate::control::part::Part;
use crate::exit::Failure;
use core::time::Duration;
use roam6_proto::contract::config::geo::{EchoId, EchoRequest};
use roam6_proto::contract::view::PositionView;
use serde::Deserialize;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A series of echo requests with an identifier of its own.
pub(crate) struct ProbeSession {
    socket: PathBuf,
    identifier: u32,
    events: BufReader<UnixStream>,
    /// The incomplete line read so far.
    partial_line: Vec<u8>,
}

/// A reply: the event `echo`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Echo {
    identifier: u32,
    /// The request's sequence number.
    pub(crate) sequence: u32,
    /// Link-layer address of the replying station.
    pub(crate) mid: roam6_wire::LinkAddress,
    /// Station type.
    pub(crate) kind: String,
    /// Position of the station.
    pub(crate) place: roam6_wire::geo::Coordinates,
    /// Hops that the request has travelled.
    pub(crate) hops: u8,
    /// Payload length, octets.
    pub(crate) octets: usize,
    /// Round-trip time.
    pub(crate) rtt: Duration,
    /// Whether this station was the destination.
    pub(crate) arrived: bool,
    /// Whether this is a duplicate reply.
    pub(crate) again: bool,
}

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum WatchedEvent {
    Echo(Box<Echo>),
    EchoRefused {
        identifier: u32,
        why: String,
    },
    #[serde(other)]
    Else,
}

/// The clock of a command; engines have none.
#[allow(clippy::disallowed_methods, reason = "a command of the user, not an engine")]
fn now() -> Instant {
    Instant::now()
}

/// The time `seconds` from now.
pub(crate) fn deadline_in(seconds: f64) -> Instant {
    now() + Duration::from_secs_f64(seconds)
}

impl ProbeSession {
    /// Starts a series with an identifier of its own. Also returns the position of this station.
    ///
    /// # Errors
    /// The daemon does not run, or is not a GeoNetworking station.
    pub(crate) fn start(socket: &Path) -> Result<(ProbeSession, PositionView), Failure> {
        let events = BufReader::new(connect(&Request::Watch, socket)?);
        let position = view(Part::Position, socket)?.view.position;
        let position = position.ok_or_else(|| Failure::Other(NO_STATION.to_owned()))?;
        let identifier = std::process::id();
        Ok((ProbeSession { socket: socket.to_owned(), identifier, events, partial_line: Vec::new() }, position))
    }

    /// Sends one request with this sequence number.
    ///
    /// # Errors
    /// The daemon does not run or has refused the request.
    pub(crate) fn send(&self, sequence: u32, request: EchoRequest) -> Result<(), Failure> {
        let probe = EchoId { identifier: self.identifier, sequence };
        execute(&Request::Ask(Box::new(EchoRequest { id: probe, ..request })), &self.socket).map(drop)
    }

    /// The next reply to this series; `None` at `until`.
    ///
    /// # Errors
    /// The daemon has stopped, or the station could not send a request.
    pub(crate) fn next(&mut self, until: Instant) -> Result<Option<Box<Echo>>, Failure> {
        loop {
            let left = until.saturating_duration_since(now());
            if left.is_zero() {
                return Ok(None);
            }
            let lost = |error: std::io::Error| Failure::NoDaemon(format!("the daemon: {error}"));
            self.events.get_ref().set_read_timeout(Some(left)).map_err(lost)?;
            match self.events.read_until(b'\n', &mut self.partial_line) {
                Ok(0) => return Err(Failure::NoDaemon("the daemon has stopped".to_owned())),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(error) => return Err(lost(error)),
            }
            let line = std::mem::take(&mut self.partial_line);
            match serde_json::from_slice(&line) {
                Ok(WatchedEvent::Echo(echo)) if echo.identifier == self.identifier => return Ok(Some(echo)),
                Ok(WatchedEvent::EchoRefused { identifier, why }) if identifier == self.identifier => {
                    return Err(Failure::Other(why));
                }
                _ => {}
            }
        }
    }
}
