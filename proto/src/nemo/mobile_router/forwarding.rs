//! The desired items of the host, derived from the engine's state: addresses, routes, rules and the tunnel with its
//! paths (RFC 3963 §5.3, §5.5 and §6.5; RFC 6275 §11.5.5 for lingering paths).

use super::MobileRouter;
use super::registration::CareOf;
use super::uplink::Uplink;
use crate::contract::config::flow::FlowRule;
use crate::contract::config::nemo::LoadSharing;
use crate::contract::item::{
    Address, Encap, NextHop, PolicyRule, ProxyNeighbour, RouteTable, Sysctl, SysctlSetting, Tunnel, TunnelFlow,
    TunnelId, TunnelPath,
};
use crate::{Item, LinkId, Plan, Time};
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::ip6::MINIMUM_MTU;
use roam6_wire::{Bid, Ipv4Endpoint, Prefix};
use std::net::Ipv6Addr;

/// Paths of one tunnel at most.
const MAX_PATHS: usize = 8;
/// The tunnel to the home agent.
pub const TUNNEL: TunnelId = TunnelId(1);
/// The table for packets from the mobile network and the home address. An uplink's table is this plus its BID.
pub const TUNNEL_TABLE: RouteTable = RouteTable(6_275_000);

/// The table whose default route is unreachable.
const UNREACHABLE_TABLE: RouteTable = RouteTable(TUNNEL_TABLE.0 - 1);
/// The table whose default routes discard silently.
const DISCARD_TABLE: RouteTable = RouteTable(TUNNEL_TABLE.0 - 3);
/// The incoming interface of locally generated packets in routing rules.
pub(super) const LOOPBACK: &str = "lo";

/// Packets from an uplink with a source address of the mobile network, or the home address, are spoofed: they are
/// discarded, whatever their destination. Before all other rules.
const RULE_SPOOFED: u32 = 990;
/// Packets to a home agent whose address is in the mobile network, because it shares the on-link prefix of its host: from a
/// care-of address they take that uplink, all others the tunnel.
const RULE_TO_HOME_AGENT: u32 = 995;
const RULE_TO_HOME_AGENT_INSIDE: u32 = 996;
/// Packets to the mobile network stay in it.
pub(super) const RULE_TO_MOBILE_NETWORK: u32 = 1000;
/// Packets from the mobile network take the tunnel if they arrive on an ingress interface or are locally generated. On
/// any other interface a source address is not trusted (RFC 3963 §9).
const RULE_FROM_MOBILE_NETWORK: u32 = 1100;
/// Packets from a care-of prefix take its uplink.
pub(super) const RULE_FROM_CARE_OF_PREFIX: u32 = 1105;
/// Other packets from ingress interfaces are not forwarded, least of all with an address of the router itself; rules
/// that let packets from ingress interfaces out come before this one.
const RULE_FOREIGN_SOURCE: u32 = 1110;
/// Locally generated packets from the home address take the tunnel. Before the next rule, so that the router's own
/// programs use the home address, and their connections survive handovers.
const RULE_FROM_HOME_ADDRESS: u32 = 1120;
/// Packets of the mobile network that no rule has led into the tunnel, as before the first registration, take no other way if data
/// is to be encrypted: the host may have a default route of its own, most often one of IPv4.
const RULE_UNENCRYPTED: u32 = 1130;
/// Packets from a care-of address take that uplink.
const RULE_FROM_CARE_OF_ADDRESS: u32 = 1200;

pub(super) const DEFAULT_METRIC: u32 = 512;
/// Metric worse than that of any other route.
const UNREACHABLE_METRIC: u32 = 1 << 30;

impl MobileRouter {
    /// All desired items.
    ///
    /// There is no default route without a rule: the router's own sockets find theirs by source address.
    pub(super) fn plan(&self) -> Plan {
        let mut plan = Plan::new();
        self.put_sysctls(&mut plan);
        for item in self.uplinks.iter().flat_map(|uplink| self.uplink_items(uplink)) {
            plan.put(item);
        }
        self.put_care_of_prefixes(self.now, &mut plan);
        self.put_mobile_network(&mut plan);
        self.put_home_address(&mut plan);
        self.put_ipv4_home(&mut plan);
        self.put_tunnel_or_home_route(&mut plan);
        self.put_bonding(&mut plan);
        plan
    }

