//! The prefix of a visited link, shared by ND proxy: with nodes, with leases, and with other proxies (RFC 4389).

use super::*;

#[test]
fn visited_link_is_shared_by_nd_proxy_without_delegation() {
    let mut road = Road::new(PrefixPreference::CareOf);
    road.attach(WIFI, "2001:db8:1::/64");
    road.wait(200);
    assert!(road.told.last().unwrap().1.proxy && !road.last().contains_key(&net("2001:db8:1::/64")));
    road.wait(400);
    assert!(road.last().contains_key(&net("2001:db8:1::/64")), "no server is waited for");
    road.wait(3000);
    let announced = road.told.iter().filter(|(_, told)| told.proxy).count();
    assert!(announced >= 3 && road.told.last().unwrap().1.proxy);
    assert_eq!(road.last()[&net("2001:db8:1::/64")], (120, 60, false), "nodes send everything to us");
    // A node inside forms an address.
    road.hear(LAN, "::", checks("2001:db8:1::9"));
    assert_eq!(road.sought.last(), Some(&(WIFI, ip("2001:db8:1::9"))), "nobody outside may have it");
    assert!(road.bench.plan.find(&Key::ProxyNeighbour(WIFI, ip("2001:db8:1::9"))).is_none());
    road.wait(1000);
    let answered = ProxyNeighbour { link: WIFI, address: ip("2001:db8:1::9"), router: false };
    assert_eq!(
        road.bench.plan.find(&Key::ProxyNeighbour(WIFI, ip("2001:db8:1::9"))),
        Some(&Item::ProxyNeighbour(answered))
    );
    let way = Key::Route(RouteTable::MAIN, net("2001:db8:1::9/128"), Prefix::ALL, 256);
    assert!(matches!(road.bench.plan.find(&way), Some(Item::Route(route)) if route.target == NextHop::OnLink(LAN)));
    assert!(road.has_rule(1105, "2001:db8:1::/64", "::/0"));
    assert!(
        road.bench.plan.iter().any(|(key, _)| matches!(key, Key::ProxyNeighbour(LAN, _))),
        "our own address is defended"
    );
    // One somebody outside has.
    road.hear(LAN, "::", checks("2001:db8:1::8"));
    road.hear(WIFI, "2001:db8:1::8", defends("2001:db8:1::8"));
    assert_eq!(road.advertised, [(LAN, ip("2001:db8:1::8"))]);
    road.wait(2000);
    assert!(road.bench.plan.find(&Key::ProxyNeighbour(WIFI, ip("2001:db8:1::8"))).is_none());
    // A server that comes late takes its place.
    assert_eq!(road.events()[..1], ["link 2: prefix 2001:db8:1::/64 shared, bid 1"]);
    road.servers.insert(WIFI, vec![("2001:db8:a00::/56", 1000, 500)]);
    for _ in 0..5 {
        road.wait(1_000_000);
        let outputs = road.bench.advertise(WIFI, "2001:db8:1::/64");
        road.note(outputs);
    }
    let told = road.last();
    assert!(told.contains_key(&net("2001:db8:a00::/64")) && !told.contains_key(&net("2001:db8:1::/64")));
    assert!(road.bench.plan.find(&Key::ProxyNeighbour(WIFI, ip("2001:db8:1::9"))).is_none());
}

#[test]
fn nd_proxy_serves_a_shared_prefix_after_a_lease_has_replaced_it() {
    let mut road = Road::new(PrefixPreference::CareOf);
    road.attach(WIFI, "2001:db8:1::/64");
    road.wait(700);
    road.hear(LAN, "::", checks("2001:db8:1::9"));
    road.wait(1000);
    let proxied = Key::ProxyNeighbour(WIFI, ip("2001:db8:1::9"));
    assert!(road.bench.plan.find(&proxied).is_some());
    road.servers.insert(WIFI, vec![("2001:db8:a00::/56", 1000, 500)]);
    road.wait(60_000);
    assert_eq!(road.last()[&net("2001:db8:1::/64")], (0, 0, false), "withdrawn");
    assert!(road.last()[&net("2001:db8:a00::/64")].1 > 0);
    assert!(!road.told.last().unwrap().1.proxy, "a router inside may share the delegated prefix");
    let events = road.events();
    assert_eq!(events.len(), 3, "shared, delegated, lost: {events:?}");
    assert!(road.bench.plan.find(&proxied).is_some(), "connections of the node continue");
    assert!(road.has_rule(1105, "2001:db8:1::/64", "::/0"));
    assert!(road.guard().allowed.contains(&net("2001:db8:1::/64")));
    assert!(road.back_to_former().is_empty());
    // The lease ends, and the link is shared as before.
    road.servers.remove(&WIFI);
    road.wait(1_100_000);
    assert!(road.last()[&net("2001:db8:1::/64")].1 > 0 && road.told.last().unwrap().1.proxy);
    road.detach(WIFI);
    assert!(road.bench.plan.find(&proxied).is_none());
}

