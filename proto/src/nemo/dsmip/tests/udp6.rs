//! UDP over IPv6 where a network drops protocol 135 or 41, or both and more: found out in two seconds, remembered, and
//! left again; and what strangers get from it.

use super::pair::{Access, Pair, UPLINK, agent, agent_config, home, ip, net, router_config};
use crate::contract::command::LifecycleCommand;
use crate::contract::config::nemo::{HomeAgentConfig, LoadSharing, MobileRouterConfig, Transport, UplinkConfig};
use crate::contract::input::{LinkTraffic, TrafficCount};
use crate::contract::item::{Encap, JournalRecord, NetworkRecord};
use crate::contract::report::NemoReport;
use crate::{Command, Entropy, Input, Item, LinkId, Packet, Plan, Report, Time};
use core::time::Duration;
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{BindingUpdate, Message, MobilityOption, UpdateFlags};
use roam6_wire::udp6::Encapsulated6;
use roam6_wire::{Bid, Ipv6Endpoint, Sequence};

const SECOND: LinkId = LinkId(3);
const NETWORK: &str = "2001:db8:2::/64";
const SECOND_NETWORK: &str = "2001:db8:3::/64";
const OUTSIDE: &str = "2001:db8:66::1";
const UDP_ONLY: [u8; 3] = [protocol::MOBILITY, protocol::IPV6, protocol::ICMPV6];
const IN_UDP: Encap = Encap::Udp { local: DSMIP_PORT, remote: DSMIP_PORT };

fn router(transport: Transport) -> MobileRouterConfig {
    let mut config = router_config();
    config.uplinks[0].transport = transport;
    config
}

fn served() -> HomeAgentConfig {
    HomeAgentConfig { udp6: true, ..agent_config() }
}

/// One uplink in a network that drops these protocols.
fn build(transport: Transport, dropped: &[u8]) -> Pair {
    let mut pair = Pair::new(router(transport), served());
    pair.filters.insert(UPLINK, dropped.to_vec());
    pair
}

fn attach(pair: &mut Pair) {
    pair.link(true);
    pair.advertise(NETWORK, 1800);
}

fn start(transport: Transport, dropped: &[u8]) -> Pair {
    let mut pair = build(transport, dropped);
    attach(&mut pair);
    pair
}

/// The encapsulation at the home agent and at the router, of the active path.
fn encaps(pair: &Pair) -> [Option<Encap>; 2] {
    pair.active_paths().map(|path| path.map(|path| path.encap))
}

fn changes(pair: &Pair) -> Vec<(Time, String, String)> {
    let of = |(at, report): &(Time, Report)| match report {
        Report::Nemo(NemoReport::TransportChanged { to, why, .. }) => Some((*at, to.clone(), why.clone())),
        _ => None,
    };
    pair.reports.iter().filter_map(of).collect()
}

fn millis(pair: &Pair) -> u64 {
    pair.now.as_micros() / 1000
}

/// Lets time pass until both ends use `encap`; how long it took, milliseconds.
fn until(pair: &mut Pair, encap: Encap) -> u64 {
    let begin = millis(pair);
    for _ in 0..200 {
        if encaps(pair) == [Some(encap); 2] && pair.is_connected() {
            return millis(pair) - begin;
        }
        pair.millis(10);
    }
    panic!("{:?} for two seconds; {:?}", pair.active_paths(), pair.reports);
}

#[test]
fn nothing_changes_where_native_encapsulation_passes() {
    for probed in [true, false] {
        let mut config = router(Transport::Auto);
        config.probe = config.probe.filter(|_| probed);
        let mut pair = Pair::new(config, served());
        attach(&mut pair);
        pair.millis(100);
        assert_eq!(encaps(&pair), [Some(Encap::Native); 2]);
        let updates = pair.updates();
        pair.advance(Duration::from_secs(60));
        assert_eq!((encaps(&pair), pair.updates()), ([Some(Encap::Native); 2], updates));
        assert!(changes(&pair).is_empty());
        let is_udp = |bytes: &[u8]| Encapsulated6::parse(bytes).is_ok();
        assert!(pair.sent.iter().all(|(_, sent)| !is_udp(&sent.bytes)));
    }
}

