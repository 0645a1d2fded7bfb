//! Care-of prefixes: obtained, advertised, routed, shared and withdrawn.

mod nd_proxy;

use super::*;
use crate::contract::command::{LifecycleCommand, MobileRouterCommand};
use crate::contract::config::nemo::{CareOfPrefixConfig, PrefixPreference, PrefixSharing};
use crate::contract::item::{CareOfPrefixRecord, JournalKey, PolicyRule, ProxyNeighbour, SourceFilter};
use roam6_wire::dhcp6::{
    self, CLIENT_PORT, ClientServerMessage, DhcpOption, Duid, IdentityAssociation, MessageType, SERVER_PORT, Timers,
};
use roam6_wire::udp::Udp;
use std::collections::{BTreeMap, VecDeque};

const SERVER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x547);
const PHONE: LinkAddress = LinkAddress([2, 0, 0, 0, 9, 9]);
const HOME_NET: &str = "2001:db8:f00::/64";

/// A mobile router, a host that applies its commands, and DHCPv6 servers on its uplinks.
struct Network {
    bench: TestBed,
    /// What the server of each link delegates, and for how long: valid and preferred, seconds.
    servers: BTreeMap<LinkId, Vec<(&'static str, u32, u32)>>,
    /// Router Advertisements sent on the ingress link, and when.
    advertisements: Vec<(Time, RouterAdvertisement)>,
    reports: Vec<Report>,
    /// DHCPv6 messages sent, by type.
    dhcp_requests: Vec<MessageType>,
    /// Neighbour Solicitations sent: link and target.
    neighbour_solicitations: Vec<(LinkId, Ipv6Addr)>,
    /// Neighbour Advertisements sent: link and target.
    neighbour_advertisements: Vec<(LinkId, Ipv6Addr)>,
    /// Targets of the Neighbour Advertisements sent straight to a router of a visited link, after their routes were put.
    answers: Vec<Ipv6Addr>,
    /// The host refuses policy rules.
    refuses_rules: bool,
    /// Servers make offers, and never grant one.
    offers_only: bool,
}

fn settings(prefer: PrefixPreference) -> MobileRouterConfig {
    let care_of = CareOfPrefixConfig { delegation: true, length: 0, share: PrefixSharing::NdProxy, prefer };
    MobileRouterConfig { care_of_prefixes: Some(care_of), load_sharing: LoadSharing::Standby, ..config() }
}

impl Network {
    fn new(prefer: PrefixPreference) -> Network {
        Network::of(settings(prefer))
    }

    fn of(config: MobileRouterConfig) -> Network {
        let mut network = Network {
            bench: TestBed::new(config),
            servers: BTreeMap::new(),
            advertisements: Vec::new(),
            reports: Vec::new(),
            dhcp_requests: Vec::new(),
            neighbour_solicitations: Vec::new(),
            neighbour_advertisements: Vec::new(),
            answers: Vec::new(),
            refuses_rules: false,
            offers_only: false,
        };
        let outputs = network.bench.link(LAN, true);
        network.apply(outputs);
        network
    }

