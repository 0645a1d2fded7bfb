//! The way to mobile networks while their routers are at home.

use super::bench::*;
use crate::input::{Input, Order};
use crate::nemo::config::PrefixTable;
use crate::plan::{Item, Table, Target};
use roam6_wire::Prefix;

/// Where the host sends packets to `prefix`: the target of the route with the best metric.
fn way(bench: &Bench, prefix: Prefix) -> Option<Target> {
    let routes = bench.plan.iter().filter_map(|(_, item)| match item {
        Item::Route(route) if route.table == Table::MAIN && route.destination == prefix => Some(route),
        _ => None,
    });
    routes.min_by_key(|route| route.metric).map(|route| route.target)
}

#[test]
fn a_tunnel_is_better_than_the_way_home_and_gives_it_back() {
    let mut bench = Bench::at_home_link(config());
    let network = prefix("2001:db8:e00::/56");
    let by_home_link = Some(Target::Gateway { link: HOME_LINK, router: address("2001:db8::200") });
    assert_eq!(way(&bench, network), by_home_link);
    bench.send(&Update::open(1, "2001:db8:1::200"));
    bench.pass(super::super::home_link::PROBE_WAIT * 2);
    assert!(matches!(way(&bench, network), Some(Target::Tunnel(_))));
    bench.send(&Update::open(2, "2001:db8:1::200").lifetime(0));
    assert_eq!(way(&bench, network), by_home_link);
}

#[test]
fn a_reloaded_table_changes_only_what_differs() {
    let mut bench = Bench::at_home_link(config());
    let rows = config().table.rows.into_iter().filter(|row| row.home_address == home()).collect();
    let outputs = bench.feed(Input::Order(Order::PrefixTable(PrefixTable { rows })));
    assert_eq!(way(&bench, prefix("2001:db8:e00::/56")), None);
    assert!(way(&bench, prefix("2001:db8:f00::/56")).is_some());
    assert_eq!(outputs.len(), 3, "two other prefixes of the table go: {outputs:?}");
}

#[test]
fn a_virtual_home_network_has_no_way_home() {
    let bench = Bench::new(config());
    assert_eq!(way(&bench, prefix("2001:db8:f00::/56")), None);
}
