//! Prefixes of visited networks inside: obtained, advertised, routed, shared and given up.

mod nd_proxy;

use super::*;
use crate::contract::command::{LifecycleCommand, MobileRouterCommand};
use crate::contract::config::nemo::{CareOfPrefixConfig, PrefixPreference, PrefixSharing};
use crate::contract::item::{CareOfPrefixRecord, JournalKey, PolicyRule, ProxyNeighbour, SourceFilter};
use roam6_wire::dhcp6::{
    self, CLIENT_PORT, ClientServerMessage, DhcpOption, Duid, MessageType, PrefixAssociation, SERVER_PORT, Timers,
};
use roam6_wire::udp::Udp;
use std::collections::{BTreeMap, VecDeque};

const SERVER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x547);
const PHONE: LinkAddress = LinkAddress([2, 0, 0, 0, 9, 9]);
const HOME_NET: &str = "2001:db8:f00::/64";

/// A mobile router, a host that does as it is told, and DHCPv6 servers on its uplinks.
struct Road {
    bench: TestBed,
    /// What the server of each link delegates, and for how long: valid and preferred, seconds.
    servers: BTreeMap<LinkId, Vec<(&'static str, u32, u32)>>,
    /// What was advertised inside, and when.
    told: Vec<(Time, RouterAdvertisement)>,
    reports: Vec<Report>,
    /// DHCPv6 messages sent.
    asked: Vec<MessageType>,
    /// Solicitations sent: by which interface, for whom.
    sought: Vec<(LinkId, Ipv6Addr)>,
    advertised: Vec<(LinkId, Ipv6Addr)>,
    /// The host refuses rules.
    refuses: bool,
}

fn settings(prefer: PrefixPreference) -> MobileRouterConfig {
    let care_of = CareOfPrefixConfig { delegation: true, length: 0, share: PrefixSharing::NdProxy, prefer };
    MobileRouterConfig { care_of_prefixes: Some(care_of), load_sharing: LoadSharing::Standby, ..config() }
}

impl Road {
    fn new(prefer: PrefixPreference) -> Road {
        Road::of(settings(prefer))
    }

    fn of(config: MobileRouterConfig) -> Road {
        let mut road = Road {
            bench: TestBed::new(config),
            servers: BTreeMap::new(),
            told: Vec::new(),
            reports: Vec::new(),
            asked: Vec::new(),
            sought: Vec::new(),
            advertised: Vec::new(),
            refuses: false,
        };
        let outputs = road.bench.link(LAN, true);
        road.note(outputs);
        road
    }

    /// Does what was asked for, in order, until nothing more is.
    fn note(&mut self, outputs: Vec<Output>) {
        let mut queue = VecDeque::from(outputs);
        while let Some(output) = queue.pop_front() {
            queue.extend(match output {
                Output::Put(put) => {
                    let refused = (self.refuses && matches!(put.item, Item::Rule(_))).then(|| "no".to_owned());
                    self.bench.feed(Input::Outcome(put.outcome(refused)))
                }
                Output::Transmit(transmit) => self.sent(&transmit),
                Output::Report(report) => {
                    self.reports.push(report);
                    Vec::new()
                }
                _ => Vec::new(),
            });
        }
    }

    fn sent(&mut self, transmit: &Transmit) -> Vec<Output> {
        let datagram = Datagram::parse(&transmit.bytes).unwrap();
        let Via::Link(link) = transmit.via else { return Vec::new() };
        if datagram.protocol == protocol::UDP {
            let udp = Udp::parse(datagram.payload, datagram.source, datagram.destination).unwrap();
            let dhcp6::Message::Exchange(said) = dhcp6::Message::parse(udp.payload).unwrap() else { panic!() };
            self.asked.push(said.kind);
            return self.serve(link, datagram.source, &said);
        }
        if datagram.protocol != protocol::ICMPV6 {
            return Vec::new();
        }
        match icmp6::Message::parse(&datagram).unwrap() {
            icmp6::Message::RouterAdvertisement(message) if link == LAN => {
                self.check(&message);
                self.told.push((self.bench.now, message));
            }
            icmp6::Message::NeighbourSolicitation(message) => self.sought.push((link, message.target)),
            icmp6::Message::NeighbourAdvertisement(message) => self.advertised.push((link, message.target)),
            _ => {}
        }
        Vec::new()
    }