    /// Applies the outputs in order, and those that they cause.
    fn apply(&mut self, outputs: Vec<Output>) {
        let mut queue = VecDeque::from(outputs);
        while let Some(output) = queue.pop_front() {
            queue.extend(match output {
                Output::Put(put) => {
                    let refused = (self.refuses_rules && matches!(put.item, Item::Rule(_))).then(|| "no".to_owned());
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
        let Via::Link(link) = transmit.via else {
            self.note_answer(&datagram);
            return Vec::new();
        };
        if datagram.protocol == protocol::UDP {
            let udp = Udp::parse(datagram.payload, datagram.source, datagram.destination).unwrap();
            let dhcp6::Message::Exchange(request) = dhcp6::Message::parse(udp.payload).unwrap() else { panic!() };
            self.dhcp_requests.push(request.kind);
            return self.serve(link, datagram.source, &request);
        }
        if datagram.protocol != protocol::ICMPV6 {
            return Vec::new();
        }
        match icmp6::Message::parse(&datagram).unwrap() {
            icmp6::Message::RouterAdvertisement(message) if link == LAN => {
                self.check(&message);
                self.advertisements.push((self.bench.now, message));
            }
            icmp6::Message::NeighbourSolicitation(message) => self.neighbour_solicitations.push((link, message.target)),
            icmp6::Message::NeighbourAdvertisement(message) => {
                self.neighbour_advertisements.push((link, message.target))
            }
            _ => {}
        }
        Vec::new()
    }

    /// Notes a Neighbour Advertisement for a node; packets to the node follow it at once.
    fn note_answer(&mut self, datagram: &Datagram<'_>) {
        if datagram.protocol == protocol::ICMPV6
            && let Ok(icmp6::Message::NeighbourAdvertisement(message)) = icmp6::Message::parse(datagram)
        {
            let route = Key::Route(RouteTable::MAIN, Prefix::host(message.target), Prefix::ALL, 256);
            assert!(self.bench.plan.find(&route).is_some());
            self.answers.push(message.target);
        }
    }

    /// Every preferred prefix has a route to the visited network.
    fn check(&self, message: &RouterAdvertisement) {
        for (prefix, (_, preferred, _)) in lifetimes(message) {
            if preferred == 0 || prefix == net(HOME_NET) {
                continue;
            }
            let is_routed = |item: &Item| match item {
                Item::Rule(rule) => rule.source.covers(prefix) && self.has_default_route(rule),
                _ => false,
            };
            assert!(self.bench.plan.iter().any(|(_, item)| is_routed(item)), "{prefix} has no route");
        }
    }

    fn has_default_route(&self, rule: &PolicyRule) -> bool {
        let default = Key::Route(rule.table, Prefix::ALL, Prefix::ALL, 512);
        matches!(self.bench.plan.find(&default), Some(Item::Route(route)) if matches!(route.target, NextHop::Gateway { .. }))
    }

    /// The server's answer, if there is a server.
    fn serve(&mut self, link: LinkId, client: Ipv6Addr, request: &ClientServerMessage) -> Vec<Output> {
        let Some(leases) = self.servers.get(&link) else { return Vec::new() };
        let lease = |(prefix, valid, preferred): &(&str, u32, u32)| {
            let (prefix, valid, preferred) = (net(prefix), *valid, *preferred);
            DhcpOption::Prefix(dhcp6::Prefix { prefix, preferred, valid, options: Vec::new() })
        };
        let mut options = vec![DhcpOption::ServerId(Duid::from_uuid([1; 16])), DhcpOption::RapidCommit];
        for option in &request.options {
            match option {
                DhcpOption::ClientId(_) => options.push(option.clone()),
                DhcpOption::Prefixes(association) => options.push(DhcpOption::Prefixes(IdentityAssociation {
                    id: association.id,
                    timers: Timers::default(),
                    options: leases.iter().map(lease).collect(),
                })),
                _ => {}
            }
        }
        let kind = match (self.offers_only, request.kind) {
            (false, _) => MessageType::Reply,
            (true, MessageType::Solicit) => MessageType::Advertise,
            (true, _) => return Vec::new(),
        };
        let message = ClientServerMessage { kind, transaction: request.transaction, options };
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
        self.apply(outputs);
    }

    fn detach(&mut self, link: LinkId) {
        let outputs = self.bench.link(link, false);
        self.apply(outputs);
    }

    fn wait(&mut self, millis: u64) {
        let until = self.bench.now + Duration::from_millis(millis);
        while let Some(next) = self.bench.router.deadline().filter(|next| *next <= until) {
            self.bench.now = self.bench.now.max(next);
            let outputs = self.bench.feed(Input::Tick);
            self.apply(outputs);
        }
        self.bench.now = until;
    }

    /// Receives a neighbour discovery message of a node, on the ingress link or an uplink.
    fn receive(&mut self, link: LinkId, source: &str, message: icmp6::Message) {
        let source = ip(source);
        let destination = match &message {
            icmp6::Message::NeighbourSolicitation(message) => icmp6::solicited_node(message.target),
            _ => icmp6::ALL_NODES,
        };
        let header = Header::new(source, destination).with_hop_limit(255);
        let bytes = ip6::emit(&header, protocol::ICMPV6, &message.emit(source, destination));
        let outputs = self.bench.feed(Input::Packet(Packet { link, sender: Some(PHONE), bytes }));
        self.apply(outputs);
    }

    /// The prefixes of the last Router Advertisement: valid, preferred, on-link.
    fn last(&self) -> BTreeMap<Prefix, (u32, u32, bool)> {
        lifetimes(&self.advertisements.last().unwrap().1)
    }

    fn events(&mut self) -> Vec<String> {
        let prefixes = self.reports.iter().filter(|report| report.name().starts_with("prefix_"));
        let events = prefixes.map(ToString::to_string).collect();
        self.reports.clear();
        events
    }

    fn source_filter(&self) -> &SourceFilter {
        match self.bench.plan.find(&Key::SourceFilter(LAN)) {
            Some(Item::SourceFilter(filter)) => filter,
            other => panic!("{other:?}"),
        }
    }

    /// Destinations of the routes of withdrawn prefixes that a rule selects for the host's own packets.
    fn former_prefix_routes(&self) -> Vec<Prefix> {
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
    let prefixes = message.options.iter().filter_map(|option| match option {
        NeighbourOption::PrefixInformation { prefix, valid, preferred, on_link, .. } => {
            Some((*prefix, (*valid, *preferred, *on_link)))
        }
        _ => None,
    });
    prefixes.collect()
}

fn routes(message: &RouterAdvertisement) -> BTreeMap<Prefix, u32> {
    let routes = message.options.iter().filter_map(|option| match option {
        NeighbourOption::RouteInformation { prefix, lifetime, .. } => Some((*prefix, *lifetime)),
        _ => None,
    });
    routes.collect()
}

fn solicitation(target: &str) -> icmp6::Message {
    icmp6::Message::NeighbourSolicitation(NeighbourSolicitation { target: ip(target), options: Vec::new() })
}

fn defence(target: &str) -> icmp6::Message {
    let target = ip(target);
    let (router, solicited, overrides, options) = (false, false, true, Vec::new());
    icmp6::Message::NeighbourAdvertisement(NeighbourAdvertisement { router, solicited, overrides, target, options })
}

/// On a network that delegates `2001:db8:a00::/56` for 1000 seconds.
fn delegated(prefer: PrefixPreference) -> Network {
    let mut network = Network::new(prefer);
    network.servers.insert(WIFI, vec![("2001:db8:a00::/56", 1000, 500)]);
    network.attach(WIFI, "2001:db8:1::/64");
    network.wait(1);
    network
}

#[test]
fn delegated_prefix_is_advertised_once_routes_are_installed() {
    let mut network = delegated(PrefixPreference::CareOf);
    let subnet = net("2001:db8:a00::/64");
    assert_eq!(network.events(), ["link 2: prefix 2001:db8:a00::/56 delegated, bid 1, for 1000s"]);
    assert_eq!(network.last()[&subnet], (120, 60, true), "short, so that it ends soon when it ends");
    assert_eq!(network.last()[&net(HOME_NET)].1, 0, "nodes prefer the direct path");
    assert_eq!(routes(&network.advertisements.last().unwrap().1)[&net("2001:db8:a00::/56")], 30);
    assert!(network.has_rule(1000, "::/0", "2001:db8:a00::/56") && network.has_rule(1105, "2001:db8:a00::/56", "::/0"));
    let rest = Key::Route(RouteTable::MAIN, net("2001:db8:a00::/56"), Prefix::ALL, 4_278_198_272);
    assert!(matches!(network.bench.plan.find(&rest), Some(Item::Route(route)) if route.target == NextHop::Unreachable));
    assert!(network.bench.plan.find(&Key::Address(LAN, ip("2001:db8:a00::1"))).is_some());
    let filter = network.source_filter();
    assert_eq!(filter.allowed, [net("2001:db8:f00::/56"), subnet]);
    assert_eq!(
        filter.own_addresses,
        ["2001:db8::100", "2001:db8:1::ff:fe00:2", "2001:db8:a00::1", "2001:db8:f00::1"].map(ip)
    );
    assert!(
        network.bench.plan.find(&Key::UdpPortHold(WIFI, CLIENT_PORT)).is_some(),
        "the kernel sends no Port Unreachable"
    );
    // Renewed at half its lifetime; the advertised lifetimes stay the same.
    network.wait(900_000);
    assert_eq!(network.last()[&subnet], (120, 60, true));
    assert_eq!(network.events(), Vec::<String>::new());
}

#[test]
fn prefix_with_rejected_rule_is_not_advertised() {
    let mut network = Network::new(PrefixPreference::CareOf);
    network.servers.insert(WIFI, vec![("2001:db8:a00::/56", 1000, 500)]);
    network.refuses_rules = true;
    network.attach(WIFI, "2001:db8:1::/64");
    network.wait(500);
    assert!(!network.last().contains_key(&net("2001:db8:a00::/64")));
    network.refuses_rules = false;
    network.wait(2000);
    assert!(network.last().contains_key(&net("2001:db8:a00::/64")));
}

#[test]
fn preferred_prefix_follows_configuration() {
    for (prefer, home, care_of) in [
        (PrefixPreference::Home, true, false),
        (PrefixPreference::CareOf, false, true),
        (PrefixPreference::Either, true, true),
    ] {
        let network = delegated(prefer);
        let advertised = network.last();
        let preferred = |prefix: &str| advertised[&net(prefix)].1 > 0;
        assert_eq!((preferred(HOME_NET), preferred("2001:db8:a00::/64")), (home, care_of), "{prefer:?}");
    }
}

#[test]
fn movement_withdraws_old_and_advertises_new_prefix_in_one_ra() {
    let mut network = delegated(PrefixPreference::CareOf);
    let (old, new) = (net("2001:db8:a00::/64"), net("2001:db8:b00::/64"));
    network.wait(20_000);
    let (before, moved) = (network.advertisements.len(), network.bench.now);
    network.detach(WIFI);
    assert_eq!(network.advertisements[before].0, moved, "advertised in the same instant");
    assert_eq!(network.last()[&old], (0, 0, true));
    assert_eq!(routes(&network.advertisements.last().unwrap().1)[&net("2001:db8:a00::/56")], 0);
    assert_eq!(network.last()[&net(HOME_NET)].1, 0, "without an uplink there is no tunnel");
    assert!(!network.source_filter().allowed.contains(&old), "its packets are answered with an ICMPv6 error");
    assert!(!network.bench.plan.iter().any(|(key, _)| matches!(key, Key::Rule(1105, ..))));
    assert_eq!(network.former_prefix_routes(), [old], "the ICMPv6 errors need a route");
    network.servers.insert(WIFI, vec![("2001:db8:b00::/56", 1000, 500)]);
    network.attach(WIFI, "2001:db8:2::/64");
    network.wait(1000);
    assert_eq!((network.last()[&old], network.last()[&new]), ((0, 0, true), (120, 60, true)));
    let quickly = network.advertisements.iter().filter(|(at, _)| *at >= moved).count();
    assert!((4..10).contains(&quickly), "{quickly}: a frame may be lost");
    network.wait(131_000);
    assert!(!network.last().contains_key(&old), "its last advertised lifetime has ended");
    assert_eq!(network.former_prefix_routes(), []);
    assert_eq!(
        network.events()[1..],
        [
            "link 2: prefix 2001:db8:a00::/56, bid 1, lost: the network was left",
            "link 2: prefix 2001:db8:b00::/56 delegated, bid 1, for 1000s"
        ]
    );
}

#[test]
fn mobile_network_prefix_is_preferred_while_reachable() {
    let mut network = delegated(PrefixPreference::Either);
    let home = |network: &Network| network.last()[&net(HOME_NET)];
    assert!(home(&network).1 > 0);
    network.detach(WIFI);
    assert!(home(&network).0 > 0 && home(&network).1 == 0, "its addresses stay, but have no tunnel");
    let outputs = network.bench.link(WIFI, true);
    network.apply(outputs);
    let outputs = network.bench.advertise(WIFI, "2001:db8:2::/64");
    let update = update(&outputs);
    network.apply(outputs);
    network.wait(20);
    assert_eq!(home(&network).1, 0, "the update is not acknowledged yet");
    let (before, outputs) = (network.advertisements.len(), network.bench.acknowledge(&update, Status::ACCEPTED));
    network.apply(outputs);
    assert_eq!(network.advertisements[before].0, network.bench.now, "advertised at once");
    assert!(home(&network).1 > 0);
}

#[test]
fn withdrawing_ra_leaves_before_routes_are_removed() {
    let mut network = delegated(PrefixPreference::CareOf);
    let outputs = network.bench.link(WIFI, false);
    assert!(position(&outputs, "send 58 ff02::1") < position(&outputs, "drop Rule(1105"));
}

#[test]
fn delegated_prefix_expires_without_its_server() {
    let mut network = delegated(PrefixPreference::Either);
    network.servers.clear();
    network.wait(470_000);
    let (valid, preferred, _) = network.last()[&net("2001:db8:a00::/64")];
    assert!(valid == 120 && preferred <= 40 && preferred > 0, "{preferred}: never longer than the lease");
    network.wait(100_000);
    assert_eq!(network.last()[&net("2001:db8:a00::/64")].1, 0);
    network.wait(380_000);
    assert!(network.last()[&net("2001:db8:a00::/64")].0 <= 60);
    network.wait(51_000);
    assert_eq!(network.last()[&net("2001:db8:a00::/64")], (0, 0, true), "never advertised for longer than the lease");
    assert_eq!(network.former_prefix_routes(), [net("2001:db8:a00::/64")], "the ICMPv6 errors need a route");
    assert!(network.events().contains(&"link 2: prefix 2001:db8:a00::/56, bid 1, lost: its lifetime ended".to_owned()));
    assert!(!network.has_rule(1105, "2001:db8:a00::/56", "::/0"));
    // The visited link is there to be shared meanwhile.
    network.wait(10_000);
    assert!(!network.last().contains_key(&net("2001:db8:a00::/64")));
    assert!(network.last()[&net("2001:db8:1::/64")].1 > 0);
}

#[test]
fn replaced_delegated_prefix_is_replaced_in_ra() {
    let mut network = delegated(PrefixPreference::Either);
    network.servers.insert(WIFI, vec![("2001:db8:a00::/56", 0, 0), ("2001:db8:b00::/56", 1000, 500)]);
    network.wait(260_000);
    let advertised = network.last();
    assert_eq!((advertised[&net("2001:db8:a00::/64")].1, advertised[&net("2001:db8:b00::/64")].1), (0, 60));
}

#[test]
fn prefix_of_dead_uplink_is_deprecated() {
    let mut config = settings(PrefixPreference::CareOf);
    config.probe = Some(config::ProbeConfig::default());
    let mut network = Network::of(config);
    network.servers.insert(WIFI, vec![("2001:db8:a00::/56", 1000, 500)]);
    network.servers.insert(CELL, vec![("2001:db8:b00::/56", 1000, 500), ("2001:db8:a00::/48", 1000, 500)]);
    network.attach(WIFI, "2001:db8:1::/64");
    network.attach(CELL, "2001:db8:2::/64");
    network.wait(1);
    let advertised = network.last();
    assert!(advertised[&net("2001:db8:a00::/64")].1 > 0 && advertised[&net("2001:db8:b00::/64")].1 > 0);
    assert_eq!(advertised.len(), 3, "what overlaps counts once");
    let table = |source: &str| match network.bench.plan.find(&Key::Rule(1105, net(source), Prefix::ALL, None)) {
        Some(Item::Rule(rule)) => rule.table,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (table("2001:db8:a00::/56"), table("2001:db8:b00::/56")),
        (RouteTable(6_275_001), RouteTable(6_275_002))
    );
    // An uplink whose configuration excludes care-of prefixes.
    let mut config = network.bench.router.config.clone();
    config.uplinks[1].care_of_prefix = false;
    let outputs =
        network.bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(config)))));
    network.apply(outputs);
    assert_eq!(network.last()[&net("2001:db8:b00::/64")], (0, 0, true));
    assert_eq!(network.dhcp_requests.last(), Some(&MessageType::Release));
}

#[test]
fn stop_withdraws_and_releases_delegated_prefix() {
    let mut network = delegated(PrefixPreference::CareOf);
    let outputs = network.bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    network.apply(outputs);
    let (_, last) = network.advertisements.last().unwrap();
    assert_eq!((last.lifetime, lifetimes(last)[&net("2001:db8:a00::/64")]), (0, (0, 0, true)));
    assert_eq!(network.dhcp_requests.last(), Some(&MessageType::Release));
    assert!(network.bench.plan.iter().all(|(key, _)| matches!(key, Key::JournalRecord(_))), "only the journal stays");
}

#[test]
fn delegated_prefixes_and_answers_are_bounded() {
    let mut network = Network::new(PrefixPreference::CareOf);
    for (count, taken) in [(500, 0), (40, 4)] {
        let prefixes = (0..count).map(|number| format!("2001:db8:{number:x}::/56"));
        let many = prefixes.map(|prefix| (&*Box::leak(prefix.into_boxed_str()), 1000, 500)).collect();
        network.detach(WIFI);
        network.servers.insert(WIFI, many);
        network.attach(WIFI, "2001:db8:9999::/64");
        network.wait(10);
        assert_eq!(network.last().len(), 1 + taken, "{count}");
        assert!(network.bench.plan.len() < 60, "{}", network.bench.plan.len());
    }
    let unsolicited = ClientServerMessage {
        kind: MessageType::Reply,
        transaction: dhcp6::TransactionId([1, 2, 3]),
        options: vec![DhcpOption::RapidCommit],
    };
    let sent = network.advertisements.len();
    let dropped = network.reports.iter().filter(|report| report.name() == "dropped").count();
    for _ in 0..1000 {
        let outputs = network.serve(WIFI, ip("fe80::2"), &unsolicited);
        network.apply(outputs);
    }
    assert_eq!(network.advertisements.len(), sent, "these were not requested");
    assert_eq!(network.reports.iter().filter(|report| report.name() == "dropped").count(), dropped + 1000);
}

/// A mobile router whose previous run advertised this, on a network that delegates `delegated`.
fn restarted(advertised: Prefix, delegated: &'static str) -> Network {
    let mut network = Network::new(PrefixPreference::CareOf);
    let record = JournalRecord::CareOfPrefix(CareOfPrefixRecord {
        prefix: advertised,
        interface: "lan".to_owned(),
        on_link: true,
    });
    network.bench.plan.put(Item::JournalRecord(record.clone()));
    let outputs =
        network.bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(vec![record]))));
    network.apply(outputs);
    network.servers.insert(WIFI, vec![(delegated, 1000, 500)]);
    network.attach(WIFI, "2001:db8:2::/64");
    network
}