#[test]
fn narrow_path_is_found_in_udp() {
    let mut pair = build(Transport::Udp, &UDP_ONLY);
    pair.mtus.insert(UPLINK, 1400);
    attach(&mut pair);
    pair.advance(Duration::from_secs(20));
    assert_eq!(pair.active_paths().map(|path| path.unwrap().mtu), [1352; 2], "48 octets of headers");
    assert!(pair.is_connected());
}

#[test]
fn filtered_networks_are_used_in_udp_within_two_seconds() {
    for (dropped, why) in [
        (&UDP_ONLY[..], "signalling is filtered"),
        (&[protocol::MOBILITY, protocol::IPV6], "signalling is filtered"),
        (&[protocol::MOBILITY], "signalling is filtered"),
        (&[protocol::IPV6], "the tunnel is filtered"),
    ] {
        let mut pair = start(Transport::Auto, dropped);
        let took = until(&mut pair, IN_UDP);
        assert!(took <= 1500, "{dropped:?}: {took} ms");
        pair.advance(Duration::from_secs(20));
        let found: Vec<_> = changes(&pair).into_iter().map(|(_, to, why)| (to, why)).collect();
        assert_eq!(found, [("udp".to_owned(), why.to_owned())], "{dropped:?}");
        assert_eq!((encaps(&pair), pair.is_connected()), ([Some(IN_UDP); 2], true), "{dropped:?}: it stays");
        let [agent_path, router_path] = pair.active_paths().map(Option::unwrap);
        assert_eq!((agent_path.mtu, router_path.mtu), (1452, 1452), "{dropped:?}");
        assert_eq!(pair.view().bindings[0].udp_port, Some(DSMIP_PORT));
    }
}

#[test]
fn home_agent_may_take_a_second_for_its_first_answer() {
    let mut pair = build(Transport::Auto, &[]);
    pair.delays.insert(UPLINK, Duration::from_millis(1100));
    attach(&mut pair);
    pair.advance(Duration::from_secs(8));
    assert_eq!((encaps(&pair), changes(&pair)), ([Some(Encap::Native); 2], vec![]));
}

#[test]
fn filter_that_begins_later_is_noticed() {
    let mut pair = start(Transport::Auto, &[]);
    pair.advance(Duration::from_secs(5));
    pair.filters.insert(UPLINK, vec![protocol::MOBILITY]);
    pair.advance(Duration::from_secs(5));
    assert_eq!(encaps(&pair), [Some(Encap::Native); 2], "no update is due");
    pair.filters.insert(UPLINK, vec![protocol::MOBILITY, protocol::IPV6]);
    let took = until(&mut pair, IN_UDP);
    assert!(took <= 1500, "{took} ms");
    pair.advance(Duration::from_secs(5));
    assert_eq!(changes(&pair).len(), 1, "{:?}", changes(&pair));
}

#[test]
fn short_outage_changes_nothing() {
    for silence in [300, 700, 1000, 2500, 6000] {
        let mut pair = start(Transport::Auto, &[]);
        pair.advance(Duration::from_secs(5));
        pair.black_holes.insert(UPLINK);
        pair.millis(silence);
        pair.black_holes.clear();
        pair.advance(Duration::from_secs(10));
        assert_eq!((encaps(&pair), pair.is_connected()), ([Some(Encap::Native); 2], true), "{silence} ms");
    }
}

