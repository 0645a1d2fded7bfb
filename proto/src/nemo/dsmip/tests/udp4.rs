//! IPv4 uplinks without a NAT: protocol 41, or UDP where a network drops that; and what keeps NATs and firewalls open.

use super::pair::{AGENT_IPV4, Access, BEHIND_NAT, Pair, UPLINK, agent_config, router_config};
use crate::contract::command::LifecycleCommand;
use crate::contract::config::nemo::{
    DsmipService, HomeAgentConfig, LoadSharing, MobileRouterConfig, Transport, UplinkConfig,
};
use crate::contract::input::{LinkTraffic, TrafficCount};
use crate::contract::item::JournalRecord;
use crate::contract::report::NemoReport;
use crate::{Command, Input, Item, LinkId, Report};
use core::time::Duration;
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::ip6::protocol;
use roam6_wire::{Bid, Ipv4Endpoint};
use std::net::Ipv4Addr;

const SECOND: LinkId = LinkId(3);
const SECOND_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const NATIVE: u16 = 0;

fn router(transport: Transport, sharing: LoadSharing) -> MobileRouterConfig {
    let mut config = MobileRouterConfig { load_sharing: sharing, ..router_config() };
    config.uplinks[0].transport = transport;
    config
}

fn build(transport: Transport, sharing: LoadSharing) -> Pair {
    let mut pair = Pair::new(router(transport, sharing), agent_config());
    (pair.ipv6, pair.nat) = (false, None);
    pair
}

fn attach(pair: &mut Pair) {
    pair.link(true);
    pair.address4(BEHIND_NAT, true);
    // Until then a router of IPv6 may answer.
    pair.millis(500);
}

/// The UDP ports of the active paths at the home agent and at the router; 0 is protocol 41.
fn ports(pair: &Pair) -> [Option<u16>; 2] {
    let [agent, router] = pair.active_paths();
    let port = |end| Ipv4Endpoint::from_ipv6(end).map(|end| end.port);
    [agent.and_then(|path| port(path.remote)), router.and_then(|path| port(path.local))]
}

fn changes(pair: &Pair) -> Vec<String> {
    let of = |(_, report): &(_, Report)| match report {
        Report::Nemo(NemoReport::TransportChanged { to, why, .. }) => Some(format!("{to}: {why}")),
        _ => None,
    };
    pair.reports.iter().filter_map(of).collect()
}

/// Lets time pass until both ends use `port`; how long it took, milliseconds.
fn until(pair: &mut Pair, port: u16) -> u64 {
    let begin = pair.now;
    for _ in 0..200 {
        if ports(pair) == [Some(port); 2] && pair.is_connected() {
            return u64::try_from(pair.now.since(begin).as_millis()).unwrap();
        }
        pair.millis(10);
    }
    panic!("{:?} for two seconds; {:?}", pair.active_paths(), pair.reports);
}

fn drop_protocol_41(pair: &mut Pair) {
    pair.filters.insert(UPLINK, vec![protocol::IPV6]);
}

#[test]
fn filtered_protocol_41_is_noticed_within_two_seconds() {
    for sharing in [LoadSharing::Single, LoadSharing::Standby] {
        let mut pair = build(Transport::Auto, sharing);
        drop_protocol_41(&mut pair);
        attach(&mut pair);
        let took = until(&mut pair, DSMIP_PORT);
        assert!(took <= 1000, "{sharing:?}: {took} ms");
        pair.advance(Duration::from_secs(20));
        assert_eq!(ports(&pair), [Some(DSMIP_PORT); 2], "{sharing:?}");
        assert_eq!(changes(&pair), ["udp: the tunnel is filtered"], "{sharing:?}");

        let mut later = build(Transport::Auto, sharing);
        attach(&mut later);
        later.advance(Duration::from_secs(10));
        assert_eq!((ports(&later), changes(&later).len()), ([Some(NATIVE); 2], 0), "{sharing:?}");
        drop_protocol_41(&mut later);
        let took = until(&mut later, DSMIP_PORT);
        assert!(took <= 1500, "{sharing:?}: {took} ms");
        later.advance(Duration::from_secs(20));
        assert_eq!(ports(&later), [Some(DSMIP_PORT); 2], "{sharing:?}");
    }
}

