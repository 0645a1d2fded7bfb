//! IPv4 home addresses and prefixes (RFC 5555 §3.1.1, §3.2.1, §4.4.2, §4.5).

use super::pair::{Pair, START_UNIX_MICROS, agent, agent_config, home, ip, net, router_config};
use crate::contract::command::{LifecycleCommand, MobileRouterCommand};
use crate::contract::config::nemo::{
    Authentication, HomeAgentConfig, Ipv4Pool, MobileRouterConfig, PrefixTable, PrefixTableRow,
};
use crate::contract::item::{JournalRecord, NextHop, RouteTable};
use crate::contract::report::{HostReport, NemoReport};
use crate::{Clock, Command, Input, Item, Key, LinkEvent, LinkId, Packet, Plan, Report};
use core::time::Duration;
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{
    AckFlags, BindingAcknowledgement, BindingUpdate, Ipv4Status, Message, MobilityOption, Status, UpdateFlags,
};
use roam6_wire::{HomeAddress, Prefix, Sequence};
use std::net::{Ipv4Addr, Ipv6Addr};

const OWN: &str = "10.77.1.0/24";
/// Two lifetimes of a binding; the router lifetime of the visited link is longer.
const REFRESHES: Duration = Duration::from_secs(1200);
const NETWORK: &str = "2001:db8:2::/64";

/// A home agent that lets its mobile router have these prefixes of IPv4 too, and has a pool.
fn serving(own: &[&str], pool: Option<(&str, u8)>) -> HomeAgentConfig {
    let mut config = agent_config();
    let mut rows = config.prefix_table.rows.clone();
    let prefixes = rows[0].prefixes.iter().copied().chain(own.iter().map(|prefix| net(prefix)));
    rows[0].prefixes = prefixes.collect();
    config.prefix_table = PrefixTable { rows }.into();
    config.ipv4_pool = pool.map(|(prefix, length)| Ipv4Pool { prefix: net(prefix), length });
    config
}

/// A mobile router that has these prefixes of IPv4, and wants one to be chosen.
fn wanting(own: &[&str], dynamic_ipv4: Option<u8>) -> MobileRouterConfig {
    let mut config = router_config();
    config.prefixes.extend(own.iter().map(|prefix| net(prefix)));
    MobileRouterConfig { dynamic_ipv4, ..config }
}

/// Away in a network of IPv6.
fn away(router: MobileRouterConfig, agent: HomeAgentConfig) -> Pair {
    let mut pair = Pair::new(router, agent);
    pair.link(true);
    pair.advertise(NETWORK, 1800);
    pair.advance(Duration::from_secs(3));
    assert!(pair.is_connected());
    pair
}

/// The prefixes of IPv4 in the tunnels of a plan, on the side of the mobile network.
fn tunnelled(plan: &Plan) -> Vec<Prefix> {
    let sides = plan.iter().flat_map(|(_, item)| match item {
        Item::Tunnel(tunnel) => [tunnel.local_prefixes.clone(), tunnel.remote_prefixes.clone()].concat(),
        _ => Vec::new(),
    });
    sides.filter(|prefix| prefix.is_ipv4()).collect()
}

/// The same at both ends, which agree.
fn inside(pair: &Pair) -> Vec<Prefix> {
    let at_agent = tunnelled(&pair.agent_plan);
    assert_eq!(at_agent, tunnelled(&pair.router_plan));
    let routed = pair.agent_plan.iter().filter_map(|(_, item)| match item {
        Item::Route(route) if matches!(route.target, NextHop::Tunnel(_)) => Some(route.destination),
        _ => None,
    });
    assert_eq!(routed.filter(|prefix| prefix.is_ipv4()).collect::<Vec<_>>(), at_agent);
    at_agent
}

fn notices(pair: &Pair) -> Vec<&str> {
    let texts = pair.reports.iter().filter_map(|(_, report)| match report {
        Report::Host(HostReport::Notice { text }) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn ipv4_prefix_of_the_table_follows_the_mobile_network() {
    let mut pair = away(wanting(&[OWN], None), serving(&[OWN], None));
    assert_eq!(inside(&pair), [net(OWN)]);
    let [row] = &pair.view().bindings[..] else { panic!() };
    assert!(row.prefixes.contains(&net(OWN)), "{row:?}");
    let holds = |plan: &Plan, wanted: &Item| plan.iter().any(|(_, item)| item == wanted);
    let rule = Item::Rule(crate::contract::item::PolicyRule {
        priority: 1100,
        source: net(OWN),
        destination: Prefix::ALL,
        iif: Some("lo".to_owned()),
        table: RouteTable(6_275_000),
    });
    assert!(holds(&pair.router_plan, &rule));
    pair.ipv6 = false;
    pair.address4(super::pair::BEHIND_NAT, true);
    pair.advance(Duration::from_secs(5));
    assert!(pair.is_connected() && pair.remote4().is_some());
    assert_eq!(inside(&pair), [net(OWN)]);
    assert!(notices(&pair).is_empty(), "{:?}", notices(&pair));
    let without = wanting(&[], None);
    pair.feed_router(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(without)))));
    pair.advance(Duration::from_secs(1));
    assert!(inside(&pair).is_empty(), "released when it is not requested (RFC 5555 §4.4.2.1)");
    assert!(pair.is_connected());
}

