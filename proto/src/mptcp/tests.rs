//! The path manager of a node in a mobile network, and of hosts with several uplinks.

use super::path_manager::MAX_ENDPOINTS;
use super::*;
use crate::base::ids::MptcpToken;
use crate::contract::command::{LifecycleCommand, MptcpCommand};
use crate::contract::config::mptcp::PathManagerConfig;
use crate::contract::input::{AddressState, NeighbourEvent, RouteEvent, SubflowEvent, SubflowEventKind};
use crate::contract::item::{MptcpEndpoint, NextHop, RouteTable};
use crate::contract::report::HostReport;
use crate::{
    AddressEvent, Command, Engine, Entropy, Input, Item, Key, LinkEvent, LinkId, Outbox, Output, Packet, Put, Report,
    Time,
};
use core::time::Duration;
use roam6_wire::Prefix;
use roam6_wire::icmp6::{self, Message, NeighbourOption, RouterAdvertisement};
use roam6_wire::ip6::{self, Header, protocol};
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddrV6};

const LAN: LinkId = LinkId(3);
const WIFI: LinkId = LinkId(4);
const ROUTER: &str = "fe80::1";
const HOME: &str = "2001:db8:f00::5";
const CARE_OF: &str = "2001:db8:a00::5";

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

struct Bench {
    manager: PathManager,
    now: Time,
    held: BTreeMap<Ipv6Addr, MptcpEndpoint>,
    limits: bool,
    routes: BTreeMap<Prefix, NextHop>,
    /// The last `Put` of each key.
    puts: BTreeMap<Key, Put>,
    solicited: usize,
    reports: Vec<Report>,
}

impl Bench {
    fn new() -> Bench {
        let manager = PathManager::new(Bench::config());
        let held = BTreeMap::new();
        let (now, routes, puts, reports) = (Time::ZERO, BTreeMap::new(), BTreeMap::new(), Vec::new());
        Bench { manager, now, held, limits: false, routes, puts, solicited: 0, reports }
    }

    fn config() -> PathManagerConfig {
        PathManagerConfig {
            interfaces: ["lan0", "wifi0"].map(str::to_owned).into(),
            home_prefixes: vec!["2001:db8:f00::/56".parse().unwrap()],
            signal_home: false,
            signal_care_of: true,
            subflows: 8,
            add_addr_accepted: 0,
            source_routing: false,
        }
    }

    /// The host refuses the item of `key` that was put last, if there is one.
    fn refuse(&mut self, key: &Key, why: &str) {
        if let Some(put) = self.puts.get(key) {
            let outcome = put.outcome(Some(why.to_owned()));
            self.feed(&Input::Outcome(outcome));
        }
    }

    fn feed(&mut self, input: &Input) {
        let mut out = Outbox::new();
        self.manager.handle(self.now, input, &mut out);
        for output in out.drain() {
            if let Output::Put(put) = &output {
                self.puts.insert(put.item.key(), put.clone());
            }
            match output {
                Output::Put(Put { item: Item::MptcpEndpoint(endpoint), .. }) => {
                    assert!(self.limits, "limits come first");
                    self.held.insert(endpoint.address, endpoint);
                }
                Output::Put(Put { item: Item::MptcpLimits(_), .. }) => self.limits = true,
                Output::Drop(Key::MptcpEndpoint(address)) => assert!(self.held.remove(&address).is_some()),
                Output::Drop(Key::MptcpLimits) => self.limits = false,
                Output::Put(Put { item: Item::Route(route), .. }) => {
                    self.routes.insert(route.source, route.target);
                }
                Output::Drop(Key::Route(_, _, source, _)) => assert!(self.routes.remove(&source).is_some()),
                Output::Transmit(_) => self.solicited += 1,
                Output::Report(report) => self.reports.push(report),
                other => panic!("{other:?}"),
            }
        }
        assert!(self.held.len() <= MAX_ENDPOINTS);
    }

    fn wait(&mut self, milliseconds: u64) {
        let until = self.now + Duration::from_millis(milliseconds);
        let mut ticks = 0;
        while let Some(due) = self.manager.deadline().filter(|due| *due <= until) {
            ticks += 1;
            assert!(ticks < 2000, "time does not advance");
            self.now = due.max(self.now);
            self.feed(&Input::Tick);
        }
        self.now = until;
    }

