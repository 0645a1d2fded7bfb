//! The words of `roam6 denm`.

use crate::command_line::Socket;
use crate::config::duration;
use clap::{Args, Subcommand};
use core::time::Duration;
use roam6_proto::contract::config::facilities::EventName;

/// What `roam6 denm` can do.
#[derive(Subcommand)]
pub(crate) enum Denm {
    /// Tell of an event, and print its name
    #[command(after_help = CAUSES)]
    Send(Tell),
    /// Tell of an event otherwise than before
    #[command(after_help = "Example: roam6 denm update 3735928559/0 accident circle 48.1 11.5 800 --sub 2")]
    Update {
        /// Its name
        #[arg(value_parser = event)]
        event: EventName,
        #[command(flatten)]
        tell: Tell,
    },
    /// Say that an event is over: a cancellation if it is ours, else a negation
    #[command(after_help = "Example: roam6 denm cancel 3735928559/0")]
    Cancel {
        /// Its name
        #[arg(value_parser = event)]
        event: EventName,
        #[command(flatten)]
        socket: Socket,
    },
}

const CAUSES: &str = "\
A cause is a number of TS 102 894-2 or one of traffic-condition, accident, roadworks, impassability, adhesion,
aquaplaning, surface-condition, obstacle, animal, human-presence, wrong-way, rescue-work, extreme-weather,
visibility, precipitation, slow-vehicle, end-of-queue, breakdown, post-crash, human-problem, stationary-vehicle,
emergency-vehicle, dangerous-curve, collision-risk, signal-violation, dangerous-situation.

`roam6 show ldm` shows what is known of.

Examples:
  roam6 denm send stationary-vehicle circle 48.1 11.5 500 --repeat 1s --validity 10m
  roam6 denm send 94 rectangle 48.1 11.5 400 50 90 --at 48.1005 11.5";

/// An event, as it is told of.
#[derive(Args)]
pub(crate) struct Tell {
    /// What has happened
    #[arg(value_parser = cause)]
    pub(crate) cause: u8,
    /// Who is to hear of it: circle LAT LON RADIUS, or rectangle or ellipse LAT LON A B DEGREES
    #[arg(required = true, num_args = 4..=6, allow_negative_numbers = true, value_name = "AREA")]
    pub(crate) area: Vec<String>,
    /// More of what has happened (sub cause code)
    #[arg(long, default_value_t = 0)]
    pub(crate) sub: u8,
    /// Where; here if left out
    #[arg(long, num_args = 2, allow_negative_numbers = true, value_names = ["LAT", "LON"])]
    pub(crate) at: Option<Vec<f64>>,
    /// How sure it is, 1 to 7; 0 unknown
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) quality: u8,
    /// From now to its end, 1s to 24h
    #[arg(long, default_value = "10m", value_parser = validity)]
    pub(crate) validity: Duration,
    /// Tell again each, 100ms at least
    #[arg(long, value_parser = interval)]
    pub(crate) repeat: Option<Duration>,
    /// Tell again for so long; to its end if left out
    #[arg(long = "for", value_parser = span, requires = "repeat")]
    pub(crate) lasting: Option<Duration>,
    #[command(flatten)]
    pub(crate) socket: Socket,
}

/// Names of the causes (TS 102 894-2 §A.10).
const NAMES: [(&str, u8); 26] = [
    ("traffic-condition", 1),
    ("accident", 2),
    ("roadworks", 3),
    ("impassability", 5),
    ("adhesion", 6),
    ("aquaplaning", 7),
    ("surface-condition", 9),
    ("obstacle", 10),
    ("animal", 11),
    ("human-presence", 12),
    ("wrong-way", 14),
    ("rescue-work", 15),
    ("extreme-weather", 17),
    ("visibility", 18),
    ("precipitation", 19),
    ("slow-vehicle", 26),
    ("end-of-queue", 27),
    ("breakdown", 91),
    ("post-crash", 92),
    ("human-problem", 93),
    ("stationary-vehicle", 94),
    ("emergency-vehicle", 95),
    ("dangerous-curve", 96),
    ("collision-risk", 97),
    ("signal-violation", 98),
    ("dangerous-situation", 99),
];

/// The name of a cause, or its number.
pub(crate) fn cause_name(cause: u8) -> String {
    let found = NAMES.iter().find(|(_, number)| *number == cause);
    found.map_or_else(|| cause.to_string(), |(name, _)| (*name).to_owned())
}

fn cause(text: &str) -> Result<u8, String> {
    let found = NAMES.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    found.or_else(|| text.parse().ok()).ok_or_else(|| "no such cause; `roam6 denm send --help` lists them".to_owned())
}

fn event(text: &str) -> Result<EventName, String> {
    let read = || {
        let (station, sequence) = text.split_once('/')?;
        Some(EventName { station: station.parse().ok()?, sequence: sequence.parse().ok()? })
    };
    read().ok_or_else(|| "an event is named by its station and a number, as 3735928559/0".to_owned())
}

fn span(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| "not a duration; write it as 200ms, 10s, 1h30m".to_owned())
}

/// ValidityDuration (TS 102 894-2).
fn validity(text: &str) -> Result<Duration, String> {
    let bounds = Duration::from_secs(1)..=Duration::from_secs(86_400);
    span(text).and_then(|span| bounds.contains(&span).then_some(span).ok_or_else(|| "write 1s to 24h".to_owned()))
}

/// itsGnMinPacketRepetitionInterval.
fn interval(text: &str) -> Result<Duration, String> {
    let least = Duration::from_millis(100);
    span(text).and_then(|span| (span >= least).then_some(span).ok_or_else(|| "write 100ms or more".to_owned()))
}