    /// No preferred prefix without a way out.
    fn check(&self, message: &RouterAdvertisement) {
        for (prefix, (_, preferred, _)) in lifetimes(message) {
            if preferred == 0 || prefix == net(HOME_NET) {
                continue;
            }
            let leads = |item: &Item| match item {
                Item::Rule(rule) => rule.source.covers(prefix) && self.leads_out(rule),
                _ => false,
            };
            assert!(self.bench.plan.iter().any(|(_, item)| leads(item)), "{prefix} leads nowhere");
        }
    }

    fn leads_out(&self, rule: &PolicyRule) -> bool {
        let default = Key::Route(rule.table, Prefix::ALL, Prefix::ALL, 512);
        matches!(self.bench.plan.find(&default), Some(Item::Route(route)) if matches!(route.target, NextHop::Gateway { .. }))
    }

    /// The server's answer, if there is a server.
    fn serve(&mut self, link: LinkId, client: Ipv6Addr, said: &ClientServerMessage) -> Vec<Output> {
        let Some(leases) = self.servers.get(&link) else { return Vec::new() };
        let lease = |(prefix, valid, preferred): &(&str, u32, u32)| {
            let (prefix, valid, preferred) = (net(prefix), *valid, *preferred);
            DhcpOption::Prefix(dhcp6::Prefix { prefix, preferred, valid, options: Vec::new() })
        };
        let mut options = vec![DhcpOption::ServerId(Duid::from_uuid([1; 16])), DhcpOption::RapidCommit];
        for option in &said.options {
            match option {
                DhcpOption::ClientId(_) => options.push(option.clone()),
                DhcpOption::Prefixes(asked) => options.push(DhcpOption::Prefixes(PrefixAssociation {
                    id: asked.id,
                    timers: Timers::default(),
                    options: leases.iter().map(lease).collect(),
                })),
                _ => {}
            }
        }
        let message = ClientServerMessage { kind: MessageType::Reply, transaction: said.transaction, options };
        let payload = dhcp6::Message::Exchange(message).emit();
        let udp = Udp { source: SERVER_PORT, destination: CLIENT_PORT, payload: &payload };
        let bytes = ip6::emit(&Header::new(SERVER, client), protocol::UDP, &udp.emit(SERVER, client));
        self.bench.feed(Input::Packet(Packet { link, sender: Some(ROUTER_MAC), bytes }))
    }

    fn attach(&mut self, link: LinkId, prefix: &str) {
        let mut outputs = self.bench.link(link, true);
        outputs.extend(self.bench.advertise(link, prefix));
        for update in updates(&outputs) {
            outputs.extend(self.bench.acknowledge(&update, Status::ACCEPTED));
        }
        self.note(outputs);
    }

    fn detach(&mut self, link: LinkId) {
        let outputs = self.bench.link(link, false);
        self.note(outputs);
    }

    fn wait(&mut self, millis: u64) {
        let until = self.bench.now + Duration::from_millis(millis);
        while let Some(next) = self.bench.router.deadline().filter(|next| *next <= until) {
            self.bench.now = self.bench.now.max(next);
            let outputs = self.bench.feed(Input::Tick);
            self.note(outputs);
        }
        self.bench.now = until;
    }

    /// A neighbour discovery message of a node, inside or out.
    fn hear(&mut self, link: LinkId, source: &str, message: icmp6::Message) {
        let source = ip(source);
        let destination = match &message {
            icmp6::Message::NeighbourSolicitation(asked) => icmp6::solicited_node(asked.target),
            _ => icmp6::ALL_NODES,
        };
        let header = Header::new(source, destination).with_hop_limit(255);
        let bytes = ip6::emit(&header, protocol::ICMPV6, &message.emit(source, destination));
        let outputs = self.bench.feed(Input::Packet(Packet { link, sender: Some(PHONE), bytes }));
        self.note(outputs);
    }

    /// What nodes were told last: valid, preferred, on-link.
    fn last(&self) -> BTreeMap<Prefix, (u32, u32, bool)> {
        lifetimes(&self.told.last().unwrap().1)
    }

    fn events(&mut self) -> Vec<String> {
        let prefixes = self.reports.iter().filter(|report| report.name().starts_with("prefix_"));
        let told = prefixes.map(ToString::to_string).collect();
        self.reports.clear();
        told
    }