#[test]
fn nat_between_is_harmless() {
    let mut pair = build(Transport::Auto, &UDP_ONLY);
    pair.nat66.insert(UPLINK, ip(OUTSIDE));
    attach(&mut pair);
    pair.advance(Duration::from_secs(2));
    let translated = Encap::Udp { local: DSMIP_PORT, remote: 50_000 };
    assert_eq!(encaps(&pair), [Some(translated), Some(IN_UDP)]);
    assert!(pair.is_connected());
    pair.nat66.insert(UPLINK, ip("2001:db8:66::2"));
    pair.advance(Duration::from_secs(5));
    let [agent_path, _] = pair.active_paths().map(Option::unwrap);
    assert_eq!((agent_path.remote, pair.is_connected()), (ip("2001:db8:66::2"), true), "its address has changed");
}

#[test]
fn native_encapsulation_is_tried_again_while_nothing_passes() {
    let mut pair = start(Transport::Auto, &UDP_ONLY);
    until(&mut pair, IN_UDP);
    pair.advance(Duration::from_secs(590));
    assert_eq!(changes(&pair).len(), 1);
    quiet_for(&mut pair, 20, 10);
    assert_eq!((encaps(&pair), pair.is_connected()), ([Some(IN_UDP); 2], true), "still filtered");
    pair.filters.clear();
    pair.advertise(NETWORK, 1800);
    quiet_for(&mut pair, 1190, 1_000_000);
    assert_eq!(encaps(&pair), [Some(IN_UDP); 2], "it is busy");
    quiet_for(&mut pair, 80, 10);
    assert_eq!((encaps(&pair), pair.is_connected()), ([Some(Encap::Native); 2], true));
    let last = changes(&pair).pop().unwrap();
    assert_eq!((last.1.as_str(), last.2.as_str()), ("native", "it passes again"));
    assert!(remembered(&pair.router_plan).is_empty(), "forgotten");
}

/// Seconds during which the interface carries so many octets each.
fn quiet_for(pair: &mut Pair, seconds: u64, octets: u64) {
    let mut count = TrafficCount { packets: 0, octets: pair.now.as_micros() };
    for _ in 0..seconds * 2 {
        pair.millis(500);
        count.octets += octets / 2;
        pair.feed_router(Input::LinkTraffic(LinkTraffic { link: UPLINK, tx: count, rx: TrafficCount::default() }));
    }
}

fn remembered(plan: &Plan) -> Vec<NetworkRecord> {
    let record = |item: &Item| match item {
        Item::JournalRecord(JournalRecord::Network(record)) => Some(*record),
        _ => None,
    };
    plan.iter().filter_map(|(_, item)| record(item)).collect()
}

#[test]
fn network_is_remembered_over_restarts_and_failed_return_takes_half_a_second() {
    let mut pair = start(Transport::Auto, &[protocol::IPV6]);
    until(&mut pair, IN_UDP);
    pair.millis(100);
    let records = remembered(&pair.router_plan);
    assert_eq!((records.len(), records[0].failures), (1, 0));
    assert!(records[0].native_retry_unix >= 1_790_000_600);
    quiet_for(&mut pair, 610, 10);
    assert_eq!((encaps(&pair), pair.is_connected()), ([Some(IN_UDP); 2], true), "the tunnel is still filtered");
    assert_eq!(remembered(&pair.router_plan).len(), 1);

    let mut again = build(Transport::Auto, &[protocol::IPV6]);
    let records: Vec<JournalRecord> = records.into_iter().map(JournalRecord::Network).collect();
    again.feed_router(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(records))));
    attach(&mut again);
    assert!(until(&mut again, IN_UDP) <= 40, "at once");
    assert!(again.sent.iter().all(|(_, sent)| {
        Datagram::parse(&sent.bytes).is_ok_and(|datagram| datagram.protocol != protocol::MOBILITY)
    }));
}

#[test]
fn former_home_agents_are_not_asked_twice() {
    let mut pair = Pair::new(router(Transport::Auto), agent_config());
    pair.filters.insert(UPLINK, vec![protocol::IPV6]);
    attach(&mut pair);
    pair.advance(Duration::from_secs(30));
    assert!(pair.sent.iter().all(|(_, sent)| Encapsulated6::parse(&sent.bytes).is_err()), "it does not know UDP");
    assert_eq!(pair.active_paths()[0].as_ref().map(|path| path.encap), Some(Encap::Native));
}

