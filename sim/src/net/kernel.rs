//! The kernel of a simulated host: applies the items of a [`Plan`] to packets.
//!
//! It holds state and answers queries; the [`crate::net::world::World`] moves the packets.

use crate::net::associations::Associations;
use crate::net::datagram::{ICMPV6, Seal, UDP};
use crate::net::path_counters::PathKey;
use crate::net::shim_datapath::ShimDatapath;
use crate::net::{Header, datagram, items};
use roam6_proto::contract::config::flow::FlowSelector;
use roam6_proto::contract::item::{
    Encap, NextHop, PolicyRule, Route, RouteTable, Tunnel, TunnelFlow, TunnelId, TunnelPath, WireguardPeer,
};
use roam6_proto::{Item, Key, LinkId, Plan};
use roam6_wire::{Bid, LinkAddress, Prefix};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

/// Priority of the rule of the main table.
const MAIN_RULE: u32 = 32766;
/// The incoming interface of the host's own packets.
const LOOPBACK: &str = "lo";
/// Metric of connected routes.
const CONNECTED_METRIC: u32 = 256;
/// ICMPv6 types of echoes.
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;

/// The forwarding state of a host.
#[derive(Debug, Default)]
pub struct Kernel {
    /// Items of the operator, which always exist.
    static_items: Plan,
    /// Items of the engine.
    plan: Plan,
    addresses: BTreeSet<(Ipv6Addr, LinkId)>,
    routes: BTreeMap<RouteTable, Vec<Route>>,
    rules: Vec<PolicyRule>,
    tunnels: BTreeMap<TunnelId, Tunnel>,
    /// The encrypted paths that have got another device.
    renewals: BTreeMap<(TunnelId, Bid), Renewal>,
    associations: Associations,
    /// The data plane of the shim.
    pub shim: ShimDatapath,
}

/// An encrypted path with another device than before: packets take the former one until this has a session.
#[derive(Debug, Clone, Copy)]
struct Renewal {
    former: WireguardPeer,
    has_session: bool,
}

/// The result of decapsulation.
#[derive(Debug, PartialEq, Eq)]
pub enum Decapsulated<'a> {
    /// The packet belongs to no tunnel of this host.
    Foreign,
    /// It belongs to a tunnel, but its inner addresses are not admitted.
    Refused,
    /// The inner packet.
    Inner(&'a [u8]),
}

impl Kernel {
    /// Adds an item of the operator.
    pub fn add_static(&mut self, item: Item) {
        self.static_items.put(item);
        self.rebuild();
    }

    /// Removes an item of [`Kernel::add_static`].
    pub fn remove_static(&mut self, key: &Key) {
        self.static_items.drop(key);
        self.rebuild();
    }

    /// Adds an item of the engine; records belong to the journal.
    pub fn put(&mut self, item: Item) {
        debug_assert!(!matches!(item, Item::JournalRecord(_)), "records go to the journal");
        match &item {
            Item::ShimUplink(shimmed) => self.shim.put_link(shimmed.link),
            Item::ContextTrigger(trigger) => self.shim.put_trigger(*trigger),
            Item::ShimContext(context) => self.shim.put(context.clone()),
            Item::Tunnel(tunnel) => {
                self.note_devices(tunnel);
                self.associations.put(tunnel);
            }
            _ => {}
        }
        self.plan.put(item);
        self.rebuild();
    }

    /// Removes the item of `key`.
    pub fn drop(&mut self, key: &Key) {
        if let Key::Tunnel(id) = key {
            self.associations.drop(*id);
        }
        if self.plan.drop(key).is_some() {
            self.shim.drop(key);
            self.rebuild();
        }
    }

    /// The items of the engine.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Removes the items of the engine, as a reboot does.
    pub fn clear(&mut self) {
        self.plan = Plan::new();
        self.shim = ShimDatapath::default();
        self.renewals.clear();
        self.associations = Associations::default();
        self.rebuild();
    }

    /// Whether the host has `address` on any interface.
    pub fn has_address(&self, address: Ipv6Addr) -> bool {
        self.addresses.range((address, LinkId(0))..=(address, LinkId(u32::MAX))).next().is_some()
    }

