//! What the host should look like: items, each with a key; built in key order, removed backwards.
//!
//! The order of [`Key`]'s variants is the building order: a route can name a table only once its device exists, and a
//! record is written before a peer is told, because its `Outcome` is what the engine waits for.

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
