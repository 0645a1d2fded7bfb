//! What an operator sees of a node: one document, rendered as table, JSON or metrics.

use crate::base::ids::{ContextId, Pair};
use crate::contract::config::facilities::{EventName, Way};
use crate::contract::config::geo::GeoDestination;
use crate::contract::input::Amount;
use crate::contract::report::Report;
use core::time::Duration;
use roam6_wire::shim6::Tag;

use crate::base::few;
use roam6_wire::geo::{Area, Place};
use roam6_wire::{Bid, HomeAddress, Ipv4End, LinkAddress, Prefix, Sequence};
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// The state of a node.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Bindings, a home agent's and a mobile router's own.
    pub bindings: Vec<BindingView>,
    /// Interfaces in use.
    pub links: Vec<LinkView>,
    /// Tunnels and their paths.
    pub tunnels: Vec<TunnelView>,
    /// Addresses the kernel's MPTCP uses, or might.
    #[serde(default)]
    pub endpoints: Vec<EndpointView>,
    /// Prefixes nodes inside have, or had a moment ago.
    #[serde(default)]
    pub prefixes: Vec<PrefixView>,
    /// Addresses the shim makes.
    #[serde(default)]
    pub addresses: Vec<AddressView>,
    /// Contexts of the shim.
    #[serde(default)]
    pub contexts: Vec<ContextView>,
    /// GeoNetworking stations known, this one first.
    #[serde(default)]
    pub stations: Vec<StationView>,
    /// Where this GeoNetworking station is; `None` if it is none.
    #[serde(default)]
    pub position: Option<PositionView>,
    /// Addresses whose packets go to areas of their own.
    #[serde(default)]
    pub areas: Vec<GeoDestination>,
    /// Multicast groups this host listens to on virtual links, those of the link itself aside.
    #[serde(default)]
    pub groups: Vec<GroupView>,
    /// Networks of routers nearby, reached directly.
    #[serde(default)]
    pub networks: Vec<NetworkView>,
    /// The map of what others say.
    #[serde(default)]
    pub ldm: LdmView,
    /// What this station and others serve.
    #[serde(default)]
    pub services: Vec<AnnouncementView>,
    /// Running timers.
    pub timers: Vec<TimerView>,
    /// How often each thing has happened.
    pub counters: few::Map<String, u64>,
}

/// One binding: a home address and one of its care-of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindingView {
    /// `home_agent` or `mobile_router`.
    pub role: String,
    /// Home address.
    pub home_address: HomeAddress,
    /// Binding identifier, 0 for none.
    pub bid: Bid,
    /// Care-of address; `None` at home. An IPv4 one is written as an IPv4-mapped address.
    pub care_of: Option<Ipv6Addr>,
    /// The UDP port of an IPv4 care-of address, as the home agent sees it; `None` without UDP (RFC 5555 §4.2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_port: Option<u16>,
    /// The home agent.
    pub home_agent: Ipv6Addr,
    /// Mobile network prefixes.
    pub prefixes: Vec<Prefix>,
    /// Last sequence number.
    pub sequence: Sequence,
    /// Time until it ends.
    pub remaining: Duration,
    /// `bound`, `registering`, `home`, `refused`, ...
    pub state: String,
    /// Prefixes the home agent refused to serve; they are not among `prefixes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_prefixes: Vec<Prefix>,
    /// What does not work, in words; `None` while nothing is known to be wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// For how long it has not worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Duration>,
}

impl BindingView {
    /// With this care-of address.
    pub fn at(self, care_of: Option<Ipv6Addr>) -> BindingView {
        match care_of.and_then(Ipv4End::of) {
            Some(Ipv4End { address, port }) => {
                let udp_port = Some(port).filter(|port| *port != 0);
                BindingView { care_of: Some(address.to_ipv6_mapped()), udp_port, ..self }
            }
            None => BindingView { care_of, udp_port: None, ..self },
        }
    }
}

/// An address the shim has made, or is making.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressView {
    /// Its interface.
    pub link: String,
    /// The address.
    pub address: Ipv6Addr,
    /// The prefix it is of.
    pub prefix: Prefix,
    /// `hba` or `cga`.
    pub proof: String,
    /// Work in it (RFC 3972 §2).
    pub sec: u8,
    /// Time until its prefix ends, if it is still advertised.
    pub valid: Option<Duration>,
    /// `tentative`, `preferred` or `deprecated`.
    pub state: String,
}