    /// The addresses of the interface `link`.
    pub fn addresses(&self, link: LinkId) -> Vec<Ipv6Addr> {
        self.addresses.iter().filter(|(_, on)| *on == link).map(|(address, _)| *address).collect()
    }

    /// Whether the interface `link` has `address`.
    pub fn has_address_on(&self, address: Ipv6Addr, link: LinkId) -> bool {
        self.addresses.contains(&(address, link))
    }

    /// The Router flag of the proxy entry for `address` on `link`, if there is one.
    pub fn proxies(&self, address: Ipv6Addr, link: LinkId) -> Option<bool> {
        match self.find(&Key::ProxyNeighbour(link, address)) {
            Some(Item::ProxyNeighbour(proxy)) => Some(proxy.router),
            _ => None,
        }
    }

    /// The static neighbour cache entry of `address` on `link`.
    pub fn neighbour(&self, address: Ipv6Addr, link: LinkId) -> Option<LinkAddress> {
        match self.find(&Key::Neighbour(link, address)) {
            Some(Item::Neighbour(neighbour)) => Some(neighbour.link_address),
            _ => None,
        }
    }

    /// The route of a packet received by the interface `arrived`, or sent by the host: by the rules in order; in each
    /// table by the longest destination, then the longest source, then the lowest metric, of the routes for which
    /// `usable` holds.
    pub fn route(&self, header: &Header, arrived: Option<&str>, usable: impl Fn(&NextHop) -> bool) -> Option<NextHop> {
        let matches = |prefix: Prefix, address| prefix.contains(address);
        self.rules
            .iter()
            .filter(|rule| matches(rule.source, header.source) && matches(rule.destination, header.destination))
            .filter(|rule| rule.iif.as_deref().is_none_or(|wanted| wanted == arrived.unwrap_or(LOOPBACK)))
            .filter_map(|rule| self.routes.get(&rule.table))
            .flatten()
            .find(|route| {
                matches(route.destination, header.destination)
                    && matches(route.source, header.source)
                    && usable(&route.target)
            })
            .map(|route| route.target)
    }

    /// Whether a packet from `source` received by `link` may be forwarded.
    pub fn is_source_allowed(&self, source: Ipv6Addr, link: LinkId) -> bool {
        match self.find(&Key::SourceFilter(link)) {
            Some(Item::SourceFilter(guard)) => within(&guard.allowed, source) && !guard.own_addresses.contains(&source),
            _ => true,
        }
    }

    /// The tunnel of `id`.
    pub fn tunnel(&self, id: TunnelId) -> Option<&Tunnel> {
        self.tunnels.get(&id)
    }

    /// The tunnels.
    pub fn tunnels(&self) -> impl Iterator<Item = &Tunnel> {
        self.tunnels.values()
    }

    /// The path of `inner`, which arrived by this interface if it is not this host's, through a tunnel; `None` if the
    /// tunnel does not admit it.
    pub fn path(&self, id: TunnelId, inner: &[u8], arrived: Option<LinkId>) -> Option<&TunnelPath> {
        let tunnel = self.tunnels.get(&id)?;
        let header = Header::parse(inner)?;
        if !within(&tunnel.local_prefixes, header.source) || !within(&tunnel.remote_prefixes, header.destination) {
            return None;
        }
        let of_flow = |bid| tunnel.paths.iter().find(|path| path.bid == bid);
        let entered = |ingress: Option<LinkId>| ingress.is_none() || ingress == arrived;
        let matching = |flow: &&TunnelFlow| entered(flow.ingress) && selects(&flow.selector, inner);
        let bound = || tunnel.flows.iter().filter(matching).find_map(|flow| of_flow(flow.bid));
        probed_path(&tunnel.paths, &header, inner)
            .or_else(bound)
            .or_else(|| weighted_path(&tunnel.paths, flow_hash(inner)))
    }

