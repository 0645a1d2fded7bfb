//! Reports of the facilities layer.

use core::fmt;
use serde::{Deserialize, Serialize};

/// A report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are terms of the standards, and their types say what they contain")]
pub enum FacilitiesReport {
    /// A DENM with a new or changed event was received.
    #[serde(rename = "event_heard")]
    DenmReceived { station: u32, sequence: u16, cause: u8, sub_cause: u8 },
    /// An event was cancelled or negated.
    #[serde(rename = "event_over")]
    DenmTerminated { station: u32, sequence: u16 },
    /// A SAM with new or changed services was received; `routing` is true if it offers Internet access.
    #[serde(rename = "services_heard")]
    SamReceived { station: u32, services: usize, routing: bool },
}

impl FacilitiesReport {
    /// The name of its counter, and the `event` of its line in the stream.
    pub fn name(&self) -> &'static str {
        match self {
            FacilitiesReport::DenmReceived { .. } => "event_heard",
            FacilitiesReport::DenmTerminated { .. } => "event_over",
            FacilitiesReport::SamReceived { .. } => "services_heard",
        }
    }
}

impl fmt::Display for FacilitiesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FacilitiesReport::DenmReceived { station, sequence, cause, sub_cause } => {
                write!(f, "DENM of station {station}, event {sequence}: cause code {cause}, sub cause code {sub_cause}")
            }
            FacilitiesReport::DenmTerminated { station, sequence } => {
                write!(f, "event {sequence} of station {station} terminated")
            }
            FacilitiesReport::SamReceived { station, services, routing } => {
                let way = if *routing { ", with Internet access" } else { "" };
                write!(f, "SAM of station {station}: {services} services{way}")
            }
        }
    }
}