/// The nodes of an earlier visit are served also if a server delegates at once this time.
#[test]
fn nd_proxy_serves_nodes_of_an_earlier_visit_beside_a_lease() {
    let mut road = Road::new(PrefixPreference::CareOf);
    road.attach(WIFI, "2001:db8:1::/64");
    road.wait(700);
    assert!(road.last()[&net("2001:db8:1::/64")].1 > 0);
    // The link is left before duplicate address detection of the node's address has ended.
    road.hear(LAN, "::", checks("2001:db8:1::9"));
    road.detach(WIFI);
    road.wait(5000);
    road.events();
    road.servers.insert(WIFI, vec![("2001:db8:a00::/56", 1000, 500)]);
    road.attach(WIFI, "2001:db8:1::/64");
    road.wait(1000);
    assert_eq!(road.last()[&net("2001:db8:1::/64")], (0, 0, false), "withdrawn");
    assert!(road.last()[&net("2001:db8:a00::/64")].1 > 0 && !road.told.last().unwrap().1.proxy);
    // The node asks for this router's link-layer address.
    road.hear(LAN, "2001:db8:1::9", checks("fe80::1"));
    road.wait(1000);
    assert!(road.bench.plan.find(&Key::ProxyNeighbour(WIFI, ip("2001:db8:1::9"))).is_some());
    assert!(road.has_rule(1105, "2001:db8:1::/64", "::/0"));
    assert!(road.guard().allowed.contains(&net("2001:db8:1::/64")));
    assert_eq!(road.events().len(), 1, "delegated; nothing is shared anew");
    road.detach(WIFI);
    assert!(!road.has_rule(1105, "2001:db8:1::/64", "::/0"));
}

#[test]
fn full_nd_proxy_table_is_reported() {
    let mut road = Road::new(PrefixPreference::CareOf);
    road.attach(WIFI, "2001:db8:1::/64");
    road.wait(5000);
    for last in 0..2000_u32 {
        let address = format!("2001:db8:1::1:{last:x}");
        let [_, _, high, low] = last.to_be_bytes();
        let event = NeighbourEvent {
            link: LAN,
            address: ip(&address),
            link_address: Some(LinkAddress([2, 0, 0, 2, high, low])),
            reachable: true,
        };
        let outputs = road.bench.feed(Input::Neighbour(event));
        road.note(outputs);
    }
    road.wait(1000);
    let proxies = road.bench.plan.iter().filter(|(key, _)| matches!(key, Key::ProxyNeighbour(WIFI, _))).count();
    assert_eq!(proxies, 64);
    assert_eq!(road.reports.iter().filter(|report| report.name() == "table_full").count(), 1);
    assert!(road.sought.iter().filter(|(link, _)| *link == WIFI).count() < 64, "and nobody outside is flooded");
}

/// The Router Advertisement of an ND proxy.
fn proxied(prefix: &str) -> icmp6::Message {
    icmp6::Message::RouterAdvertisement(RouterAdvertisement {
        proxy: true,
        lifetime: 1800,
        options: vec![information(prefix)],
        ..RouterAdvertisement::default()
    })
}

/// A node that was not known when the prefix was withdrawn gets ICMPv6 errors once it is heard.
#[test]
fn nodes_of_a_withdrawn_prefix_are_learned() {
    let mut road = Road::new(PrefixPreference::CareOf);
    road.attach(WIFI, "2001:db8:1::/64");
    road.wait(700);
    assert!(road.last()[&net("2001:db8:1::/64")].1 > 0);
    road.hear(LAN, "::", checks("2001:db8:1::9"));
    road.hear(WIFI, "fe80::99", proxied("2001:db8:1::/64"));
    assert_eq!(road.last()[&net("2001:db8:1::/64")].1, 0);
    assert!(road.back_to_former().is_empty());
    road.hear(WIFI, "2001:db8:1::8", checks("2001:db8:1::9"));
    assert!(road.back_to_former().is_empty(), "upstream");
    road.hear(LAN, "2001:db8:1::9", checks("fe80::1"));
    assert_eq!(road.back_to_former(), [net("2001:db8:1::9/128")]);
    for last in 0x100..0x200 {
        road.hear(LAN, &format!("2001:db8:1::{last:x}"), checks("fe80::1"));
    }
    assert_eq!(road.back_to_former().len(), 64, "bounded");
}