/// One interface in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkView {
    /// Its name.
    pub name: String,
    /// `uplink`, `ingress` or `home`.
    pub role: String,
    /// Up and with carrier.
    pub up: bool,
    /// Octets.
    pub mtu: u32,
    /// Router in use, if any.
    pub router: Option<Ipv6Addr>,
    /// Addresses the node formed on it.
    pub addresses: Vec<Ipv6Addr>,
    /// `visited` while its care-of address is registered, `registering`, `refused`, `standby`, `home`, `no router`,
    /// `down`, ...
    pub state: String,
    /// What does not work, in words; `None` while nothing is known to be wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// For how long it has not worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Duration>,
}

/// One prefix of the nodes inside, on one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixView {
    /// The prefix, as advertised.
    pub prefix: Prefix,
    /// The interface it is advertised on.
    pub ingress: String,
    /// `home`, `delegated` or `shared`.
    pub role: String,
    /// The uplink packets from it leave by; `None` for the tunnel.
    pub uplink: Option<String>,
    /// The prefix it is part of, as it was delegated.
    pub of: Option<Prefix>,
    /// Rest of the valid lifetime; `None` for one that does not end.
    pub valid: Option<Duration>,
    /// `preferred`, `deprecated`, `waiting` (routes are being made), `withdrawn`.
    pub state: String,
}

/// One path of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelView {
    /// The tunnel's number.
    pub tunnel: u32,
    /// Binding identifier.
    pub bid: Bid,
    /// Near end.
    pub local: Ipv6Addr,
    /// Far end.
    pub remote: Ipv6Addr,
    /// Largest inner packet, octets.
    pub mtu: u32,
    /// Share of flows.
    pub weight: u16,
    /// Prefixes on the other side.
    pub far: Vec<Prefix>,
    /// `up`, `standby`, `silent`, ...
    pub state: String,
}

/// One address of a host whose connections take several paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointView {
    /// The address.
    pub address: Ipv6Addr,
    /// Name of its interface.
    pub link: String,
    /// In a home prefix, reached by the tunnel.
    pub home: bool,
    /// Carries data only when nothing else can.
    pub backup: bool,
    /// Peers are told of it.
    pub signal: bool,
    /// `in use`, `no router`, `settling`, `refused`, `spare`, ...
    pub state: String,
}

/// One context of the shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextView {
    /// Its name.
    pub context: ContextId,
    /// `established`, `i1-sent`, `i2-sent`, `i2bis-sent` (RFC 5533 §6.2).
    pub state: String,
    /// `operational`, `exploring`, `inbound ok` (RFC 5534 §6).
    pub reachability: String,
    /// The locators in use.
    pub path: Pair,
    /// Packets are changed: the locators are not the ULIDs.
    pub rewriting: bool,
    /// Our tag.
    pub tag_in: Tag,
    /// The peer's tag, once known.
    pub tag_out: Option<Tag>,
    /// Our locators as the peer knows them.
    pub local: Vec<Ipv6Addr>,
    /// The peer's locators, and how each was verified: `hba`, `cga`, `ulid`.
    pub peer: Vec<(Ipv6Addr, String)>,
    /// Every pair of them; `roam6 shim use` takes a place in this list.
    pub paths: Vec<Pair>,
    /// Time since anything was last known to be sent or received.
    pub idle: Duration,
    /// Sent, as of the last question to the data plane.
    pub out: Amount,
    /// Received, likewise.
    #[serde(rename = "in")]
    pub into: Amount,
}

/// One GeoNetworking station.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StationView {
    /// Its link-layer address.
    pub mid: LinkAddress,
    /// What it is.
    pub kind: String,
    /// Where it is.
    pub place: Place,
    /// Whether that is known to within itsGnPaiInterval.
    pub accurate: bool,
    /// Centimetres a second.
    pub speed: i16,
    /// Tenths of a degree clockwise from north.
    pub heading: u16,
    /// Metres from here.
    pub distance: Option<u32>,
    /// Time since its position was renewed.
    pub age: Duration,
    /// `own`, `own, no fix`, `neighbour`, `known`.
    pub state: String,
}

