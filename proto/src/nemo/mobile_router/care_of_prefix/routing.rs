//! Packets from a care-of prefix leave by its uplink, packets to it stay inside; what is not assigned leads nowhere, and
//! what comes from inside with another source is told so (RFC 8028 §3, RFC 7084 §4.2 and §4.3, RFC 3963 §9).

use super::super::MobileRouter;
use super::super::forwarding::{
    LOOPBACK, RULE_DIRECT, RULE_INSIDE, TUNNEL_TABLE, address_item, route, rule, uplink_table,
};
use super::super::ingress::Inside;
use super::super::uplink::Uplink;
use super::{Grant, Kind};
use crate::access::delegation::Subnets;
use crate::base::ids::LinkId;
use crate::base::time::Time;
use crate::contract::item::{SourceFilter, Item, Plan, UdpPortHold, ProxyNeighbour, PolicyRule, RouteTable, NextHop};
use roam6_wire::Prefix;
use roam6_wire::dhcp6::CLIENT_PORT;
use std::net::Ipv6Addr;

/// Metric of the way to a node or a link inside.
const INSIDE_METRIC: u32 = 256;
/// Identifier of our own address in each subnet.
const ROUTER: u64 = 1;
/// Where the nodes of prefixes are that are over.
const FORMER: RouteTable = RouteTable(TUNNEL_TABLE.0 - 2);

impl MobileRouter {
    /// All that the prefixes need to work, what those need that are over, and the guards.
    pub(in super::super) fn put_care_of_prefixes(&self, now: Time, plan: &mut Plan) {
        let grants = self.grants(now);
        for grant in &grants {
            for item in self.ways(grant).into_iter().chain(self.extras(grant)) {
                plan.put(item);
            }
        }
        for link in self.asking_links() {
            plan.put(Item::UdpPortHold(UdpPortHold { link, port: CLIENT_PORT }));
        }
        for inside in &self.ingress {
            let Some(interface) = inside.interface.as_ref().filter(|interface| interface.up) else { continue };
            let former = inside.told.iter().filter(|(_, told)| told.is_over());
            for (prefix, told) in former.filter(|(prefix, _)| !grants.iter().any(|grant| grant.prefix.covers(**prefix)))
            {
                self.put_former((interface.link, *prefix), told.nodes(), plan);
            }
            if self.config.care_of_prefixes.is_some() {
                plan.put(Item::SourceFilter(self.guard(interface.link, &grants)));
            }
        }
    }

    /// The uplinks on which servers are asked for prefixes, or will be, or for an address.
    fn asking_links(&self) -> impl Iterator<Item = LinkId> {
        let asks = self.config.care_of_prefixes.is_some_and(|config| config.delegation);
        let may = move |uplink: &&Uplink| asks && uplink.config.care_of_prefix || uplink.lease.is_some();
        self.uplinks.iter().filter(may).filter_map(Uplink::up)
    }

    /// The items without which a prefix must not be advertised.
    pub(super) fn ways(&self, grant: &Grant) -> Vec<Item> {
        let (priority, source, destination, table) = (RULE_INSIDE, Prefix::ALL, grant.prefix, RouteTable::MAIN);
        let mut items = vec![
            Item::Rule(PolicyRule { priority, source, destination, iif: None, table }),
            rule(RULE_DIRECT, grant.prefix, uplink_table(grant.bid)),
        ];
        match &grant.kind {
            Kind::Delegated => items.extend(self.subnets().routes(grant.prefix)),
            Kind::Shared { inside, nodes: None, .. } => {
                items.push(route(RouteTable::MAIN, grant.prefix, INSIDE_METRIC, NextHop::OnLink(*inside)));
            }
            Kind::Shared { .. } => {}
        }
        items
    }

    /// The other items of a prefix: our own addresses in it, and the nodes that share it.
    fn extras(&self, grant: &Grant) -> Vec<Item> {
        match &grant.kind {
            Kind::Delegated => {
                let (subnets, links) = (self.subnets(), self.ingress.iter().filter_map(Inside::link));
                let own = links.filter_map(|link| {
                    let subnet = subnets.find(link, grant.prefix)?;
                    Some(address_item(link, subnet.with_identifier(ROUTER)?, subnet.length(), false))
                });
                own.collect()
            }
            Kind::Shared { inside, own, nodes } => {
                // Our own address is defended inside too: we are the router of both links.
                let defended = Item::ProxyNeighbour(ProxyNeighbour { link: *inside, address: *own, router: true });
                let nodes = nodes.iter().flatten().flat_map(|address| {
                    let answered = ProxyNeighbour { link: grant.link, address: *address, router: false };
                    let way = route(RouteTable::MAIN, Prefix::host(*address), INSIDE_METRIC, NextHop::OnLink(*inside));
                    [Item::ProxyNeighbour(answered), way]
                });
                std::iter::once(defended).chain(nodes).collect()
            }
        }
    }

    /// Which sources packets from `link` may have.
    fn guard(&self, link: LinkId, grants: &[Grant]) -> SourceFilter {
        let subnets = self.subnets();
        let mut sources = self.config.prefixes.clone();
        sources.extend(grants.iter().filter_map(|grant| match &grant.kind {
            Kind::Delegated => subnets.find(link, grant.prefix),
            Kind::Shared { inside, .. } => Some(grant.prefix).filter(|_| *inside == link),
        }));
        let care_of = self.uplinks.iter().filter_map(|uplink| Some(uplink.formed.as_ref()?.address.0));
        let inside = sources.iter().filter_map(|prefix| prefix.with_identifier(ROUTER));
        let mut own: Vec<Ipv6Addr> = std::iter::once(self.config.home_address.0).chain(care_of).chain(inside).collect();
        own.extend(self.ingress.iter().filter_map(Inside::address));
        own.sort();
        own.dedup();
        SourceFilter { link, allowed: sources, own_addresses: own }
    }

    /// What leads back to the nodes of a prefix that is over, so that they can be told: for packets of this host's own
    /// only, since all else has another way or none (RFC 7084 §4.3, L-14). While we are on the link the prefix was
    /// shared with, only its nodes behind us are inside.
    fn put_former(&self, (link, prefix): (LinkId, Prefix), nodes: Option<&[Ipv6Addr]>, plan: &mut Plan) {
        let still_there =
            self.uplinks.iter().any(|up| up.formed.as_ref().is_some_and(|formed| formed.prefix == prefix));
        let destinations = match nodes.filter(|_| still_there) {
            Some(nodes) => nodes.iter().copied().map(Prefix::host).collect(),
            None => vec![prefix],
        };
        for destination in destinations {
            plan.put(route(FORMER, destination, INSIDE_METRIC, NextHop::OnLink(link)));
        }
        let (priority, source, destination, table) = (RULE_INSIDE, Prefix::ALL, prefix, FORMER);
        plan.put(Item::Rule(PolicyRule { priority, source, destination, iif: Some(LOOPBACK.to_owned()), table }));
    }

    /// Which part of a delegated prefix each interface inside has.
    pub(super) fn subnets(&self) -> Subnets {
        Subnets::of(self.ingress.iter().map(Inside::link))
    }
}