#[test]
fn filter_of_one_direction_is_noticed() {
    let mut pair = build(Transport::Auto, LoadSharing::Standby);
    drop_protocol_41(&mut pair);
    pair.inbound_filters.insert(UPLINK);
    attach(&mut pair);
    pair.advance(Duration::from_secs(2));
    assert_eq!(ports(&pair), [Some(DSMIP_PORT); 2], "{:?}", changes(&pair));
    pair.advance(Duration::from_secs(60));
    assert_eq!((ports(&pair), changes(&pair).len()), ([Some(DSMIP_PORT); 2], 1));
}

#[test]
fn nothing_changes_without_a_filter() {
    for sharing in [LoadSharing::Single, LoadSharing::Standby] {
        for silence in [0, 300, 700, 1000, 2500, 6000] {
            let mut pair = build(Transport::Auto, sharing);
            attach(&mut pair);
            pair.advance(Duration::from_secs(5));
            pair.black_holes.insert(UPLINK);
            pair.millis(silence);
            pair.black_holes.clear();
            pair.advance(Duration::from_secs(10));
            assert_eq!((ports(&pair), changes(&pair).len()), ([Some(NATIVE); 2], 0), "{sharing:?}, {silence} ms");
        }
    }
}

#[test]
fn native_transport_stays_native_and_udp_stays_udp() {
    let mut pair = build(Transport::Native, LoadSharing::Standby);
    drop_protocol_41(&mut pair);
    attach(&mut pair);
    pair.advance(Duration::from_secs(30));
    assert!(ports(&pair).iter().all(|port| *port != Some(DSMIP_PORT)) && changes(&pair).is_empty());

    let service = DsmipService { address: AGENT_IPV4, keepalive: Duration::from_secs(110), force_udp: true };
    let agent = HomeAgentConfig { ipv4: Some(service), ..agent_config() };
    let mut forced = Pair::new(router(Transport::Auto, LoadSharing::Standby), agent);
    (forced.ipv6, forced.nat) = (false, None);
    attach(&mut forced);
    forced.advance(Duration::from_secs(1300));
    assert_eq!((ports(&forced), changes(&forced).len()), ([Some(DSMIP_PORT); 2], 0), "the home agent wants UDP");
}

/// Seconds during which the interface carries nothing.
fn quiet_for(pair: &mut Pair, seconds: u64) {
    for _ in 0..seconds * 2 {
        pair.millis(500);
        let count = TrafficCount { packets: 0, octets: 1 };
        pair.feed_router(Input::LinkTraffic(LinkTraffic { link: UPLINK, tx: count, rx: TrafficCount::default() }));
    }
}

#[test]
fn protocol_41_is_used_again_and_the_network_is_remembered_meanwhile() {
    let mut pair = build(Transport::Auto, LoadSharing::Standby);
    drop_protocol_41(&mut pair);
    attach(&mut pair);
    until(&mut pair, DSMIP_PORT);
    pair.millis(200);
    let record = |item: &Item| match item {
        Item::JournalRecord(record @ JournalRecord::Network(_)) => Some(record.clone()),
        _ => None,
    };
    let records: Vec<JournalRecord> = pair.router_plan.iter().filter_map(|(_, item)| record(item)).collect();
    assert_eq!(records.len(), 1);

    let mut again = build(Transport::Auto, LoadSharing::Standby);
    drop_protocol_41(&mut again);
    again.feed_router(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(records))));
    attach(&mut again);
    assert!(until(&mut again, DSMIP_PORT) <= 40, "at once");

    quiet_for(&mut pair, 610);
    assert_eq!((ports(&pair), changes(&pair).len()), ([Some(DSMIP_PORT); 2], 1), "still filtered");
    pair.filters.clear();
    quiet_for(&mut pair, 1250);
    assert_eq!(ports(&pair), [Some(NATIVE); 2]);
    assert_eq!(changes(&pair).last().map(String::as_str), Some("native: it passes again"));
    pair.advance(Duration::from_secs(30));
    assert!(pair.is_connected() && ports(&pair) == [Some(NATIVE); 2]);
}