    /// The paths of the tunnel, best first. One that is not yet acknowledged, or is lingering, only receives.
    pub(super) fn paths(&self) -> Vec<TunnelPath> {
        let live = self.care_of_in_use();
        let best = live.first().map(|care_of| self.rank(care_of));
        let mut paths: Vec<TunnelPath> = Vec::new();
        for (index, care_of) in live.iter().enumerate() {
            let weight = match self.config.load_sharing {
                LoadSharing::Weighted if Some(self.rank(care_of)) == best => self.weight(care_of.bid),
                LoadSharing::Single | LoadSharing::Standby if index == 0 => 1,
                _ => 0,
            };
            paths.extend(self.path(care_of, weight));
        }
        if let Some(first) = paths.first_mut()
            && first.weight == 0
        {
            first.weight = 1;
        }
        let registered = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
        let pending = self.registration.pending().map(|wanted| wanted.care_of()).unwrap_or_default();
        let left = self.lingering.iter().map(|left| &left.care_of);
        let asked = self.path_update.iter().flat_map(|update| update.wanted.care_of());
        let tried = self.uplinks.iter().filter_map(|uplink| uplink.transport.trial.as_ref());
        let asked = asked.chain(tried.flat_map(|trial| trial.wanted.care_of()));
        let receiving = registered.iter().chain(pending).chain(asked).chain(left);
        let receiving = receiving.filter_map(|care_of| self.path(care_of, 0)).chain(self.unanswered_ipv4_paths());
        for path in receiving {
            let is_new = paths.iter().all(|other| {
                // A path in UDP receives what is not in UDP too.
                let covers = path.encap.is_native() || path.encap == other.encap;
                (other.local, other.link) != (path.local, path.link) || !covers
            });
            if is_new && paths.len() < MAX_PATHS {
                paths.push(path);
            }
        }
        paths
    }

    /// The care-of addresses in use, best first: the registered ones that still work; else the pending ones, since the
    /// home agent will have them before the next packet arrives.
    pub(super) fn care_of_in_use(&self) -> Vec<CareOf> {
        let works = |care_of: &&CareOf| self.uplink_of(care_of).is_some_and(|up| up.is_up() && !up.is_barred());
        let is_lost = |uplink: &Uplink| uplink.prober.is_silent() && !self.keeps_for_copies(uplink);
        let speaks = |care_of: &&CareOf| !self.uplink_of(care_of).is_some_and(is_lost);
        let served = self.registration.serving_home_agent();
        let pending = self.registration.pending().filter(|wanted| Some(wanted.home_agent) == served);
        let pending = pending.map(|wanted| wanted.care_of()).unwrap_or_default();
        let held = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
        let held: Vec<CareOf> = held.iter().filter(works).copied().collect();
        let speaking: Vec<CareOf> = held.iter().filter(speaks).copied().collect();
        let mut live = match (speaking.is_empty(), pending.is_empty()) {
            (false, _) => speaking,
            (true, false) => pending.iter().filter(works).copied().collect(),
            (true, true) => held,
        };
        live.sort_by_key(|care_of| self.rank(care_of));
        live
    }

    /// Whether packets to the mobile network arrive: it is at home, or a working care-of address is acknowledged.
    pub(super) fn is_reachable(&self) -> bool {
        if let Some(home) = self.home_link.as_ref().filter(|_| !self.is_home_and_away()) {
            return home.deregistered;
        }
        let held = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
        held.iter()
            .filter_map(|care_of| self.uplink_of(care_of))
            .any(|uplink| uplink.is_up() && !uplink.prober.is_silent() && !uplink.is_barred())
    }

    pub(super) fn path(&self, care_of: &CareOf, weight: u16) -> Option<TunnelPath> {
        if care_of.on_home_link {
            return self.direct_path(care_of, weight);
        }
        let here = |uplink: &&Uplink| uplink.up() == Some(care_of.link) && uplink.had_address(care_of.address);
        let uplink = self.uplinks.iter().find(here)?;
        if care_of.ipv4().is_some() {
            let path = self.ipv4_path(care_of, uplink, self.registration.serving_home_agent()?)?;
            return self.encrypted(TunnelPath { weight, dscp: uplink.config.dscp, ..path }, uplink);
        }
        let in_udp = Encap::Udp { local: DSMIP_PORT, remote: DSMIP_PORT };
        let encap = if care_of.udp { in_udp } else { Encap::Native };
        let path = TunnelPath {
            bid: care_of.bid,
            local: care_of.address.0,
            remote: self.registration.serving_home_agent()?,
            link: Some(care_of.link),
            // An outer packet that does not fit is fragmented (RFC 2473 §7.2).
            mtu: encap.inner_mtu(uplink.mtu().max(MINIMUM_MTU)),
            weight,
            direct: false,
            encap,
            dscp: uplink.config.dscp,
        };
        self.encrypted(path, uplink)
    }

