//! Reports of GeoNetworking.

use core::time::Duration;
use derive_more::Display;
use roam6_wire::LinkAddress;
use roam6_wire::geo::Coordinates;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// A report.
#[derive(Debug, Clone, PartialEq, Eq, Display, IntoStaticStr, Serialize, Deserialize)]
#[strum(serialize_all = "snake_case")]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are terms of the standards, and their types say what they contain")]
pub enum GeoReport {
    /// An echo reply was received; `arrived` is false if the hop limit of the request expired at the station, `again` is
    /// true for a duplicate.
    #[serde(rename = "echo")]
    #[strum(serialize = "echo")]
    #[display("echo reply of {mid}, {kind} at {place}, after {} us", rtt.as_micros())]
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
    #[strum(serialize = "echo_refused")]
    #[display("echo request not sent: {why}")]
    EchoNotSent { identifier: u32, sequence: u32, why: String },
}
