//! The desired state of the host: items with keys, installed in the order of their keys and removed in reverse order.
//!
//! The order of the variants of [`Key`] is the order of installation: a route needs its device, and a journal record is
//! written before a peer is acknowledged, because the engine waits for its `Outcome`.

pub mod address;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod io;
pub mod mptcp;
pub mod record;
pub mod route;
pub mod shim;
pub mod subflow;
pub mod tunnel;

pub use address::{
    Address, AnycastAddress, Neighbour, ProxyNeighbour, SourceFilter, Sysctl, SysctlSetting, VirtualInterface,
};
#[cfg(feature = "fleet")]
pub use fleet::{Announcement, FleetRecord, Revision, SharedPathMtu, StoredBinding};
pub use io::{EthertypeSubscription, UdpPortHold};
pub use mptcp::{MptcpEndpoint, MptcpEndpointFlags, MptcpLimits};
pub use record::{
    BindingRecord, CareOfPrefixRecord, HbaSetRecord, JournalKey, JournalRecord, KeyOffer, KeySource, NetworkRecord,
    OwnKeysRecord, RowKeysRecord, SequenceRecord, UsageRecord, UsedInvitation,
};
pub use route::{NextHop, PolicyRule, Route, RouteTable};
pub use shim::{ContextTrigger, MAX_LOCATORS, ShimContext, ShimUplink};
pub use tunnel::{Encap, EspPair, MAX_PREFIX_LENGTHS, Tunnel, TunnelFlow, TunnelId, TunnelPath, WireguardPeer};

use crate::base::ids::{ContextId, LinkId};
use derive_more::Display;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// One item of the desired state of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// A sysctl; its former value is restored when the item is removed.
    #[serde(rename = "setting")]
    Sysctl(SysctlSetting),
    /// An address on an interface.
    Address(Address),
    /// An anycast address on an interface.
    Anycast(AnycastAddress),
    /// A permanent neighbour cache entry.
    Neighbour(Neighbour),
    /// A proxy neighbour entry (RFC 4861 §7.2.8).
    #[serde(rename = "proxy")]
    ProxyNeighbour(ProxyNeighbour),
    /// Ingress filter of source addresses of an interface.
    #[serde(rename = "guard")]
    SourceFilter(SourceFilter),
    /// A tunnel with its paths.
    Tunnel(Tunnel),
    /// A route.
    Route(Route),
    /// A routing policy rule.
    Rule(PolicyRule),
    /// A destination prefix that bypasses the tunnels: its packets use the routing tables. The fast path does not look up
    /// routes for packets that enter a tunnel, hence the explicit item.
    #[serde(rename = "shortcut")]
    TunnelBypass(Prefix),
    /// Limits of the kernel's MPTCP; the former limits are restored when the item is removed.
    #[serde(rename = "endpoint_limits")]
    MptcpLimits(MptcpLimits),
    /// An endpoint of the kernel's MPTCP: a source address of subflows, or an address signalled to peers.
    #[serde(rename = "endpoint")]
    MptcpEndpoint(MptcpEndpoint),
    /// A subscription to frames of one EtherType on an interface.
    #[serde(rename = "heard")]
    EthertypeSubscription(EthertypeSubscription),
    /// A virtual interface (TAP) of the engines.
    #[serde(rename = "virtual")]
    VirtualInterface(VirtualInterface),
    /// A UDP port that the engines answer.
    #[serde(rename = "port")]
    UdpPortHold(UdpPortHold),
    /// An uplink with the shim attached.
    #[serde(rename = "shimmed")]
    ShimUplink(ShimUplink),
    /// Thresholds for the establishment of contexts.
    #[serde(rename = "trigger")]
    ContextTrigger(ContextTrigger),
    /// A context of the shim.
    #[serde(rename = "context")]
    ShimContext(ShimContext),
    /// A journal record, on disk and synced.
    #[serde(rename = "record")]
    JournalRecord(JournalRecord),
    /// A route by which a routing daemon learns that this member serves a prefix.
    #[cfg(feature = "fleet")]
    Announcement(Announcement),
    /// A record of the fleet's store. Its outcome has a [`Commit`](crate::contract::fleet::Commit), and comes when the store
    /// has answered.
    #[cfg(feature = "fleet")]
    FleetRecord(FleetRecord),
    /// The state of this member, which the others read. Its outcome does not wait for the store.
    #[cfg(feature = "fleet")]
    FleetMember(crate::contract::fleet::MemberState),
    /// A path MTU that this member has learnt, for the others. Its outcome does not wait for the store.
    #[cfg(feature = "fleet")]
    FleetPathMtu(SharedPathMtu),
}