    /// Remembers the devices that paths of a tunnel had so far, and have no more. The end that begins the session has it at once,
    /// because the other one has installed it before it told its key.
    fn note_devices(&mut self, tunnel: &Tunnel) {
        let Some(before) = self.tunnels.get(&tunnel.id) else { return };
        let first = |tunnel: &Tunnel, bid| {
            let mut paths = tunnel.paths.iter().filter(|path| path.bid == bid);
            paths.find_map(|path| path.encap.wireguard().copied())
        };
        for bid in tunnel.paths.iter().map(|path| path.bid) {
            let Some((peer, before)) = first(tunnel, bid).zip(first(before, bid)) else { continue };
            if peer.device == before.device {
                continue;
            }
            let unfinished = self.renewals.get(&(tunnel.id, bid)).filter(|renewal| !renewal.has_session);
            let former = unfinished.map_or(before, |renewal| renewal.former);
            self.renewals.insert((tunnel.id, bid), Renewal { former, has_session: peer.initiates });
        }
    }

    /// A packet has come by an encrypted path: its device has a session.
    pub fn note_session(&mut self, packet: &[u8]) {
        let key = match datagram::unseal(packet) {
            Some((Seal::Wireguard(key), _)) => key,
            Some((Seal::Esp(key), _)) => return self.associations.note_packet(key),
            None => return,
        };
        for ((id, bid), renewal) in self.renewals.iter_mut().filter(|(_, renewal)| !renewal.has_session) {
            let mut paths = self.tunnels.get(id).into_iter().flat_map(|tunnel| &tunnel.paths);
            renewal.has_session = paths
                .any(|path| path.bid == *bid && path.encap.wireguard().is_some_and(|peer| peer.preshared_key == key));
        }
    }

    /// A path with the device that its packets take now.
    pub fn carrier(&self, id: TunnelId, path: &TunnelPath) -> TunnelPath {
        let renewal = self.renewals.get(&(id, path.bid)).filter(|renewal| !renewal.has_session);
        match (path.encap, renewal) {
            (Encap::Esp(pair), _) => {
                let pair = self.associations.carrier(id, path).unwrap_or(pair);
                TunnelPath { encap: Encap::Esp(pair), ..path.clone() }
            }
            (Encap::Wireguard(_), Some(renewal)) => {
                TunnelPath { encap: Encap::Wireguard(renewal.former), ..path.clone() }
            }
            _ => path.clone(),
        }
    }

    /// The paths of a tunnel that have an outer header.
    pub fn paths_of(&self, id: TunnelId) -> Vec<Bid> {
        let paths = self.tunnels.get(&id).into_iter().flat_map(|tunnel| &tunnel.paths);
        paths.filter(|path| !path.direct).map(|path| path.bid).collect()
    }

    /// The path by which a packet of a tunnel of this host has come.
    pub fn path_of(&self, packet: &[u8]) -> Option<PathKey> {
        let (source, destination, _, payload) = datagram::decapsulate(packet)?;
        let sealed = datagram::unseal(packet);
        if let Some((Seal::Esp(key), _)) = sealed {
            return self.associations.path_of(key);
        }
        let inner = sealed.map_or(payload, |(_, inner)| inner);
        let header = Header::parse(inner)?;
        let by = |path: &&TunnelPath| !path.direct && path.remote == source && path.local == destination;
        self.tunnels.values().filter(|tunnel| within(&tunnel.remote_prefixes, header.source)).find_map(|tunnel| {
            let path = tunnel.paths.iter().find(by)?;
            Some((tunnel.id, path.bid))
        })
    }

