//! Reports of GeoNetworking.

use core::fmt;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::Coordinates;
use serde::{Deserialize, Serialize};

/// A report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are terms of the standards, and their types say what they contain")]
pub enum GeoReport {
    /// An echo reply was received; `arrived` is false if the hop limit of the request expired at the station, `again` is
    /// true for a duplicate.
    #[serde(rename = "echo")]
    EchoReply {
        identifier: u32,
        sequence: u32,
        mid: LinkAddress,
        kind: String,
        place: Coordinates,
        hops: u8,
        octets: usize,
        rtt: Duration,
        arrived: bool,
        again: bool,
    },
    /// An echo request was not sent.
    #[serde(rename = "echo_refused")]
    EchoNotSent { identifier: u32, sequence: u32, why: String },
}

impl GeoReport {
    /// The name of its counter, and the `event` of its line in the stream.
    pub fn name(&self) -> &'static str {
        match self {
            GeoReport::EchoReply { .. } => "echo",
            GeoReport::EchoNotSent { .. } => "echo_refused",
        }
    }
}

impl fmt::Display for GeoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GeoReport::EchoReply { mid, kind, place, rtt, .. } => {
                write!(f, "echo reply of {mid}, {kind} at {place}, after {} us", rtt.as_micros())
            }
            GeoReport::EchoNotSent { why, .. } => write!(f, "echo request not sent: {why}"),
        }
    }
}
