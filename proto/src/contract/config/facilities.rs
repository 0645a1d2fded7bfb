//! Settings of the facilities layer of a station: plain values, validated by the caller.

use crate::contract::config::packet_parameters::PacketParameters;
use core::net::Ipv6Addr;
use core::time::Duration;
use derive_more::Display;
use roam6_wire::Prefix;
use roam6_wire::geo::{Area, Coordinates};
use serde::{Deserialize, Serialize};

/// Maximum ITS-AID: the largest of four octets (ISO 17419).
pub const MAX_APPLICATION: u32 = 270_549_119;
/// Maximum number of announced services: with all their fields they fit into one packet.
pub const MAX_ANNOUNCED: usize = 16;
/// Maximum length of an advertiser identifier, octets (IEEE Std 1609.3).
pub const MAX_NAME: usize = 32;
/// Maximum length of a provider service context, octets (IEEE Std 1609.3).
pub const MAX_CONTEXT: usize = 31;

/// The facilities of a station.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FacilitiesConfig {
    /// The station ID; `None`: random at each start.
    pub station_id: Option<u32>,
    /// Whether it sends CAMs; it always receives them.
    #[serde(rename = "aware")]
    pub send_cams: bool,
    /// Vehicle length, 0.1 m; `None`: unknown.
    pub length: Option<u16>,
    /// Vehicle width, 0.1 m; `None`: unknown.
    pub width: Option<u8>,
    /// Its service announcement (SAM); it always receives them.
    #[serde(default)]
    pub announcement: Option<Announcement>,
}

/// A service announcement (EN 302 890-1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// Advertiser identifier, 1 to [`MAX_NAME`] octets.
    pub name: Option<String>,
    /// Interval of SAMs, 100 ms to 5 s; announced as the repetition rate for 5 s.
    pub interval: Duration,
    /// The services, at most [`MAX_ANNOUNCED`].
    pub services: Vec<OfferedService>,
    /// Internet access by this station.
    pub routing: Option<RoutingAdvertisement>,
}

/// An announced service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedService {
    /// Its ITS-AID, at most [`MAX_APPLICATION`].
    pub application: u32,
    /// Its IPv6 address.
    pub address: Option<Ipv6Addr>,
    /// Its port.
    pub port: Option<u16>,
    /// Its provider service context, at most [`MAX_CONTEXT`] octets.
    pub context: Option<String>,
}

/// A routing advertisement: Internet access without a Router Advertisement on the link (IEEE Std 1609.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingAdvertisement {
    /// Prefix for address configuration.
    pub prefix: Prefix,
    /// Default router.
    pub gateway: Ipv6Addr,
    /// DNS servers, at most two.
    pub dns: Vec<Ipv6Addr>,
    /// Router lifetime, whole seconds, at most 65535.
    pub lifetime: Duration,
}

/// A request of an application to the DEN basic service (EN 302 637-3 §6.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenmRequest {
    /// AppDENM_trigger: a new event.
    Trigger(DenmEvent),
    /// AppDENM_update: new data of an event.
    Update(EventId, DenmEvent),
    /// AppDENM_terminate: a cancellation by the originator, a negation by another station.
    Terminate(EventId),
}

impl DenmRequest {
    /// The destination area, if the request has one.
    pub fn area(&self) -> Option<&Area> {
        match self {
            DenmRequest::Trigger(event) | DenmRequest::Update(_, event) => Some(&event.area),
            DenmRequest::Terminate(_) => None,
        }
    }
}

/// An event of a DENM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenmEvent {
    /// A tag of the client, shown in the view.
    pub tag: u32,
    /// Cause code and sub cause code (TS 102 894-2 §A.10).
    pub cause: (u8, u8),
    /// Information quality, 1 to 7; 0: unavailable.
    pub quality: u8,
    /// Event position; `None`: the position of this station.
    pub place: Option<Coordinates>,
    /// Destination area.
    pub area: Area,
    /// Validity duration, at most one day.
    pub validity: Duration,
    /// Repetition interval and repetition duration.
    pub repetition: Option<(Duration, Duration)>,
    /// With what its packets are sent; by default in class 1, for as long as the event is valid.
    #[serde(default)]
    pub parameters: PacketParameters,
}

/// Action ID of an event: the originating station and its sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, Serialize, Deserialize)]
#[display("{station}/{sequence}")]
pub struct EventId {
    /// The originating station ID.
    pub station: u32,
    /// The sequence number.
    pub sequence: u16,
}
