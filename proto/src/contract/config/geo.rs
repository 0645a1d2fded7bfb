//! Settings of a GeoNetworking station: plain values named as in the management information base (EN 302 636-4-1 annex
//! H), validated by the caller.

use crate::base::vec_set::VecSet;
use crate::contract::config::facilities::FacilitiesConfig;
pub use crate::contract::config::packet_parameters::PacketParameters;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Area, GeoAddress, ItsStationType, TrafficClass};
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// A station.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeoConfig {
    /// Names of the interfaces with GeoNetworking; they may be added and removed at run time.
    pub interfaces: VecSet<String>,
    /// Its station type.
    pub station: ItsStationType,
    /// Virtual links for IPv6.
    pub virtual_links: Vec<VirtualLink>,
    /// Virtual links that Router Advertisements may create, at most: an SGVL for each area in which one is broadcast
    /// (EN 302 636-6-1).
    #[serde(default)]
    pub advertised_links: usize,
    /// IPv6 destination addresses with a destination of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<GeoDestination>,
    /// Its facilities layer, if it has one.
    #[serde(default)]
    pub facilities: Option<FacilitiesConfig>,
    /// The management information base.
    pub mib: Mib,
    /// What is done with secured packets.
    #[serde(default, skip_serializing_if = "SecurityConfig::is_default")]
    pub security: SecurityConfig,
}

impl GeoConfig {
    /// The names of all virtual links that there may be.
    pub fn link_names(&self) -> impl Iterator<Item = String> + '_ {
        let configured = self.virtual_links.iter().map(|link| link.name.clone());
        configured.chain((0..self.advertised_links).map(VirtualLink::advertised_name))
    }
}

/// Secured packets (ETSI TS 103 097).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "geo-security"), derive(Default))]
pub struct SecurityConfig {
    /// What is done with them.
    pub mode: SecurityMode,
    /// Certificates of root authorities, which are trusted.
    #[cfg(feature = "geo-security")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<CertificateOctets>,
    /// Certificates of authorisation authorities. The signature of each has been verified by that of its root.
    #[cfg(feature = "geo-security")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorities: Vec<CertificateOctets>,
    /// Digests of revoked certificates (HashedId8).
    #[cfg(feature = "geo-security")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revoked: Vec<[u8; 8]>,
    /// Authorisation tickets of this station, whose keys the host has; without any, its packets are not signed.
    #[cfg(feature = "geo-security")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tickets: Vec<CertificateOctets>,
    /// Whether the station changes its pseudonym: its addresses, and the ticket in use.
    #[cfg(feature = "geo-security")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pseudonyms: bool,
    /// Signatures verified a second, at most.
    #[cfg(feature = "geo-security")]
    pub verify_rate: u32,
}

#[cfg(feature = "geo-security")]
impl Default for SecurityConfig {
    fn default() -> SecurityConfig {
        SecurityConfig {
            mode: SecurityMode::default(),
            roots: Vec::new(),
            authorities: Vec::new(),
            revoked: Vec::new(),
            tickets: Vec::new(),
            pseudonyms: false,
            verify_rate: 5000,
        }
    }
}

impl SecurityConfig {
    fn is_default(&self) -> bool {
        *self == SecurityConfig::default()
    }

    fn with_mode(mut self, mode: SecurityMode) -> SecurityConfig {
        self.mode = mode;
        self
    }
}

impl From<SecurityMode> for SecurityConfig {
    fn from(mode: SecurityMode) -> SecurityConfig {
        SecurityConfig::default().with_mode(mode)
    }
}

/// The octets of a certificate.
#[cfg(feature = "geo-security")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CertificateOctets(#[serde(with = "crate::base::hex")] pub Vec<u8>);

/// What is done with secured packets (ETSI TS 103 097).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecurityMode {
    /// They are dropped.
    #[default]
    Drop,
    /// They are forwarded untouched, and their sources are neighbours; nobody verifies their signatures, so that nothing of
    /// them is delivered here.
    Relay,
    /// Their signatures are verified. Packets that are not signed are received as if there were no security; signed packets
    /// that nobody here can verify are forwarded, and nothing of them is delivered (itsGnSnDecapResultHandling non-strict).
    #[serde(rename = "non-strict")]
    NonStrict,
    /// Their signatures are verified, and all other packets are dropped (itsGnSnDecapResultHandling strict).
    Strict,
}