    /// The uplink with this care-of address.
    pub(super) fn uplink_of(&self, care_of: &CareOf) -> Option<&Uplink> {
        if care_of.on_home_link {
            return self.uplinks.iter().find(|uplink| uplink.on_home_link && uplink.up() == Some(care_of.link));
        }
        self.uplinks.iter().find(|uplink| {
            uplink.link() == Some(care_of.link)
                && (uplink.care_of_address.as_ref().is_some_and(|formed| formed.address == care_of.address)
                    || uplink.ipv4.has(care_of.address))
        })
    }

    pub(super) fn weight(&self, bid: Bid) -> u16 {
        self.uplinks.iter().find(|uplink| uplink.config.bid == bid).map_or(1, |uplink| uplink.config.weight)
    }

    fn put_sysctls(&self, plan: &mut Plan) {
        let mut put = |link, knob, value| plan.put(Item::Sysctl(SysctlSetting { link, sysctl: knob, value }));
        put(None, Sysctl::Forwarding, 1);
        for link in self.uplinks.iter().filter_map(Uplink::link).chain(self.ingress_links().flatten()) {
            for knob in [Sysctl::AcceptRa, Sysctl::Autoconf, Sysctl::AcceptDad, Sysctl::RouterSolicitations] {
                put(Some(link), knob, 0);
            }
        }
    }

    /// The items of the uplink with this BID; none while it has no care-of address.
    pub(super) fn uplink_items_of(&self, bid: Bid) -> Vec<Item> {
        let uplink = self.uplinks.iter().find(|uplink| uplink.config.bid == bid);
        uplink.map(|uplink| self.uplink_items(uplink)).unwrap_or_default()
    }

    fn uplink_items(&self, uplink: &Uplink) -> Vec<Item> {
        let Some((link, formed)) = uplink.up().zip(uplink.care_of_address.as_ref().filter(|formed| formed.usable))
        else {
            return Vec::new();
        };
        let bid = uplink.config.bid;
        let alone = self.has_point_to_point_prefix(bid);
        let prefix_length = if alone { 128 } else { formed.prefix_length() };
        let (address, table) = (formed.address.0, uplink_table(bid));
        // The tunnel leaves an uplink beyond its plan first, so that no packet on this path meets the unreachable route.
        let carries = || self.is_departing(link) || self.paths().iter().any(|path| path.local == address);
        let way_out = if uplink.is_barred() && !carries() { UNREACHABLE_TABLE } else { table };
        let gateway = NextHop::Gateway { link, router: formed.router };
        let on_link =
            Some(Item::route(table, formed.prefix, DEFAULT_METRIC, NextHop::OnLink(link))).filter(|_| formed.on_link);
        let mut items = vec![
            // Deprecated: a program that chose it would lose its connections at a handover.
            address_item(link, address, prefix_length, false),
            Item::route(table, Prefix::ALL, DEFAULT_METRIC, gateway),
            Item::rule(RULE_FROM_CARE_OF_ADDRESS, Prefix::host(address), Prefix::ALL, way_out),
        ];
        items.extend(on_link);
        let to_agent = |agent| Item::rule(RULE_TO_HOME_AGENT, Prefix::host(address), Prefix::host(agent), way_out);
        items.extend(self.home_agents_inside().map(to_agent));
        items
    }

    /// The home agents whose addresses are in the mobile network.
    fn home_agents_inside(&self) -> impl Iterator<Item = Ipv6Addr> {
        let agents = self.config.home_agents.iter().copied();
        agents.filter(|agent| self.networks().any(|prefix| prefix.contains(*agent)))
    }

    /// Nodes of the mobile network look for such a home agent on their own link.
    fn put_home_agents_inside(&self, plan: &mut Plan) {
        for agent in self.home_agents_inside() {
            plan.put(Item::rule(RULE_TO_HOME_AGENT_INSIDE, Prefix::ALL, Prefix::host(agent), TUNNEL_TABLE));
            let on_link = self.ingress.iter().filter(|ingress| ingress.config.prefix.contains(agent));
            for interface in on_link.filter_map(|ingress| ingress.interface.as_ref()).filter(|interface| interface.up) {
                let link = interface.link;
                plan.put(Item::ProxyNeighbour(ProxyNeighbour { link, address: agent, router: false }));
            }
        }
    }

