//! What the host should look like: items, each with a key; built in key order, removed backwards.
//!
//! The order of [`Key`]'s variants is the building order: a route can name a table only once its device exists, and a
//! record is written before a peer is told, because its `Outcome` is what the engine waits for.

use crate::crypto::cga::Parameters;
use crate::input::LinkId;
use crate::nemo::flow::Selector;
use core::fmt;
use core::time::Duration;
use roam6_wire::shim6::{Fork, Tag};
use roam6_wire::{Bid, HomeAddress, LinkAddress, Prefix, Sequence};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// One thing the host should hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// A kernel setting; its former value comes back when the item is dropped.
    Setting(Setting),
    /// An address on an interface.
    Address(Address),
    /// An anycast address on an interface.
    Anycast(Anycast),
    /// A neighbour cache entry that does not age.
    Neighbour(Neighbour),
    /// An address answered for on a link (proxy neighbour discovery, RFC 4861 §7.2.8).
    Proxy(Proxy),
    /// Which sources packets from an interface may have.
    Guard(Guard),
    /// A tunnel and all its paths.
    Tunnel(Tunnel),
    /// A route.
    Route(Route),
    /// A routing policy rule.
    Rule(Rule),
    /// A destination whose packets go by the routes of this host, whichever tunnel would take them. Without it what goes
    /// into a tunnel may not ask the routes.
    Shortcut(Prefix),
    /// How many subflows the kernel's MPTCP may make; the former limits come back when the item is dropped.
    EndpointLimits(EndpointLimits),
    /// An address the kernel's MPTCP uses for subflows, or tells peers of.
    Endpoint(Endpoint),
    /// An interface whose frames of one kind the engines hear.
    Heard(Heard),
    /// An interface of our own making, behind which the engines are.
    Virtual(VirtualInterface),
    /// A port the engines answer.
    Port(Port),
    /// An uplink whose packets the shim looks at.
    Shimmed(Shimmed),
    /// When a conversation is worth a context.
    Trigger(Trigger),
    /// A context of the shim.
    Context(Context),
    /// A line of the journal, on disk and synced.
    Record(Record),
}

/// What an item is found by; also the building order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// See [`Setting`].
    Setting(Option<LinkId>, Knob),
    /// See [`Address`].
    Address(LinkId, Ipv6Addr),
    /// See [`Anycast`].
    Anycast(LinkId, Ipv6Addr),
    /// See [`Neighbour`].
    Neighbour(LinkId, Ipv6Addr),
    /// See [`Proxy`].
    Proxy(LinkId, Ipv6Addr),
    /// See [`Guard`].
    Guard(LinkId),
    /// See [`Tunnel`].
    Tunnel(TunnelId),
    /// See [`Route`].
    Route(Table, Prefix, Prefix, u32),
    /// See [`Rule`].
    Rule(u32, Prefix, Prefix, Option<String>),
    /// See [`Item::Shortcut`]. After routes and rules: until they stand packets take the tunnel.
    Shortcut(Prefix),
    /// See [`EndpointLimits`].
    EndpointLimits,
    /// See [`Endpoint`]. The kernel knows an address once, whatever the interface.
    Endpoint(Ipv6Addr),
    /// See [`Heard`].
    Heard(LinkId, u16),
    /// See [`VirtualInterface`].
    Virtual(String),
    /// See [`Port`].
    Port(LinkId, u16),
    /// See [`Shimmed`].
    Shimmed(LinkId),
    /// See [`Trigger`].
    Trigger,
    /// See [`Context`].
    Context(ContextId),
    /// See [`Record`].
    Record(RecordKey),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Setting(Some(link), knob) => write!(f, "setting {knob:?} of {link}"),
            Key::Setting(None, knob) => write!(f, "setting {knob:?} of all interfaces"),
            Key::Address(link, address) => write!(f, "address {address} on {link}"),
            Key::Anycast(link, address) => write!(f, "anycast address {address} on {link}"),
            Key::Neighbour(link, address) => write!(f, "neighbour {address} on {link}"),
            Key::Proxy(link, address) => write!(f, "proxy for {address} on {link}"),
            Key::Guard(link) => write!(f, "guard of {link}"),
            Key::Tunnel(TunnelId(number)) => write!(f, "tunnel {number}"),
            Key::Route(Table(table), to, Prefix::ALL, metric) => {
                write!(f, "route to {to}, metric {metric}, in table {table}")
            }
            Key::Route(Table(table), to, from, metric) => {
                write!(f, "route to {to} from {from}, metric {metric}, in table {table}")
            }
            Key::Shortcut(prefix) => write!(f, "shortcut to {prefix}"),
            Key::Virtual(name) => write!(f, "interface {name}"),
            Key::Port(link, number) => write!(f, "UDP port {number} on {link}"),
            Key::Shimmed(link) => write!(f, "shim on {link}"),
            Key::Context(context) => write!(f, "context {context}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// A kernel setting of one interface, or of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The interface; `None` for the setting that holds for all.
    pub link: Option<LinkId>,
    /// Which setting.
    pub knob: Knob,
    /// Its value.
    pub value: i32,
}