/// Where a GeoNetworking station is, as far as it knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PositionView {
    /// Its link-layer address.
    pub mid: LinkAddress,
    /// What it is.
    pub kind: String,
    /// Where it is, or was last.
    pub place: Option<Place>,
    /// Metres within which that is with 95 % confidence, if anybody knows.
    pub uncertainty: Option<u32>,
    /// Centimetres a second.
    pub speed: i16,
    /// Tenths of a degree clockwise from north.
    pub heading: u16,
    /// Time since it was told last.
    pub age: Option<Duration>,
    /// `fix`; `no fix`, when it is not known any longer; `never`, when it was not known yet.
    pub state: String,
}

/// A multicast group this host listens to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupView {
    /// Name of the link on which it does.
    pub link: String,
    /// The group.
    pub group: Ipv6Addr,
}

/// A network of a router nearby.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkView {
    /// Its prefix.
    pub prefix: Prefix,
    /// The router.
    pub router: Ipv6Addr,
    /// Name of the link it is on.
    pub link: String,
    /// Time until it is no longer believed, unless it is announced again.
    pub remaining: Duration,
}

/// The local dynamic map.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LdmView {
    /// The number of this station; `None` if it has no facilities.
    pub station: Option<u32>,
    /// Stations that make themselves known (CAM).
    pub stations: Vec<LdmStationView>,
    /// Events that are told of (DENM).
    pub events: Vec<LdmEventView>,
}

/// A station on the map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LdmStationView {
    /// Its number.
    pub station: u32,
    /// Its link-layer address.
    pub mid: LinkAddress,
    /// What it is.
    pub kind: String,
    /// Where it is.
    pub place: Place,
    /// Centimetres a second.
    pub speed: Option<u16>,
    /// Tenths of a degree clockwise from north.
    pub heading: Option<u16>,
    /// Tenths of a metre.
    pub length: Option<u16>,
    /// Tenths of a metre.
    pub width: Option<u8>,
    /// Time since its last message.
    pub age: Duration,
}

/// An event on the map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LdmEventView {
    /// Its name.
    pub name: EventName,
    /// What the client that told of it calls it; `None` for another station's.
    pub tag: Option<u32>,
    /// Kind of event (TS 102 894-2 §A.10).
    pub cause: u8,
    /// More of it.
    pub sub_cause: u8,
    /// How sure its station is, 1 to 7; 0 unknown.
    pub quality: u8,
    /// Where it is.
    pub place: Place,
    /// Who is to know of it.
    pub area: Area,
    /// Time until it ends.
    pub remaining: Duration,
}

/// What a station announces (SAM).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnouncementView {
    /// Its number.
    pub station: u32,
    /// Its link-layer address; `None` for this station.
    pub mid: Option<LinkAddress>,
    /// What it calls itself.
    pub name: Option<String>,
    /// Another one each time what it announces has changed, 0 to 15.
    pub content: u8,
    /// What it serves.
    pub services: Vec<ServiceView>,
    /// How to reach the Internet by it.
    pub routing: Option<Way>,
    /// From one message to the next.
    pub interval: Option<Duration>,
    /// Time since the last; `None` if there was none yet.
    pub age: Option<Duration>,
}

/// An application that a station serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceView {
    /// Its number (ITS-AID).
    pub application: u32,
    /// The radio channel it is on, if it says so (IEEE Std 802.11).
    pub channel: Option<u8>,
    /// Where it is.
    pub address: Option<Ipv6Addr>,
    /// Its port.
    pub port: Option<u16>,
    /// What it wants to say; octets that are no printable ASCII as `\x..`.
    pub context: Option<String>,
}

/// One running timer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerView {
    /// What happens when it ends.
    pub name: String,
    /// Time until then.
    pub remaining: Duration,
}

/// One line of the event stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Microseconds since 1970-01-01T00:00Z.
    pub unix_micros: u64,
    /// Microseconds since the node began.
    pub at: u64,
    /// What happened.
    #[serde(flatten)]
    pub report: Report,
}