    /// Decapsulates a packet of a tunnel of this host (RFC 3963 §6.5, §9).
    pub fn decapsulate<'a>(&self, packet: &'a [u8]) -> Decapsulated<'a> {
        let Some((source, destination, ports, payload)) = datagram::decapsulate(packet) else {
            return Decapsulated::Foreign;
        };
        let sealed = datagram::unseal(packet);
        let inner = sealed.map_or(payload, |(_, inner)| inner);
        let Some(header) = Header::parse(inner) else { return Decapsulated::Foreign };
        let ours = |id: TunnelId, path: &TunnelPath| {
            let from_port = |(from, to)| path.encap == Encap::Udp { local: to, remote: from };
            let same = path.remote == source && path.local == destination;
            let is_sent_so = match (path.encap, sealed) {
                (Encap::Wireguard(peer), Some((Seal::Wireguard(key), _))) => {
                    let former = self.renewals.get(&(id, path.bid)).map(|renewal| renewal.former.preshared_key);
                    same && (key == peer.preshared_key || Some(key) == former)
                }
                // Whatever its addresses: the SPI and the key decide (RFC 4301 §4.1).
                (Encap::Esp(_), Some((Seal::Esp(key), _))) => self.associations.path_of(key) == Some((id, path.bid)),
                (Encap::Native | Encap::Udp { .. }, None) => same && ports.is_none_or(from_port),
                _ => false,
            };
            !path.direct && is_sent_so
        };
        let is_ours = |tunnel: &&Tunnel| tunnel.paths.iter().any(|path| ours(tunnel.id, path));
        let mut tunnels = self.tunnels.values().filter(is_ours).peekable();
        if tunnels.peek().is_none() {
            return Decapsulated::Foreign;
        }
        match tunnels.any(|tunnel| {
            within(&tunnel.remote_prefixes, header.source) && within(&tunnel.local_prefixes, header.destination)
        }) {
            true => Decapsulated::Inner(inner),
            false => Decapsulated::Refused,
        }
    }

    /// Whether the engine receives frames of this EtherType on `link`, and the address beside the interface's own for
    /// which it does.
    pub fn subscription(&self, link: LinkId, ethertype: u16) -> Option<Option<LinkAddress>> {
        match self.find(&Key::EthertypeSubscription(link, ethertype)) {
            Some(Item::EthertypeSubscription(subscription)) => Some(subscription.address),
            _ => None,
        }
    }

    fn find(&self, key: &Key) -> Option<&Item> {
        self.plan.find(key).or_else(|| self.static_items.find(key))
    }

    fn rebuild(&mut self) {
        let everywhere = PolicyRule {
            priority: MAIN_RULE,
            source: Prefix::ALL,
            destination: Prefix::ALL,
            iif: None,
            table: RouteTable::MAIN,
        };
        (self.addresses, self.tunnels) = Default::default();
        self.rules = vec![everywhere];
        let mut routes: BTreeMap<RouteTable, Vec<Route>> = BTreeMap::new();
        for (_, item) in self.static_items.iter().chain(self.plan.iter()) {
            match item {
                Item::Address(address) => {
                    self.addresses.insert((address.address, address.link));
                    let on_link = Prefix::new(address.address, address.prefix_length).unwrap_or(Prefix::ALL);
                    if address.prefix_length < 128 {
                        routes.entry(RouteTable::MAIN).or_default().push(items::plain_route(
                            RouteTable::MAIN,
                            on_link,
                            CONNECTED_METRIC,
                            NextHop::OnLink(address.link),
                        ));
                    }
                }
                Item::Anycast(anycast) => {
                    self.addresses.insert((anycast.address, anycast.link));
                }
                Item::Route(route) => routes.entry(route.table).or_default().push(route.clone()),
                Item::Rule(rule) => self.rules.push(rule.clone()),
                Item::Tunnel(tunnel) => {
                    self.tunnels.insert(tunnel.id, tunnel.clone());
                }
                Item::Sysctl(_) | Item::Neighbour(_) | Item::ProxyNeighbour(_) | Item::SourceFilter(_) => {}
                Item::MptcpLimits(_) | Item::MptcpEndpoint(_) => {}
                Item::ShimUplink(_)
                | Item::ContextTrigger(_)
                | Item::ShimContext(_)
                | Item::EthertypeSubscription(_)
                | Item::VirtualInterface(_) => {}
                Item::UdpPortHold(_) | Item::TunnelBypass(_) => {}
                Item::JournalRecord(_) => {}
                #[cfg(feature = "fleet")]
                Item::Announcement(_) | Item::FleetRecord(_) | Item::FleetMember(_) | Item::FleetPathMtu(_) => {}
            }
        }
        self.rules.sort_by_key(|rule| rule.priority);
        for table in routes.values_mut() {
            table.sort_by_key(|route| {
                (128 - route.destination.length(), 128 - route.source.length(), route.metric, route.destination)
            });
        }
        self.routes = routes;
    }
}

fn within(prefixes: &[Prefix], address: Ipv6Addr) -> bool {
    prefixes.iter().any(|prefix| prefix.contains(address))
}

/// The path under test: the identifier of an echo between the endpoints of the tunnel is its BID.
fn probed_path<'a>(paths: &'a [TunnelPath], header: &Header, inner: &[u8]) -> Option<&'a TunnelPath> {
    let bid = Bid(echo_identifier(inner)?);
    paths.iter().find(|path| path.bid == bid && (path.local == header.source || path.remote == header.destination))
}