/// The kernel settings roam6 touches: `net.ipv6.conf.*` but for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Knob {
    /// `forwarding`
    Forwarding,
    /// `accept_ra`. For all interfaces it says that those which accept router advertisements go on doing so while the host
    /// forwards (2), as long as `forwarding` is put after it.
    AcceptRa,
    /// `autoconf`
    Autoconf,
    /// `accept_dad`
    AcceptDad,
    /// `router_solicitations`
    RouterSolicitations,
    /// `proxy_ndp`
    ProxyNdp,
    /// `keep_addr_on_down`
    KeepAddrOnDown,
    /// `forwarding` of `net.ipv4`
    Ipv4Forwarding,
}

/// An address on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The interface.
    pub link: LinkId,
    /// The address.
    pub address: Ipv6Addr,
    /// Length of the on-link prefix, 128 for none.
    pub prefix_length: u8,
    /// Whether new connections may choose it as their source (preferred lifetime not 0).
    pub preferred: bool,
    /// The kernel is to look for duplicates before it uses it (RFC 4862 §5.4); else it is used at once.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub detect: bool,
}

/// An anycast address on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anycast {
    /// The interface.
    pub link: LinkId,
    /// The address.
    pub address: Ipv6Addr,
}

/// A neighbour cache entry that does not age.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The interface.
    pub link: LinkId,
    /// The neighbour's address.
    pub address: Ipv6Addr,
    /// Its link-layer address.
    pub link_address: LinkAddress,
}

/// An address answered for on a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxy {
    /// The link.
    pub link: LinkId,
    /// The address.
    pub address: Ipv6Addr,
    /// Value of the Router bit in the advertisements (1 for a mobile router, RFC 3963 §6.4; else 0, RFC 6275 §10.4.1).
    pub router: bool,
}

/// Which sources packets may have that come in by an interface, beside link-local ones and none. All others are answered
/// with Destination Unreachable, code 5 (RFC 4443 §3.1), and go nowhere; but for neighbour discovery with this host, or
/// a node could not be found that the answer is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// The interface.
    pub link: LinkId,
    /// Sources that pass.
    pub sources: Vec<Prefix>,
    /// This host's own addresses: sources that do not pass although they may lie in one of those.
    pub own: Vec<Ipv6Addr>,
}

/// Names a tunnel within one node. 0 is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TunnelId(pub u32);

/// An IPv6-in-IPv6 tunnel (RFC 2473) with one or more paths. Of its prefixes some may be of IPv4: such packets take the
/// same paths (RFC 5555 §4.4.3, §4.5.1).
///
/// A packet from `near` to `far` goes in; a packet that comes out must be from `far` and to `near`, and its outer header
/// must be that of one of the paths. All else is dropped and counted (RFC 3963 §6.5, §9).
/// Replacing the item is atomic for each packet: none is lost, none goes to a mixture of old and new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    /// Its name.
    pub id: TunnelId,
    /// Prefixes on this side: everything for a home agent, the mobile network for a mobile router.
    pub near: Vec<Prefix>,
    /// Prefixes on the other side: home address and mobile network for a home agent, everything for a mobile router.
    pub far: Vec<Prefix>,
    /// The paths, best first. Empty: what would go in is answered with Destination Unreachable.
    pub paths: Vec<Path>,
    /// Flows with paths of their own, the first that matches decides (RFC 6089).
    pub flows: Vec<TunnelFlow>,
}

