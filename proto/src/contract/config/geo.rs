//! What a GeoNetworking station is told: plain values under the names of the standard's management information base
//! (EN 302 636-4-1 annex H), checked by whoever builds them.

use crate::base::few;
use crate::contract::config::facilities::FacilitiesConfig;
use core::time::Duration;
use roam6_wire::geo::{Area, GeoAddress, Station, TrafficClass};
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// A station.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeoConfig {
    /// Names of the interfaces that carry GeoNetworking frames; they may come and go.
    pub interfaces: few::Set<String>,
    /// What it is.
    pub station: Station,
    /// Virtual links for IPv6.
    pub virtual_links: Vec<VirtualLink>,
    /// Messages of its own, if it has any.
    #[serde(default)]
    pub facilities: Option<FacilitiesConfig>,
    /// All that has a default.
    pub mib: Mib,
}

/// A geographically bounded virtual link (EN 302 636-6-1 §6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualLink {
    /// Name of the interface that IPv6 sees.
    pub name: String,
    /// Where its multicast goes.
    pub reach: Reach,
    /// The traffic class of its packets (EN 302 636-4-1 §9.7.5).
    #[serde(default = "ipv6_class")]
    pub class: TrafficClass,
    /// How long they may live; `None` for itsGnDefaultPacketLifetime.
    #[serde(default)]
    pub lifetime: Option<Duration>,
}

impl VirtualLink {
    /// The traffic class of IPv6 unless another is set: less urgent than DENM (1) and CAM (2).
    pub const CLASS: TrafficClass = TrafficClass(3);
}

fn ipv6_class() -> TrafficClass {
    VirtualLink::CLASS
}

/// How far a virtual link reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// All stations in this area.
    Area(Area),
    /// All stations within so many metres of wherever this one is.
    Around(u16),
    /// All stations within so many hops.
    Hops(u8),
}

/// How packets are forwarded outside the area they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NonArea {
    /// To the neighbour nearest to the destination (§E.2).
    Greedy,
    /// By whoever gets nearest to it and is first (§E.3).
    Contention,
}

/// How packets are forwarded inside their area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InArea {
    /// By everybody, at once (§F.2).
    Simple,
    /// By whoever is farthest from the sender, and first (§F.3).
    Contention,
    /// The same, but a copy that is heard ends it only for who is between its sender and the first, or after several; and
    /// who was handed the packet hands it on at once (§F.4).
    Advanced,
}

/// The management information base, with the standard's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mib {
    /// itsGnIsMobile.
    pub is_mobile: bool,
    /// itsGnLocalAddrConfMethod is auto: another station with our address makes us take a new one.
    pub automatic_address: bool,
    /// itsGnPaiInterval, metres.
    pub pai_interval: u32,
    /// itsGnMaxSduSize, octets.
    pub max_sdu_size: u16,
    /// itsGnLifetimeLocTE.
    pub lifetime_loc_te: Duration,
    /// How long a station that was heard directly is forwarded to without being heard again. Not the standard's, which
    /// lets it be one as long as it is in the table: at 30 m/s it is out of range long before.
    pub neighbour_lifetime: Duration,
    /// itsGnLocationServiceMaxRetrans.
    pub location_service_retransmissions: u32,
    /// itsGnLocationServiceRetransmitTimer.
    pub location_service_timer: Duration,
    /// itsGnLocationServicePacketBufferSize, octets for each station looked for.
    pub location_service_buffer: usize,
    /// itsGnBeaconServiceRetransmitTimer.
    pub beacon_timer: Duration,
    /// itsGnBeaconServiceMaxJitter.
    pub beacon_jitter: Duration,
    /// Hops a beacon travels. Not the standard's, which has 1: with more the positions of stations farther away are known
    /// before anything is sent to them.
    pub beacon_hops: u8,
    /// itsGnDefaultHopLimit.
    pub default_hop_limit: u8,
    /// itsGnDefaultPacketLifetime.
    pub default_lifetime: Duration,
    /// itsGnMaxPacketLifetime.
    pub max_lifetime: Duration,
    /// itsGnMinPacketRepetitionInterval.
    pub min_repetition_interval: Duration,
    /// itsGnMaxPacketDataRate, octets a second.
    pub max_packet_data_rate: u32,
    /// itsGnMaxPacketDataRateEmaBeta, hundredths.
    pub packet_data_rate_beta: u8,
    /// itsGnMaxGeoAreaSize, square metres.
    pub max_area_size: u32,
    /// itsGnNonAreaForwardingAlgorithm.
    pub non_area: NonArea,
    /// Whether a packet that may not wait, and for which there is no neighbour nearer to its goal, goes round the gap
    /// instead of to everybody. Not the standard's.
    pub recovery: bool,
    /// itsGnAreaForwardingAlgorithm.
    pub in_area: InArea,
    /// itsGnCbfMinTime.
    pub cbf_min_time: Duration,
    /// itsGnCbfMaxTime.
    pub cbf_max_time: Duration,
    /// itsGnBroadcastCBFDefSectorAngle, degrees.
    pub cbf_sector_angle: u16,
    /// itsGnDefaultMaxCommunicationRange, metres.
    pub max_range: u32,
    /// itsGnUcForwardingPacketBufferSize, octets.
    pub unicast_buffer: usize,
    /// itsGnBcForwardingPacketBufferSize, octets.
    pub broadcast_buffer: usize,
    /// itsGnCbfPacketBufferSize, octets.
    pub cbf_buffer: usize,
    /// itsGnDefaultTrafficClass.
    pub traffic_class: u8,
}

