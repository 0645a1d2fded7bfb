//! From carrier-up to the first packet through the tunnel, and on to the next network.

use super::*;
use crate::contract::command::LifecycleCommand;
use crate::contract::report::LinkReport;

#[test]
fn update_and_items_leave_with_the_ra() {
    let mut bench = TestBed::new(config());
    let outputs = bench.link(WIFI, true);
    let sent = transmits(&outputs);
    assert_eq!(sent[0].via, Via::Link(WIFI));
    let datagram = Datagram::parse(&sent[0].bytes).unwrap();
    assert_eq!((datagram.source, datagram.hop_limit), (ip("fe80::ff:fe00:2"), 255));
    assert_eq!(datagram.destination, icmp6::ALL_ROUTERS);
    let options = vec![NeighbourOption::SourceLinkAddress(MAC)];
    assert_eq!(messages(&outputs), [icmp6::Message::RouterSolicitation(RouterSolicitation { options })]);

    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    let care_of = ip("2001:db8:1::ff:fe00:2");
    let update = update(&outputs);
    assert_eq!((update.source, update.home_agent, update.via), (care_of, ip("2001:db8::1"), Via::Link(WIFI)));
    let flags = UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER;
    assert_eq!((update.message.flags, update.message.lifetime_units), (flags, 15));
    assert_eq!(update.message.sequence, Sequence(84 + 16 + 1));
    assert_eq!(update.care_of(), [care_of]);
    let sent = position(&outputs, "send 135");
    for before in ["put Address", "put Route(RouteTable(6275001), ::/0", "put Rule(1200", "put JournalRecord"] {
        assert!(position(&outputs, before) < sent, "{before}");
    }
    assert!(bench.paths().is_empty());

    let outputs = bench.acknowledge(&update, Status::ACCEPTED);
    assert_eq!(bench.paths(), [(care_of, 1)]);
    assert!(updates(&outputs).is_empty());
    let tunnel = bench.tunnel().unwrap();
    assert_eq!(tunnel.local_prefixes, [net("2001:db8::100/128"), net("2001:db8:f00::/56")]);
    assert_eq!((tunnel.paths[0].remote, tunnel.paths[0].mtu), (ip("2001:db8::1"), 1460));
    let route = Key::Route(RouteTable(6_275_000), Prefix::ALL, Prefix::ALL, 512);
    assert!(
        matches!(bench.plan.find(&route), Some(Item::Route(route)) if route.target == NextHop::Tunnel(TunnelId(1)))
    );
    assert!(reports(&outputs).iter().any(|report| report.name() == "bound"));
}

#[test]
fn replugged_interface_tunnels_before_the_acknowledgement() {
    let mut bench = TestBed::new(config());
    bench.attach(WIFI, "2001:db8:1::/64");
    bench.now = at(1000);
    let outputs = bench.link(WIFI, false);
    assert!(updates(&outputs).is_empty());
    assert!(bench.paths().is_empty());
    assert!(bench.plan.iter().all(|(key, _)| !format!("{key:?}").contains("2001:db8:1:")), "{:#?}", bench.plan);
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:2::/64");
    let moved = update(&outputs);
    assert_eq!(moved.message.sequence, Sequence(102));
    // The home agent will forward to the new address before its answer is here.
    assert_eq!(bench.paths(), [(ip("2001:db8:2::ff:fe00:2"), 1)]);
    assert!(position(&outputs, "put Tunnel") < position(&outputs, "send 135"));
    bench.acknowledge(&moved, Status::ACCEPTED);
    assert_eq!(bench.paths(), [(ip("2001:db8:2::ff:fe00:2"), 1)]);
}

#[test]
fn path_is_shown_as_up_once_it_is_acknowledged() {
    let mut bench = TestBed::new(config());
    bench.attach(WIFI, "2001:db8:1::/64");
    let shown = |bench: &TestBed| {
        let mut view = View::default();
        bench.router.view(bench.now, &mut view);
        let (path, link) = (&view.tunnels[0], &view.links[0]);
        assert_eq!((path.link.as_deref(), link.bid), (Some("wifi"), Some(Bid(1))));
        (path.state.as_str().to_owned(), path.changed, link.state.as_str().to_owned(), link.changed)
    };
    let age = |millis| Some(core::time::Duration::from_millis(millis));
    bench.wait(500);
    let begun = shown(&bench);
    assert_eq!((begun.0.as_str(), begun.2.as_str()), ("up", "visited"));
    bench.wait(1000);
    assert_eq!(shown(&bench).1, begun.1.map(|age| age + core::time::Duration::from_millis(500)));
    bench.link(WIFI, false);
    bench.link(WIFI, true);
    let moved = update(&bench.advertise(WIFI, "2001:db8:2::/64"));
    assert_eq!(shown(&bench), ("registering".to_owned(), age(0), "registering".to_owned(), age(0)));
    bench.now = at(1300);
    bench.acknowledge(&moved, Status::ACCEPTED);
    assert_eq!(shown(&bench), ("up".to_owned(), age(0), "visited".to_owned(), age(0)));
}

