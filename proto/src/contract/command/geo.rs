//! Commands to a GeoNetworking station.

use crate::contract::config::facilities::{Announcement, DenmRequest};
#[cfg(feature = "geo-security")]
use crate::contract::config::geo::CertificateOctets;
use crate::contract::config::geo::{EchoRequest, GeoDestination};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// A command to a GeoNetworking station.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeoCommand {
    /// Sends an echo request to a GeoNetworking station, or to all stations in an area.
    #[serde(rename = "ask")]
    SendEchoRequest(EchoRequest),
    /// Maps an IPv6 destination address to an area.
    #[serde(rename = "put_area")]
    AddGeoDestination(GeoDestination),
    /// Removes the mapping of an IPv6 destination address to an area.
    #[serde(rename = "drop_area")]
    RemoveGeoDestination(Ipv6Addr),
    /// Triggers, updates or terminates a DENM.
    Denm(DenmRequest),
    /// Changes the pseudonym of the station at the next opportunity.
    ChangePseudonym,
    /// Keeps the pseudonym of the station for so long; zero ends that.
    LockPseudonym(Duration),
    /// Replaces the service announcement (SAM) of the station.
    #[serde(rename = "announce")]
    ReloadAnnouncement(Option<Box<Announcement>>),
    /// Replaces the digests of revoked certificates (HashedId8).
    ReloadRevoked(Vec<[u8; 8]>),
    /// Replaces the certificates of root authorities, which are trusted, and of authorisation authorities that they have issued.
    #[cfg(feature = "geo-security")]
    ReloadAuthorities {
        /// The root authorities.
        roots: Vec<CertificateOctets>,
        /// The authorisation authorities; the signature of each has been verified by that of its root.
        authorities: Vec<CertificateOctets>,
    },
    /// Replaces the authorisation tickets of the station; the host has the keys of the new ones already.
    #[cfg(feature = "geo-security")]
    ReloadTickets(Vec<CertificateOctets>),
}