    fn link(&mut self, link: LinkId, up: bool) {
        let name = if link == LAN { "lan0" } else { "wifi0" }.to_owned();
        self.feed(&Input::Link(LinkEvent { link, name, address: None, up, mtu: 1500 }));
    }

    /// Feeds a subflow event of the kernel.
    fn subflow(&mut self, token: u32, local: &str, change: SubflowEventKind) {
        let end = |address, port| SocketAddrV6::new(ip(address), port, 0, 0);
        let (local, remote) = (end(local, 1000), end("2001:db8:c::1", 443));
        self.feed(&Input::Subflow(SubflowEvent { token: MptcpToken(token), kind: change, local, remote, error: 0 }));
    }

    fn address(&mut self, link: LinkId, address: &str, state: AddressState) {
        self.feed(&Input::Address(AddressEvent { link, address: ip(address), state }));
    }

    /// Feeds a Router Advertisement of prefixes with preferred and valid lifetimes.
    fn advertise(&mut self, link: LinkId, lifetime: u16, prefixes: &[(&str, u32, u32)]) {
        let information = |(prefix, preferred, valid): &(&str, u32, u32)| NeighbourOption::PrefixInformation {
            prefix: prefix.parse().unwrap(),
            address: Ipv6Addr::UNSPECIFIED,
            on_link: true,
            autonomous: true,
            router_address: false,
            valid: *valid,
            preferred: *preferred,
        };
        let options = prefixes.iter().map(information).collect();
        let message = Message::RouterAdvertisement(RouterAdvertisement { lifetime, options, ..Default::default() });
        let header = Header::new(ip(ROUTER), icmp6::ALL_NODES).with_hop_limit(255);
        let bytes = ip6::emit(&header, protocol::ICMPV6, &message.emit(header.source, header.destination));
        self.feed(&Input::Packet(Packet { link, sender: None, bytes }));
    }

    /// The endpoints with their flags: `b` for backup, `s` for signal.
    fn endpoints(&self) -> Vec<String> {
        let show = |endpoint: &MptcpEndpoint| {
            let flags = endpoint.flags;
            assert!(flags.subflow);
            let [backup, signal] =
                [(flags.backup, " b"), (flags.signal, " s")].map(|(on, text)| if on { text } else { "" });
            format!("{}{backup}{signal}", endpoint.address)
        };
        self.held.values().map(show).collect()
    }
}

/// A node in a mobile network that visits one network.
fn in_mobile_network() -> Bench {
    let mut bench = Bench::new();
    bench.link(LAN, true);
    bench.address(LAN, HOME, AddressState::Preferred);
    bench.address(LAN, CARE_OF, AddressState::Preferred);
    bench.address(LAN, "fe80::5", AddressState::Preferred);
    bench.advertise(LAN, 600, &[("2001:db8:f00::/64", 600, 1200), ("2001:db8:a00::/64", 600, 1200)]);
    bench.wait(1000);
    assert_eq!(bench.endpoints(), ["2001:db8:a00::5 s", "2001:db8:f00::5 b"]);
    bench
}

#[test]
fn an_endpoint_waits_for_its_route_to_settle() {
    let mut bench = Bench::new();
    bench.link(LAN, true);
    bench.address(LAN, CARE_OF, AddressState::Tentative);
    bench.advertise(LAN, 600, &[("2001:db8:a00::/64", 600, 1200)]);
    bench.wait(5000);
    assert!(bench.endpoints().is_empty() && !bench.limits, "still tentative");
    bench.address(LAN, CARE_OF, AddressState::Preferred);
    bench.wait(199);
    assert!(bench.endpoints().is_empty());
    bench.wait(1);
    assert_eq!(bench.endpoints(), ["2001:db8:a00::5 s"]);

    bench.address(WIFI, "2001:db8:b00::5", AddressState::Preferred);
    bench.wait(5000);
    assert_eq!(bench.endpoints().len(), 1, "no router on that link");
}

const MOVED: [(&str, u32, u32); 3] =
    [("2001:db8:f00::/64", 600, 1200), ("2001:db8:a00::/64", 0, 30), ("2001:db8:b00::/64", 600, 1200)];

