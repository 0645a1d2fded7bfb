//! Everything that enters an engine.

use crate::base::ids::{AddressPair, ContextId, LinkId, MptcpToken, PutId};
use crate::base::time::Time;
use crate::contract::command::Command;
#[cfg(feature = "fleet")]
use crate::contract::fleet::{Commit, FleetEvent};
use crate::contract::item::{Key, TunnelId};
use crate::contract::signature::{SigningResult, VerificationResult};
use roam6_wire::geo::Coordinates;
use roam6_wire::{Bid, LinkAddress};
use serde::{Deserialize, Serialize};
use std::net::{Ipv6Addr, SocketAddrV6};

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The deadline of the engine has passed.
    Tick,
    /// A packet was received.
    Packet(Packet),
    /// An Ethernet frame was received: a GeoNetworking frame, or a frame that the host sent into a virtual interface.
    Frame(Frame),
    /// The position of this host changed; `None` once it is unknown.
    Fix(Option<Fix>),
    /// A network interface was added, removed or changed.
    Link(LinkEvent),
    /// An address of this host was added, removed or changed state.
    Address(AddressEvent),
    /// A default route that does not stem from a Router Advertisement was added or removed.
    Route(RouteEvent),
    /// The kernel's MPTCP established or closed a connection or a subflow.
    Subflow(SubflowEvent),
    /// Neighbour Unreachability Detection of the kernel changed the state of a neighbour (RFC 4861 §7.3).
    Neighbour(NeighbourEvent),
    /// The result of one `Put`.
    Outcome(Outcome),
    /// The wall-clock time: at start, and after each step of the clock.
    Clock(Clock),
    /// The traffic of an address pair without a context exceeds a threshold of the [`crate::contract::item::ContextTrigger`].
    Flow(FlowEvent),
    /// The traffic of a context: the answer to a [`ActivityQuery`](crate::contract::output::ActivityQuery), or a notification that it
    /// requested.
    Activity(Activity),
    /// The traffic of an interface: the answer to [`Output::LinkTrafficQuery`](crate::contract::output::Output).
    LinkTraffic(LinkTraffic),
    /// The traffic of a path: an answer to a [`PathTrafficQuery`](crate::contract::output::PathTrafficQuery), or the
    /// notification that it requested.
    PathTraffic(PathTraffic),
    /// Whether a network intercepts connections: the answer to
    /// [`Output::InterceptionQuery`](crate::contract::output::Output).
    Interception(Interception),
    /// How busy the channel of a radio is: the answer to
    /// [`Output::ChannelUseQuery`](crate::contract::output::Output).
    ChannelUse(ChannelUse),
    /// Whether a signature is valid: the answer to [`Output::Verify`](crate::contract::output::Output).
    Verified(VerificationResult),
    /// A signature: the answer to [`Output::Sign`](crate::contract::output::Output).
    Signed(SigningResult),
    /// An event of the fleet's store.
    #[cfg(feature = "fleet")]
    Fleet(FleetEvent),
    /// A command of an operator or of the daemon.
    #[serde(rename = "order")]
    Command(Command),
}

/// A received packet, from its IPv6 header to its end. Untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// The interface that received it.
    pub link: LinkId,
    /// Link-layer source address; `None` on a link without link-layer addresses.
    pub sender: Option<LinkAddress>,
    /// The packet from its IPv6 header on, as received: with extension headers and outer headers.
    #[serde(with = "crate::base::hex")]
    pub bytes: Vec<u8>,
}

/// An Ethernet frame without its header. A received frame is untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The interface.
    pub link: LinkId,
    /// Link-layer source address.
    pub source: LinkAddress,
    /// Link-layer destination address.
    pub destination: LinkAddress,
    /// Its EtherType.
    pub ethertype: u16,
    /// Its payload.
    #[serde(with = "crate::base::hex")]
    pub bytes: Vec<u8>,
}

/// A position fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// Latitude and longitude.
    pub place: Coordinates,
    /// Radius of the 95 % confidence circle, metres; `None` if unknown.
    pub uncertainty: Option<u32>,
    /// Speed, cm/s.
    pub speed: i16,
    /// Heading, tenths of a degree clockwise from north, 0 to 3599.
    pub heading: u16,
}

/// The present state of a network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEvent {
    /// The interface.
    pub link: LinkId,
    /// Its name.
    pub name: String,
    /// Its link-layer address, if that is an EUI-48 address.
    pub address: Option<LinkAddress>,
    /// Administratively up and with carrier; `false` also if the interface was removed.
    pub up: bool,
    /// Link MTU, octets.
    pub mtu: u32,
}

/// The present state of an address of this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressEvent {
    /// The interface it is assigned to.
    pub link: LinkId,
    /// The address.
    pub address: Ipv6Addr,
    /// Its state.
    pub state: AddressState,
}

/// States of an address (RFC 4862 §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressState {
    /// Duplicate Address Detection is in progress.
    Tentative,
    /// Preferred address.
    #[serde(rename = "assigned")]
    Preferred,
    /// Deprecated address: its preferred lifetime has expired.
    Deprecated,
    /// Duplicate Address Detection found another node with this address.
    #[serde(rename = "duplicated")]
    DadFailed,
    /// Removed from the interface.
    #[serde(rename = "gone")]
    Removed,
}

impl AddressState {
    /// Whether it may be used as a source address.
    pub fn is_usable(self) -> bool {
        matches!(self, AddressState::Preferred | AddressState::Deprecated)
    }
}