    fn guard(&self) -> &SourceFilter {
        match self.bench.plan.find(&Key::SourceFilter(LAN)) {
            Some(Item::SourceFilter(guard)) => guard,
            other => panic!("{other:?}"),
        }
    }

    /// Where the host's own packets to nodes of prefixes go that are over, if rules lead there.
    fn back_to_former(&self) -> Vec<Prefix> {
        let former = RouteTable(6_275_000 - 2);
        let items = || self.bench.plan.iter().map(|(_, item)| item);
        let ruled = |destination: Prefix| {
            let rule = |rule: &PolicyRule| rule.table == former && rule.destination.covers(destination);
            items().any(|item| matches!(item, Item::Rule(it) if it.iif.as_deref() == Some("lo") && rule(it)))
        };
        let routes = items().filter_map(|item| match item {
            Item::Route(route) if route.table == former && route.target == NextHop::OnLink(LAN) => {
                Some(route.destination)
            }
            _ => None,
        });
        routes.filter(|destination| ruled(*destination)).collect()
    }

    fn has_rule(&self, priority: u32, source: &str, destination: &str) -> bool {
        self.bench.plan.find(&Key::Rule(priority, net(source), net(destination), None)).is_some()
    }
}

fn lifetimes(message: &RouterAdvertisement) -> BTreeMap<Prefix, (u32, u32, bool)> {
    let told = message.options.iter().filter_map(|option| match option {
        NeighbourOption::PrefixInformation { prefix, valid, preferred, on_link, .. } => {
            Some((*prefix, (*valid, *preferred, *on_link)))
        }
        _ => None,
    });
    told.collect()
}

fn routes(message: &RouterAdvertisement) -> BTreeMap<Prefix, u32> {
    let told = message.options.iter().filter_map(|option| match option {
        NeighbourOption::RouteInformation { prefix, lifetime, .. } => Some((*prefix, *lifetime)),
        _ => None,
    });
    told.collect()
}

fn checks(target: &str) -> icmp6::Message {
    icmp6::Message::NeighbourSolicitation(NeighbourSolicitation { target: ip(target), options: Vec::new() })
}

fn defends(target: &str) -> icmp6::Message {
    let target = ip(target);
    let (router, solicited, overrides, options) = (false, false, true, Vec::new());
    icmp6::Message::NeighbourAdvertisement(NeighbourAdvertisement { router, solicited, overrides, target, options })
}

/// On a network that delegates `2001:db8:a00::/56` for 1000 seconds.
fn delegated(prefer: PrefixPreference) -> Road {
    let mut road = Road::new(prefer);
    road.servers.insert(WIFI, vec![("2001:db8:a00::/56", 1000, 500)]);
    road.attach(WIFI, "2001:db8:1::/64");
    road.wait(1);
    road
}

#[test]
fn delegated_prefix_is_advertised_once_routes_are_installed() {
    let mut road = delegated(PrefixPreference::CareOf);
    let subnet = net("2001:db8:a00::/64");
    assert_eq!(road.events(), ["link 2: prefix 2001:db8:a00::/56 delegated, bid 1, for 1000s"]);
    assert_eq!(road.last()[&subnet], (120, 60, true), "short, so that it ends soon when it ends");
    assert_eq!(road.last()[&net(HOME_NET)].1, 0, "nodes prefer the direct path");
    assert_eq!(routes(&road.told.last().unwrap().1)[&net("2001:db8:a00::/56")], 30);
    assert!(road.has_rule(1000, "::/0", "2001:db8:a00::/56") && road.has_rule(1105, "2001:db8:a00::/56", "::/0"));
    let rest = Key::Route(RouteTable::MAIN, net("2001:db8:a00::/56"), Prefix::ALL, 4_278_198_272);
    assert!(matches!(road.bench.plan.find(&rest), Some(Item::Route(route)) if route.target == NextHop::Unreachable));
    assert!(road.bench.plan.find(&Key::Address(LAN, ip("2001:db8:a00::1"))).is_some());
    let guard = road.guard();
    assert_eq!(guard.allowed, [net("2001:db8:f00::/56"), subnet]);
    assert_eq!(
        guard.own_addresses,
        ["2001:db8::100", "2001:db8:1::ff:fe00:2", "2001:db8:a00::1", "2001:db8:f00::1"].map(ip)
    );
    assert!(road.bench.plan.find(&Key::UdpPortHold(WIFI, CLIENT_PORT)).is_some(), "the kernel keeps quiet");
    // Renewed at half its time, and told on as if nothing had happened.
    road.wait(900_000);
    assert_eq!(road.last()[&subnet], (120, 60, true));
    assert_eq!(road.events(), Vec::<String>::new());
}

#[test]
fn prefix_with_rejected_rule_is_not_advertised() {
    let mut road = Road::new(PrefixPreference::CareOf);
    road.servers.insert(WIFI, vec![("2001:db8:a00::/56", 1000, 500)]);
    road.refuses = true;
    road.attach(WIFI, "2001:db8:1::/64");
    road.wait(500);
    assert!(!road.last().contains_key(&net("2001:db8:a00::/64")));
    road.refuses = false;
    road.wait(2000);
    assert!(road.last().contains_key(&net("2001:db8:a00::/64")));
}

#[test]
fn preferred_prefix_follows_configuration() {
    for (prefer, home, care_of) in [
        (PrefixPreference::Home, true, false),
        (PrefixPreference::CareOf, false, true),
        (PrefixPreference::Either, true, true),
    ] {
        let road = delegated(prefer);
        let told = road.last();
        let preferred = |prefix: &str| told[&net(prefix)].1 > 0;
        assert_eq!((preferred(HOME_NET), preferred("2001:db8:a00::/64")), (home, care_of), "{prefer:?}");
    }
}

#[test]
fn movement_withdraws_old_and_advertises_new_prefix_in_one_ra() {
    let mut road = delegated(PrefixPreference::CareOf);
    let (old, new) = (net("2001:db8:a00::/64"), net("2001:db8:b00::/64"));
    road.wait(20_000);
    let (before, moved) = (road.told.len(), road.bench.now);
    road.detach(WIFI);
    assert_eq!(road.told[before].0, moved, "told in the same instant");
    assert_eq!(road.last()[&old], (0, 0, true));
    assert_eq!(routes(&road.told.last().unwrap().1)[&net("2001:db8:a00::/56")], 0);
    assert_eq!(road.last()[&net(HOME_NET)].1, 0, "without an uplink there is no tunnel");
    assert!(!road.guard().allowed.contains(&old), "what still comes from it is told so");
    assert!(!road.bench.plan.iter().any(|(key, _)| matches!(key, Key::Rule(1105, ..))));
    assert_eq!(road.back_to_former(), [old], "so that they can be told");
    road.servers.insert(WIFI, vec![("2001:db8:b00::/56", 1000, 500)]);
    road.attach(WIFI, "2001:db8:2::/64");
    road.wait(1000);
    assert_eq!((road.last()[&old], road.last()[&new]), ((0, 0, true), (120, 60, true)));
    let quickly = road.told.iter().filter(|(at, _)| *at >= moved).count();
    assert!((4..10).contains(&quickly), "{quickly}: a frame may be lost");
    road.wait(131_000);
    assert!(!road.last().contains_key(&old), "nobody believes in it any more");
    assert_eq!(road.back_to_former(), []);
    assert_eq!(
        road.events()[1..],
        [
            "link 2: prefix 2001:db8:a00::/56, bid 1, lost: the network was left",
            "link 2: prefix 2001:db8:b00::/56 delegated, bid 1, for 1000s"
        ]
    );
}

#[test]
fn mobile_network_prefix_is_preferred_while_reachable() {
    let mut road = delegated(PrefixPreference::Either);
    let home = |road: &Road| road.last()[&net(HOME_NET)];
    assert!(home(&road).1 > 0);
    road.detach(WIFI);
    assert!(home(&road).0 > 0 && home(&road).1 == 0, "its addresses stay, but lead nowhere");
    let outputs = road.bench.link(WIFI, true);
    road.note(outputs);
    let outputs = road.bench.advertise(WIFI, "2001:db8:2::/64");
    let update = update(&outputs);
    road.note(outputs);
    road.wait(20);
    assert_eq!(home(&road).1, 0, "the home agent has been told, and not answered");
    let (before, outputs) = (road.told.len(), road.bench.acknowledge(&update, Status::ACCEPTED));
    road.note(outputs);
    assert_eq!(road.told[before].0, road.bench.now, "told at once");
    assert!(home(&road).1 > 0);
}

#[test]
fn withdrawing_ra_leaves_before_routes_are_removed() {
    let mut road = delegated(PrefixPreference::CareOf);
    let outputs = road.bench.link(WIFI, false);
    assert!(position(&outputs, "send 58 ff02::1") < position(&outputs, "drop Rule(1105"));
}

#[test]
fn delegated_prefix_expires_without_its_server() {
    let mut road = delegated(PrefixPreference::Either);
    road.servers.clear();
    road.wait(470_000);
    let (valid, preferred, _) = road.last()[&net("2001:db8:a00::/64")];
    assert!(valid == 120 && preferred <= 40 && preferred > 0, "{preferred}: never longer than the lease");
    road.wait(100_000);
    assert_eq!(road.last()[&net("2001:db8:a00::/64")].1, 0);
    road.wait(380_000);
    assert!(road.last()[&net("2001:db8:a00::/64")].0 <= 60);
    road.wait(51_000);
    assert_eq!(road.last()[&net("2001:db8:a00::/64")], (0, 0, true), "nodes were told no longer than it lasts");
    assert_eq!(road.back_to_former(), [net("2001:db8:a00::/64")], "who is late to forget it is told");
    assert!(road.events().contains(&"link 2: prefix 2001:db8:a00::/56, bid 1, lost: its lifetime ended".to_owned()));
    assert!(!road.has_rule(1105, "2001:db8:a00::/56", "::/0"));
    // The visited link is there to be shared meanwhile.
    road.wait(10_000);
    assert!(!road.last().contains_key(&net("2001:db8:a00::/64")));
    assert!(road.last()[&net("2001:db8:1::/64")].1 > 0);
}

#[test]
fn replaced_delegated_prefix_is_replaced_in_ra() {
    let mut road = delegated(PrefixPreference::Either);
    road.servers.insert(WIFI, vec![("2001:db8:a00::/56", 0, 0), ("2001:db8:b00::/56", 1000, 500)]);
    road.wait(260_000);
    let told = road.last();
    assert_eq!((told[&net("2001:db8:a00::/64")].1, told[&net("2001:db8:b00::/64")].1), (0, 60));
}

#[test]
fn prefix_of_dead_uplink_is_deprecated() {
    let mut config = settings(PrefixPreference::CareOf);
    config.probe = Some(config::ProbeConfig::default());
    let mut road = Road::of(config);
    road.servers.insert(WIFI, vec![("2001:db8:a00::/56", 1000, 500)]);
    road.servers.insert(CELL, vec![("2001:db8:b00::/56", 1000, 500), ("2001:db8:a00::/48", 1000, 500)]);
    road.attach(WIFI, "2001:db8:1::/64");
    road.attach(CELL, "2001:db8:2::/64");
    road.wait(1);
    let told = road.last();
    assert!(told[&net("2001:db8:a00::/64")].1 > 0 && told[&net("2001:db8:b00::/64")].1 > 0);
    assert_eq!(told.len(), 3, "what overlaps counts once");
    let table = |source: &str| match road.bench.plan.find(&Key::Rule(1105, net(source), Prefix::ALL, None)) {
        Some(Item::Rule(rule)) => rule.table,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (table("2001:db8:a00::/56"), table("2001:db8:b00::/56")),
        (RouteTable(6_275_001), RouteTable(6_275_002))
    );
    // An uplink that may not.
    let mut config = road.bench.router.config.clone();
    config.uplinks[1].care_of_prefix = false;
    let outputs = road.bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(config)))));
    road.note(outputs);
    assert_eq!(road.last()[&net("2001:db8:b00::/64")], (0, 0, true));
    assert_eq!(road.asked.last(), Some(&MessageType::Release));
}