/// The key of an item; its order is the order of installation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Display, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// See [`SysctlSetting`].
    #[serde(rename = "setting")]
    #[display("sysctl {_1} of {}", _0.map_or("all interfaces".to_owned(), |link| link.to_string()))]
    Sysctl(Option<LinkId>, Sysctl),
    /// See [`Address`].
    #[display("address {_1} on {_0}")]
    Address(LinkId, Ipv6Addr),
    /// See [`AnycastAddress`].
    #[display("anycast address {_1} on {_0}")]
    Anycast(LinkId, Ipv6Addr),
    /// See [`Neighbour`].
    #[display("neighbour {_1} on {_0}")]
    Neighbour(LinkId, Ipv6Addr),
    /// See [`ProxyNeighbour`].
    #[serde(rename = "proxy")]
    #[display("proxy neighbour {_1} on {_0}")]
    ProxyNeighbour(LinkId, Ipv6Addr),
    /// See [`SourceFilter`].
    #[serde(rename = "guard")]
    #[display("source filter of {_0}")]
    SourceFilter(LinkId),
    /// See [`Tunnel`].
    #[display("tunnel {}", _0.0)]
    Tunnel(TunnelId),
    /// See [`Route`].
    #[display("route to {_1}{}, metric {_3}, in table {}", from_text(*_2), _0.0)]
    Route(RouteTable, Prefix, Prefix, u32),
    /// See [`PolicyRule`].
    #[display("rule {_0} from {_1} to {_2}{}", _3.iter().map(|iif| format!(" iif {iif}")).collect::<String>())]
    Rule(u32, Prefix, Prefix, Option<String>),
    /// See [`Item::TunnelBypass`]. After routes and rules: packets take the tunnel until those are installed.
    #[serde(rename = "shortcut")]
    #[display("tunnel bypass to {_0}")]
    TunnelBypass(Prefix),
    /// See [`MptcpLimits`].
    #[serde(rename = "endpoint_limits")]
    #[display("MPTCP limits")]
    MptcpLimits,
    /// See [`MptcpEndpoint`]. In the kernel an endpoint address is unique across interfaces.
    #[serde(rename = "endpoint")]
    #[display("MPTCP endpoint {_0}")]
    MptcpEndpoint(Ipv6Addr),
    /// See [`EthertypeSubscription`].
    #[serde(rename = "heard")]
    #[display("subscription to EtherType {_1:#06x} on {_0}")]
    EthertypeSubscription(LinkId, u16),
    /// See [`VirtualInterface`].
    #[serde(rename = "virtual")]
    #[display("interface {_0}")]
    VirtualInterface(String),
    /// See [`UdpPortHold`].
    #[serde(rename = "port")]
    #[display("UDP port {_1} on {_0}")]
    UdpPortHold(LinkId, u16),
    /// See [`ShimUplink`].
    #[serde(rename = "shimmed")]
    #[display("shim on {_0}")]
    ShimUplink(LinkId),
    /// See [`ContextTrigger`].
    #[serde(rename = "trigger")]
    #[display("context trigger")]
    ContextTrigger,
    /// See [`ShimContext`].
    #[serde(rename = "context")]
    #[display("{_0}")]
    ShimContext(ContextId),
    /// See [`JournalRecord`].
    #[serde(rename = "record")]
    #[display("journal record of {_0}")]
    JournalRecord(JournalKey),
    /// See [`Announcement`].
    #[cfg(feature = "fleet")]
    #[display("announcement of {_0}")]
    Announcement(Prefix),
    /// See [`FleetRecord`].
    #[cfg(feature = "fleet")]
    #[display("fleet record of {_0}")]
    FleetRecord(roam6_wire::HomeAddress),
    /// See [`Item::FleetMember`].
    #[cfg(feature = "fleet")]
    #[display("state in the fleet")]
    FleetMember,
    /// See [`SharedPathMtu`].
    #[cfg(feature = "fleet")]
    #[display("shared path MTU to {_0}")]
    FleetPathMtu(Ipv6Addr),
}

/// The source of a route, unless it is any.
fn from_text(source: Prefix) -> String {
    if source == Prefix::ALL { String::new() } else { format!(" from {source}") }
}

impl Item {
    /// A route from any source, with the MTU of its device.
    pub fn route(table: RouteTable, destination: Prefix, metric: u32, target: NextHop) -> Item {
        Item::Route(Route { table, destination, source: Prefix::ALL, metric, target, mtu: None })
    }

    /// A policy rule for packets from any interface.
    pub fn rule(priority: u32, source: Prefix, destination: Prefix, table: RouteTable) -> Item {
        Item::Rule(PolicyRule { priority, source, destination, iif: None, table })
    }

