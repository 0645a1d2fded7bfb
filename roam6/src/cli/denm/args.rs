//! Command-line arguments of `roam6 denm`.

use crate::cli::geo::args::ParameterArgs;
use crate::cli::socket::SocketArgs;
use crate::config::duration;
use crate::render::cause::cause_code;
use clap::{Args, Subcommand};
use core::time::Duration;
use roam6_proto::contract::config::facilities::EventId;

/// The subcommands of `roam6 denm`.
#[derive(Subcommand)]
pub(crate) enum DenmCommand {
    /// Send a notification of a new event, and print the event's name
    #[command(after_help = CAUSES)]
    Send(EventArgs),
    /// Update the notification of an event
    #[command(after_help = "Example: roam6 denm update 3735928559/0 accident circle 48.1 11.5 800 --sub 2")]
    Update {
        /// The event's name, STATION/NUMBER
        #[arg(value_parser = parse_event_name)]
        event: EventId,
        #[command(flatten)]
        args: EventArgs,
    },
    /// End an event: by a cancellation if this station has sent it, else by a negation
    #[command(after_help = "Example: roam6 denm cancel 3735928559/0")]
    Cancel {
        /// The event's name, STATION/NUMBER
        #[arg(value_parser = parse_event_name)]
        event: EventId,
        #[command(flatten)]
        socket: SocketArgs,
    },
}

const CAUSES: &str = "\
A cause is a cause code of TS 102 894-2 or one of traffic-condition, accident, roadworks, impassability, adhesion,
aquaplaning, surface-condition, obstacle, animal, human-presence, wrong-way, rescue-work, extreme-weather,
visibility, precipitation, slow-vehicle, end-of-queue, breakdown, post-crash, human-problem, stationary-vehicle,
emergency-vehicle, dangerous-curve, collision-risk, signal-violation, dangerous-situation.

`roam6 show ldm` lists the known events.

Examples:
  roam6 denm send stationary-vehicle circle 48.1 11.5 500 --repeat 1s --validity 10m
  roam6 denm send 94 rectangle 48.1 11.5 400 50 90 --at 48.1005 11.5";

/// The description of an event.
#[derive(Args)]
pub(crate) struct EventArgs {
    /// The cause: a name or a cause code
    #[arg(value_parser = parse_cause)]
    pub(crate) cause: u8,
    /// Destination area: circle LAT LON RADIUS, or rectangle or ellipse LAT LON A B DEGREES
    #[arg(required = true, num_args = 4..=6, allow_negative_numbers = true, value_name = "AREA")]
    pub(crate) area: Vec<String>,
    /// Sub cause code
    #[arg(long, default_value_t = 0)]
    pub(crate) sub: u8,
    /// Position of the event; by default that of this station
    #[arg(long, num_args = 2, allow_negative_numbers = true, value_names = ["LAT", "LON"])]
    pub(crate) at: Option<Vec<f64>>,
    /// Information quality, 1 (lowest) to 7 (highest); 0 unknown
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) quality: u8,
    /// Validity duration, 1s to 24h
    #[arg(long, default_value = "10m", value_parser = parse_validity)]
    pub(crate) validity: Duration,
    /// Repetition interval, at least 100ms
    #[arg(long, value_parser = parse_interval)]
    pub(crate) repeat: Option<Duration>,
    /// Repetition duration; by default the validity duration
    #[arg(long = "for", value_parser = parse_duration, requires = "repeat")]
    pub(crate) lasting: Option<Duration>,
    /// Hop limit
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) hops: Option<u8>,
    #[command(flatten)]
    pub(crate) parameters: ParameterArgs,
    #[command(flatten)]
    pub(crate) socket: SocketArgs,
}

fn parse_cause(text: &str) -> Result<u8, String> {
    let known = cause_code(text).or_else(|| text.parse().ok());
    known.ok_or_else(|| "unknown cause; `roam6 denm send --help` lists the causes".to_owned())
}

fn parse_event_name(text: &str) -> Result<EventId, String> {
    let read = || {
        let (station, sequence) = text.split_once('/')?;
        Some(EventId { station: station.parse().ok()?, sequence: sequence.parse().ok()? })
    };
    read().ok_or_else(|| "not the name of an event; write STATION/NUMBER, as 3735928559/0".to_owned())
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| "not a duration; write it as 200ms, 10s, 1h30m".to_owned())
}

/// ValidityDuration (TS 102 894-2).
fn parse_validity(text: &str) -> Result<Duration, String> {
    let bounds = Duration::from_secs(1)..=Duration::from_secs(86_400);
    parse_duration(text)
        .and_then(|span| bounds.contains(&span).then_some(span).ok_or_else(|| "write 1s to 24h".to_owned()))
}

/// itsGnMinPacketRepetitionInterval.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let least = Duration::from_millis(100);
    parse_duration(text)
        .and_then(|span| (span >= least).then_some(span).ok_or_else(|| "write 100ms or more".to_owned()))
}
