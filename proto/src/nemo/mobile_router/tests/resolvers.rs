//! DNS resolvers and search domains for the nodes inside (RFC 8106).

use super::*;
use crate::contract::command::{LifecycleCommand, MobileRouterCommand};
use crate::contract::config::nemo::{CareOfPrefixConfig, PrefixPreference, PrefixSharing};
use roam6_wire::DomainName;

const FIRST: &str = "2001:db8:1::53";
const SECOND: &str = "2001:db8:2::53";

/// An advertisement of `prefix` with resolvers and the search domain `example.org`, for a minute.
fn advertisement(prefix: &str, servers: &[&str]) -> icmp6::Message {
    let servers = servers.iter().map(|server| ip(server)).collect();
    icmp6::Message::RouterAdvertisement(RouterAdvertisement {
        hop_limit: 64,
        lifetime: 1800,
        options: vec![
            information(prefix),
            NeighbourOption::RecursiveDns { lifetime: 60, servers },
            NeighbourOption::DnsSearchList { lifetime: 60, domains: vec![domain("example.org")] },
        ],
        ..RouterAdvertisement::default()
    })
}

fn domain(text: &str) -> DomainName {
    text.parse().unwrap()
}

impl TestBed {
    fn resolvers_at(&mut self, link: LinkId, router: &str, prefix: &str, servers: &[&str]) -> Vec<Output> {
        self.neighbour(link, ip(router), icmp6::ALL_NODES, &advertisement(prefix, servers))
    }
}

/// RDNSS and DNSSL entries of a Router Advertisement, with their lifetimes in seconds.
type DnsOptions = (Vec<(Ipv6Addr, u32)>, Vec<(String, u32)>);

/// The DNS options of the last Router Advertisement among `outputs`.
fn dns_options(outputs: &[Output]) -> DnsOptions {
    let last = messages(outputs).into_iter().rev().find_map(|message| match message {
        icmp6::Message::RouterAdvertisement(message) => Some(message),
        _ => None,
    });
    let (mut resolvers, mut search) = (Vec::new(), Vec::new());
    for option in last.unwrap().options {
        match option {
            NeighbourOption::RecursiveDns { lifetime, servers } => {
                resolvers.extend(servers.into_iter().map(|server| (server, lifetime)));
            }
            NeighbourOption::DnsSearchList { lifetime, domains } => {
                search.extend(domains.into_iter().map(|domain| (domain.to_string(), lifetime)));
            }
            _ => {}
        }
    }
    (resolvers, search)
}

#[test]
fn rdnss_of_uplinks_is_advertised_and_withdrawn() {
    let mut bench = TestBed::new(config());
    bench.link(LAN, true);
    bench.link(WIFI, true);
    let outputs = bench.resolvers_at(WIFI, "fe80::1", "2001:db8:1::/64", &[FIRST, "fe80::1", "fd00::53"]);
    let only = vec![(ip(FIRST), 30)];
    assert_eq!(
        dns_options(&outputs),
        (only, vec![("example.org".to_owned(), 30)]),
        "no resolver of link-local or unique local scope"
    );
    bench.now = at(1000);
    bench.resolvers_at(WIFI, "fe80::2", "2001:db8:2::/64", &[SECOND]);
    let outputs = bench.wait(1300);
    assert_eq!(dns_options(&outputs).0, [(ip(SECOND), 30), (ip(FIRST), 0)]);
    assert_eq!(dns_options(&outputs).1, [("example.org".to_owned(), 30)], "advertised by both");
    bench.now = at(32_000);
    let outputs = bench.resolvers_at(WIFI, "fe80::2", "2001:db8:2::/64", &[SECOND]);
    let outputs = if transmits(&outputs).is_empty() { bench.wait(45_000) } else { outputs };
    assert_eq!(dns_options(&outputs).0, [(ip(SECOND), 30)], "the lifetime of the first has ended");
}

#[test]
fn rdnss_expires_without_any_network() {
    let mut bench = TestBed::new(config());
    bench.link(LAN, true);
    bench.link(WIFI, true);
    bench.resolvers_at(WIFI, "fe80::1", "2001:db8:1::/64", &[FIRST]);
    bench.wait(10_000);
    bench.link(WIFI, false);
    let outputs = bench.wait(27_000);
    assert!(
        matches!(dns_options(&outputs).0[..], [(_, lifetime)] if (1..30).contains(&lifetime)),
        "{:?}",
        dns_options(&outputs)
    );
    let outputs = bench.wait(80_000);
    assert_eq!(dns_options(&outputs), (Vec::new(), Vec::new()));
}

#[test]
fn rdnss_of_all_uplinks_keeps_order_and_lifetimes() {
    let mut bench = TestBed::new(MobileRouterConfig { load_sharing: LoadSharing::Standby, ..config() });
    bench.link(LAN, true);
    for link in [CELL, WIFI] {
        bench.link(link, true);
    }
    bench.resolvers_at(CELL, "fe80::2", "2001:db8:2::/64", &[SECOND]);
    let outputs = bench.resolvers_at(WIFI, "fe80::1", "2001:db8:1::/64", &[FIRST, SECOND]);
    assert_eq!(dns_options(&outputs).0, [(ip(FIRST), 30), (ip(SECOND), 30)]);
    let outputs = bench.wait(50_000);
    assert!(matches!(dns_options(&outputs).0[..], [(_, lifetime), (_, other)] if lifetime < 30 && other < 30));
}

#[test]
fn configured_rdnss_replaces_learned() {
    let mut set = config();
    set.ingress[0].dns = Some(vec![ip("2001:db8::53")]);
    set.ingress[0].search_domains = Some(vec![domain("fleet.example")]);
    let mut bench = TestBed::new(set.clone());
    bench.link(WIFI, true);
    bench.resolvers_at(WIFI, "fe80::1", "2001:db8:1::/64", &[FIRST]);
    let outputs = bench.link(LAN, true);
    assert_eq!(dns_options(&outputs), (vec![(ip("2001:db8::53"), 30)], vec![("fleet.example".to_owned(), 30)]));
    set.ingress[0].dns = Some(Vec::new());
    set.ingress[0].search_domains = None;
    let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(set)))));
    assert_eq!(dns_options(&outputs).0, [(ip("2001:db8::53"), 0)]);
    assert_eq!(dns_options(&outputs).1, [("example.org".to_owned(), 30), ("fleet.example".to_owned(), 0)]);
    let outputs = bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    assert!(dns_options(&outputs).1.iter().all(|(_, lifetime)| *lifetime == 0), "a stop withdraws them");
}

#[test]
fn unique_local_rdnss_needs_care_of_prefixes() {
    let (delegation, length, share, prefer) = (true, 0, PrefixSharing::NdProxy, PrefixPreference::Home);
    let prefixes = Some(CareOfPrefixConfig { delegation, length, share, prefer });
    let mut bench = TestBed::new(MobileRouterConfig { care_of_prefixes: prefixes, ..config() });
    bench.link(LAN, true);
    bench.link(WIFI, true);
    let outputs = bench.resolvers_at(WIFI, "fe80::1", "2001:db8:1::/64", &["fd00::53"]);
    assert_eq!(dns_options(&outputs).0, [(ip("fd00::53"), 30)]);
}