#[test]
fn a_deprecated_endpoint_stays_until_another_subflow_exists() {
    let mut bench = in_mobile_network();
    bench.subflow(1, HOME, SubflowEventKind::ConnectionEstablished);
    bench.subflow(1, CARE_OF, SubflowEventKind::SubflowEstablished);
    bench.subflow(2, CARE_OF, SubflowEventKind::ConnectionEstablished);
    bench.advertise(LAN, 600, &[("2001:db8:f00::/64", 600, 1200), ("2001:db8:a00::/64", 600, 1200)]);
    bench.wait(5000);
    bench.advertise(LAN, 600, &MOVED);
    assert_eq!(bench.endpoints(), ["2001:db8:a00::5 b s", "2001:db8:f00::5 b"], "immediately");
    bench.address(LAN, "2001:db8:b00::5", AddressState::Preferred);
    bench.wait(200);
    assert_eq!(bench.endpoints(), ["2001:db8:a00::5 b s", "2001:db8:b00::5 s", "2001:db8:f00::5 b"]);
    bench.subflow(2, "2001:db8:b00::5", SubflowEventKind::SubflowEstablished);
    assert_eq!(bench.endpoints(), ["2001:db8:b00::5 s", "2001:db8:f00::5 b"], "every connection has another subflow");
    bench.wait(300_000);
    assert_eq!(bench.endpoints(), ["2001:db8:b00::5 s", "2001:db8:f00::5 b"]);
}

#[test]
fn a_deprecated_endpoint_is_removed_when_home_is_usable() {
    let prefixes = |home: u32| [("2001:db8:f00::/64", home, 1200), ("2001:db8:a00::/64", 0, 0)];
    let mut bench = in_mobile_network();
    bench.subflow(1, HOME, SubflowEventKind::ConnectionEstablished);
    bench.subflow(1, CARE_OF, SubflowEventKind::SubflowEstablished);
    // The kernel reports each address, before or after the advertisement.
    bench.address(LAN, CARE_OF, AddressState::Deprecated);
    bench.wait(5);
    bench.advertise(LAN, 600, &prefixes(0));
    bench.wait(5);
    bench.address(LAN, HOME, AddressState::Deprecated);
    bench.wait(500);
    assert_eq!(bench.endpoints(), ["2001:db8:a00::5 b s", "2001:db8:f00::5 b"], "REMOVE_ADDR could not be sent");
    bench.advertise(LAN, 600, &prefixes(600));
    bench.address(LAN, HOME, AddressState::Preferred);
    assert_eq!(bench.endpoints(), ["2001:db8:f00::5 b"], "REMOVE_ADDR goes through the tunnel");
}

#[test]
fn a_deprecated_home_address_stays_a_backup_endpoint() {
    let mut bench = Bench::new();
    bench.link(LAN, true);
    bench.address(LAN, HOME, AddressState::Deprecated);
    bench.address(LAN, CARE_OF, AddressState::Preferred);
    bench.advertise(LAN, 600, &[("2001:db8:f00::/64", 0, 1200), ("2001:db8:a00::/64", 600, 1200)]);
    bench.wait(9_000);
    assert_eq!(bench.endpoints(), ["2001:db8:a00::5 s", "2001:db8:f00::5 b"]);
}

#[test]
fn a_deprecated_endpoint_is_removed_after_the_drain_time() {
    let mut bench = in_mobile_network();
    bench.wait(60_000);
    bench.subflow(2, CARE_OF, SubflowEventKind::ConnectionEstablished);
    bench.address(LAN, HOME, AddressState::Removed);
    bench.advertise(LAN, 600, &MOVED);
    assert_eq!(bench.endpoints(), ["2001:db8:a00::5 b s"], "the only endpoint");
    bench.address(LAN, "2001:db8:b00::5", AddressState::Preferred);
    bench.wait(7_000);
    assert_eq!(bench.endpoints(), ["2001:db8:a00::5 b s", "2001:db8:b00::5 s"]);
    bench.wait(1_500);
    assert_eq!(bench.endpoints(), ["2001:db8:b00::5 s"]);
    bench.address(LAN, "2001:db8:b00::5", AddressState::Deprecated);
    bench.wait(60_000);
    assert_eq!(bench.endpoints(), ["2001:db8:b00::5 b s"], "still the only usable endpoint");
    bench.address(LAN, "2001:db8:b00::5", AddressState::Preferred);
    assert_eq!(bench.endpoints(), ["2001:db8:b00::5 s"]);
}