#[test]
fn dynamic_ipv4_prefix_is_taken_from_the_table_first() {
    let pair = away(wanting(&[], Some(24)), serving(&[OWN], Some(("10.128.0.0/16", 32))));
    assert_eq!(inside(&pair), [net(OWN)]);
    // The interface inside is not known here, so the address appears in a notice only.
    assert_eq!(notices(&pair), ["the home agent has assigned 10.77.1.0/24 to the mobile network"]);
}

#[test]
fn ipv4_pool_address_is_stable() {
    let config = || serving(&[], Some(("10.128.0.0/16", 32)));
    let mut pair = away(wanting(&[], Some(32)), config());
    let chosen = inside(&pair);
    let [address] = chosen[..] else { panic!("{chosen:?}") };
    assert!(net("10.128.0.0/16").covers(address) && address.length() == 128);
    pair.advance(REFRESHES);
    assert_eq!(inside(&pair), [address], "after refreshes");
    // After a restart the home agent has it from the journal, or without a journal from the mobile router's next update.
    let records: Vec<JournalRecord> = pair.agent_plan.iter().filter_map(|(_, item)| record(item)).collect();
    let mut restarted = Pair::new(wanting(&[], Some(32)), config());
    restarted.now = pair.now;
    restarted.feed_agent(Input::Clock(Clock { unix_micros: START_UNIX_MICROS + restarted.now.as_micros() }));
    restarted.feed_agent(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(records))));
    assert_eq!(tunnelled(&restarted.agent_plan), [address]);
    let again = away(wanting(&[], Some(32)), config());
    assert_eq!(inside(&again), [address], "the same home address begins at the same place");
}

#[test]
fn ipv4_home_address_is_proxied_and_prefix_is_not() {
    let address = "10.77.2.5/32";
    let mut config = serving(&[OWN, address], None);
    config.home_link = Some("home0".into());
    let mut pair = away(wanting(&[OWN, address], None), config);
    let proxies = |pair: &Pair| -> Vec<(LinkId, Ipv6Addr)> {
        let proxies = pair.agent_plan.iter().filter_map(|(key, _)| match key {
            Key::ProxyNeighbour(link, address) => Some((*link, *address)),
            _ => None,
        });
        proxies.collect()
    };
    assert_eq!(inside(&pair).len(), 2);
    assert!(proxies(&pair).is_empty(), "no home link yet");
    let event = |link| LinkEvent { link, name: "home0".into(), address: None, up: true, mtu: 1500 };
    let answered = [ip("::ffff:10.77.2.5"), router_config().home_address.0];
    for link in [LinkId(7), LinkId(8)] {
        pair.feed_agent(Input::Link(event(link)));
        assert_eq!(proxies(&pair), answered.map(|address| (link, address)), "(RFC 5555 §4.5)");
    }
    let without = wanting(&[OWN], None);
    pair.feed_router(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(without)))));
    pair.advance(Duration::from_secs(1));
    assert_eq!(inside(&pair), [net(OWN)]);
    assert_eq!(proxies(&pair), [(LinkId(8), answered[1])]);
    let again = wanting(&[OWN, address], None);
    pair.feed_router(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(again)))));
    pair.advance(Duration::from_secs(1));
    assert_eq!(proxies(&pair).len(), 2);
    pair.feed_router(Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    pair.advance(Duration::from_secs(1));
    assert!(proxies(&pair).is_empty(), "deregistered");
}

fn record(item: &Item) -> Option<JournalRecord> {
    match item {
        Item::JournalRecord(record) => Some(record.clone()),
        _ => None,
    }
}