#[test]
fn care_of_prefix_of_previous_run_is_withdrawn_or_reused() {
    let (old, new) = (net("2001:db8:a00::/64"), net("2001:db8:b00::/64"));
    let is_journalled = |network: &Network, prefix| {
        network.bench.plan.find(&Key::JournalRecord(JournalKey::CareOfPrefix(prefix))).is_some()
    };
    assert!(is_journalled(&delegated(PrefixPreference::CareOf), old), "the next run needs the record");

    let mut same = restarted(old, "2001:db8:a00::/56");
    same.wait(30_000);
    let advertised = same.advertisements.iter().filter_map(|(_, message)| lifetimes(message).get(&old).copied());
    assert!(advertised.into_iter().all(|(_, preferred, _)| preferred > 0), "it is never deprecated");

    let mut other = restarted(old, "2001:db8:b00::/56");
    other.wait(9000);
    assert!(!other.last().contains_key(&old), "it may still be delegated");
    other.wait(2000);
    assert_eq!((other.last()[&old], other.last()[&new].1 > 0), ((0, 0, true), true));
    assert_eq!(other.former_prefix_routes(), [old], "the ICMPv6 errors need a route");
    for _ in 0..6 {
        other.wait(901_000);
        other.attach(WIFI, "2001:db8:2::/64");
    }
    assert!(!other.last().contains_key(&old) && !is_journalled(&other, old) && is_journalled(&other, new));
    let outputs = other.bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    other.apply(outputs);
    assert!(!is_journalled(&other, new), "it has been withdrawn");
}

#[test]
fn short_lease_is_readvertised_in_time() {
    let mut network = Network::new(PrefixPreference::CareOf);
    network.servers.insert(WIFI, vec![("2001:db8:a00::/56", 14, 7)]);
    network.attach(WIFI, "2001:db8:1::/64");
    network.wait(60_000);
    let preferred =
        |message| lifetimes(message).get(&net("2001:db8:a00::/64")).map_or(0, |(_, preferred, _)| *preferred);
    let advertised: Vec<(Time, u32)> =
        network.advertisements.iter().map(|(at, message)| (*at, preferred(message))).collect();
    let first = advertised.iter().position(|(_, preferred)| *preferred > 0).unwrap();
    for pair in advertised[first..].windows(2) {
        assert!(pair[1].0 < pair[0].0 + Duration::from_secs(pair[0].1.into()), "{pair:?}");
    }
}
