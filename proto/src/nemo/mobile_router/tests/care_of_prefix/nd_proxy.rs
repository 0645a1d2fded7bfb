//! The prefix of a visited link, shared by ND proxy: with nodes, with leases, and with other proxies (RFC 4389).

use super::*;

#[test]
fn visited_link_is_shared_by_nd_proxy_without_delegation() {
    let mut network = Network::new(PrefixPreference::CareOf);
    network.attach(WIFI, "2001:db8:1::/64");
    network.wait(150);
    assert!(network.advertisements.last().unwrap().1.proxy && !network.last().contains_key(&net("2001:db8:1::/64")));
    network.wait(450);
    assert!(network.last().contains_key(&net("2001:db8:1::/64")), "it does not wait for a server");
    network.wait(3000);
    let announced = network.advertisements.iter().filter(|(_, message)| message.proxy).count();
    assert!(announced >= 3 && network.advertisements.last().unwrap().1.proxy);
    assert_eq!(
        network.last()[&net("2001:db8:1::/64")],
        (120, 60, false),
        "off-link: nodes send all packets to the router"
    );
    // A node inside forms an address.
    network.receive(LAN, "::", solicitation("2001:db8:1::9"));
    assert_eq!(
        network.neighbour_solicitations.last(),
        Some(&(WIFI, ip("2001:db8:1::9"))),
        "it must be unique on the visited link too"
    );
    assert!(network.bench.plan.find(&Key::ProxyNeighbour(WIFI, ip("2001:db8:1::9"))).is_none());
    network.wait(1000);
    let answered = ProxyNeighbour { link: WIFI, address: ip("2001:db8:1::9"), router: false };
    assert_eq!(
        network.bench.plan.find(&Key::ProxyNeighbour(WIFI, ip("2001:db8:1::9"))),
        Some(&Item::ProxyNeighbour(answered))
    );
    let route = Key::Route(RouteTable::MAIN, net("2001:db8:1::9/128"), Prefix::ALL, 256);
    assert!(
        matches!(network.bench.plan.find(&route), Some(Item::Route(route)) if route.target == NextHop::OnLink(LAN))
    );
    assert!(network.has_rule(1105, "2001:db8:1::/64", "::/0"));
    assert!(
        network.bench.plan.iter().any(|(key, _)| matches!(key, Key::ProxyNeighbour(LAN, _))),
        "the own address is defended"
    );
    // An address that a node of the visited link has.
    network.receive(LAN, "::", solicitation("2001:db8:1::8"));
    network.receive(WIFI, "2001:db8:1::8", defence("2001:db8:1::8"));
    assert_eq!(network.neighbour_advertisements, [(LAN, ip("2001:db8:1::8"))]);
    network.wait(2000);
    assert!(network.bench.plan.find(&Key::ProxyNeighbour(WIFI, ip("2001:db8:1::8"))).is_none());
    // A later delegation replaces it.
    assert_eq!(network.events()[..1], ["link 2: prefix 2001:db8:1::/64 shared, bid 1"]);
    network.servers.insert(WIFI, vec![("2001:db8:a00::/56", 1000, 500)]);
    for _ in 0..5 {
        network.wait(1_000_000);
        let outputs = network.bench.advertise(WIFI, "2001:db8:1::/64");
        network.apply(outputs);
    }
    let advertised = network.last();
    assert!(advertised.contains_key(&net("2001:db8:a00::/64")) && !advertised.contains_key(&net("2001:db8:1::/64")));
    assert!(network.bench.plan.find(&Key::ProxyNeighbour(WIFI, ip("2001:db8:1::9"))).is_none());
}

/// The node is reached within the half second, although it solicits nothing.
#[test]
fn shared_prefix_carries_packets_half_a_second_after_the_attachment() {
    let mut network = Network::new(PrefixPreference::CareOf);
    network.attach(WIFI, "2001:db8:1::/64");
    network.wait(260);
    assert!(network.last().contains_key(&net("2001:db8:1::/64")));
    // The first answer to the node: the router of the visited link solicits it.
    network.receive(WIFI, "fe80::1", solicitation("2001:db8:1::9"));
    assert_eq!(network.neighbour_solicitations.last(), Some(&(LAN, ip("2001:db8:1::9"))));
    network.receive(LAN, "2001:db8:1::9", defence("2001:db8:1::9"));
    let route = Key::Route(RouteTable::MAIN, net("2001:db8:1::9/128"), Prefix::ALL, 256);
    assert!(network.bench.plan.find(&route).is_some());
    assert!(network.bench.plan.find(&Key::ProxyNeighbour(WIFI, ip("2001:db8:1::9"))).is_some());
    assert_eq!(network.answers, [ip("2001:db8:1::9")], "the router does not wait for its next solicitation");
    // An upstream node has the address: it is no longer downstream.
    network.receive(WIFI, "2001:db8:1::9", defence("2001:db8:1::9"));
    assert!(network.bench.plan.find(&route).is_none());
    assert_eq!(network.neighbour_advertisements, [(LAN, ip("2001:db8:1::9"))]);
}