#[test]
fn an_endpoint_without_subflows_is_recreated_with_backoff() {
    let mut bench = in_mobile_network();
    bench.subflow(1, HOME, SubflowEventKind::ConnectionEstablished);
    bench.wait(9_900);
    assert_eq!(bench.endpoints().len(), 2);
    bench.wait(200);
    assert_eq!(bench.endpoints(), ["2001:db8:f00::5 b"], "the kernel tried once without success");
    bench.wait(2_000);
    assert_eq!(bench.endpoints().len(), 2);
    bench.wait(19_000);
    assert_eq!(bench.endpoints().len(), 2);
    bench.wait(2_000);
    assert_eq!(bench.endpoints().len(), 1);
    bench.wait(2_000);
    bench.subflow(1, CARE_OF, SubflowEventKind::SubflowEstablished);
    bench.advertise(LAN, 1800, &[("2001:db8:f00::/64", 9000, 9000), ("2001:db8:a00::/64", 9000, 9000)]);
    bench.wait(1_000_000);
    assert_eq!(bench.endpoints().len(), 2, "it is used");
    bench.advertise(LAN, 1800, &[("2001:db8:f00::/64", 9000, 9000), ("2001:db8:a00::/64", 9000, 9000)]);
    bench.subflow(1, CARE_OF, SubflowEventKind::SubflowClosed);
    bench.wait(10_500);
    assert_eq!(bench.endpoints().len(), 1, "closed by the peer; the kernel does not retry");
}

#[test]
fn a_static_default_route_makes_an_endpoint_like_an_ra() {
    let mut bench = Bench::new();
    bench.link(LAN, true);
    bench.address(LAN, CARE_OF, AddressState::Preferred);
    let route = |stands| Input::Route(RouteEvent { link: LAN, router: ip(ROUTER), present: stands });
    bench.feed(&route(true));
    bench.wait(300);
    assert_eq!(bench.endpoints(), ["2001:db8:a00::5 s"]);
    bench.feed(&route(false));
    assert!(bench.endpoints().is_empty());
}

#[test]
fn source_routing_sends_each_prefix_by_its_router() {
    let mut bench = in_mobile_network();
    assert!(bench.routes.is_empty());
    let mut config = Bench::config();
    config.source_routing = true;
    bench.feed(&Input::Command(Command::Mptcp(MptcpCommand::Reload(Box::new(config.clone())))));
    let gateway = NextHop::Gateway { link: LAN, router: ip(ROUTER) };
    let prefix = |text: &str| -> Prefix { text.parse().unwrap() };
    let both = [(prefix("2001:db8:a00::/64"), gateway), (prefix("2001:db8:f00::/64"), gateway)];
    assert_eq!(bench.routes, both.into());
    let key = Key::Route(RouteTable::MAIN, Prefix::ALL, prefix("2001:db8:a00::/64"), 512);
    bench.refuse(&key, "no");
    assert!(bench.reports.iter().any(|report| matches!(report, Report::Host(HostReport::ItemRefused { .. }))));
    bench.wait(61_000);
    assert_eq!(bench.routes, both.into(), "tried again");
    bench.link(LAN, false);
    assert!(bench.routes.is_empty());
    config.interfaces = Default::default();
    bench.feed(&Input::Command(Command::Mptcp(MptcpCommand::Reload(Box::new(config)))));
    assert!(bench.endpoints().is_empty());
}

#[test]
fn an_endpoint_is_readded_only_after_a_delay() {
    let mut bench = in_mobile_network();
    bench.address(LAN, CARE_OF, AddressState::Removed);
    assert_eq!(bench.endpoints(), ["2001:db8:f00::5 b"], "the kernel itself would keep it");
    bench.address(LAN, CARE_OF, AddressState::Preferred);
    bench.wait(1900);
    assert_eq!(bench.endpoints().len(), 1, "the kernel is still closing");
    bench.wait(200);
    assert_eq!(bench.endpoints().len(), 2);
    bench.link(LAN, false);
    assert!(bench.endpoints().is_empty());
}

#[test]
fn endpoints_of_an_unreachable_router_are_removed() {
    let mut bench = in_mobile_network();
    let reachable =
        |reachable| Input::Neighbour(NeighbourEvent { link: LAN, address: ip(ROUTER), link_address: None, reachable });
    bench.feed(&reachable(false));
    assert!(bench.endpoints().is_empty());
    bench.feed(&reachable(true));
    bench.wait(3000);
    assert_eq!(bench.endpoints().len(), 2);
    bench.advertise(LAN, 0, &[("2001:db8:a00::/64", 600, 1200)]);
    assert!(bench.endpoints().is_empty(), "no longer a default router");
}