    /// The key of this item.
    pub fn key(&self) -> Key {
        match self {
            Item::Sysctl(setting) => Key::Sysctl(setting.link, setting.sysctl),
            Item::Address(address) => Key::Address(address.link, address.address),
            Item::Anycast(anycast) => Key::Anycast(anycast.link, anycast.address),
            Item::Neighbour(neighbour) => Key::Neighbour(neighbour.link, neighbour.address),
            Item::ProxyNeighbour(proxy) => Key::ProxyNeighbour(proxy.link, proxy.address),
            Item::SourceFilter(guard) => Key::SourceFilter(guard.link),
            Item::Tunnel(tunnel) => Key::Tunnel(tunnel.id),
            Item::Route(route) => Key::Route(route.table, route.destination, route.source, route.metric),
            Item::Rule(rule) => Key::Rule(rule.priority, rule.source, rule.destination, rule.iif.clone()),
            Item::TunnelBypass(to) => Key::TunnelBypass(*to),
            Item::MptcpLimits(_) => Key::MptcpLimits,
            Item::MptcpEndpoint(endpoint) => Key::MptcpEndpoint(endpoint.address),
            Item::EthertypeSubscription(heard) => Key::EthertypeSubscription(heard.link, heard.ethertype),
            Item::VirtualInterface(interface) => Key::VirtualInterface(interface.name.clone()),
            Item::UdpPortHold(port) => Key::UdpPortHold(port.link, port.port),
            Item::ShimUplink(shimmed) => Key::ShimUplink(shimmed.link),
            Item::ContextTrigger(_) => Key::ContextTrigger,
            Item::ShimContext(context) => Key::ShimContext(context.id),
            Item::JournalRecord(JournalRecord::Binding(binding)) => {
                Key::JournalRecord(JournalKey::Binding(binding.home_address))
            }
            Item::JournalRecord(JournalRecord::Sequence(sequence)) => {
                Key::JournalRecord(JournalKey::Sequence(sequence.home_address))
            }
            Item::JournalRecord(JournalRecord::HbaSet(set)) => Key::JournalRecord(JournalKey::HbaSet(set.number)),
            Item::JournalRecord(JournalRecord::CareOfPrefix(lent)) => {
                Key::JournalRecord(JournalKey::CareOfPrefix(lent.prefix))
            }
            Item::JournalRecord(JournalRecord::Usage(usage)) => Key::JournalRecord(JournalKey::Usage(usage.bid)),
            Item::JournalRecord(JournalRecord::Network(network)) => {
                Key::JournalRecord(JournalKey::Network(network.network))
            }
            Item::JournalRecord(JournalRecord::RowKeys(keys)) => {
                Key::JournalRecord(JournalKey::RowKeys(keys.home_address))
            }
            Item::JournalRecord(JournalRecord::OwnKeys(keys)) => {
                Key::JournalRecord(JournalKey::OwnKeys(keys.home_address))
            }
            #[cfg(feature = "fleet")]
            Item::Announcement(announcement) => Key::Announcement(announcement.prefix),
            #[cfg(feature = "fleet")]
            Item::FleetRecord(record) => Key::FleetRecord(record.home_address),
            #[cfg(feature = "fleet")]
            Item::FleetMember(_) => Key::FleetMember,
            #[cfg(feature = "fleet")]
            Item::FleetPathMtu(shared) => Key::FleetPathMtu(shared.remote),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_displayed_with_their_optional_parts() {
        let net = |text: &str| -> Prefix { text.parse().unwrap() };
        let table = RouteTable(254);
        let texts = [
            Key::Sysctl(None, Sysctl::Ipv4Forwarding),
            Key::Sysctl(Some(LinkId(2)), Sysctl::AcceptRa),
            Key::Route(table, net("2001:db8::/32"), Prefix::ALL, 7),
            Key::Route(table, net("2001:db8::/32"), net("2001:db8:1::/48"), 7),
            Key::Rule(5, net("2001:db8::/32"), Prefix::ALL, Some("lan".to_owned())),
            Key::EthertypeSubscription(LinkId(2), 0x8947),
            Key::JournalRecord(JournalKey::HbaSet(3)),
        ]
        .map(|key| key.to_string());
        assert_eq!(texts[0], "sysctl net.ipv4 forwarding of all interfaces");
        assert_eq!(texts[1], "sysctl accept_ra of link 2");
        assert_eq!(texts[2], "route to 2001:db8::/32, metric 7, in table 254");
        assert_eq!(texts[3], "route to 2001:db8::/32 from 2001:db8:1::/48, metric 7, in table 254");
        assert_eq!(texts[4], format!("rule 5 from 2001:db8::/32 to {} iif lan", Prefix::ALL));
        assert_eq!(texts[5], "subscription to EtherType 0x8947 on link 2");
        assert_eq!(texts[6], "journal record of HBA set 3");
    }
}