/// The router of the visited link has an entry for the node, and solicits it no more: the way back stands at once.
#[test]
fn node_of_an_earlier_visit_is_reached_at_once() {
    let mut network = Network::new(PrefixPreference::CareOf);
    network.attach(WIFI, "2001:db8:1::/64");
    network.wait(300);
    network.receive(WIFI, "fe80::1", solicitation("2001:db8:1::9"));
    network.receive(LAN, "2001:db8:1::9", defence("2001:db8:1::9"));
    network.detach(WIFI);
    network.wait(5000);
    let proxied = Key::ProxyNeighbour(WIFI, ip("2001:db8:1::9"));
    assert!(network.bench.plan.find(&proxied).is_none());
    network.attach(WIFI, "2001:db8:1::/64");
    network.wait(260);
    assert_eq!(network.neighbour_solicitations.last(), Some(&(LAN, ip("2001:db8:1::9"))));
    network.neighbour_advertisements.clear();
    network.receive(LAN, "2001:db8:1::9", defence("2001:db8:1::9"));
    assert!(network.bench.plan.find(&proxied).is_some());
    assert_eq!(
        network.neighbour_advertisements,
        [(WIFI, ip("2001:db8:1::9"))],
        "the router may know another interface"
    );
}

/// An offer delays sharing for one and a half seconds, and not for longer.
#[test]
fn visited_link_is_shared_while_a_server_does_not_grant_its_offer() {
    let mut network = Network::new(PrefixPreference::CareOf);
    network.servers.insert(WIFI, vec![("2001:db8:a00::/56", 1000, 500)]);
    network.offers_only = true;
    network.attach(WIFI, "2001:db8:1::/64");
    network.wait(1450);
    assert!(!network.last().contains_key(&net("2001:db8:1::/64")));
    network.wait(100);
    assert!(network.last()[&net("2001:db8:1::/64")].1 > 0);
    assert_eq!(network.events(), ["link 2: prefix 2001:db8:1::/64 shared, bid 1"]);
    // The lease comes, and replaces it.
    network.offers_only = false;
    network.wait(60_000);
    assert_eq!(network.last()[&net("2001:db8:1::/64")], (0, 0, false), "withdrawn");
    assert!(network.last()[&net("2001:db8:a00::/64")].1 > 0);
}

#[test]
fn nd_proxy_serves_a_shared_prefix_after_a_lease_has_replaced_it() {
    let mut network = Network::new(PrefixPreference::CareOf);
    network.attach(WIFI, "2001:db8:1::/64");
    network.wait(700);
    network.receive(LAN, "::", solicitation("2001:db8:1::9"));
    network.wait(1000);
    let proxied = Key::ProxyNeighbour(WIFI, ip("2001:db8:1::9"));
    assert!(network.bench.plan.find(&proxied).is_some());
    network.servers.insert(WIFI, vec![("2001:db8:a00::/56", 1000, 500)]);
    network.wait(60_000);
    assert_eq!(network.last()[&net("2001:db8:1::/64")], (0, 0, false), "withdrawn");
    assert!(network.last()[&net("2001:db8:a00::/64")].1 > 0);
    assert!(!network.advertisements.last().unwrap().1.proxy, "a router inside may share the delegated prefix");
    let events = network.events();
    assert_eq!(events.len(), 3, "shared, delegated, lost: {events:?}");
    assert!(network.bench.plan.find(&proxied).is_some(), "connections of the node continue");
    assert!(network.has_rule(1105, "2001:db8:1::/64", "::/0"));
    assert!(network.source_filter().allowed.contains(&net("2001:db8:1::/64")));
    assert!(network.former_prefix_routes().is_empty());
    // The lease ends, and the link is shared as before.
    network.servers.remove(&WIFI);
    network.wait(1_100_000);
    assert!(network.last()[&net("2001:db8:1::/64")].1 > 0 && network.advertisements.last().unwrap().1.proxy);
    network.detach(WIFI);
    assert!(network.bench.plan.find(&proxied).is_none());
}

