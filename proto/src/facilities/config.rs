//! What the facilities of a station are told: plain values, checked by whoever builds them.

use core::time::Duration;
use roam6_wire::geo::{Area, Place};
use serde::{Deserialize, Serialize};

/// The facilities of a station.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FacilitiesConfig {
    /// The station's number; `None`: one is drawn at random at each start.
    pub station_id: Option<u32>,
    /// Whether it makes itself known (CAM); it hears others in any case.
    pub aware: bool,
    /// Length, tenths of a metre; `None`: nobody knows.
    pub length: Option<u16>,
    /// Width, tenths of a metre.
    pub width: Option<u8>,
}

/// What is to be done about an event (EN 302 637-3 §6.1: trigger, update, terminate).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenmOrder {
    /// Something has happened.
    Trigger(Event),
    /// It is now so.
    Update(EventName, Event),
    /// It is over: by whoever told of it a cancellation, by anybody else a negation.
    Terminate(EventName),
}

impl DenmOrder {
    /// Who is to hear of it, if that is said anew.
    pub fn area(&self) -> Option<&Area> {
        match self {
            DenmOrder::Trigger(event) | DenmOrder::Update(_, event) => Some(&event.area),
            DenmOrder::Terminate(_) => None,
        }
    }
}

/// An event to tell of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What the client calls it, to find it again in the view.
    pub tag: u32,
    /// Kind of event, and more of it (TS 102 894-2 §A.10).
    pub cause: (u8, u8),
    /// How sure it is, 1 to 7; 0 unknown.
    pub quality: u8,
    /// Where; `None`: here.
    pub place: Option<Place>,
    /// Who is to hear of it.
    pub area: Area,
    /// From now to its end, at most a day.
    pub validity: Duration,
    /// Sent again each, for so long.
    pub repetition: Option<(Duration, Duration)>,
}

/// Names an event: the station that told of it first, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventName {
    /// The station.
    pub station: u32,
    /// Which of its events.
    pub sequence: u16,
}

impl core::fmt::Display for EventName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}/{}", self.station, self.sequence)
    }
}