#[test]
fn forced_transport_never_sends_natively() {
    let mut pair = start(Transport::Udp, &[]);
    assert!(until(&mut pair, IN_UDP) <= 40);
    pair.advance(Duration::from_secs(1300));
    let to_agent = |bytes: &[u8]| Datagram::parse(bytes).is_ok_and(|datagram| datagram.destination == agent());
    let sent: Vec<_> = pair.sent.iter().filter(|(_, sent)| to_agent(&sent.bytes)).collect();
    assert!(!sent.is_empty() && sent.iter().all(|(_, sent)| Encapsulated6::parse(&sent.bytes).is_ok()));
    assert_eq!(encaps(&pair), [Some(IN_UDP); 2]);

    let mut over_ipv4 = Pair::new(router(Transport::Udp), served());
    (over_ipv4.ipv6, over_ipv4.nat) = (false, None);
    over_ipv4.link(true);
    over_ipv4.address4(super::pair::BEHIND_NAT, true);
    over_ipv4.advance(Duration::from_secs(5));
    assert_eq!(over_ipv4.remote4().map(|end| end.port), Some(DSMIP_PORT), "UDP without a NAT");
    assert!(over_ipv4.is_connected());
}

fn two(dropped: [&[u8]; 2], sharing: LoadSharing) -> Pair {
    let uplink = |interface: &str, bid: u16, priority: u8| UplinkConfig {
        interface: interface.into(),
        bid: Bid(bid),
        priority,
        transport: Transport::Auto,
        ..Default::default()
    };
    let uplinks = vec![uplink("up0", 1, 1), uplink("up1", 2, 2)];
    let mut pair = Pair::new(MobileRouterConfig { load_sharing: sharing, uplinks, ..router_config() }, served());
    pair.others.insert(SECOND, Access { prefix: Some(net(SECOND_NETWORK)), ..Access::default() });
    for (link, dropped) in [UPLINK, SECOND].into_iter().zip(dropped) {
        pair.filters.insert(link, dropped.to_vec());
    }
    pair.link(true);
    pair.advertise(NETWORK, 1800);
    pair.link_on(SECOND, "up1", true);
    pair.advertise_on(SECOND, SECOND_NETWORK, 1800);
    pair
}

#[test]
fn several_uplinks_are_registered_each_in_its_own_encapsulation() {
    let everything: [&[u8]; 4] = [&[], &UDP_ONLY, &[protocol::IPV6], &[protocol::MOBILITY]];
    for first in everything {
        for second in everything {
            let mut pair = two([first, second], LoadSharing::Standby);
            pair.advance(Duration::from_secs(6));
            let what = format!("{first:?} {second:?}");
            assert!(pair.is_connected(), "{what}: {:?}", pair.active_paths());
            let bids: Vec<Bid> = pair.view().bindings.iter().map(|row| row.bid).collect();
            assert_eq!(bids, [Bid(1), Bid(2)], "{what}");
            let expected = |dropped: &[u8]| if dropped.contains(&protocol::IPV6) { IN_UDP } else { Encap::Native };
            let paths = &pair.tunnel(&pair.agent_plan).unwrap().paths;
            for (bid, dropped) in [(Bid(1), first), (Bid(2), second)] {
                let path = paths.iter().find(|path| path.bid == bid).unwrap();
                let either = dropped == [protocol::MOBILITY];
                assert!(either || path.encap == expected(dropped), "{what}: {path:?}");
            }
            pair.advance(Duration::from_secs(20));
            pair.link(false);
            pair.millis(700);
            let [agent_path, router_path] = pair.active_paths().map(Option::unwrap);
            assert_eq!((agent_path.bid, router_path.bid), (Bid(2), Bid(2)), "{what}: handed over");
            assert!(pair.is_connected(), "{what}");
        }
    }
}

