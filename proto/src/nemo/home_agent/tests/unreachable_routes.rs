//! Unreachable routes of prefixes without a binding: their packets are not sent back to the router they came from.

use super::bench::*;
use crate::contract::command::{HomeAgentCommand, LifecycleCommand};
use crate::contract::config::nemo::{Authentication, HomeAgentConfig, PrefixTable, PrefixTableRow};
use crate::contract::item::{NextHop, RouteTable};
use crate::{Command, Input, Item};
use roam6_wire::{HomeAddress, Prefix};
use std::net::Ipv6Addr;

/// Destinations of the unreachable routes in the main table.
fn refused(bench: &TestBed) -> Vec<Prefix> {
    let routes = bench.plan.iter().filter_map(|(_, item)| match item {
        Item::Route(route) if route.target == NextHop::Unreachable && route.table == RouteTable::MAIN => Some(route),
        _ => None,
    });
    routes.map(|route| route.destination).collect()
}

#[test]
fn unbound_prefixes_are_unreachable() {
    let mut bench = TestBed::new(config());
    bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::JournalRestored)));
    let all = ["2001:db8::/64", "2001:db8:d00::/56", "2001:db8:e00::/56", "2001:db8:e00:100::/56", "2001:db8:f00::/56"];
    assert!(refused(&bench).iter().all(|one| one.length() <= 64));
    for network in all {
        let covered = refused(&bench).iter().any(|one| one.covers(prefix(network)));
        assert!(covered, "{network}: {:?}", refused(&bench));
    }
    let metrics = |target: fn(&NextHop) -> bool| {
        let routes = bench.plan.iter().filter_map(move |(_, item)| match item {
            Item::Route(route) if target(&route.target) => Some(route.metric),
            _ => None,
        });
        routes.collect::<Vec<_>>()
    };
    assert!(metrics(|target| *target == NextHop::Unreachable).iter().all(|metric| *metric > 1 << 20));
    bench.send(&Update::new(1, "2001:db8:1::100"));
    assert!(!refused(&bench).is_empty(), "a tunnel's route is better, the other stays");
}

#[test]
fn adjacent_prefixes_share_one_unreachable_route() {
    let row = |number: u16| PrefixTableRow {
        home_address: HomeAddress(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, number)),
        prefixes: [Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, 0x100, number, 0, 0, 0, 0), 64).unwrap()].into(),
        authentication: Authentication::None,
        next_key: None,
        invitation: None,
    };
    let table = PrefixTable { rows: (0..256).map(row).collect() };
    let mut bench = TestBed::new(HomeAgentConfig { prefix_table: table.clone().into(), ..config() });
    bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::JournalRestored)));
    assert_eq!(refused(&bench), [prefix("2001:db8::/64"), prefix("2001:db8:100::/56")]);
    let mut fewer = table;
    fewer.rows.remove(255);
    bench.feed(Input::Command(Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(fewer.into()))));
    assert_eq!(refused(&bench).len(), 9, "{:?}", refused(&bench));
    assert!(!refused(&bench).iter().any(|one| one.contains(address("2001:db8:100:ff::1"))));
}

#[test]
fn the_pool_of_prefixes_is_unreachable_as_a_whole() {
    let prefix_pool = Some(prefix("2001:db8:200::/48"));
    let mut bench =
        TestBed::new(HomeAgentConfig { prefix_pool, prefix_table: PrefixTable::default().into(), ..config() });
    bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::JournalRestored)));
    assert_eq!(refused(&bench), [prefix("2001:db8::/64"), prefix("2001:db8:200::/48")]);
}

#[test]
fn unroutable_prefix_is_not_granted_in_implicit_mode() {
    let row = |number: u16, prefixes: &[&str]| PrefixTableRow {
        home_address: HomeAddress(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, number)),
        prefixes: prefixes.iter().map(|text| prefix(text)).collect(),
        authentication: Authentication::None,
        next_key: None,
        invitation: None,
    };
    let rows =
        vec![row(1, &["2001:db8:f00::/56", "fe80::/64", "ff00::/8", "2001:db8:0:0:8000::/80"]), row(2, &["::1/128"])];
    let mut bench = TestBed::new(HomeAgentConfig { prefix_table: PrefixTable { rows }.into(), ..config() });
    let of = |number: u16| {
        let home = HomeAddress(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, number));
        Update { home, ..Update::unauthenticated(1, "2001:db8:1::2") }
    };
    assert_eq!(status(&bench.send(&of(1))), 0);
    assert_eq!(bench.tunnel().unwrap().remote_prefixes.len(), 2, "home address and one prefix: {:?}", bench.tunnel());
    assert_eq!(status(&bench.send(&of(2))), 143);
}
