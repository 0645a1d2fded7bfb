//! Questions of the GeoNetworking layer by way of the daemon: it is asked to ask, and its events tell the answers.

use crate::client::{Failure, ask, connect, view};
use crate::control::{Answer, Request};
use core::time::Duration;
use roam6_proto::contract::config::geo::{Probe, Question};
use roam6_proto::contract::view::PositionView;
use serde::Deserialize;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Questions of one series.
pub(crate) struct Questions {
    socket: PathBuf,
    identifier: u32,
    events: BufReader<UnixStream>,
    /// A line whose end has not come yet.
    begun: Vec<u8>,
}

/// An answer to one of them: the event `echo`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Echo {
    identifier: u32,
    /// Which question.
    pub(crate) sequence: u32,
    /// By whom.
    pub(crate) mid: roam6_wire::LinkAddress,
    /// What it is.
    pub(crate) kind: String,
    /// Where it is.
    pub(crate) place: roam6_wire::geo::Place,
    /// Hops the question made.
    pub(crate) hops: u8,
    /// Octets of data.
    pub(crate) octets: usize,
    /// Time there and back.
    pub(crate) rtt: Duration,
    /// The question was for it.
    pub(crate) arrived: bool,
    /// It has answered this question before.
    pub(crate) again: bool,
}

/// What the daemon told.
pub(crate) enum Told {
    /// An answer.
    Echo(Box<Echo>),
    /// A question was not asked.
    Refused(String),
    /// The time is over.
    Nothing,
}

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line {
    Echo(Box<Echo>),
    EchoRefused {
        identifier: u32,
        why: String,
    },
    #[serde(other)]
    Else,
}

/// A person waits for answers by the clock.
#[allow(clippy::disallowed_methods, reason = "a command of a person, no engine")]
fn now() -> Instant {
    Instant::now()
}

/// The moment that is so many seconds away.
pub(crate) fn within(seconds: f64) -> Instant {
    now() + Duration::from_secs_f64(seconds)
}

impl Questions {
    /// A series that nobody else has; also where this station is.
    pub(crate) fn begin(socket: &Path) -> Result<(Questions, PositionView), Failure> {
        let events = BufReader::new(connect(&Request::Watch, socket)?);
        let position = view(socket)?.view.position.ok_or_else(|| {
            Failure::Refused("this daemon is no GeoNetworking station; give it a [geo] table (docs/geo.md)".to_owned())
        })?;
        let identifier = std::process::id();
        Ok((Questions { socket: socket.to_owned(), identifier, events, begun: Vec::new() }, position))
    }

    /// Asks; the place in the series is filled in.
    pub(crate) fn ask(&self, sequence: u32, question: Question) -> Result<(), Failure> {
        let probe = Probe { identifier: self.identifier, sequence };
        match ask(&Request::Ask(Box::new(Question { probe, ..question })), &self.socket)? {
            Answer::Done => Ok(()),
            answer => Err(Failure::unexpected(answer)),
        }
    }

    /// The next that is told before `until`.
    pub(crate) fn next(&mut self, until: Instant) -> Result<Told, Failure> {
        loop {
            let left = until.saturating_duration_since(now());
            if left.is_zero() {
                return Ok(Told::Nothing);
            }
            let lost = |error: std::io::Error| Failure::Absent(format!("the daemon: {error}"));
            self.events.get_ref().set_read_timeout(Some(left)).map_err(lost)?;
            match self.events.read_until(b'\n', &mut self.begun) {
                Ok(0) => return Err(Failure::Absent("the daemon has ended".to_owned())),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(error) => return Err(lost(error)),
            }
            let line = std::mem::take(&mut self.begun);
            match serde_json::from_slice(&line) {
                Ok(Line::Echo(echo)) if echo.identifier == self.identifier => return Ok(Told::Echo(echo)),
                Ok(Line::EchoRefused { identifier, why }) if identifier == self.identifier => {
                    return Ok(Told::Refused(why));
                }
                _ => {}
            }
        }
    }
}
