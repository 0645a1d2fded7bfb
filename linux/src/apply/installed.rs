//! The installed items, stored compactly: a home agent has a tunnel, its routes and a proxy entry for each of 100 000
//! bindings. Tunnels and contexts are stored by their back ends, records by the journal.

use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::item::{NextHop, ProxyNeighbour, Route, RouteTable, TunnelId};
use roam6_proto::{Item, Key, LinkId};
use roam6_wire::Prefix;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Every item but tunnels, contexts and records.
#[derive(Default)]
pub(super) struct InstalledItems {
    /// Sysctls, addresses, anycast addresses, neighbours and rules, of which there are few.
    others: VecMap<Key, Item>,
    proxies: BTreeMap<(LinkId, Ipv6Addr), bool>,
    /// Routes into tunnels, for packets of any source and any size.
    into_tunnels: BTreeMap<(RouteTable, Prefix, u32), TunnelId>,
    /// Every other route.
    routes: BTreeMap<RouteKey, RouteTarget>,
}

type RouteKey = (RouteTable, Prefix, Prefix, u32);
type RouteTarget = (NextHop, Option<u32>);

impl InstalledItems {
    /// Stores `item`; returns the former item of the same key.
    pub(super) fn put(&mut self, item: &Item) -> Option<Item> {
        match item {
            Item::Route(route) => {
                let key = (route.table, route.destination, route.source, route.metric);
                let former = self.drop_route(&key);
                if let Route { target: NextHop::Tunnel(id), source: Prefix::ALL, mtu: None, .. } = *route {
                    self.into_tunnels.insert((route.table, route.destination, route.metric), id);
                } else {
                    self.routes.insert(key, (route.target, route.mtu));
                }
                former
            }
            Item::ProxyNeighbour(proxy) => {
                let key = (proxy.link, proxy.address);
                self.proxies.insert(key, proxy.router).map(|former| proxy_of(&key, &former))
            }
            Item::Tunnel(_) | Item::ShimContext(_) | Item::JournalRecord(_) => None,
            #[cfg(feature = "fleet")]
            Item::FleetRecord(_) | Item::FleetMember(_) | Item::FleetPathMtu(_) => None,
            item => self.others.insert(item.key(), item.clone()),
        }
    }

    /// Removes the item of `key`.
    pub(super) fn drop(&mut self, key: &Key) -> Option<Item> {
        match (route_key(key), key) {
            (Some(key), _) => self.drop_route(&key),
            (None, Key::ProxyNeighbour(link, address)) => {
                let key = (*link, *address);
                self.proxies.remove(&key).map(|router| proxy_of(&key, &router))
            }
            (None, key) => self.others.remove(key),
        }
    }

    /// The item of `key`.
    pub(super) fn find(&self, key: &Key) -> Option<Item> {
        match (route_key(key), key) {
            (Some(key), _) => {
                let into_tunnel =
                    tunnel_key(&key).and_then(|key| Some(tunnel_route(&key, *self.into_tunnels.get(&key)?)));
                into_tunnel.or_else(|| self.routes.get(&key).map(|rest| as_route(&key, rest))).map(Item::Route)
            }
            (None, Key::ProxyNeighbour(link, address)) => {
                let key = (*link, *address);
                self.proxies.get(&key).map(|router| proxy_of(&key, router))
            }
            (None, key) => self.others.get(key).cloned(),
        }
    }

