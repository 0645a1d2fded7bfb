//! The words of `roam6 geo`.

use crate::command_line::Socket;
use crate::geo::target::{Shape, Target};
use clap::{Args, Subcommand};
use std::net::Ipv6Addr;

/// What `roam6 geo` can do.
#[derive(Subcommand)]
pub(crate) enum Geo {
    /// Show the stations that are heard directly
    #[command(after_help = "Example: roam6 geo neighbours --json | jq '.[].distance'")]
    Neighbours {
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: Socket,
    },
    /// Ask a station, or all stations in an area, for an answer of the GeoNetworking layer
    #[command(after_help = TARGETS)]
    Ping(Ping),
    /// Show the stations by which packets reach a station
    #[command(after_help = "\
Each station asks the next to answer where the hop limit ends; those that are not roam6 keep still and are shown as *.

Examples:
  roam6 geo trace 02:00:00:00:00:07
  roam6 geo trace fe80::ff:fe00:7")]
    Trace(Trace),
    /// Show the multicast groups this host listens to on virtual links, as it says by MLDv2
    #[command(after_help = "Example: roam6 geo groups")]
    Groups {
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: Socket,
    },
    /// IPv6 addresses whose packets go to areas of their own, until the daemon ends
    #[command(subcommand, after_help = "Example: roam6 geo area add ff18::7 circle 48.1 11.5 500")]
    Area(Area),
}

const TARGETS: &str = "\
A target is one of
  MAC or fe80:: address      a station
  circle LAT LON RADIUS      degrees, metres
  rectangle LAT LON A B DEG  half of each side in metres, and where A points, degrees from north
  ellipse LAT LON A B DEG    half of each axis, and likewise

Examples:
  roam6 geo ping 02:00:00:00:00:07
  roam6 geo ping circle 48.1 11.5 500 --count 3";

/// See [`Geo::Ping`].
#[derive(Args)]
pub(crate) struct Ping {
    /// A station or an area
    #[arg(required = true, num_args = 1..=6, allow_negative_numbers = true, value_name = "TARGET")]
    target: Vec<String>,
    /// Questions asked
    #[arg(long, short, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
    /// Seconds from one question to the next
    #[arg(long, short, default_value_t = 1.0, value_parser = seconds)]
    pub(crate) interval: f64,
    /// Octets of data
    #[arg(long, short, default_value_t = 32)]
    pub(crate) size: u16,
    /// Seconds to wait for the last answer
    #[arg(long, short = 'W', default_value_t = 2.0, value_parser = seconds)]
    pub(crate) timeout: f64,
    /// Hops a question may make
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) hops: Option<u8>,
    /// Milliseconds over which the stations of an area spread their answers
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=5000))]
    pub(crate) spread: u64,
    /// A line of JSON for each answer, then one for the sum
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) socket: Socket,
}

impl Ping {
    /// Whom to ask.
    pub(crate) fn target(&self) -> Result<Target, String> {
        Target::of_words(&self.target)
    }
}

/// See [`Geo::Trace`].
#[derive(Args)]
pub(crate) struct Trace {
    /// A station
    pub(crate) station: String,
    /// Most hops
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) hops: u8,
    /// Seconds to wait for each answer
    #[arg(long, short = 'W', default_value_t = 2.0, value_parser = seconds)]
    pub(crate) timeout: f64,
    /// A line of JSON for each hop
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) socket: Socket,
}

/// See [`Geo::Area`].
#[derive(Subcommand)]
pub(crate) enum Area {
    /// Send packets for a multicast group to an area, or for a unicast address to any one station in it
    #[command(after_help = "\
Examples:
  roam6 geo area add ff18::7 circle 48.1 11.5 500
  roam6 geo area add ff18::8 rectangle 48.1 11.5 400 50 90")]
    Add {
        /// The IPv6 address
        address: Ipv6Addr,
        /// circle LAT LON RADIUS, or rectangle or ellipse LAT LON A B DEGREES
        #[arg(required = true, num_args = 4..=6, allow_negative_numbers = true, value_name = "SHAPE")]
        shape: Vec<String>,
        #[command(flatten)]
        socket: Socket,
    },
    /// Send packets for an address where its virtual link reaches again
    #[command(after_help = "Example: roam6 geo area del ff18::7")]
    Del {
        /// The IPv6 address
        address: Ipv6Addr,
        #[command(flatten)]
        socket: Socket,
    },
    /// Show the addresses and their areas
    #[command(after_help = "Example: roam6 geo area show --json")]
    Show {
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: Socket,
    },
}

/// The area that words describe.
pub(crate) fn area(words: &[String]) -> Result<roam6_wire::geo::Area, String> {
    Shape::of_words(words)
}

/// A number of seconds that a program can wait.
fn seconds(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.001..=3600.0).contains(&number) { Ok(number) } else { Err("write 0.001 to 3600 seconds".to_owned()) }
}
