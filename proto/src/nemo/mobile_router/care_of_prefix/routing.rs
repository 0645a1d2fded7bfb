//! Routing of care-of prefixes: packets from one leave by its uplink, packets to it stay on ingress interfaces,
//! unassigned parts are unreachable, and packets from ingress interfaces with other sources get an ICMPv6 error (RFC
//! 8028 §3, RFC 7084 §4.2 and §4.3, RFC 3963 §9).

use super::super::MobileRouter;
use super::super::forwarding::{
    LOOPBACK, RULE_FROM_CARE_OF_PREFIX, RULE_TO_MOBILE_NETWORK, TUNNEL_TABLE, address_item, uplink_table,
};
use super::super::uplink::Uplink;
use super::{Grant, GrantKind};
use crate::contract::item::{NextHop, PolicyRule, ProxyNeighbour, RouteTable, SourceFilter, UdpPortHold};
use crate::link::prefix_delegation::Subnets;
use crate::{Item, LinkId, Plan, Time};
use roam6_wire::Prefix;
use roam6_wire::dhcp6::CLIENT_PORT;
use std::net::Ipv6Addr;

/// Metric of routes to ingress nodes and links.
const INGRESS_METRIC: u32 = 256;
/// Interface identifier of this router in each subnet.
const ROUTER_IDENTIFIER: u64 = 1;
/// Table with routes to nodes of withdrawn prefixes.
const FORMER_PREFIX_TABLE: RouteTable = RouteTable(TUNNEL_TABLE.0 - 2);

impl MobileRouter {
    /// Puts the items of all care-of prefixes, of withdrawn ones, and the source filters.
    pub(in super::super) fn put_care_of_prefixes(&self, now: Time, plan: &mut Plan) {
        let grants = self.grants(now);
        for grant in &grants {
            for item in self.required_items(grant).into_iter().chain(self.additional_items(grant)) {
                plan.put(item);
            }
        }
        for link in self.dhcp_links() {
            plan.put(Item::UdpPortHold(UdpPortHold { link, port: CLIENT_PORT }));
        }
        for inside in &self.ingress {
            let Some(interface) = inside.interface.as_ref().filter(|interface| interface.up) else { continue };
            let former = inside.advertised_prefixes.iter().filter(|(_, state)| state.is_withdrawn());
            for (prefix, state) in
                former.filter(|(prefix, _)| !grants.iter().any(|grant| grant.prefix.covers(**prefix)))
            {
                self.put_former_prefix((interface.link, *prefix), state.node_addresses(), plan);
            }
            if self.config.care_of_prefixes.is_some() {
                plan.put(Item::SourceFilter(self.source_filter(interface.link, &grants)));
            }
        }
    }

    /// The uplinks with a DHCPv6 client, for prefixes or for an address.
    fn dhcp_links(&self) -> impl Iterator<Item = LinkId> {
        let asks = self.config.care_of_prefixes.is_some_and(|config| config.delegation);
        let may = move |uplink: &&Uplink| asks && uplink.config.care_of_prefix || uplink.lease.is_some();
        self.uplinks.iter().filter(may).filter_map(Uplink::up)
    }

    /// The items that a prefix needs before it may be advertised.
    pub(super) fn required_items(&self, grant: &Grant) -> Vec<Item> {
        let mut items = vec![
            Item::rule(RULE_TO_MOBILE_NETWORK, Prefix::ALL, grant.prefix, RouteTable::MAIN),
            Item::rule(RULE_FROM_CARE_OF_PREFIX, grant.prefix, Prefix::ALL, uplink_table(grant.bid)),
        ];
        match &grant.kind {
            GrantKind::Delegated => items.extend(self.subnets().routes(grant.prefix)),
            GrantKind::Shared { ingress: inside, node_addresses: None, .. } => {
                items.push(Item::route(RouteTable::MAIN, grant.prefix, INGRESS_METRIC, NextHop::OnLink(*inside)));
            }
            GrantKind::Shared { .. } => {}
        }
        items
    }

    /// The other items of a prefix: this router's addresses in it, and the nodes that share it.
    fn additional_items(&self, grant: &Grant) -> Vec<Item> {
        match &grant.kind {
            GrantKind::Delegated => {
                let (subnets, links) = (self.subnets(), self.ingress_links().flatten());
                let own = links.filter_map(|link| {
                    let subnet = subnets.find(link, grant.prefix)?;
                    Some(address_item(link, subnet.with_identifier(ROUTER_IDENTIFIER)?, subnet.length(), false))
                });
                own.collect()
            }
            GrantKind::Shared { ingress: inside, own_address: own, node_addresses: nodes, .. } => {
                // This router's address is defended downstream too, since it is the router of both links.
                let defended = Item::ProxyNeighbour(ProxyNeighbour { link: *inside, address: *own, router: true });
                let nodes = nodes.iter().flatten().flat_map(|address| {
                    let answered = ProxyNeighbour { link: grant.link, address: *address, router: false };
                    let route =
                        Item::route(RouteTable::MAIN, Prefix::host(*address), INGRESS_METRIC, NextHop::OnLink(*inside));
                    [Item::ProxyNeighbour(answered), route]
                });
                std::iter::once(defended).chain(nodes).collect()
            }
        }
    }

    /// The source filter of `link`.
    fn source_filter(&self, link: LinkId, grants: &[Grant]) -> SourceFilter {
        let subnets = self.subnets();
        let mut sources = self.config.prefixes.clone();
        sources.extend(grants.iter().filter_map(|grant| match &grant.kind {
            GrantKind::Delegated => subnets.find(link, grant.prefix),
            GrantKind::Shared { ingress: inside, .. } => Some(grant.prefix).filter(|_| *inside == link),
        }));
        let care_of = self.uplinks.iter().filter_map(|uplink| Some(uplink.care_of_address.as_ref()?.address.0));
        let inside = sources.iter().filter_map(|prefix| prefix.with_identifier(ROUTER_IDENTIFIER));
        let mut own: Vec<Ipv6Addr> = std::iter::once(self.config.home_address.0).chain(care_of).chain(inside).collect();
        own.extend(self.ingress_addresses());
        own.sort();
        own.dedup();
        SourceFilter { link, allowed: sources, own_addresses: own }
    }

    /// Routes back to the nodes of a withdrawn prefix, for ICMPv6 errors to them: only for locally generated packets,
    /// since others have another route or none (RFC 7084 §4.3, L-14). While the prefix's link is still attached, only
    /// its downstream nodes have a route.
    fn put_former_prefix(&self, (link, prefix): (LinkId, Prefix), nodes: Option<&[Ipv6Addr]>, plan: &mut Plan) {
        let still_there =
            self.uplinks.iter().any(|up| up.care_of_address.as_ref().is_some_and(|formed| formed.prefix == prefix));
        let destinations = match nodes.filter(|_| still_there) {
            Some(nodes) => nodes.iter().copied().map(Prefix::host).collect(),
            None => vec![prefix],
        };
        for destination in destinations {
            plan.put(Item::route(FORMER_PREFIX_TABLE, destination, INGRESS_METRIC, NextHop::OnLink(link)));
        }
        let (priority, source, destination, table) = (RULE_TO_MOBILE_NETWORK, Prefix::ALL, prefix, FORMER_PREFIX_TABLE);
        plan.put(Item::Rule(PolicyRule { priority, source, destination, iif: Some(LOOPBACK.to_owned()), table }));
    }

    /// The subnets of the ingress interfaces.
    pub(super) fn subnets(&self) -> Subnets {
        Subnets::of(self.ingress_links())
    }
}