#[test]
fn stop_withdraws_and_releases_delegated_prefix() {
    let mut road = delegated(PrefixPreference::CareOf);
    let outputs = road.bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    road.note(outputs);
    let (_, goodbye) = road.told.last().unwrap();
    assert_eq!((goodbye.lifetime, lifetimes(goodbye)[&net("2001:db8:a00::/64")]), (0, (0, 0, true)));
    assert_eq!(road.asked.last(), Some(&MessageType::Release));
    assert!(road.bench.plan.iter().all(|(key, _)| matches!(key, Key::JournalRecord(_))), "only the journal stays");
}

#[test]
fn delegated_prefixes_and_answers_are_bounded() {
    let mut road = Road::new(PrefixPreference::CareOf);
    for (count, taken) in [(500, 0), (40, 4)] {
        let prefixes = (0..count).map(|number| format!("2001:db8:{number:x}::/56"));
        let many = prefixes.map(|prefix| (&*Box::leak(prefix.into_boxed_str()), 1000, 500)).collect();
        road.detach(WIFI);
        road.servers.insert(WIFI, many);
        road.attach(WIFI, "2001:db8:9999::/64");
        road.wait(10);
        assert_eq!(road.last().len(), 1 + taken, "{count}");
        assert!(road.bench.plan.len() < 60, "{}", road.bench.plan.len());
    }
    let said = ClientServerMessage {
        kind: MessageType::Reply,
        transaction: dhcp6::TransactionId([1, 2, 3]),
        options: vec![DhcpOption::RapidCommit],
    };
    let told = road.told.len();
    let dropped = road.reports.iter().filter(|report| report.name() == "dropped").count();
    for _ in 0..1000 {
        let outputs = road.serve(WIFI, ip("fe80::2"), &said);
        road.note(outputs);
    }
    assert_eq!(road.told.len(), told, "nobody asked for these");
    assert_eq!(road.reports.iter().filter(|report| report.name() == "dropped").count(), dropped + 1000);
}