#[test]
fn each_of_two_uplinks_has_the_encapsulation_that_its_network_passes() {
    for [first, second] in [[true, false], [false, true], [true, true]] {
        let uplink = |interface: &str, number: u8| UplinkConfig {
            interface: interface.into(),
            bid: Bid(number.into()),
            priority: number,
            transport: Transport::Auto,
            ..Default::default()
        };
        let uplinks = vec![uplink("up0", 1), uplink("up1", 2)];
        let config = MobileRouterConfig { load_sharing: LoadSharing::Standby, uplinks, ..router_config() };
        let mut pair = Pair::new(config, agent_config());
        (pair.ipv6, pair.nat) = (false, None);
        pair.others.insert(SECOND, Access { address: Some(SECOND_ADDRESS), ..Access::default() });
        for (link, filtered) in [(UPLINK, first), (SECOND, second)] {
            pair.filters.insert(link, if filtered { vec![protocol::IPV6] } else { Vec::new() });
        }
        pair.link(true);
        pair.address4(BEHIND_NAT, true);
        pair.link_on(SECOND, "up1", true);
        pair.address4_on(SECOND, SECOND_ADDRESS, true);
        pair.advance(Duration::from_secs(6));
        let expected = |filtered: bool| if filtered { DSMIP_PORT } else { NATIVE };
        let what = format!("{first} {second}: {:?}", changes(&pair));
        let paths = pair.tunnel(&pair.agent_plan).unwrap().paths.clone();
        for (bid, filtered) in [(Bid(1), first), (Bid(2), second)] {
            let path = paths.iter().find(|path| path.bid == bid).unwrap_or_else(|| panic!("{what}"));
            assert_eq!(Ipv4Endpoint::from_ipv6(path.remote).unwrap().port, expected(filtered), "{what}");
        }
        assert_eq!(changes(&pair).len(), usize::from(first) + usize::from(second), "{what}");
        pair.link(false);
        pair.millis(700);
        assert_eq!(ports(&pair), [Some(expected(second)); 2], "{what}: handed over");
        assert!(pair.is_connected(), "{what}");
    }
}

/// Updates in a time.
fn updates_in(pair: &mut Pair, span: Duration) -> usize {
    let before = pair.updates();
    pair.advance(span);
    pair.updates() - before
}

#[test]
fn updates_keep_the_states_of_firewalls_where_probes_do_not() {
    let span = Duration::from_secs(440);
    for sharing in [LoadSharing::Single, LoadSharing::Standby] {
        for (transport, probed, expected) in
            [(Transport::Udp, false, 4), (Transport::Udp, true, 0), (Transport::Auto, false, 0)]
        {
            let mut config = router(transport, sharing);
            config.lifetime = Duration::from_secs(3600);
            config.probe = config.probe.filter(|_| probed);
            let what = format!("{sharing:?}, {transport:?}, probes: {probed}");

            let mut over_ipv4 = Pair::new(config.clone(), agent_config());
            (over_ipv4.ipv6, over_ipv4.nat) = (false, None);
            attach(&mut over_ipv4);
            over_ipv4.millis(500);
            assert_eq!(updates_in(&mut over_ipv4, span), expected, "IPv4, {what}");
            assert!(over_ipv4.is_connected(), "IPv4, {what}");

            let agent = HomeAgentConfig { udp6: true, ..agent_config() };
            let mut over_ipv6 = Pair::new(config, agent);
            over_ipv6.link(true);
            over_ipv6.advertise("2001:db8:2::/64", 1800);
            over_ipv6.millis(500);
            assert_eq!(updates_in(&mut over_ipv6, span), expected, "IPv6, {what}");
            assert!(over_ipv6.is_connected(), "IPv6, {what}");
        }
    }
}