impl SecurityMode {
    /// Whether signatures are verified.
    pub fn verifies(self) -> bool {
        matches!(self, SecurityMode::NonStrict | SecurityMode::Strict)
    }
}

/// A geographically bounded virtual link (EN 302 636-6-1 §6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualLink {
    /// Name of its virtual interface.
    pub name: String,
    /// Destination of its multicast packets.
    pub reach: LinkScope,
    /// The traffic class of its packets (EN 302 636-4-1 §9.7.5).
    #[serde(default = "ipv6_class")]
    pub class: TrafficClass,
    /// Packet lifetime; `None` for itsGnDefaultPacketLifetime.
    #[serde(default)]
    pub lifetime: Option<Duration>,
    /// Hop limit of its packets; `None` for itsGnDefaultHopLimit, and for the number of hops of [`LinkScope::Hops`].
    #[serde(default)]
    pub hops: Option<u8>,
    /// What differs for some of its packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowParameters>,
    /// Link-layer addresses of neighbours are taken from their interface identifiers, where those are modified EUI-64
    /// (RFC 4291 appendix A); no Neighbour Solicitation is sent for them.
    #[serde(default)]
    pub resolves_by_identifier: bool,
}

impl VirtualLink {
    /// Default traffic class of IPv6: below DENM (1) and CAM (2).
    pub const CLASS: TrafficClass = TrafficClass(3);

    /// A link with the default parameters.
    pub fn new(name: impl Into<String>, reach: LinkScope) -> VirtualLink {
        VirtualLink {
            name: name.into(),
            reach,
            class: VirtualLink::CLASS,
            lifetime: None,
            hops: None,
            flows: Vec::new(),
            resolves_by_identifier: false,
        }
    }

    /// The name of a link that a Router Advertisement creates.
    pub fn advertised_name(number: usize) -> String {
        format!("gnra{number}")
    }

    /// The parameters of packets with these DiffServ bits.
    pub fn parameters(&self, dscp: u8) -> PacketParameters {
        let flow = self.flows.iter().find(|flow| flow.dscp == dscp).map(|flow| flow.parameters).unwrap_or_default();
        PacketParameters {
            class: Some(flow.class.unwrap_or(self.class.id())),
            store_carry_forward: Some(flow.store_carry_forward.unwrap_or(self.class.store_carry_forward())),
            lifetime: flow.lifetime.or(self.lifetime),
            hops: flow.hops.or(self.hops),
        }
    }
}

/// The parameters of the packets of a virtual link with one value of the DiffServ field (RFC 2474).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowParameters {
    /// The DiffServ code point.
    pub dscp: u8,
    /// Its parameters; what is not set is that of the link.
    #[serde(flatten)]
    pub parameters: PacketParameters,
}

fn ipv6_class() -> TrafficClass {
    VirtualLink::CLASS
}

/// Scope of the multicast packets of a virtual link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkScope {
    /// GeoBroadcast to this area.
    Area(Area),
    /// GeoBroadcast to a circle around this station; radius in metres.
    Around(u16),
    /// Topologically-scoped broadcast; number of hops.
    Hops(u8),
}

/// Non-area forwarding algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NonAreaForwarding {
    /// Greedy forwarding (§E.2).
    Greedy,
    /// Contention-based forwarding (§E.3).
    Contention,
}

/// Area forwarding algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AreaForwarding {
    /// Simple GeoBroadcast forwarding (§F.2).
    Simple,
    /// Contention-based forwarding (§F.3).
    Contention,
    /// Advanced contention-based forwarding, with sectors, a copy counter and an addressed forwarder (§F.4).
    Advanced,
}