#[test]
fn return_to_the_same_network_sends_no_update() {
    let mut bench = TestBed::new(config());
    bench.attach(WIFI, "2001:db8:1::/64");
    bench.now = at(1000);
    bench.link(WIFI, false);
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    assert!(updates(&outputs).is_empty());
    assert_eq!(bench.paths(), [(ip("2001:db8:1::ff:fe00:2"), 1)]);
}

#[test]
fn movement_without_link_event_is_detected_by_ra() {
    for router in ["fe80::1", "fe80::2"] {
        let mut bench = TestBed::new(config());
        bench.attach(WIFI, "2001:db8:1::/64");
        bench.now = at(5000);
        let mut outputs = bench.router_advertisement(WIFI, ip(router), "2001:db8:2::/64", 1800);
        if router == "fe80::2" {
            assert!(updates(&outputs).is_empty(), "the router in use is probed first (NUD)");
            outputs = bench.wait(5300);
        }
        assert_eq!(update(&outputs).care_of(), [ip("2001:db8:2::ff:fe00:2")]);
        // The old address still receives packets in transit, and is removed after that.
        assert_eq!(bench.paths(), [(ip("2001:db8:2::ff:fe00:2"), 1), (ip("2001:db8:1::ff:fe00:2"), 0)]);
        bench.acknowledge(&update(&outputs), Status::ACCEPTED);
        assert_eq!(bench.paths(), [(ip("2001:db8:2::ff:fe00:2"), 1), (ip("2001:db8:1::ff:fe00:2"), 0)]);
        bench.wait(11_000);
        assert_eq!(bench.paths(), [(ip("2001:db8:2::ff:fe00:2"), 1)]);
        assert!(bench.plan.find(&Key::Address(WIFI, ip("2001:db8:1::ff:fe00:2"))).is_none());
    }
}

#[test]
fn rs_intervals_back_off() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    let mut sent = Vec::new();
    while let Some(next) = bench.router.deadline().filter(|next| *next < at(12_000)) {
        let outputs = bench.wait(next.as_micros() / 1000 + 1);
        sent.extend(messages(&outputs).iter().map(|_| next.as_micros() / 1000));
    }
    assert_eq!(sent[..8], [20, 60, 140, 300, 620, 1260, 2540, 5100]);
    assert!(matches!(sent[8..], [last] if (9964..=10476).contains(&last)), "random at last: {sent:?}");
}

#[test]
fn binding_is_refreshed_before_and_registered_after_expiry() {
    let mut bench = TestBed::new(config());
    bench.attach(WIFI, "2001:db8:1::/64");
    let outputs = bench.wait(45_000);
    assert_eq!(update(&outputs).message.lifetime_units, 15);
    let outputs = bench.wait(60_000);
    assert!(reports(&outputs).iter().any(|report| report.name() == "unbound"));
    assert!(bench.paths().is_empty());
    assert!(updates(&outputs).len() >= 3);
    assert_eq!(bench.tunnel().unwrap().paths, []);
}

#[test]
fn lost_router_is_replaced_or_solicited() {
    let mut bench = TestBed::new(config());
    bench.attach(WIFI, "2001:db8:1::/64");
    let event = NeighbourEvent { link: WIFI, address: ip("fe80::1"), link_address: None, reachable: false };
    let outputs = bench.feed(Input::Neighbour(event));
    assert!(matches!(messages(&outputs)[..], [icmp6::Message::RouterSolicitation(_)]));
    assert!(bench.plan.find(&Key::Address(WIFI, ip("2001:db8:1::ff:fe00:2"))).is_some(), "may still receive");
    let outputs = bench.router_advertisement(WIFI, ip("fe80::7"), "2001:db8:7::/64", 1800);
    assert_eq!(update(&outputs).care_of(), [ip("2001:db8:7::ff:fe00:2")]);
}