/// The nodes of an earlier visit are served also if a server delegates at once this time.
#[test]
fn nd_proxy_serves_nodes_of_an_earlier_visit_beside_a_lease() {
    let mut network = Network::new(PrefixPreference::CareOf);
    network.attach(WIFI, "2001:db8:1::/64");
    network.wait(700);
    assert!(network.last()[&net("2001:db8:1::/64")].1 > 0);
    // The link is left before duplicate address detection of the node's address has ended.
    network.receive(LAN, "::", solicitation("2001:db8:1::9"));
    network.detach(WIFI);
    network.wait(5000);
    network.events();
    network.servers.insert(WIFI, vec![("2001:db8:a00::/56", 1000, 500)]);
    network.attach(WIFI, "2001:db8:1::/64");
    network.wait(1000);
    assert_eq!(network.last()[&net("2001:db8:1::/64")], (0, 0, false), "withdrawn");
    assert!(network.last()[&net("2001:db8:a00::/64")].1 > 0 && !network.advertisements.last().unwrap().1.proxy);
    // The node solicits this router's link-layer address.
    network.receive(LAN, "2001:db8:1::9", solicitation("fe80::1"));
    network.wait(1000);
    assert!(network.bench.plan.find(&Key::ProxyNeighbour(WIFI, ip("2001:db8:1::9"))).is_some());
    assert!(network.has_rule(1105, "2001:db8:1::/64", "::/0"));
    assert!(network.source_filter().allowed.contains(&net("2001:db8:1::/64")));
    assert_eq!(network.events().len(), 1, "delegated; nothing is shared again");
    network.detach(WIFI);
    assert!(!network.has_rule(1105, "2001:db8:1::/64", "::/0"));
}

#[test]
fn full_nd_proxy_table_is_reported() {
    let mut network = Network::new(PrefixPreference::CareOf);
    network.attach(WIFI, "2001:db8:1::/64");
    network.wait(5000);
    for last in 0..2000_u32 {
        let address = format!("2001:db8:1::1:{last:x}");
        let [_, _, high, low] = last.to_be_bytes();
        let event = NeighbourEvent {
            link: LAN,
            address: ip(&address),
            link_address: Some(LinkAddress([2, 0, 0, 2, high, low])),
            reachable: true,
        };
        let outputs = network.bench.feed(Input::Neighbour(event));
        network.apply(outputs);
    }
    network.wait(1000);
    let proxies = network.bench.plan.iter().filter(|(key, _)| matches!(key, Key::ProxyNeighbour(WIFI, _))).count();
    assert_eq!(proxies, 64);
    assert_eq!(network.reports.iter().filter(|report| report.name() == "table_full").count(), 1);
    assert!(
        network.neighbour_solicitations.iter().filter(|(link, _)| *link == WIFI).count() < 64,
        "the visited link is not flooded"
    );
}

/// The Router Advertisement of an ND proxy.
fn proxy_advertisement(prefix: &str) -> icmp6::Message {
    icmp6::Message::RouterAdvertisement(RouterAdvertisement {
        proxy: true,
        lifetime: 1800,
        options: vec![information(prefix)],
        ..RouterAdvertisement::default()
    })
}

/// A node that was not known when the prefix was withdrawn gets ICMPv6 errors once it has sent a packet.
#[test]
fn nodes_of_a_withdrawn_prefix_are_learned() {
    let mut network = Network::new(PrefixPreference::CareOf);
    network.attach(WIFI, "2001:db8:1::/64");
    network.wait(700);
    assert!(network.last()[&net("2001:db8:1::/64")].1 > 0);
    network.receive(LAN, "::", solicitation("2001:db8:1::9"));
    network.receive(WIFI, "fe80::99", proxy_advertisement("2001:db8:1::/64"));
    assert_eq!(network.last()[&net("2001:db8:1::/64")].1, 0);
    assert!(network.former_prefix_routes().is_empty());
    network.receive(WIFI, "2001:db8:1::8", solicitation("2001:db8:1::9"));
    assert!(network.former_prefix_routes().is_empty(), "upstream");
    network.receive(LAN, "2001:db8:1::9", solicitation("fe80::1"));
    assert_eq!(network.former_prefix_routes(), [net("2001:db8:1::9/128")]);
    for last in 0x100..0x200 {
        network.receive(LAN, &format!("2001:db8:1::{last:x}"), solicitation("fe80::1"));
    }
    assert_eq!(network.former_prefix_routes().len(), 64, "bounded");
}