/// The identifier of an ICMPv6 echo request or reply.
pub(crate) fn echo_identifier(packet: &[u8]) -> Option<u16> {
    match datagram::upper_layer(packet)? {
        (ICMPV6, &[ECHO_REQUEST | ECHO_REPLY, _, _, _, high, low, ..]) => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

/// The path of a flow: its hash selects by weight; `None` if no path has a weight.
fn weighted_path(paths: &[TunnelPath], hash: u64) -> Option<&TunnelPath> {
    let total: u64 = paths.iter().map(|path| u64::from(path.weight)).sum();
    let mut point = hash.checked_rem(total)?;
    paths.iter().find(|path| match point.checked_sub(u64::from(path.weight)) {
        Some(rest) => {
            point = rest;
            false
        }
        None => true,
    })
}

/// Source and destination port of a UDP packet, otherwise zeros.
fn ports(packet: &[u8]) -> (u16, u16) {
    match datagram::upper_layer(packet) {
        Some((UDP, &[a, b, c, d, ..])) => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        _ => (0, 0),
    }
}

fn flow_hash(packet: &[u8]) -> u64 {
    let Some(header) = Header::parse(packet) else { return 0 };
    let (source, destination) = ports(packet);
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut mix = |octets: &[u8]| {
        for octet in octets {
            hash = (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    mix(&header.source.octets());
    mix(&header.destination.octets());
    mix(&source.to_be_bytes());
    mix(&destination.to_be_bytes());
    hash >> 32
}

/// Whether a packet that enters the tunnel belongs to the flow.
fn selects(selector: &FlowSelector, packet: &[u8]) -> bool {
    let (Some(header), Some((protocol, _))) = (Header::parse(packet), datagram::upper_layer(packet)) else {
        return false;
    };
    let (source_port, destination_port) = ports(packet);
    let class = packet.first_chunk().map_or(0, |[first, second]| first << 4 | second >> 4);
    let in_prefix = |prefix: Option<Prefix>, address| prefix.is_none_or(|prefix| prefix.contains(address));
    let in_ports = |range: Option<(u16, u16)>, port| range.is_none_or(|(first, last)| (first..=last).contains(&port));
    in_prefix(selector.source, header.source)
        && in_prefix(selector.destination, header.destination)
        && selector.protocol.is_none_or(|wanted| wanted == protocol)
        && in_ports(selector.source_ports, source_port)
        && in_ports(selector.destination_ports, destination_port)
        && selector.dscp.is_none_or(|dscp| dscp == class >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::contract::item::Address;
    use roam6_wire::icmp6::{Echo, Message};

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    fn route(destination: &str, source: &str, metric: u32, link: u32) -> Item {
        Item::Route(Route {
            table: RouteTable::MAIN,
            destination: prefix(destination),
            source: prefix(source),
            metric,
            target: NextHop::OnLink(LinkId(link)),
            mtu: None,
        })
    }

    fn header(source: &str, destination: &str) -> Header {
        Header { source: source.parse().unwrap(), destination: destination.parse().unwrap(), next: UDP, hop_limit: 64 }
    }

    #[test]
    fn route_lookup_prefers_destination_then_source_then_metric() {
        let mut kernel = Kernel::default();
        kernel.add_static(route("::/0", "2001:db8:1::/64", 1, 1));
        kernel.put(route("::/0", "::/0", 1, 2));
        kernel.put(route("2001:db8:2::/64", "::/0", 9, 3));
        kernel.put(route("2001:db8:2::/64", "::/0", 5, 4));
        let target = |source, destination| kernel.route(&header(source, destination), None, |_| true);
        assert_eq!(target("2001:db8:1::1", "2001:db8:2::1"), Some(NextHop::OnLink(LinkId(4))));
        assert_eq!(target("2001:db8:1::1", "2001:db8:3::1"), Some(NextHop::OnLink(LinkId(1))));
        assert_eq!(target("2001:db8:9::1", "2001:db8:3::1"), Some(NextHop::OnLink(LinkId(2))));
        let without =
            kernel.route(&header("::1", "2001:db8:2::1"), None, |target| *target != NextHop::OnLink(LinkId(4)));
        assert_eq!(without, Some(NextHop::OnLink(LinkId(3))));
    }

    #[test]
    fn an_address_installs_and_removes_its_prefix_route() {
        let mut kernel = Kernel::default();
        let item = Item::Address(Address {
            link: LinkId(1),
            address: "2001:db8::5".parse().unwrap(),
            prefix_length: 64,
            preferred: true,
            dad: false,
        });
        kernel.put(item.clone());
        let to_neighbour = header("::", "2001:db8::6");
        assert_eq!(kernel.route(&to_neighbour, None, |_| true), Some(NextHop::OnLink(LinkId(1))));
        assert!(kernel.has_address("2001:db8::5".parse().unwrap()));
        kernel.drop(&item.key());
        assert_eq!(kernel.route(&to_neighbour, None, |_| true), None);
    }

    #[test]
    fn a_tunnel_admits_only_its_prefixes() {
        let mut kernel = Kernel::default();
        let path = TunnelPath {
            bid: Bid(0),
            local: "2001:db8::1".parse().unwrap(),
            remote: "2001:db8:f::1".parse().unwrap(),
            link: None,
            mtu: 1460,
            weight: 1,
            direct: false,
            encap: Encap::Native,
            dscp: None,
        };
        kernel.put(Item::Tunnel(Tunnel {
            id: TunnelId(1),
            local_prefixes: vec![Prefix::ALL],
            remote_prefixes: vec![prefix("2001:db8:8::/64")],
            paths: vec![path.clone()],
            flows: Vec::new(),
        }));
        let outer = header("2001:db8:f::1", "2001:db8::1");
        let good = datagram::build(header("2001:db8:8::2", "2001:db8:c::1"), b"x");
        let forged = datagram::build(header("2001:db8:9::2", "2001:db8:c::1"), b"x");
        assert_eq!(
            kernel.decapsulate(&datagram::encapsulate(outer.source, outer.destination, &good)),
            Decapsulated::Inner(&good)
        );
        assert_eq!(
            kernel.decapsulate(&datagram::encapsulate(outer.source, outer.destination, &forged)),
            Decapsulated::Refused
        );
        let elsewhere = header("2001:db8:e::1", "2001:db8::1");
        assert_eq!(
            kernel.decapsulate(&datagram::encapsulate(elsewhere.source, elsewhere.destination, &good)),
            Decapsulated::Foreign
        );
        let answer = datagram::build(header("2001:db8:c::1", "2001:db8:8::2"), b"x");
        assert_eq!(kernel.path(TunnelId(1), &answer, None), Some(&path));
        assert_eq!(kernel.path(TunnelId(1), &good, None), None);
    }

    #[test]
    fn a_probe_takes_the_path_under_test() {
        let path = |bid: u16, remote: &str, weight| TunnelPath {
            bid: Bid(bid),
            local: "2001:db8::1".parse().unwrap(),
            remote: remote.parse().unwrap(),
            link: None,
            mtu: 1460,
            weight,
            direct: false,
            encap: Encap::Native,
            dscp: None,
        };
        let paths = vec![path(1, "2001:db8:f::1", 1), path(2, "2001:db8:e::1", 0)];
        let mut kernel = Kernel::default();
        kernel.put(Item::Tunnel(Tunnel {
            id: TunnelId(1),
            local_prefixes: vec![Prefix::ALL],
            remote_prefixes: vec![prefix("2001:db8::10/128")],
            paths: paths.clone(),
            flows: Vec::new(),
        }));
        let reply = |source: &str, identifier| {
            let header = Header { next: ICMPV6, ..header(source, "2001:db8::10") };
            datagram::icmp6(header, &Message::EchoReply(Echo { identifier, sequence: 0, data: Vec::new() }))
        };
        assert_eq!(kernel.path(TunnelId(1), &reply("2001:db8::1", 2), None), paths.get(1));
        assert_eq!(kernel.path(TunnelId(1), &reply("2001:db8::1", 3), None), paths.first());
        assert_eq!(
            kernel.path(TunnelId(1), &reply("2001:db8:c::1", 2), None),
            paths.first(),
            "not of the tunnel's end"
        );
    }
}