    /// The mobile network: unassigned parts are unreachable, so that packets do not loop, and packets from it with a
    /// foreign source are rejected (RFC 3963 §6.5, §9).
    fn put_mobile_network(&self, plan: &mut Plan) {
        self.put_spoofing_filter(plan);
        self.put_unencrypted_filter(plan);
        for prefix in self.networks() {
            plan.put(Item::rule(RULE_TO_MOBILE_NETWORK, Prefix::ALL, prefix, RouteTable::MAIN));
            plan.put(Item::route(RouteTable::MAIN, prefix, UNREACHABLE_METRIC, NextHop::Unreachable));
        }
        plan.put(Item::route(UNREACHABLE_TABLE, Prefix::ALL, DEFAULT_METRIC, NextHop::Unreachable));
        for ingress in &self.ingress {
            let incoming = &ingress.config.interface;
            plan.put(incoming_rule(RULE_FOREIGN_SOURCE, Prefix::ALL, incoming, UNREACHABLE_TABLE));
            if let Some((interface, address)) = ingress.interface.as_ref().zip(ingress.address())
                && interface.up
            {
                plan.put(address_item(interface.link, address, ingress.config.prefix.length(), true));
            }
        }
        // Addresses of lingering paths still receive.
        for path in self.paths() {
            if let Some(neighbour) = self.neighbour_item(&path) {
                plan.put(neighbour);
            }
            if let Some(link) = path.link.filter(|_| !path.direct && Ipv4Endpoint::from_ipv6(path.local).is_none())
                && plan.find(&crate::contract::item::Key::Address(link, path.local)).is_none()
            {
                plan.put(address_item(link, path.local, 128, false));
            }
        }
    }

    /// Discards packets from uplinks with a source address of the mobile network, or the home address: any node of a
    /// visited link can spoof these (RFC 3963 §9).
    fn put_spoofing_filter(&self, plan: &mut Plan) {
        for everything in [Prefix::ALL, Prefix::ALL_IPV4] {
            if self.networks().any(|prefix| prefix.is_ipv4() == everything.is_ipv4()) {
                plan.put(Item::route(DISCARD_TABLE, everything, DEFAULT_METRIC, NextHop::Blackhole));
            }
        }
        for source in self.networks().chain(self.own_sources()) {
            for uplink in &self.uplinks {
                plan.put(incoming_rule(RULE_SPOOFED, source, &uplink.config.interface, DISCARD_TABLE));
            }
        }
    }

    fn put_unencrypted_filter(&self, plan: &mut Plan) {
        if !self.encrypts() {
            return;
        }
        if self.networks().any(Prefix::is_ipv4) {
            plan.put(Item::route(UNREACHABLE_TABLE, Prefix::ALL_IPV4, DEFAULT_METRIC, NextHop::Unreachable));
        }
        for source in self.networks().chain(self.own_sources()) {
            for interface in self.inside() {
                plan.put(incoming_rule(RULE_UNENCRYPTED, source, interface, UNREACHABLE_TABLE));
            }
        }
    }

    /// The sources of packets of this host that take the tunnel: the home address, and the addresses of subflows, if paths are
    /// encrypted.
    fn own_sources(&self) -> impl Iterator<Item = Prefix> {
        core::iter::once(Prefix::host(self.config.home_address.0)).chain(self.subflow_prefix())
    }

    /// The incoming interfaces of packets whose source address is trusted.
    fn inside(&self) -> impl Iterator<Item = &str> {
        self.ingress.iter().map(|ingress| ingress.config.interface.as_str()).chain([LOOPBACK])
    }

    /// Away from home, the home address is on the first ingress interface that is up, or on the loopback interface
    /// while none is, so that the tunnel and its probes do not depend on an ingress interface. On the home link it is
    /// on the uplink, once the de-registration was sent.
    fn put_home_address(&self, plan: &mut Plan) {
        let home = self.config.home_address.0;
        if let Some(link) = self.home_address_link() {
            plan.put(address_item(link, home, self.config.home_prefix.length(), true));
            return;
        }
        let mut ingress = self.ingress.iter().filter_map(|ingress| ingress.interface.as_ref());
        let up = ingress.find(|interface| interface.up).map(|interface| interface.link);
        // Before the tunnel is managed the address is not needed, and an ingress interface may still appear.
        let fallback = self.manages_tunnel.then_some(LinkId::LOOPBACK);
        if let Some(link) = up.or(fallback)
            && !plan.iter().any(|(_, item)| matches!(item, Item::Address(held) if held.address == home))
        {
            plan.put(address_item(link, home, 128, true));
        }
    }