/// The present state of a default route that an operator or another program configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteEvent {
    /// Its output interface.
    pub link: LinkId,
    /// Its next hop.
    pub router: Ipv6Addr,
    /// `false` once it is removed.
    #[serde(rename = "stands")]
    pub present: bool,
}

/// An event of a connection of the kernel's MPTCP, or of one of its subflows (RFC 8684).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubflowEvent {
    /// The local token of the connection.
    pub token: MptcpToken,
    /// The event.
    #[serde(rename = "change")]
    pub kind: SubflowEventKind,
    /// Local address and port of the subflow; for a connection, of its first subflow.
    pub local: SocketAddrV6,
    /// Remote address and port.
    pub remote: SocketAddrV6,
    /// Error number (errno) that closed the subflow, else 0.
    pub error: u8,
}

/// Events of connections and subflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubflowEventKind {
    /// The connection is established, with its first subflow.
    #[serde(rename = "connected")]
    ConnectionEstablished,
    /// The connection is closed, with all of its subflows.
    #[serde(rename = "disconnected")]
    ConnectionClosed,
    /// Another subflow is established.
    #[serde(rename = "opened")]
    SubflowEstablished,
    /// A subflow is closed.
    #[serde(rename = "closed")]
    SubflowClosed,
    /// The peer changed the backup flag of a subflow (MP_PRIO).
    #[serde(rename = "changed")]
    PriorityChanged,
}

/// The present state of an entry of the neighbour cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeighbourEvent {
    /// The interface.
    pub link: LinkId,
    /// The neighbour's IPv6 address.
    pub address: Ipv6Addr,
    /// Its link-layer address, if known.
    pub link_address: Option<LinkAddress>,
    /// `false` once Neighbour Unreachability Detection has failed.
    pub reachable: bool,
}

/// The result of one `Put`; in the order of the `Put`s, except for those of the fleet, whose results come later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The identifier of the `Put`.
    #[serde(skip)]
    pub id: PutId,
    /// The key of the item.
    pub key: Key,
    /// `None` if the host now has the item; else the error text of the kernel.
    #[serde(rename = "refused")]
    pub error: Option<String>,
    /// What became of a [`crate::contract::item::FleetRecord`]; `None` for any other item.
    #[cfg(feature = "fleet")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
}

/// Wall-clock time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Microseconds since 1970-01-01T00:00Z at the moment of this input.
    pub unix_micros: u64,
}

/// The traffic of an address pair without a context on one uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowEvent {
    /// The addresses.
    pub pair: AddressPair,
    /// The uplink of packets sent.
    pub link: LinkId,
    /// Packets in both directions.
    pub packets: u64,
    /// Octets in both directions, IPv6 headers included.
    pub octets: u64,
    /// Time of the first packet.
    pub since: Time,
}

/// The traffic of the upper layers in a context, without control messages, at the time of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// The context.
    pub context: ContextId,
    /// Time of the last packet sent.
    #[serde(rename = "sent")]
    pub last_sent: Option<Time>,
    /// Time of the last packet received.
    #[serde(rename = "received")]
    pub last_received: Option<Time>,
    /// Time of the first packet sent since the last packet received; `None` if there is none.
    #[serde(rename = "unanswered")]
    pub unanswered_since: Option<Time>,
    /// Time of the first packet received since the last packet sent; `None` if there is none.
    #[serde(rename = "unreturned")]
    pub unreturned_since: Option<Time>,
    /// Traffic sent since the context was established.
    #[serde(rename = "out")]
    pub tx: TrafficCount,
    /// Traffic received since the context was established.
    #[serde(rename = "in")]
    pub rx: TrafficCount,
}

/// The traffic of an interface since it was created, as its driver counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTraffic {
    /// The interface.
    pub link: LinkId,
    /// Traffic sent.
    #[serde(rename = "out")]
    pub tx: TrafficCount,
    /// Traffic received.
    #[serde(rename = "in")]
    pub rx: TrafficCount,
}

/// The traffic of a path of a tunnel, without probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathTraffic {
    /// The tunnel.
    pub tunnel: TunnelId,
    /// The path.
    pub bid: Bid,
    /// Time of the last packet sent.
    #[serde(rename = "sent")]
    pub last_sent: Option<Time>,
    /// Time of the last packet received.
    #[serde(rename = "received")]
    pub last_received: Option<Time>,
    /// Time of the first packet sent since the last packet received; `None` if there is none.
    #[serde(rename = "unanswered")]
    pub unanswered_since: Option<Time>,
    /// Traffic sent; octets of inner packets.
    #[serde(rename = "out")]
    pub tx: TrafficCount,
    /// Traffic received.
    #[serde(rename = "in")]
    pub rx: TrafficCount,
}

/// Whether the network of an interface intercepts connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interception {
    /// The interface.
    pub link: LinkId,
    /// Whether a connection to an address that no host has was accepted.
    pub accepted: bool,
    /// The URL that the response redirects to. Untrusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// How busy the channel of a radio interface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelUse {
    /// The interface.
    pub link: LinkId,
    /// Whether it is outside the context of a basic service set (OCB mode, as ITS-G5 is).
    pub is_ocb: bool,
    /// What its driver has counted; `None` if it is no radio, has no channel, or does not count.
    pub times: Option<ChannelTimes>,
}

/// Times on a channel, milliseconds, as its driver counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelTimes {
    /// For which the channel was observed.
    pub observed: u64,
    /// For which it was busy.
    pub busy: u64,
}

/// A traffic counter.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficCount {
    /// Packets.
    pub packets: u64,
    /// Octets, IPv6 headers included; of an interface those of its link layer too.
    pub octets: u64,
}
