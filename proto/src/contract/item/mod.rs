//! The desired state of the host: items with keys, installed in the order of their keys and removed in reverse order.
//!
//! The order of the variants of [`Key`] is the order of installation: a route needs its device, and a journal record is
//! written before a peer is acknowledged, because the engine waits for its `Outcome`.

pub mod address;
pub mod io;
pub mod mptcp;
pub mod record;
pub mod route;
pub mod shim;
pub mod tunnel;

pub use address::{Address, Anycast, Guard, Knob, Neighbour, Proxy, Setting, VirtualInterface};
pub use io::{Heard, Port};
pub use mptcp::{Endpoint, EndpointFlags, EndpointLimits};
pub use record::{AddressSetRecord, BindingRecord, LentRecord, Record, RecordKey, SequenceRecord};
pub use route::{Route, Rule, Table, Target};
pub use shim::{Context, MOST_LOCATORS, Shimmed, Trigger};
pub use tunnel::{MOST_PREFIX_LENGTHS, Path, Tunnel, TunnelFlow, TunnelId};

use crate::base::ids::{ContextId, LinkId};
use core::fmt;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// One item of the desired state of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// A sysctl; its former value is restored when the item is removed.
    Setting(Setting),
    /// An address on an interface.
    Address(Address),
    /// An anycast address on an interface.
    Anycast(Anycast),
    /// A permanent neighbour cache entry.
    Neighbour(Neighbour),
    /// A proxy neighbour entry (RFC 4861 §7.2.8).
    Proxy(Proxy),
    /// Ingress filter of source addresses of an interface.
    Guard(Guard),
    /// A tunnel with its paths.
    Tunnel(Tunnel),
    /// A route.
    Route(Route),
    /// A routing policy rule.
    Rule(Rule),
    /// A destination prefix that bypasses the tunnels: its packets use the routing tables. The fast path does not look up
    /// routes for packets that enter a tunnel, hence the explicit item.
    Shortcut(Prefix),
    /// Limits of the kernel's MPTCP; the former limits are restored when the item is removed.
    EndpointLimits(EndpointLimits),
    /// An endpoint of the kernel's MPTCP: a source address of subflows, or an address signalled to peers.
    Endpoint(Endpoint),
    /// A subscription to frames of one EtherType on an interface.
    Heard(Heard),
    /// A virtual interface (TAP) of the engines.
    Virtual(VirtualInterface),
    /// A UDP port that the engines answer.
    Port(Port),
    /// An uplink with the shim attached.
    Shimmed(Shimmed),
    /// Thresholds for the establishment of contexts.
    Trigger(Trigger),
    /// A context of the shim.
    Context(Context),
    /// A journal record, on disk and synced.
    Record(Record),
}

/// The key of an item; its order is the order of installation.
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
    /// See [`Item::Shortcut`]. After routes and rules: packets take the tunnel until those are installed.
    Shortcut(Prefix),
    /// See [`EndpointLimits`].
    EndpointLimits,
    /// See [`Endpoint`]. In the kernel an endpoint address is unique across interfaces.
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

impl Item {
    /// The key of this item.
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

/// The desired state of the host.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Plan {
    items: BTreeMap<Key, Item>,
}

impl Plan {
    /// An empty plan.
    pub fn new() -> Plan {
        Plan::default()
    }

    /// Adds `item`; returns the item of the same key that it replaced.
    pub fn put(&mut self, item: Item) -> Option<Item> {
        self.items.insert(item.key(), item)
    }

    /// Removes the item of `key`.
    pub fn drop(&mut self, key: &Key) -> Option<Item> {
        self.items.remove(key)
    }

    /// The item of `key`.
    pub fn find(&self, key: &Key) -> Option<&Item> {
        self.items.get(key)
    }

    /// All items in the order of installation; the reverse order is that of removal.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Key, &Item)> {
        self.items.iter()
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}