/// A mobile router whose earlier life has lent this, on a network that delegates `delegated`.
fn restarted(lent: Prefix, delegated: &'static str) -> Road {
    let mut road = Road::new(PrefixPreference::CareOf);
    let record =
        JournalRecord::CareOfPrefix(CareOfPrefixRecord { prefix: lent, interface: "lan".to_owned(), on_link: true });
    road.bench.plan.put(Item::JournalRecord(record.clone()));
    let outputs = road.bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(vec![record]))));
    road.note(outputs);
    road.servers.insert(WIFI, vec![(delegated, 1000, 500)]);
    road.attach(WIFI, "2001:db8:2::/64");
    road
}

#[test]
fn care_of_prefix_of_previous_run_is_withdrawn_or_reused() {
    let (old, new) = (net("2001:db8:a00::/64"), net("2001:db8:b00::/64"));
    let lent =
        |road: &Road, prefix| road.bench.plan.find(&Key::JournalRecord(JournalKey::CareOfPrefix(prefix))).is_some();
    assert!(lent(&delegated(PrefixPreference::CareOf), old), "a later life will know");

    let mut same = restarted(old, "2001:db8:a00::/56");
    same.wait(30_000);
    let told = same.told.iter().filter_map(|(_, message)| lifetimes(message).get(&old).copied());
    assert!(told.into_iter().all(|(_, preferred, _)| preferred > 0), "nodes notice nothing");

    let mut other = restarted(old, "2001:db8:b00::/56");
    other.wait(9000);
    assert!(!other.last().contains_key(&old), "it may still come");
    other.wait(2000);
    assert_eq!((other.last()[&old], other.last()[&new].1 > 0), ((0, 0, true), true));
    assert_eq!(other.back_to_former(), [old], "so that they can be told");
    for _ in 0..6 {
        other.wait(901_000);
        other.attach(WIFI, "2001:db8:2::/64");
    }
    assert!(!other.last().contains_key(&old) && !lent(&other, old) && lent(&other, new));
    let outputs = other.bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    other.note(outputs);
    assert!(!lent(&other, new), "all nodes were told of the end");
}

#[test]
fn short_lease_is_readvertised_in_time() {
    let mut road = Road::new(PrefixPreference::CareOf);
    road.servers.insert(WIFI, vec![("2001:db8:a00::/56", 14, 7)]);
    road.attach(WIFI, "2001:db8:1::/64");
    road.wait(60_000);
    let preferred = |message| lifetimes(message).get(&net("2001:db8:a00::/64")).map_or(0, |told| told.1);
    let told: Vec<(Time, u32)> = road.told.iter().map(|(at, message)| (*at, preferred(message))).collect();
    let lent = told.iter().position(|(_, preferred)| *preferred > 0).unwrap();
    for pair in told[lent..].windows(2) {
        assert!(pair[1].0 < pair[0].0 + Duration::from_secs(pair[0].1.into()), "{pair:?}");
    }
}