#[test]
fn rejected_ipv4_prefix_is_reported_once_and_others_hold() {
    let mut pair = away(wanting(&["10.99.0.0/24", OWN], Some(32)), serving(&[OWN], None));
    pair.advance(REFRESHES);
    assert_eq!(tunnelled(&pair.agent_plan), [net(OWN)]);
    let expected = [
        "the home agent rejects 10.99.0.0/24: status 133 (prefix allocation unauthorised)",
        "the home agent rejects an IPv4 prefix: status 132 (dynamic IPv4 home address assignment not available)",
    ];
    assert_eq!(notices(&pair), expected);
}

/// A home agent with two mobile routers that are not authenticated.
fn open(pool: Option<(&str, u8)>, own: &[&str]) -> Pair {
    let mut config = serving(own, pool);
    let mut rows = config.prefix_table.rows.clone();
    rows[0].authentication = Authentication::None;
    rows.push(PrefixTableRow {
        next_key: None,
        invitation: None,
        home_address: HomeAddress(ip("2001:db8::200")),
        prefixes: [net("2001:db8:e00::/56")].into(),
        authentication: Authentication::None,
    });
    config.prefix_table = PrefixTable { rows }.into();
    Pair::new(router_config(), config)
}

/// The acknowledgement options in answer to an update with these options.
fn register(
    pair: &mut Pair,
    home_address: Ipv6Addr,
    number: u16,
    requests: &[(u8, bool, &str)],
) -> Vec<(Ipv4Status, Prefix)> {
    let option = |(prefix_length, prefix_wanted, address): &(u8, bool, &str)| MobilityOption::Ipv4HomeAddress {
        prefix_length: *prefix_length,
        prefix_wanted: *prefix_wanted,
        address: address.parse().unwrap(),
    };
    let update = Message::BindingUpdate(BindingUpdate {
        sequence: Sequence(number),
        flags: UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER,
        lifetime_units: 100,
        options: requests.iter().map(option).collect(),
    });
    let header = Header::new(ip("2001:db8:2::2"), agent()).with_home_address(home_address);
    pair.deliver_to_agent(ip6::emit(&header, protocol::MOBILITY, &update.emit(home_address, agent())));
    let (_, sent) = pair.sent.last().unwrap();
    let datagram = Datagram::parse(&sent.bytes).unwrap();
    let message = Message::parse(datagram.payload, datagram.source, datagram.real_destination()).unwrap();
    let Message::BindingAcknowledgement(answer) = message else { panic!("{message:?}") };
    assert!(answer.status.is_accepted(), "IPv4 options do not affect the binding: {}", answer.status);
    let answers = answer.options.iter().filter_map(|option| match option {
        MobilityOption::Ipv4AddressAcknowledgement { status, prefix_length, address } => {
            Some((*status, Prefix::from_ipv4(*address, *prefix_length).unwrap()))
        }
        _ => None,
    });
    answers.collect()
}

#[test]
fn each_ipv4_home_address_option_has_its_status() {
    let mut pair = open(None, &[OWN]);
    let requests = [
        (0, true, "10.77.1.0", Ipv4Status::INVALID_ADDRESS),
        (33, true, "10.77.1.0", Ipv4Status::INVALID_ADDRESS),
        (32, false, "224.0.0.1", Ipv4Status::INVALID_ADDRESS),
        (32, false, "127.0.0.1", Ipv4Status::INVALID_ADDRESS),
        (32, false, "10.78.0.1", Ipv4Status::INCORRECT_HOME_ADDRESS),
        (24, true, "10.78.0.0", Ipv4Status::PREFIX_UNAUTHORISED),
        (16, true, "10.77.0.0", Ipv4Status::PREFIX_UNAUTHORISED),
        (32, false, "10.77.1.9", Ipv4Status::ACCEPTED),
        (25, true, "10.77.1.128", Ipv4Status::ACCEPTED),
        (24, true, "0.0.0.0", Ipv4Status::ACCEPTED),
        (32, false, "0.0.0.0", Ipv4Status::NO_DYNAMIC_ADDRESS),
        (28, true, "0.0.0.0", Ipv4Status::PREFIX_UNAUTHORISED),
    ];
    let options: Vec<_> = requests.iter().map(|(length, prefix, address, _)| (*length, *prefix, *address)).collect();
    let answers = register(&mut pair, home().0, 1, &options);
    let statuses: Vec<_> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, requests.map(|(.., status)| status));
    assert_eq!(answers[9].1, net(OWN), "the granted length overrides the requested one");
    let expected = ["10.77.1.0/24", "10.77.1.9/32", "10.77.1.128/25"].map(net);
    assert_eq!(tunnelled(&pair.agent_plan), expected);
    assert_eq!(register(&mut pair, home().0, 2, &[]), [], "no option, no status");
    assert!(tunnelled(&pair.agent_plan).is_empty());
    let other = ip("2001:db8::200");
    let answers = register(&mut pair, other, 1, &[(24, true, "10.77.1.0")]);
    assert_eq!(answers[0].0, Ipv4Status::ADMINISTRATIVELY_PROHIBITED, "its row has no IPv4 prefix");
    let any = [(32, false, "0.0.0.0"), (28, true, "0.0.0.0")];
    let statuses: Vec<_> = register(&mut pair, other, 2, &any).iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [Ipv4Status::NO_DYNAMIC_ADDRESS, Ipv4Status::PREFIX_UNAUTHORISED], "there is no pool either");
}