/// One outer header of a tunnel, or the way past it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// Binding identifier; 0 for the one binding of a mobile router without multiple care-of addresses.
    pub bid: Bid,
    /// Outer source on the way out, outer destination on the way in.
    pub local: Ipv6Addr,
    /// Outer destination on the way out, outer source on the way in.
    pub remote: Ipv6Addr,
    /// The interface it must leave by; `None`: as the routing tables say.
    pub link: Option<LinkId>,
    /// Largest inner packet, octets (path MTU to `remote` less 40).
    pub mtu: u32,
    /// Share of flows it carries; 0 for a path that carries none yet still receives (standby, or just left).
    pub weight: u16,
    /// No outer header: packets are handed as they are to the neighbour `remote` on `link`, and what comes that way is
    /// ordinary traffic (RFC 5648 §5.6.2). There must be a link, and a [`Neighbour`] that makes `remote` known on it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub direct: bool,
}

/// A flow that takes paths of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelFlow {
    /// Which packets, as the mobile router's end sends them out (source = inside the mobile network) when `near` is the
    /// mobile network, or as the home agent sees them come (source = correspondent) when `far` is.
    pub selector: Selector,
    /// The path, by binding identifier; a flow whose path is absent falls through to the next rule.
    pub bid: Bid,
}

/// A routing table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Table(pub u32);

impl Table {
    /// The kernel's main table.
    pub const MAIN: Table = Table(254);
}

/// A route. The kernel shows it with roam6's route protocol number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The table.
    pub table: Table,
    /// Packets to here.
    pub destination: Prefix,
    /// Packets from here only; [`Prefix::ALL`] for any.
    pub source: Prefix,
    /// Lower is better.
    pub metric: u32,
    /// What becomes of them.
    pub target: Target,
    /// Largest packet, octets, if less than the device's.
    pub mtu: Option<u32>,
}

/// What a route does with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// On-link.
    Link(LinkId),
    /// To a router.
    Gateway {
        /// Its link.
        link: LinkId,
        /// Its address, usually link-local.
        router: Ipv6Addr,
    },
    /// Into a tunnel.
    Tunnel(TunnelId),
    /// Refused with Destination Unreachable.
    Unreachable,
    /// Discarded without an answer.
    Discard,
}

/// A routing policy rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Lower comes first.
    pub priority: u32,
    /// Packets from here.
    pub source: Prefix,
    /// Packets to here.
    pub destination: Prefix,
    /// Packets that came in by the interface of this name only, which need not be there yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incoming: Option<String>,
    /// Look here.
    pub table: Table,
}

/// Limits of each connection of the kernel's MPTCP (RFC 8684). They hold for the whole network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointLimits {
    /// Subflows beside the first; the kernel takes 0 to 8.
    pub subflows: u32,
    /// Addresses of the peer that are taken up; the kernel takes 0 to 8.
    pub accepted: u32,
}

/// An address the kernel's MPTCP uses. It makes a subflow as soon as the item stands, and only then: a route from the
/// address must stand first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The address.
    pub address: Ipv6Addr,
    /// The interface its subflows leave by.
    pub link: LinkId,
    /// What it is for.
    pub flags: EndpointFlags,
}

/// What an MPTCP endpoint is for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointFlags {
    /// Peers are told of it (ADD_ADDR, RFC 8684 §3.4.1).
    pub signal: bool,
    /// Subflows are made from it (MP_JOIN, RFC 8684 §3.2).
    pub subflow: bool,
    /// Carries data only when nothing else can (RFC 8684 §3.3.8).
    pub backup: bool,
}

/// An interface whose frames of one kind the engines hear, and may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The interface.
    pub link: LinkId,
    /// The kind.
    pub ethertype: u16,
    /// A link-layer address beside the interface's own for which frames are received.
    #[serde(default)]
    pub address: Option<LinkAddress>,
}

/// A UDP port of one interface that the engines answer: the kernel says nothing of what comes there (RFC 4443 §3.1, code 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The interface.
    pub link: LinkId,
    /// The port.
    pub number: u16,
}

/// An interface of our own making that looks like Ethernet: what the host sends by it comes as [`crate::Frame`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualInterface {
    /// Its name.
    pub name: String,
    /// Its link-layer address.
    pub address: LinkAddress,
    /// The largest IPv6 packet it carries, octets.
    pub mtu: u32,
}

/// An uplink whose packets the shim looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shimmed {
    /// The interface.
    pub link: LinkId,
}