    /// All items in building order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Item> {
        // No proxy and no route has such a key, so the other items sort before or after all of them.
        let proxies = Key::ProxyNeighbour(LinkId(0), Ipv6Addr::UNSPECIFIED);
        let before = self.others.range(..proxies.clone()).map(|(_, item)| item.clone());
        let after = self.others.range(proxies..).map(|(_, item)| item.clone());
        let proxies = self.proxies.iter().map(|(key, rest)| proxy_of(key, rest));
        let routes = self.routes.iter().map(|(key, rest)| as_route(key, rest));
        let into_tunnels = self.into_tunnels.iter().map(|(key, id)| tunnel_route(key, *id));
        before.chain(proxies).chain(routes.chain(into_tunnels).map(Item::Route)).chain(after)
    }

    /// The items on one interface that come before tunnels: those that the kernel removes when the interface goes down.
    pub(super) fn on(&self, link: LinkId) -> impl Iterator<Item = Key> {
        let few = self.others.keys().filter(move |key| match key {
            Key::Address(on, _) | Key::Anycast(on, _) | Key::Neighbour(on, _) => *on == link,
            _ => false,
        });
        few.cloned().chain(self.proxies_on(link).map(|(link, address)| Key::ProxyNeighbour(*link, *address)))
    }

    /// The same of one address family.
    pub(super) fn of_family_on(&self, link: LinkId, ipv4: bool) -> impl Iterator<Item = Key> {
        self.on(link).filter(move |key| match key {
            Key::Address(_, address)
            | Key::Anycast(_, address)
            | Key::Neighbour(_, address)
            | Key::ProxyNeighbour(_, address) => address.to_ipv4_mapped().is_some() == ipv4,
            _ => false,
        })
    }

    /// Whether there is a proxy entry on `link`.
    pub(super) fn has_proxies(&self, link: LinkId) -> bool {
        self.proxies_on(link).next().is_some()
    }

    /// The routes in `table` to destinations within `prefix`.
    pub(super) fn routes_into(&self, table: RouteTable, prefix: Prefix) -> impl Iterator<Item = Route> {
        let last = Prefix::host(Ipv6Addr::from_bits(prefix.address().to_bits() | !mask(prefix)));
        let routes =
            self.routes.range((table, prefix, Prefix::ALL, 0)..=(table, last, Prefix::host(LAST_ADDRESS), u32::MAX));
        let into_tunnels = self.into_tunnels.range((table, prefix, 0)..=(table, last, u32::MAX));
        let into_tunnels = into_tunnels.map(|(key, id)| tunnel_route(key, *id));
        routes.map(|(key, rest)| as_route(key, rest)).chain(into_tunnels)
    }

    /// The tables with a route.
    pub(super) fn tables(&self) -> Vec<RouteTable> {
        let mut tables = Vec::new();
        let mut next = Some(RouteTable(0));
        while let Some(from) = next {
            let plain = self.routes.range((from, Prefix::ALL, Prefix::ALL, 0)..).next().map(|((table, ..), _)| *table);
            let into_tunnels = self.into_tunnels.range((from, Prefix::ALL, 0)..).next().map(|((table, ..), _)| *table);
            let found = plain.into_iter().chain(into_tunnels).min();
            tables.extend(found);
            next = found.and_then(|table| table.0.checked_add(1)).map(RouteTable);
        }
        tables
    }

    pub(super) fn is_empty(&self) -> bool {
        self.others.is_empty() && self.proxies.is_empty() && self.routes.is_empty() && self.into_tunnels.is_empty()
    }

    fn drop_route(&mut self, key: &RouteKey) -> Option<Item> {
        let into_tunnel = tunnel_key(key).and_then(|key| Some(tunnel_route(&key, self.into_tunnels.remove(&key)?)));
        into_tunnel.or_else(|| self.routes.remove(key).map(|rest| as_route(key, &rest))).map(Item::Route)
    }

    fn proxies_on(&self, link: LinkId) -> impl Iterator<Item = &(LinkId, Ipv6Addr)> {
        self.proxies.range((link, Ipv6Addr::UNSPECIFIED)..=(link, LAST_ADDRESS)).map(|(key, _)| key)
    }
}

const LAST_ADDRESS: Ipv6Addr = Ipv6Addr::from_bits(u128::MAX);

/// The host mask of a prefix.
pub(super) fn mask(prefix: Prefix) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix.length())).unwrap_or(0)
}

fn route_key(key: &Key) -> Option<RouteKey> {
    match *key {
        Key::Route(table, destination, source, metric) => Some((table, destination, source, metric)),
        _ => None,
    }
}

/// The key of a route into a tunnel.
fn tunnel_key(&(table, destination, source, metric): &RouteKey) -> Option<(RouteTable, Prefix, u32)> {
    (source == Prefix::ALL).then_some((table, destination, metric))
}

fn as_route(&(table, destination, source, metric): &RouteKey, &(target, mtu): &RouteTarget) -> Route {
    Route { table, destination, source, metric, target, mtu }
}