#[test]
fn ipv4_pool_gives_distinct_prefixes_until_exhausted() {
    let (one, other) = (home().0, ip("2001:db8::200"));
    let mut pair = open(Some(("10.128.0.0/31", 32)), &[]);
    let any = (32, false, "0.0.0.0");
    let [(_, first)] = register(&mut pair, one, 1, &[any])[..] else { panic!() };
    let [(_, second)] = register(&mut pair, other, 1, &[any])[..] else { panic!() };
    assert_ne!(first, second);
    let text = first.ipv4().unwrap().0.to_string();
    let stolen = register(&mut pair, other, 2, &[(32, false, &text)]);
    assert_eq!(stolen, [(Ipv4Status::INCORRECT_HOME_ADDRESS, Prefix::from_ipv4(first.ipv4().unwrap().0, 0).unwrap())]);
    // The second released its address when it did not request it any more.
    let [(_, both)] = register(&mut pair, one, 2, &[any])[..] else { panic!() };
    assert_eq!(both, first, "a refresh keeps the address");
    let statuses = register(&mut pair, one, 3, &[any, any, any]);
    assert_eq!(statuses.iter().map(|(status, _)| status.0).collect::<Vec<_>>(), [0, 0, 132]);
    assert_eq!(register(&mut pair, other, 3, &[any])[0].0, Ipv4Status::NO_DYNAMIC_ADDRESS);
}

#[test]
fn ipv4_home_address_is_not_requested_from_unsupporting_agent() {
    let config = MobileRouterConfig { authentication: Authentication::None, ..wanting(&[OWN], None) };
    let mut pair = Pair::new(config, serving(&[OWN], None));
    pair.ipv6 = false;
    pair.link(true);
    pair.advertise(NETWORK, 1800);
    pair.millis(100);
    let (sequence, care_of, requests) = last_update(&pair);
    assert_eq!(requests, 1);
    let answer = Message::BindingAcknowledgement(BindingAcknowledgement {
        status: Status::ACCEPTED,
        flags: AckFlags::ROUTER,
        sequence,
        lifetime_units: 10,
        options: Vec::new(),
    });
    let header = Header::new(agent(), care_of).with_routing_home(home().0);
    let bytes = ip6::emit(&header, protocol::MOBILITY, &answer.emit(agent(), home().0));
    pair.feed_router(Input::Packet(Packet { link: super::pair::UPLINK, sender: None, bytes }));
    assert_eq!(notices(&pair), ["the home agent 2001:db8::1 does not support IPv4 home addresses (RFC 5555)"]);
    pair.advance(Duration::from_secs(35));
    let (next, _, requests) = last_update(&pair);
    assert!(next != sequence && requests == 0);
}

/// Number and source of the last update, and how many IPv4 Home Address options it has.
fn last_update(pair: &Pair) -> (Sequence, Ipv6Addr, usize) {
    let updates = pair.sent.iter().rev().filter_map(|(_, sent)| {
        let datagram = Datagram::parse(&sent.bytes).ok()?;
        let message = Message::parse(datagram.payload, datagram.real_source(), datagram.destination).ok()?;
        let Message::BindingUpdate(update) = message else { return None };
        let option = |option: &&MobilityOption| matches!(option, MobilityOption::Ipv4HomeAddress { .. });
        Some((update.sequence, datagram.source, update.options.iter().filter(option).count()))
    });
    updates.into_iter().next().unwrap()
}

#[test]
fn ipv4_care_of_address_inside_mobile_network_is_not_used() {
    let mut pair = Pair::new(wanting(&["10.0.0.0/24"], None), serving(&["10.0.0.0/24"], None));
    pair.nat = None;
    pair.link(true);
    pair.address4(Ipv4Addr::new(10, 0, 0, 2), true);
    pair.advance(Duration::from_secs(5));
    assert!(!pair.is_connected());
    assert!(
        pair.reports
            .iter()
            .any(|(_, report)| matches!(report, Report::Nemo(NemoReport::UpdateRejected { status: 174, .. })))
    );
}