#[test]
fn one_address_of_each_prefix_is_an_endpoint() {
    let mut bench = in_mobile_network();
    bench.address(LAN, "2001:db8:a00::4", AddressState::Preferred);
    bench.wait(5000);
    assert_eq!(bench.endpoints(), ["2001:db8:a00::5 s", "2001:db8:f00::5 b"]);
    bench.address(LAN, CARE_OF, AddressState::Removed);
    bench.wait(500);
    assert_eq!(bench.endpoints(), ["2001:db8:a00::4 s", "2001:db8:f00::5 b"]);
}

#[test]
fn two_uplinks_make_two_endpoints() {
    let mut bench = Bench::new();
    for (link, address, prefix) in [(LAN, CARE_OF, "2001:db8:a00::/64"), (WIFI, "2001:db8:b00::5", "2001:db8:b00::/64")]
    {
        bench.link(link, true);
        bench.address(link, address, AddressState::Preferred);
        bench.advertise(link, 600, &[(prefix, 600, 1200)]);
    }
    bench.wait(500);
    assert_eq!(bench.held.values().map(|endpoint| endpoint.link).collect::<Vec<_>>(), [LAN, WIFI]);
    bench.link(LAN, false);
    assert_eq!(bench.endpoints(), ["2001:db8:b00::5 s"]);
}

#[test]
fn a_refused_endpoint_is_put_again_later() {
    let mut bench = in_mobile_network();
    bench.refuse(&Key::MptcpEndpoint(ip(CARE_OF)), "no room");
    assert!(bench.reports.iter().any(|report| matches!(report, Report::Host(HostReport::ItemRefused { .. }))));
    assert_eq!(bench.endpoints().len(), 1);
    bench.wait(59_000);
    assert_eq!(bench.endpoints().len(), 1);
    bench.wait(2000);
    assert_eq!(bench.endpoints().len(), 2);
}

#[test]
fn stop_removes_endpoints_routes_and_limits() {
    let mut bench = in_mobile_network();
    bench.feed(&Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    assert!(bench.held.is_empty() && !bench.limits && bench.manager.deadline().is_none());
    bench.advertise(LAN, 600, &[("2001:db8:a00::/64", 600, 1200)]);
    assert!(bench.held.is_empty());
}

#[test]
fn router_solicitations_back_off_until_an_ra_arrives() {
    let mut bench = Bench::new();
    bench.link(LAN, true);
    bench.wait(60_000);
    assert_eq!(bench.solicited, 6);
    bench.advertise(LAN, 1800, &[("2001:db8:a00::/64", 600, 1200)]);
    bench.wait(1_000_000);
    assert_eq!(bench.solicited, 6);
}

#[test]
fn endpoints_never_exceed_the_limit_and_have_an_address() {
    for seed in 0..200 {
        let mut chance = Entropy::seed_from_u64(seed);
        let mut bench = Bench::new();
        let mut assigned = std::collections::BTreeSet::new();
        for _ in 0..300 {
            let link = if chance.below(2) == 0 { LAN } else { WIFI };
            let number = chance.below(12);
            let (address, prefix) = (format!("2001:db8:{number:x}::5"), format!("2001:db8:{number:x}::/64"));
            match chance.below(8) {
                0 => bench.link(link, chance.below(4) > 0),
                1 | 2 => {
                    bench.address(link, &address, AddressState::Preferred);
                    assigned.insert((link, ip(&address)));
                }
                3 => {
                    bench.address(link, &address, AddressState::Removed);
                    assigned.remove(&(link, ip(&address)));
                }
                4 | 5 => {
                    let preferred = chance.below(2) as u32 * 100;
                    bench.advertise(link, chance.below(3) as u16 * 60, &[(&prefix, preferred, 200)]);
                }
                6 => {
                    let held = bench.held.keys().next().copied();
                    let key = held.map_or(Key::MptcpLimits, Key::MptcpEndpoint);
                    bench.refuse(&key, "so");
                }
                _ => bench.wait(chance.below(100_000)),
            }
            assert!(bench.held.iter().all(|(address, held)| assigned.contains(&(held.link, *address))));
        }
        bench.feed(&Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
        assert!(bench.held.is_empty());
    }
}

#[test]
fn the_fuzz_corpus_passes() {
    crate::fuzz_inputs::run_files("../fuzz/corpus/path_manager", fuzz::run);
}

#[test]
fn seeded_fuzz_inputs_pass() {
    crate::fuzz_inputs::run_seeds(3_000, 400, fuzz::run);
}
