//! What the layers above ask of GeoNetworking (GN-DATA.request, EN 302 636-4-1 annex J), and what it hands up.

use super::stations::Hop;
use crate::contract::config::geo::To;
use crate::contract::report::DropReason;
use core::fmt;
use core::time::Duration;
use roam6_wire::geo::{Packet, TrafficClass, Upper};

/// Something to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// For whom.
    pub to: To,
    /// What the payload is.
    pub upper: Upper,
    /// The payload.
    pub payload: Vec<u8>,
    /// How it wants to be treated.
    pub class: TrafficClass,
    /// How long it may live; `None` for the default.
    pub lifetime: Option<Duration>,
    /// Hops it may make; `None` for the default.
    pub hops: Option<u8>,
    /// How often it is sent anew.
    pub repetition: Option<Repetition>,
}

/// A packet sent again and again (§10.2.2): each time anew, from where the station then is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// Time from one to the next.
    pub interval: Duration,
    /// Time from the first to the last.
    pub total: Duration,
}

/// Why something is not sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Refused {
    /// This station does not know where it is.
    NoPosition,
    /// No interface is up.
    NoLink,
    /// The payload is longer than itsGnMaxSduSize, octets.
    TooLong {
        /// Its length.
        has: usize,
        /// The most.
        most: usize,
    },
    /// The area is larger than itsGnMaxGeoAreaSize, square metres.
    AreaTooLarge {
        /// Its size.
        has: f64,
        /// The most.
        most: f64,
    },
    /// Repeated faster than itsGnMinPacketRepetitionInterval.
    TooOften,
    /// So many things are already waiting.
    Busy(usize),
}

impl Refused {
    /// Under what it is counted.
    pub fn reason(&self) -> DropReason {
        match self {
            Refused::NoPosition => DropReason::NoPosition,
            Refused::NoLink => DropReason::NoNeighbour,
            Refused::TooLong { .. } => DropReason::TooLong,
            Refused::AreaTooLarge { .. } => DropReason::AreaTooLarge,
            Refused::TooOften => DropReason::RateLimited,
            Refused::Busy(_) => DropReason::BufferFull,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NoPosition => f.write_str("this station does not know where it is"),
            Refused::NoLink => f.write_str("no interface for GeoNetworking is up"),
            Refused::TooLong { has, most } => write!(f, "{has} octets are more than {most}"),
            Refused::AreaTooLarge { has, most } => {
                write!(f, "an area of {:.2} km² is more than {:.2} km²", has / 1e6, most / 1e6)
            }
            Refused::TooOften => f.write_str("repeated more often than allowed"),
            Refused::Busy(limit) => write!(f, "{limit} already wait"),
        }
    }
}

/// A packet for the layers above.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delivery<'a> {
    /// The packet.
    pub packet: Packet<'a>,
    /// By whom it came.
    pub from: Hop,
    /// It is for another station, but has made its last hop and wants that to be answered (a trace).
    pub ends_here: bool,
}