    /// The default route of the mobile network and the home address: the tunnel, or at home the home router.
    fn put_tunnel_or_home_route(&self, plan: &mut Plan) {
        let paths = self.paths();
        if !self.manages_tunnel {
            return;
        }
        let deregistered = self.home_link.as_ref().is_some_and(|home| home.deregistration_sent);
        let home = deregistered || self.is_home_and_away();
        let at_home = self.home_router().filter(|_| home && self.care_of_in_use().is_empty());
        if let Some((link, router)) = at_home {
            plan.put(Item::route(TUNNEL_TABLE, self.config.home_prefix, DEFAULT_METRIC, NextHop::OnLink(link)));
            plan.put(Item::route(TUNNEL_TABLE, Prefix::ALL, DEFAULT_METRIC, NextHop::Gateway { link, router }));
        } else {
            plan.put(Item::route(TUNNEL_TABLE, Prefix::ALL, DEFAULT_METRIC, NextHop::Tunnel(TUNNEL)));
        }
        for prefix in self.networks() {
            for interface in self.inside() {
                plan.put(incoming_rule(RULE_FROM_MOBILE_NETWORK, prefix, interface, TUNNEL_TABLE));
            }
        }
        for source in self.own_sources() {
            plan.put(incoming_rule(RULE_FROM_HOME_ADDRESS, source, LOOPBACK, TUNNEL_TABLE));
        }
        self.put_home_agents_inside(plan);
        let near = self.own_sources().chain(self.networks()).collect();
        let flows = if self.config.load_sharing == LoadSharing::Single { Vec::new() } else { self.flows() };
        plan.put(Item::Tunnel(Tunnel {
            id: TUNNEL,
            local_prefixes: near,
            remote_prefixes: vec![Prefix::ALL],
            paths,
            flows,
        }));
    }

    pub(super) fn flows(&self) -> Vec<TunnelFlow> {
        let barred = |bid: Bid| self.uplinks.iter().any(|uplink| uplink.config.bid == bid && uplink.is_barred());
        let carrying = self.carrying(&self.care_of_in_use());
        let link_of = |name: &String| self.ingress.iter().find(|inside| inside.config.interface == *name)?.link();
        let mut rules: Vec<&FlowRule> = self.config.flows.iter().filter(|rule| !rule.is_bonded()).collect();
        rules.sort_by_key(|rule| rule.priority);
        let flow = |rule: &&FlowRule| {
            let used = |bid: Bid| !barred(bid) && self.may_use(rule, bid, self.is_avoided(bid));
            let bids = self.bids_of(rule, &carrying, used);
            let (bid, replica) = (*bids.first()?, bids.get(1).copied());
            // No packet enters by an interface that does not exist.
            let ingress = match rule.ingress.as_ref().map(link_of) {
                Some(None) => return None,
                ingress => ingress.flatten(),
            };
            Some(TunnelFlow { selector: rule.selector.reversed(), ingress, bid, replica })
        };
        rules.iter().filter_map(flow).collect()
    }
}

/// The routing table of the uplink with this BID.
pub(super) fn uplink_table(bid: Bid) -> RouteTable {
    RouteTable(TUNNEL_TABLE.0.saturating_add(bid.0.into()))
}

pub(super) fn address_item(link: LinkId, address: Ipv6Addr, prefix_length: u8, preferred: bool) -> Item {
    Item::Address(Address { link, address, prefix_length, preferred, dad: false })
}

/// A rule for packets from `source` that arrived on `incoming`.
fn incoming_rule(priority: u32, source: Prefix, incoming: &str, table: RouteTable) -> Item {
    let incoming = Some(incoming.to_owned());
    Item::Rule(PolicyRule { priority, source, destination: Prefix::ALL, iif: incoming, table })
}

/// A former path that still receives, and until when.
#[derive(Debug, Clone)]
pub(super) struct LingeringPath {
    pub(super) care_of: CareOf,
    pub(super) until: Time,
}