/// The management information base, with the standard's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mib {
    /// itsGnIsMobile.
    pub is_mobile: bool,
    /// itsGnLocalAddrConfMethod is auto: a duplicate address is replaced.
    pub automatic_address: bool,
    /// itsGnPaiInterval, metres.
    pub pai_interval: u32,
    /// itsGnMaxSduSize, octets.
    pub max_sdu_size: u16,
    /// itsGnLifetimeLocTE.
    pub lifetime_loc_te: Duration,
    /// Lifetime of the neighbour flag of a location table entry. An extension: in the standard a neighbour stays one as long
    /// as its entry, but at 30 m/s it is out of range long before.
    pub neighbour_lifetime: Duration,
    /// itsGnLocationServiceMaxRetrans.
    pub location_service_retransmissions: u32,
    /// itsGnLocationServiceRetransmitTimer.
    pub location_service_timer: Duration,
    /// itsGnLocationServicePacketBufferSize, octets for each destination.
    pub location_service_buffer: usize,
    /// itsGnBeaconServiceRetransmitTimer.
    pub beacon_timer: Duration,
    /// itsGnBeaconServiceMaxJitter.
    pub beacon_jitter: Duration,
    /// Hop limit of beacons. An extension, 1 in the standard: with more hops the positions of distant stations are known in
    /// advance.
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
    pub non_area: NonAreaForwarding,
    /// Whether greedy forwarding recovers from a local maximum by perimeter routing, instead of a broadcast, for packets
    /// without store-carry-forward. An extension.
    pub recovery: bool,
    /// itsGnAreaForwardingAlgorithm.
    pub in_area: AreaForwarding,
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
    /// Where congestion control (DCC) limits what is sent.
    #[serde(default, skip_serializing_if = "CongestionControl::is_off")]
    pub congestion_control: CongestionControl,
}

/// Where decentralised congestion control (DCC) limits what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CongestionControl {
    /// Nowhere.
    #[default]
    Off,
    /// On radios in OCB mode, where the kernel measures the channel, while it is busy.
    Auto,
    /// On all radios where the kernel measures the channel, always.
    On,
}

impl CongestionControl {
    fn is_off(&self) -> bool {
        *self == CongestionControl::Off
    }
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
            non_area: NonAreaForwarding::Greedy,
            recovery: false,
            in_area: AreaForwarding::Contention,
            cbf_min_time: milliseconds(1),
            cbf_max_time: milliseconds(100),
            cbf_sector_angle: 30,
            max_range: 1000,
            unicast_buffer: 256 << 10,
            broadcast_buffer: 1024 << 10,
            cbf_buffer: 256 << 10,
            traffic_class: 0,
            congestion_control: CongestionControl::Off,
        }
    }
}

/// Maps an IPv6 destination address to a GeoDestination; may change at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeoDestination {
    /// A multicast or anycast address.
    pub address: Ipv6Addr,
    /// Where its packets are sent.
    #[serde(flatten)]
    pub scope: DestinationScope,
}

/// Where the packets to an IPv6 destination address are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DestinationScope {
    /// To an area.
    Area(Area),
    /// To a circle around this station; radius in metres.
    Around(u16),
    /// To a circle around another station.
    AroundStation {
        /// The station.
        station: LinkAddress,
        /// Radius, metres.
        radius: u16,
    },
    /// To the stations at most so many hops away.
    Hops(u8),
}

/// Packet transport type, with its destination (EN 302 636-4-1 annex J).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransportType {
    /// GeoUnicast to a station.
    #[serde(rename = "station")]
    GeoUnicast(GeoAddress),
    /// GeoAnycast to an area.
    #[serde(rename = "any_in")]
    GeoAnycast(Area),
    /// GeoBroadcast to an area.
    #[serde(rename = "all_in")]
    GeoBroadcast(Area),
    /// Topologically-scoped broadcast; number of hops.
    #[serde(rename = "hops")]
    TopologyBroadcast(u8),
    /// Single-hop broadcast.
    #[serde(rename = "neighbours")]
    SingleHop,
}

/// An echo request to send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EchoRequest {
    /// Its identifier.
    #[serde(rename = "probe")]
    pub id: EchoId,
    /// Its destination.
    pub to: TransportType,
    /// Payload length, octets.
    pub octets: u16,
    /// With what it is sent.
    #[serde(flatten)]
    pub parameters: PacketParameters,
    /// The station at which its hop limit expires answers too (trace).
    pub trace: bool,
    /// Interval over which the replies are spread at random, so that many stations do not reply at once.
    pub spread: Duration,
}

/// Identifies an echo request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EchoId {
    /// Identifier of the series.
    pub identifier: u32,
    /// Sequence number in the series.
    pub sequence: u32,
}
