//! Requests of the upper layers (GN-DATA.request, EN 302 636-4-1 annex J), and packets delivered to them.

use super::location_table::Hop;
use crate::contract::config::geo::TransportType;
use crate::contract::report::DropReason;
use core::fmt;
use core::time::Duration;
use roam6_wire::geo::{Packet, TrafficClass, UpperProtocol};

/// A packet to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct PacketRequest {
    /// Its destination.
    pub to: TransportType,
    /// The protocol of the payload.
    pub upper: UpperProtocol,
    /// The payload.
    pub payload: Vec<u8>,
    /// Its traffic class.
    pub class: TrafficClass,
    /// Its lifetime; `None` for the default.
    pub lifetime: Option<Duration>,
    /// Its hop limit; `None` for the default.
    pub hops: Option<u8>,
    /// Whether it is repeated.
    pub repetition: Option<Repetition>,
}

/// Repetition of a packet (§10.2.2), each time with the station's present position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// The interval.
    pub interval: Duration,
    /// From the first to the last.
    pub total: Duration,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RequestError {
    /// This station has no position yet.
    NoPosition,
    /// No interface is up.
    NoLink,
    /// The payload is longer than itsGnMaxSduSize, octets.
    TooLong {
        /// Its length.
        octets: usize,
        /// The most.
        limit: usize,
    },
    /// The area is larger than itsGnMaxGeoAreaSize, square metres.
    AreaTooLarge {
        /// Its size.
        square_metres: f64,
        /// The most.
        limit: f64,
    },
    /// The interval is shorter than itsGnMinPacketRepetitionInterval.
    RepetitionTooFast,
    /// The limit of repeated packets is reached.
    TooManyRepetitions(usize),
}

impl RequestError {
    /// The reason under which it is counted.
    pub fn reason(&self) -> DropReason {
        match self {
            RequestError::NoPosition => DropReason::NoPosition,
            RequestError::NoLink => DropReason::NoNeighbour,
            RequestError::TooLong { .. } => DropReason::TooLong,
            RequestError::AreaTooLarge { .. } => DropReason::AreaTooLarge,
            RequestError::RepetitionTooFast => DropReason::RateLimited,
            RequestError::TooManyRepetitions(_) => DropReason::BufferFull,
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::NoPosition => f.write_str("this station has no position yet"),
            RequestError::NoLink => f.write_str("no interface for GeoNetworking is up"),
            RequestError::TooLong { octets: has, limit: most } => write!(f, "{has} octets are more than {most}"),
            RequestError::AreaTooLarge { square_metres: has, limit: most } => {
                write!(f, "an area of {:.2} km² is more than {:.2} km²", has / 1e6, most / 1e6)
            }
            RequestError::RepetitionTooFast => {
                f.write_str("the repetition interval is shorter than itsGnMinPacketRepetitionInterval")
            }
            RequestError::TooManyRepetitions(limit) => write!(f, "{limit} already wait"),
        }
    }
}

/// A packet delivered to the upper layers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delivery<'a> {
    /// The packet.
    pub packet: Packet<'a>,
    /// The neighbour that has sent it.
    pub from: Hop,
    /// The service specific permissions of its signer, if its signature was verified.
    pub permissions: Option<[u8; 3]>,
    /// It is for another station, but its hop limit is reached and it requests a reply in that case (a trace).
    pub hop_limit_reached: bool,
}