/// When a conversation is worth a context: at the first of these. Packets that are link-local, multicast, or of Shim6
/// itself do not count, nor do those of neighbour discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// So many octets both ways.
    pub octets: Option<u64>,
    /// So many packets both ways.
    pub packets: Option<u64>,
    /// So long after its first packet, at a packet sent.
    pub age: Option<Duration>,
    /// A conversation in which nothing was sent for so long is forgotten, and begins anew with its next packet.
    pub idle: Duration,
    /// A conversation that has been told of and goes on without a context is told of again after so long.
    pub again: Duration,
}

impl Default for Trigger {
    fn default() -> Trigger {
        let minute = Duration::from_secs(60);
        Trigger { octets: Some(2048), packets: None, age: Some(minute), idle: minute, again: minute }
    }
}

/// Two addresses, ours and the peer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pair {
    /// Ours.
    pub local: Ipv6Addr,
    /// The peer's.
    pub peer: Ipv6Addr,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} - {}", self.local, self.peer)
    }
}

/// Names a context: the addresses the layers above know, and a number where they have several (RFC 5533 §5.15.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContextId {
    /// Upper-layer identifiers.
    pub ulids: Pair,
    /// [`Fork::NONE`], or the instance. Packets of sockets that bear this mark belong to it, all others to the one that
    /// is not forked.
    #[serde(default)]
    pub fork: Fork,
}

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fork {
            Fork::NONE => write!(f, "context {}", self.ulids),
            fork => write!(f, "context {} fork {fork}", self.ulids),
        }
    }
}

/// Most locators of one side of a context.
pub const MOST_LOCATORS: usize = 16;

/// A context of the shim: packets of its ULIDs leave with its locators and a payload header, unless those are the ULIDs;
/// packets that arrive with its tag go up with the ULIDs (RFC 5533 §12).
///
/// Replacing the item keeps what it has counted, loses no packet, and when the locators change tells the transport, so
/// that it does not sit out its back-off. While a header is added the transport sees a path MTU 8 octets smaller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Its name.
    pub id: ContextId,
    /// Where packets leave from and go to. Equal to the ULIDs: they leave as they are.
    pub locators: Pair,
    /// The uplink that has `locators.local`.
    pub link: LinkId,
    /// The router to send to on that link; `None`: as the routing tables say.
    pub next_hop: Option<Ipv6Addr>,
    /// What arrives with this tag in a payload header is of this context. No two contexts share it.
    pub tag_in: Tag,
    /// The tag put into the payload header.
    pub tag_out: Tag,
    /// Sources from which a packet with the tag is taken; others go up to the engine as they are. [`MOST_LOCATORS`] at
    /// most.
    pub from: Vec<Ipv6Addr>,
}

/// A line of the journal: what must outlive the daemon. A later record of the same key takes the place of an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A binding a home agent has acknowledged, or is about to.
    Binding(BindingRecord),
    /// The last sequence number used for a home address: sent by its mobile router, or accepted by a home agent that must
    /// remember it beyond the binding.
    Sequence(SequenceRecord),
    /// Addresses of a host with several providers.
    AddressSet(AddressSetRecord),
    /// A prefix of a visited network that nodes inside a mobile router believe in.
    Lent(LentRecord),
}

/// What a record is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKey {
    /// See [`BindingRecord`].
    Binding(HomeAddress),
    /// See [`SequenceRecord`].
    Sequence(HomeAddress),
    /// See [`AddressSetRecord`].
    AddressSet(u8),
    /// See [`LentRecord`].
    Lent(Prefix),
}

/// A prefix of a visited network that nodes inside were told of: a later life in another network tells them that it is over
/// (RFC 9096 §3.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LentRecord {
    /// The prefix.
    pub prefix: Prefix,
    /// Name of the interface inside.
    pub interface: String,
    /// Whether nodes were told that all of it is on their link.
    pub on_link: bool,
}

/// A set of hash-based addresses, which cost work to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressSetRecord {
    /// Its place in the store.
    pub number: u8,
    /// What its addresses are made of.
    pub parameters: Parameters,
}