fn tunnel_route(&(table, destination, metric): &(RouteTable, Prefix, u32), id: TunnelId) -> Route {
    Route { table, destination, source: Prefix::ALL, metric, target: NextHop::Tunnel(id), mtu: None }
}

fn proxy_of(&(link, address): &(LinkId, Ipv6Addr), &router: &bool) -> Item {
    Item::ProxyNeighbour(ProxyNeighbour { link, address, router })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(table: u32, destination: &str) -> Item {
        let destination = destination.parse().unwrap();
        let (source, target) = (Prefix::ALL, NextHop::Unreachable);
        Item::Route(Route { table: RouteTable(table), destination, source, metric: 1, target, mtu: None })
    }

    fn proxy(link: u32, last: u16) -> Item {
        Item::ProxyNeighbour(ProxyNeighbour {
            link: LinkId(link),
            address: Ipv6Addr::new(1, 0, 0, 0, 0, 0, 0, last),
            router: true,
        })
    }

    #[test]
    fn installed_items_are_ordered_and_found_by_key() {
        let mut holdings = InstalledItems::default();
        let rule = Item::Rule(roam6_proto::contract::item::PolicyRule {
            priority: 1,
            source: Prefix::ALL,
            destination: Prefix::ALL,
            iif: None,
            table: RouteTable(7),
        });
        let anycast =
            Item::Anycast(roam6_proto::contract::item::AnycastAddress { link: LinkId(3), address: LAST_ADDRESS });
        let routes =
            [route(7, "::/0"), route(7, "2001:db8::/32"), route(7, "2001:db8::/48"), route(9, "2001:db9::/48")];
        let order = [&[anycast, proxy(1, 1), proxy(3, 1)][..], &routes, &[rule]].concat();
        for item in order.iter().rev() {
            assert_eq!(holdings.put(item), None);
            assert_eq!(holdings.put(item).as_ref(), Some(item));
            assert_eq!(holdings.find(&item.key()).as_ref(), Some(item));
        }
        assert_eq!(holdings.iter().collect::<Vec<_>>(), order);
        assert_eq!(holdings.tables(), [RouteTable(7), RouteTable(9)]);
        let into = |prefix: &str| holdings.routes_into(RouteTable(7), prefix.parse().unwrap()).map(Item::Route);
        assert_eq!(into("2001:db8::/32").collect::<Vec<_>>(), routes[1..3]);
        assert_eq!(into("2001:db8::/40").collect::<Vec<_>>(), routes[2..3]);
        assert_eq!(into("::/0").count(), 3);
        assert_eq!(holdings.on(LinkId(3)).count(), 2);
        assert!(holdings.has_proxies(LinkId(1)) && !holdings.has_proxies(LinkId(2)));
        for item in &order {
            assert_eq!(holdings.drop(&item.key()).as_ref(), Some(item));
        }
        assert!(holdings.is_empty());
    }

    #[test]
    fn route_key_is_the_same_for_tunnel_and_other_targets() {
        let mut holdings = InstalledItems::default();
        let other = route(7, "2001:db8::/48");
        let Item::Route(plain) = other.clone() else { return };
        let into = Item::Route(Route { target: NextHop::Tunnel(TunnelId(5)), ..plain.clone() });
        let limited = Item::Route(Route { target: NextHop::Tunnel(TunnelId(5)), mtu: Some(1300), ..plain });
        let mut former = None;
        for item in [&other, &into, &limited, &into, &other] {
            assert_eq!(holdings.put(item), former);
            assert_eq!(holdings.find(&item.key()).as_ref(), Some(item));
            assert_eq!(holdings.iter().collect::<Vec<_>>(), std::slice::from_ref(item));
            assert_eq!(
                holdings.routes_into(RouteTable(7), Prefix::ALL).map(Item::Route).collect::<Vec<_>>(),
                std::slice::from_ref(item)
            );
            assert_eq!(holdings.tables(), [RouteTable(7)]);
            former = Some(item.clone());
        }
        assert_eq!(holdings.drop(&other.key()), former);
        assert!(holdings.is_empty());
    }
}
