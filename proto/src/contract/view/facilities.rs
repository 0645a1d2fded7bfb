//! State of the facilities layer: local dynamic map and services.

use crate::contract::config::facilities::{EventId, RoutingAdvertisement};
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Area, Coordinates};
use serde::Serialize;
use std::net::Ipv6Addr;

/// The local dynamic map.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct LdmView {
    /// Station ID of this station; `None` without facilities.
    pub station: Option<u32>,
    /// Stations known by CAM or VAM.
    pub stations: Vec<LdmStationView>,
    /// Events known by DENM.
    pub events: Vec<LdmEventView>,
    /// Messages about the surroundings of their stations.
    #[cfg(feature = "facilities")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<LdmMessageView>,
}

crate::read_fields!(LdmView {
    station,
    stations,
    events,
    #[cfg(feature = "facilities")]
    messages = Vec::new(),
});

/// A station of the local dynamic map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LdmStationView {
    /// Its station ID.
    pub station: u32,
    /// Its link-layer address.
    pub mid: LinkAddress,
    /// Its station type, with the profile of a vulnerable road user.
    pub kind: String,
    /// Its position.
    pub place: Coordinates,
    /// Speed, cm/s.
    pub speed: Option<u16>,
    /// Heading, tenths of a degree clockwise from north.
    pub heading: Option<u16>,
    /// Vehicle length, 0.1 m.
    pub length: Option<u16>,
    /// Vehicle width, 0.1 m.
    pub width: Option<u8>,
    /// Age of its last CAM or VAM.
    pub age: Duration,
}

crate::read_fields!(LdmStationView { station, mid, kind, place, speed, heading, length, width, age });

/// An event of the local dynamic map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LdmEventView {
    /// Its action ID.
    pub name: EventId,
    /// The tag of the local client; `None` for an event of another station.
    pub tag: Option<u32>,
    /// Cause code (TS 102 894-2 §A.10).
    pub cause: u8,
    /// Sub cause code.
    pub sub_cause: u8,
    /// Information quality, 1 to 7; 0: unavailable.
    pub quality: u8,
    /// Event position.
    pub place: Coordinates,
    /// Destination area.
    pub area: Area,
    /// Remaining validity.
    pub remaining: Duration,
}

crate::read_fields!(LdmEventView { name, tag, cause, sub_cause, quality, place, area, remaining });

/// The messages of one type of a station, which describe its surroundings: CPM, MAPEM, SPATEM or IVIM.
#[cfg(feature = "facilities")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LdmMessageView {
    /// The station ID of the station.
    pub station: u32,
    /// Its link-layer address.
    pub mid: LinkAddress,
    /// The message type.
    pub kind: String,
    /// The position of the station, if the message contains it.
    pub place: Option<Coordinates>,
    /// The orientation of the station, tenths of a degree clockwise from north.
    pub heading: Option<u16>,
    /// The number of objects that the station perceives.
    pub objects: Option<u8>,
    /// The number of messages since the first one; starts again after 5 s without one.
    pub count: u64,
    /// Age of the last message.
    pub age: Duration,
}

#[cfg(feature = "facilities")]
crate::read_fields!(LdmMessageView { station, mid, kind, place, heading, objects, count, age });

/// A service announcement (SAM).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnnouncementView {
    /// Station ID of the sender.
    pub station: u32,
    /// Its link-layer address; `None` for this station.
    pub mid: Option<LinkAddress>,
    /// Advertiser identifier.
    pub name: Option<String>,
    /// Content count, 0 to 15: changes with the announcement.
    pub content: u8,
    /// The services.
    pub services: Vec<ServiceView>,
    /// Internet access by the sender.
    pub routing: Option<RoutingAdvertisement>,
    /// Interval of SAMs.
    pub interval: Option<Duration>,
    /// Age of the last SAM; `None` if there was none yet.
    pub age: Option<Duration>,
}

crate::read_fields!(AnnouncementView { station, mid, name, content, services, routing, interval, age });

/// An announced service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServiceView {
    /// Its ITS-AID.
    pub application: u32,
    /// Its radio channel, if announced (IEEE Std 802.11).
    pub channel: Option<u8>,
    /// Its IPv6 address.
    pub address: Option<Ipv6Addr>,
    /// Its port.
    pub port: Option<u16>,
    /// Its provider service context; other octets than printable ASCII as `\x..`.
    pub context: Option<String>,
}

crate::read_fields!(ServiceView { application, channel, address, port, context });
