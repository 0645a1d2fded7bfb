//! Where source addresses of the mobile network, and the home address, count: on ingress interfaces and for the host's own
//! packets (RFC 3963 §9).

use super::*;
use crate::contract::item::PolicyRule;

fn rules(bench: &TestBed) -> Vec<&PolicyRule> {
    let items = bench.plan.iter().map(|(_, item)| item);
    items.filter_map(|item| if let Item::Rule(rule) = item { Some(rule) } else { None }).collect()
}

/// The incoming interfaces of the rules that send packets from `source` to this table.
fn incoming(bench: &TestBed, source: Prefix, table: RouteTable) -> Vec<String> {
    let matching = rules(bench).into_iter().filter(|rule| rule.source == source && rule.table == table);
    let mut names: Vec<String> = matching.map(|rule| rule.iif.clone().unwrap_or_default()).collect();
    names.sort();
    names
}

#[test]
fn sources_of_mobile_network_are_tunnelled_from_ingress_only() {
    let mut bench = TestBed::new(config());
    bench.link(LAN, true);
    bench.link(WIFI, true);
    let first = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
    bench.acknowledge(&first, Status::ACCEPTED);
    let networks = bench.router.config.prefixes.clone();
    let ingress = bench.router.config.ingress.iter().map(|ingress| ingress.interface.clone());
    let mut inside: Vec<String> = ingress.chain(["lo".to_owned()]).collect();
    inside.sort();
    let mut uplinks: Vec<String> = bench.router.config.uplinks.iter().map(|uplink| uplink.interface.clone()).collect();
    uplinks.sort();
    let home = Prefix::host(ip("2001:db8::100"));
    let (tunnelled, discard) = (RouteTable(6_275_000), RouteTable(6_275_000 - 3));
    for source in networks {
        assert_eq!(incoming(&bench, source, tunnelled), inside);
        assert_eq!(incoming(&bench, source, discard), uplinks);
    }
    assert_eq!(incoming(&bench, home, tunnelled), ["lo"]);
    assert_eq!(incoming(&bench, home, discard), uplinks);
    // Nothing else is in that table, and no rule precedes these.
    let held = bench.plan.iter().filter_map(|(_, item)| match item {
        Item::Route(route) if route.table == discard => Some((route.destination, route.target)),
        _ => None,
    });
    assert_eq!(held.collect::<Vec<_>>(), [(Prefix::ALL, NextHop::Blackhole)]);
    let first = rules(&bench).into_iter().map(|rule| rule.priority).min();
    assert!(rules(&bench).into_iter().all(|rule| rule.table != discard || Some(rule.priority) == first));
}
