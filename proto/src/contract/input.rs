//! Everything that enters an engine.

use crate::base::ids::{ContextId, LinkId, Pair, Token};
use crate::base::time::Time;
use crate::contract::command::Order;
use crate::contract::item::Key;
use roam6_wire::LinkAddress;
use roam6_wire::geo::Place;
use serde::{Deserialize, Serialize};
use std::net::{Ipv6Addr, SocketAddrV6};

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The time an engine asked for has come.
    Tick,
    /// A packet was received.
    Packet(Packet),
    /// A frame was received that is no IPv6 packet of one of the host's own interfaces: GeoNetworking, or what the host
    /// sends into a virtual link of ours.
    Frame(Frame),
    /// Where this host is, or `None` once that is not known any longer.
    Fix(Option<Fix>),
    /// A network interface came, went or changed.
    Link(LinkEvent),
    /// An address of this host came, went or changed state.
    Address(AddressEvent),
    /// A default route that no advertisement made came or went.
    Route(RouteEvent),
    /// The kernel's MPTCP made or closed a connection or a subflow.
    Subflow(SubflowEvent),
    /// The kernel no longer reaches, or again reaches, a neighbour (NUD, RFC 4861 §7.3).
    Neighbour(NeighbourEvent),
    /// The answer to one `Put`.
    Outcome(Outcome),
    /// The wall clock, told at start and whenever it was stepped.
    Clock(Clock),
    /// A pair of addresses without a context has crossed the thresholds of the [`crate::contract::item::Trigger`].
    Flow(FlowEvent),
    /// What a context has carried: the answer to a [`Sample`](crate::contract::output::Sample), or what that asked to be told of.
    Activity(Activity),
    /// An operator or the daemon wants something.
    Order(Order),
}

/// A received packet, from its IPv6 header to its end. Untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// Where it was received.
    pub link: LinkId,
    /// Link-layer source address, where the link has any.
    pub sender: Option<LinkAddress>,
    /// The packet, beginning with the IPv6 header; extension headers untouched, no tunnel header removed.
    #[serde(with = "crate::base::hex")]
    pub bytes: Vec<u8>,
}

/// A frame of a link with addresses of Ethernet's kind, without its header. Received: untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The interface.
    pub link: LinkId,
    /// Link-layer source address.
    pub source: LinkAddress,
    /// Link-layer destination address.
    pub destination: LinkAddress,
    /// What is inside.
    pub ethertype: u16,
    /// What is inside, from its first header on.
    #[serde(with = "crate::base::hex")]
    pub bytes: Vec<u8>,
}

/// A position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// Where.
    pub place: Place,
    /// Metres within which it is with 95 % confidence; `None` if nobody knows.
    pub uncertainty: Option<u32>,
    /// Centimetres a second.
    pub speed: i16,
    /// Tenths of a degree clockwise from north, below 3600.
    pub heading: u16,
}

/// What is now true of a network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEvent {
    /// Which interface.
    pub link: LinkId,
    /// Its name.
    pub name: String,
    /// Its link-layer address, where it has one of Ethernet's shape.
    pub address: Option<LinkAddress>,
    /// Administratively up and with carrier. `false` also when the interface is gone.
    pub up: bool,
    /// Largest IPv6 packet it carries, octets.
    pub mtu: u32,
}

/// What is now true of an address of this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressEvent {
    /// The interface that holds it.
    pub link: LinkId,
    /// The address.
    pub address: Ipv6Addr,
    /// What became of it.
    pub state: AddressState,
}

/// States of an address (RFC 4862 §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressState {
    /// Duplicate address detection still runs.
    Tentative,
    /// Usable.
    Assigned,
    /// Usable, but not for new connections (preferred lifetime 0).
    Deprecated,
    /// Another node has it.
    Duplicated,
    /// No longer on the interface.
    Gone,
}

impl AddressState {
    /// Whether packets may have it as their source.
    pub fn is_usable(self) -> bool {
        matches!(self, AddressState::Assigned | AddressState::Deprecated)
    }
}

/// What is now true of a default route that an operator or another program made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteEvent {
    /// The interface it leads to.
    pub link: LinkId,
    /// The router it leads to.
    pub router: Ipv6Addr,
    /// `false` once it is gone.
    pub stands: bool,
}

/// What became of a connection of the kernel's MPTCP, or of one of its subflows (RFC 8684).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubflowEvent {
    /// Our token of the connection.
    pub token: Token,
    /// What happened.
    pub change: SubflowChange,
    /// Our end of the subflow; of the first one, if this is about the connection.
    pub local: SocketAddrV6,
    /// The peer's end.
    pub remote: SocketAddrV6,
    /// Error number of a subflow that ended by one, else 0.
    pub error: u8,
}

/// What can become of a connection or subflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubflowChange {
    /// The connection stands, with its first subflow.
    Connected,
    /// The connection ended, with all of its subflows.
    Disconnected,
    /// Another subflow stands.
    Opened,
    /// A subflow ended.
    Closed,
    /// The peer changed its mind about using a subflow (MP_PRIO).
    Changed,
}

/// What the kernel now knows of a neighbour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeighbourEvent {
    /// The interface it is on.
    pub link: LinkId,
    /// Its address.
    pub address: Ipv6Addr,
    /// Its link-layer address, if known.
    pub link_address: Option<LinkAddress>,
    /// `false` once unreachability detection has given up on it.
    pub reachable: bool,
}

/// The answer to one `Put`, in the order of the `Put`s.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Which item.
    pub key: Key,
    /// `None` if the host now holds the item; else why not, in the kernel's own words.
    pub refused: Option<String>,
}

/// Wall-clock time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Microseconds since 1970-01-01T00:00Z at the moment of this input.
    pub unix_micros: u64,
}

/// What two addresses without a context have exchanged by one of the uplinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowEvent {
    /// Who with whom.
    pub pair: Pair,
    /// The uplink their packets leave by.
    pub link: LinkId,
    /// Packets sent and received since it began.
    pub packets: u64,
    /// Their octets, from the IPv6 header on.
    pub octets: u64,
    /// When it began.
    pub since: Time,
}

/// What a context has carried for the layers above; control messages do not count. As of the moment of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Which context.
    pub context: ContextId,
    /// The last packet sent.
    pub sent: Option<Time>,
    /// The last packet received.
    pub received: Option<Time>,
    /// The first packet sent after the last that was received; `None` if nothing was.
    pub unanswered: Option<Time>,
    /// The first packet received after the last that was sent; `None` if nothing was.
    pub unreturned: Option<Time>,
    /// Packets and octets sent since the context began.
    pub out: Amount,
    /// Packets and octets received since the context began.
    #[serde(rename = "in")]
    pub into: Amount,
}

/// How much.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Packets.
    pub packets: u64,
    /// Octets, from the IPv6 header on.
    pub octets: u64,
}
