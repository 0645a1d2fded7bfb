//! What the facilities of a station are told: plain values, checked by whoever builds them.

use core::net::Ipv6Addr;
use core::time::Duration;
use roam6_wire::Prefix;
use roam6_wire::geo::{Area, Place};
use serde::{Deserialize, Serialize};

/// Largest number of an application: the largest that takes four octets (ISO 17419).
pub const MAX_APPLICATION: u32 = 270_549_119;
/// Most services announced: with all that can be said of them they fit in a packet.
pub const MAX_ANNOUNCED: usize = 16;
/// Longest name of an announcer, and longest context, octets (IEEE Std 1609.3).
pub const MAX_NAME: usize = 32;
/// See [`MAX_NAME`].
pub const MAX_CONTEXT: usize = 31;

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
    /// What it announces (SAM); it hears others in any case.
    #[serde(default)]
    pub announcement: Option<Announcement>,
}

/// What a station announces (EN 302 890-1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// Whose it is: 1 to [`MAX_NAME`] octets.
    pub name: Option<String>,
    /// From one message to the next, 100 ms to 5 s: what is sent says how often it is sent in 5 s.
    pub interval: Duration,
    /// What is served, [`MAX_ANNOUNCED`] at most.
    pub services: Vec<Served>,
    /// How to reach the Internet by this station.
    pub routing: Option<Way>,
}

/// An application that is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Its number (ITS-AID), [`MAX_APPLICATION`] at most.
    pub application: u32,
    /// Where that is.
    pub address: Option<Ipv6Addr>,
    /// Its port.
    pub port: Option<u16>,
    /// What it wants to say: [`MAX_CONTEXT`] octets at most.
    pub context: Option<String>,
}

/// How to reach the Internet, without a router advertisement on the link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Of addresses there.
    pub prefix: Prefix,
    /// Who forwards.
    pub gateway: Ipv6Addr,
    /// Servers of the domain name system, two at most.
    pub dns: Vec<Ipv6Addr>,
    /// How long that is to be believed, in whole seconds, 65535 at most.
    pub lifetime: Duration,
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