#[test]
fn duplicate_care_of_address_is_replaced() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    let target = ip("2001:db8:1::ff:fe00:2");
    let check = icmp6::Message::NeighbourSolicitation(NeighbourSolicitation { target, options: Vec::new() });
    assert!(messages(&outputs).contains(&check));
    let defence = icmp6::Message::NeighbourAdvertisement(NeighbourAdvertisement {
        router: false,
        solicited: false,
        overrides: true,
        target,
        options: vec![NeighbourOption::TargetLinkAddress(ROUTER_MAC)],
    });
    let outputs = bench.neighbour(WIFI, target, icmp6::ALL_NODES, &defence);
    let other = update(&outputs).source;
    assert!(other != target && net("2001:db8:1::/64").contains(other));
    assert!(bench.plan.find(&Key::Address(WIFI, target)).is_none());
    assert!(bench.plan.find(&Key::Address(WIFI, other)).is_some());
    assert!(reports(&outputs).contains(&&Report::Link(LinkReport::DuplicateAddress { link: WIFI, address: target })));
}

#[test]
fn non_optimistic_dad_delays_the_update() {
    let mut bench = TestBed::new(MobileRouterConfig { duplicate_detection: DadMode::Wait, ..config() });
    bench.link(WIFI, true);
    assert!(updates(&bench.advertise(WIFI, "2001:db8:1::/64")).is_empty());
    assert!(updates(&bench.wait(999)).is_empty());
    update(&bench.wait(1000));
}

#[test]
fn stop_deregisters_and_removes_all_items() {
    let mut bench = TestBed::new(config());
    bench.link(LAN, true);
    bench.attach(WIFI, "2001:db8:1::/64");
    let outputs = bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    let deregistration = update(&outputs);
    assert_eq!(deregistration.message.lifetime_units, 0);
    let [icmp6::Message::RouterAdvertisement(last_advertisement), solicitations @ ..] = &messages(&outputs)[..] else {
        panic!("{outputs:#?}")
    };
    assert_eq!(last_advertisement.lifetime, 0);
    let deprecated = |option: &NeighbourOption| matches!(option, NeighbourOption::PrefixInformation { valid, preferred: 0, .. } if *valid > 0);
    assert!(last_advertisement.options.iter().any(deprecated), "{last_advertisement:#?}");
    assert_eq!(solicitations.len(), 2, "a router is solicited at once: {solicitations:#?}");
    let restored = report_kinds(&outputs).into_iter().rposition(|kind| kind.starts_with("drop Sysctl")).unwrap();
    let solicited =
        report_kinds(&outputs).into_iter().position(|kind| kind == format!("send 58 {}", icmp6::ALL_ROUTERS)).unwrap();
    assert!(restored < solicited, "after the sysctls of the host are restored");
    assert!(bench.plan.iter().all(|(key, _)| matches!(key, Key::JournalRecord(_))), "{:#?}", bench.plan);
    assert_eq!(bench.router.deadline(), None);
}

/// The mobile network is the on-link prefix of the home agent's host.
#[test]
fn home_agent_in_the_mobile_network_is_reached_by_uplink_and_tunnel() {
    let mut config = config();
    config.prefixes = vec![net("2001:db8:f00::/64")];
    config.home_agents = vec![ip("2001:db8:f00::1")];
    config.ingress[0].identifier = Some(0x72);
    let mut bench = TestBed::new(config);
    bench.link(LAN, true);
    bench.attach(WIFI, "2001:db8:1::/64");
    let agent = Prefix::host(ip("2001:db8:f00::1"));
    let rules: Vec<(Prefix, RouteTable)> = bench
        .plan
        .iter()
        .filter_map(|(_, item)| match item {
            Item::Rule(rule) if rule.destination == agent => Some((rule.source, rule.table)),
            _ => None,
        })
        .collect();
    let care_of = ip("2001:db8:1::ff:fe00:2");
    assert_eq!(rules.len(), 2, "{rules:?}");
    assert_eq!(rules[0].0, Prefix::host(care_of), "before the other");
    assert_eq!(rules[1], (Prefix::ALL, super::super::forwarding::TUNNEL_TABLE));
    assert!(bench.plan.find(&Key::ProxyNeighbour(LAN, ip("2001:db8:f00::1"))).is_some());
    assert!(bench.plan.find(&Key::Address(LAN, ip("2001:db8:f00::72"))).is_some());
}
