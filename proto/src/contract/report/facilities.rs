//! Reports of the facilities layer.

use derive_more::Display;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// A report.
#[derive(Debug, Clone, PartialEq, Eq, Display, IntoStaticStr, Serialize, Deserialize)]
#[strum(serialize_all = "snake_case")]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are terms of the standards, and their types say what they contain")]
pub enum FacilitiesReport {
    /// A DENM with a new or changed event was received.
    #[serde(rename = "event_heard")]
    #[strum(serialize = "event_heard")]
    #[display("DENM of station {station}, event {sequence}: cause code {cause}, sub cause code {sub_cause}")]
    DenmReceived { station: u32, sequence: u16, cause: u8, sub_cause: u8 },
    /// An event was cancelled or negated.
    #[serde(rename = "event_over")]
    #[strum(serialize = "event_over")]
    #[display("event {sequence} of station {station} terminated")]
    DenmTerminated { station: u32, sequence: u16 },
    /// A SAM with new or changed services was received; `routing` is true if it offers Internet access.
    #[serde(rename = "services_heard")]
    #[strum(serialize = "services_heard")]
    #[display(
        "SAM of station {station}: {services} services{}",
        if *routing { ", with Internet access" } else { "" }
    )]
    SamReceived { station: u32, services: usize, routing: bool },
}