#[test]
fn nd_proxies_are_not_chained() {
    // The router of the visited link is a proxy itself.
    let mut road = Road::new(PrefixPreference::CareOf);
    let outputs = road.bench.link(WIFI, true);
    road.note(outputs);
    road.hear(WIFI, "fe80::1", proxied("2001:db8:1::/64"));
    road.wait(30_000);
    assert!(!road.last().contains_key(&net("2001:db8:1::/64")));
    // Another proxy has both links too, and is heard on either side: first inside, then outside.
    for side in [LAN, WIFI] {
        let mut road = Road::new(PrefixPreference::CareOf);
        road.attach(WIFI, "2001:db8:1::/64");
        road.wait(5000);
        assert!(road.last()[&net("2001:db8:1::/64")].1 > 0);
        road.hear(LAN, "::", checks("2001:db8:1::9"));
        road.wait(1100);
        road.hear(side, "fe80::99", proxied("2001:db8:1::/64"));
        assert_eq!(road.back_to_former(), [net("2001:db8:1::9/128")], "all others are outside");
        assert_eq!(road.last()[&net("2001:db8:1::/64")].1, 0, "{side}");
        assert!(!road.told.last().unwrap().1.proxy);
        assert!(!road.has_rule(1105, "2001:db8:1::/64", "::/0"));
        road.wait(600_000);
        assert!(!road.last().contains_key(&net("2001:db8:1::/64")), "{side}: not for an hour");
    }
}

#[test]
fn two_nd_proxies_between_the_same_links_form_no_loop() {
    let other = |road: &mut Road, told: &[(Time, RouterAdvertisement)]| {
        for (_, message) in told {
            road.hear(LAN, "fe80::77", icmp6::Message::RouterAdvertisement(message.clone()));
        }
    };
    let (mut one, mut two) = (Road::new(PrefixPreference::CareOf), Road::new(PrefixPreference::CareOf));
    for road in [&mut one, &mut two] {
        road.bench.router.config.prefixes = vec![net("2001:db8:e00::/56")];
        road.attach(WIFI, "2001:db8:1::/64");
    }
    for _ in 0..3000 {
        one.wait(10);
        two.wait(10);
        let (first, second) = (std::mem::take(&mut one.told), std::mem::take(&mut two.told));
        other(&mut one, &second);
        other(&mut two, &first);
        one.told.extend(first);
        two.told.extend(second);
        let both = [&one, &two].iter().all(|road| road.has_rule(1105, "2001:db8:1::/64", "::/0"));
        assert!(!both, "both relay at {}", one.bench.now);
    }
}

#[test]
fn point_to_point_prefix_is_shared_without_nd_proxy() {
    let mut road = Road::new(PrefixPreference::CareOf);
    let event = LinkEvent { link: WIFI, name: "wifi".to_owned(), address: None, up: true, mtu: 1500 };
    let mut outputs = road.bench.feed(Input::Link(event));
    outputs.extend(road.bench.advertise(WIFI, "2001:db8:1::/64"));
    road.note(outputs);
    road.wait(1000);
    assert_eq!(road.last()[&net("2001:db8:1::/64")], (120, 60, true));
    assert!(!road.told.last().unwrap().1.proxy && road.asked.is_empty());
    let way = Key::Route(RouteTable::MAIN, net("2001:db8:1::/64"), Prefix::ALL, 256);
    assert!(matches!(road.bench.plan.find(&way), Some(Item::Route(route)) if route.target == NextHop::OnLink(LAN)));
    let own = road.bench.router.uplinks[0].care_of_address.as_ref().unwrap().address.0;
    assert!(road.bench.plan.find(&Key::ProxyNeighbour(LAN, own)).is_some(), "our own address is taken");
    let length = |item: Option<&Item>| match item {
        Some(Item::Address(address)) => address.prefix_length,
        other => panic!("{other:?}"),
    };
    assert_eq!(length(road.bench.plan.find(&Key::Address(WIFI, own))), 128);
}