#[test]
fn random_filters_and_losses_end_in_a_connection() {
    for seed in 0..60 {
        let mut rng = Entropy::seed_from_u64(seed);
        let mut pair = two([&[], &[]], LoadSharing::Standby);
        pair.loss = rng.below(100);
        for _ in 0..12 {
            for link in [UPLINK, SECOND] {
                let mut dropped: Vec<u8> = UDP_ONLY.into_iter().filter(|_| rng.below(2) == 0).collect();
                dropped.retain(|_| rng.below(4) > 0);
                pair.filters.insert(link, dropped);
            }
            if rng.below(4) == 0 {
                pair.link(false);
                pair.millis(rng.below(300));
                pair.link(true);
                pair.advertise(NETWORK, 1800);
            }
            pair.millis(rng.below(4000));
        }
        pair.loss = 0;
        pair.advance(Duration::from_secs(90));
        assert!(pair.is_connected(), "seed {seed}: {:?}", pair.active_paths());
    }
}

fn forged(source: Ipv6Endpoint, options: Vec<MobilityOption>) -> Vec<u8> {
    let update = BindingUpdate {
        sequence: Sequence(9),
        flags: UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER,
        lifetime_units: 15,
        options,
    };
    let payload = Message::BindingUpdate(update).emit_authenticated(home().0, agent(), 256, |_| [0; 12]);
    let inner = ip6::emit(&Header::new(home().0, agent()), protocol::MOBILITY, &payload);
    Encapsulated6 { source, destination: Ipv6Endpoint { address: agent(), port: DSMIP_PORT }, inner: &inner }.emit()
}

#[test]
fn strangers_gain_nothing() {
    let mut pair = start(Transport::Auto, &UDP_ONLY);
    until(&mut pair, IN_UDP);
    let (before, stranger) = (pair.active_paths(), Ipv6Endpoint { address: ip("2001:db8:bad::1"), port: 4000 });
    let sent = pair.sent.len();
    for _ in 0..200 {
        let bytes = forged(stranger, vec![MobilityOption::ReplayProtection(7)]);
        pair.deliver_to_agent(bytes);
    }
    let answers: Vec<_> = pair.sent[sent..].iter().map(|(_, sent)| sent.bytes.len()).collect();
    let question = forged(stranger, vec![MobilityOption::ReplayProtection(7)]).len();
    assert!(answers.len() <= 5, "the rate limit of native ones: {answers:?}");
    assert!(answers.iter().all(|answer| *answer <= question), "no amplification: {answers:?} for {question}");
    let sent = pair.sent.len();
    let end = |address| Ipv6Endpoint { address, port: DSMIP_PORT };
    let echo = ip6::emit(&Header::new(home().0, agent()), protocol::ICMPV6, &[128, 0, 0, 0, 0, 1, 0, 1]);
    for (source, inner) in [
        (stranger, echo.clone()),
        (end(agent()), echo.clone()),
        (end(ip("ff02::1")), echo.clone()),
        (stranger, ip6::emit(&Header::new(home().0, ip("2001:db8::99")), protocol::MOBILITY, &[0; 8])),
        (stranger, ip6::emit(&Header::new(home().0, agent()), protocol::MOBILITY, &[0; 8])),
        (stranger, ip6::emit(&Header::new(home().0, agent()), protocol::ESP, &[0; 32])),
        (stranger, vec![0x60]),
    ] {
        let destination = end(agent());
        pair.deliver_to_agent(Encapsulated6 { source, destination, inner: &inner }.emit());
        let bytes = Encapsulated6 { source, destination: end(ip("2001:db8:2::1")), inner: &inner }.emit();
        pair.feed_router(Input::Packet(Packet { link: UPLINK, sender: None, bytes }));
    }
    assert_eq!(pair.sent.len(), sent, "nothing is answered");
    assert_eq!(pair.active_paths(), before);
    let mut not_served = Pair::new(router(Transport::Native), agent_config());
    not_served.deliver_to_agent(forged(stranger, vec![]));
    assert!(not_served.sent.is_empty(), "a home agent that does not serve UDP is silent");
}