/// All bindings of one home address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindingRecord {
    /// The mobile router.
    pub home_address: HomeAddress,
    /// Its care-of addresses: identifier (0 if it registered without one), address, priority (RFC 6089, 0 for none).
    pub care_of: Vec<(Bid, Ipv6Addr, u8)>,
    /// Its prefixes.
    pub prefixes: Vec<Prefix>,
    /// The prefixes were listed in the update (explicit mode) and not taken from the prefix table.
    pub explicit: bool,
    /// Flow rules it registered.
    pub flows: Vec<crate::nemo::flow::FlowRule>,
    /// Last sequence number accepted.
    pub sequence: Sequence,
    /// Last replay protection timestamp accepted (RFC 4285 §6, NTP format); 0 for none.
    pub timestamp: u64,
    /// End of life of the care-of address that lives longest, microseconds since 1970-01-01T00:00Z.
    pub expires_unix_micros: u64,
    /// End of life of each of `care_of`, in their order; empty if they all end together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each_expires_unix_micros: Vec<u64>,
    /// The R flag.
    pub router: bool,
    /// Its link-local address is kept for it on the home link (RFC 6275 §10.3.1, L=1).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub link_local: bool,
    /// Where on the home link it is, if one of `care_of` is the home address itself (RFC 5648 §5.6.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_home: Option<LinkAddress>,
}

/// The last sequence number used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceRecord {
    /// Whose.
    pub home_address: HomeAddress,
    /// The number.
    pub sequence: Sequence,
}

impl Item {
    /// What this item is found by.
    pub fn key(&self) -> Key {
        match self {
            Item::Setting(setting) => Key::Setting(setting.link, setting.knob),
            Item::Address(address) => Key::Address(address.link, address.address),
            Item::Anycast(anycast) => Key::Anycast(anycast.link, anycast.address),
            Item::Neighbour(neighbour) => Key::Neighbour(neighbour.link, neighbour.address),
            Item::Proxy(proxy) => Key::Proxy(proxy.link, proxy.address),
            Item::Guard(guard) => Key::Guard(guard.link),
            Item::Tunnel(tunnel) => Key::Tunnel(tunnel.id),
            Item::Route(route) => Key::Route(route.table, route.destination, route.source, route.metric),
            Item::Rule(rule) => Key::Rule(rule.priority, rule.source, rule.destination, rule.incoming.clone()),
            Item::Shortcut(to) => Key::Shortcut(*to),
            Item::EndpointLimits(_) => Key::EndpointLimits,
            Item::Endpoint(endpoint) => Key::Endpoint(endpoint.address),
            Item::Heard(heard) => Key::Heard(heard.link, heard.ethertype),
            Item::Virtual(interface) => Key::Virtual(interface.name.clone()),
            Item::Port(port) => Key::Port(port.link, port.number),
            Item::Shimmed(shimmed) => Key::Shimmed(shimmed.link),
            Item::Trigger(_) => Key::Trigger,
            Item::Context(context) => Key::Context(context.id),
            Item::Record(Record::Binding(binding)) => Key::Record(RecordKey::Binding(binding.home_address)),
            Item::Record(Record::Sequence(sequence)) => Key::Record(RecordKey::Sequence(sequence.home_address)),
            Item::Record(Record::AddressSet(set)) => Key::Record(RecordKey::AddressSet(set.number)),
            Item::Record(Record::Lent(lent)) => Key::Record(RecordKey::Lent(lent.prefix)),
        }
    }
}

/// Everything the host should hold now.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Plan {
    items: BTreeMap<Key, Item>,
}

impl Plan {
    /// Nothing.
    pub fn new() -> Plan {
        Plan::default()
    }

    /// Holds `item` in place of any of the same key; returns the one it took the place of.
    pub fn put(&mut self, item: Item) -> Option<Item> {
        self.items.insert(item.key(), item)
    }

    /// Holds the item of `key` no longer.
    pub fn drop(&mut self, key: &Key) -> Option<Item> {
        self.items.remove(key)
    }

    /// The item of `key`.
    pub fn find(&self, key: &Key) -> Option<&Item> {
        self.items.get(key)
    }

    /// All items in building order; walk it backwards to remove them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Key, &Item)> {
        self.items.iter()
    }

    /// How many items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// Most prefix lengths a host tells apart on the far side of its tunnels, of all tunnels together.
pub const MOST_PREFIX_LENGTHS: usize = 16;

/// How long the routes of a lost path are kept for packets still on their way in (RFC 6275 §11.5.5, smooth handover).
pub const OLD_PATH_LINGER: Duration = Duration::from_secs(5);