impl Default for Mib {
    fn default() -> Mib {
        let milliseconds = Duration::from_millis;
        Mib {
            is_mobile: true,
            automatic_address: true,
            pai_interval: 80,
            max_sdu_size: 1398,
            lifetime_loc_te: Duration::from_secs(20),
            neighbour_lifetime: Duration::from_secs(8),
            location_service_retransmissions: 10,
            location_service_timer: milliseconds(1000),
            location_service_buffer: 1024,
            beacon_timer: milliseconds(3000),
            beacon_jitter: milliseconds(750),
            beacon_hops: 1,
            default_hop_limit: 10,
            default_lifetime: Duration::from_secs(60),
            max_lifetime: Duration::from_secs(600),
            min_repetition_interval: milliseconds(100),
            max_packet_data_rate: 100_000,
            packet_data_rate_beta: 90,
            max_area_size: 10_000_000,
            non_area: NonArea::Greedy,
            recovery: false,
            in_area: InArea::Contention,
            cbf_min_time: milliseconds(1),
            cbf_max_time: milliseconds(100),
            cbf_sector_angle: 30,
            max_range: 1000,
            unicast_buffer: 256 << 10,
            broadcast_buffer: 1024 << 10,
            cbf_buffer: 256 << 10,
            traffic_class: 0,
        }
    }
}

/// Where packets for an IPv6 address go (the GeoDestination of the paper, changeable at run time).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeoDestination {
    /// A multicast group, or an anycast address.
    pub address: Ipv6Addr,
    /// The area.
    pub area: Area,
}

/// For whom a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum To {
    /// One station (GeoUnicast).
    Station(GeoAddress),
    /// Any one station in an area (GeoAnycast).
    AnyIn(Area),
    /// All stations in an area (GeoBroadcast).
    AllIn(Area),
    /// All stations within so many hops (topologically-scoped broadcast).
    Hops(u8),
    /// All neighbours (single-hop broadcast).
    Neighbours,
}

/// A question to be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Its name.
    pub probe: Probe,
    /// For whom.
    pub to: To,
    /// Octets of data that come along and come back.
    pub octets: u16,
    /// Hops it may make; `None` for the default.
    pub hops: Option<u8>,
    /// The station at which it has made its last hop answers too.
    pub trace: bool,
    /// Answers come spread over so long: where many are asked, not all may speak at once.
    pub spread: Duration,
}

/// Names a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Probe {
    /// The series.
    pub identifier: u32,
    /// The place in the series.
    pub sequence: u32,
}