#[test]
fn nd_proxies_are_not_chained() {
    // The router of the visited link is a proxy itself.
    let mut network = Network::new(PrefixPreference::CareOf);
    let outputs = network.bench.link(WIFI, true);
    network.apply(outputs);
    network.receive(WIFI, "fe80::1", proxy_advertisement("2001:db8:1::/64"));
    network.wait(30_000);
    assert!(!network.last().contains_key(&net("2001:db8:1::/64")));
    // Another proxy has both links too; its advertisement is received on the ingress link, then on the uplink.
    for side in [LAN, WIFI] {
        let mut network = Network::new(PrefixPreference::CareOf);
        network.attach(WIFI, "2001:db8:1::/64");
        network.wait(5000);
        assert!(network.last()[&net("2001:db8:1::/64")].1 > 0);
        network.receive(LAN, "::", solicitation("2001:db8:1::9"));
        network.wait(1100);
        network.receive(side, "fe80::99", proxy_advertisement("2001:db8:1::/64"));
        assert_eq!(network.former_prefix_routes(), [net("2001:db8:1::9/128")], "all other addresses are on the uplink");
        assert_eq!(network.last()[&net("2001:db8:1::/64")].1, 0, "{side}");
        assert!(!network.advertisements.last().unwrap().1.proxy);
        assert!(!network.has_rule(1105, "2001:db8:1::/64", "::/0"));
        network.wait(600_000);
        assert!(!network.last().contains_key(&net("2001:db8:1::/64")), "{side}: not for an hour");
    }
}

#[test]
fn two_nd_proxies_between_the_same_links_form_no_loop() {
    let receive = |network: &mut Network, advertisements: &[(Time, RouterAdvertisement)]| {
        for (_, message) in advertisements {
            network.receive(LAN, "fe80::77", icmp6::Message::RouterAdvertisement(message.clone()));
        }
    };
    let (mut first, mut second) = (Network::new(PrefixPreference::CareOf), Network::new(PrefixPreference::CareOf));
    for network in [&mut first, &mut second] {
        network.bench.router.config.prefixes = vec![net("2001:db8:e00::/56")];
        network.attach(WIFI, "2001:db8:1::/64");
    }
    for _ in 0..3000 {
        first.wait(10);
        second.wait(10);
        let of_first = std::mem::take(&mut first.advertisements);
        let of_second = std::mem::take(&mut second.advertisements);
        receive(&mut first, &of_second);
        receive(&mut second, &of_first);
        first.advertisements.extend(of_first);
        second.advertisements.extend(of_second);
        let both = [&first, &second].iter().all(|network| network.has_rule(1105, "2001:db8:1::/64", "::/0"));
        assert!(!both, "both relay at {}", first.bench.now);
    }
}

#[test]
fn point_to_point_prefix_is_shared_without_nd_proxy() {
    let mut network = Network::new(PrefixPreference::CareOf);
    let event = LinkEvent { link: WIFI, name: "wifi".to_owned(), address: None, up: true, mtu: 1500 };
    let mut outputs = network.bench.feed(Input::Link(event));
    outputs.extend(network.bench.advertise(WIFI, "2001:db8:1::/64"));
    network.apply(outputs);
    network.wait(1000);
    assert_eq!(network.last()[&net("2001:db8:1::/64")], (120, 60, true));
    assert!(!network.advertisements.last().unwrap().1.proxy && network.dhcp_requests.is_empty());
    let route = Key::Route(RouteTable::MAIN, net("2001:db8:1::/64"), Prefix::ALL, 256);
    assert!(
        matches!(network.bench.plan.find(&route), Some(Item::Route(route)) if route.target == NextHop::OnLink(LAN))
    );
    let own = network.bench.router.uplinks[0].care_of_address.as_ref().unwrap().address.0;
    assert!(network.bench.plan.find(&Key::ProxyNeighbour(LAN, own)).is_some(), "the own address is defended");
    let length = |item: Option<&Item>| match item {
        Some(Item::Address(address)) => address.prefix_length,
        other => panic!("{other:?}"),
    };
    assert_eq!(length(network.bench.plan.find(&Key::Address(WIFI, own))), 128);
}
