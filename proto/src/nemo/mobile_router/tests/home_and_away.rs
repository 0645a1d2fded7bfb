//! At home by one uplink and away by the other.

use super::*;
use crate::contract::config::nemo::ProbeConfig;
use crate::contract::input::AddressState;
use roam6_wire::icmp6::Echo;

const HOME: &str = "2001:db8::100";
const ON_CELL: &str = "2001:db8:2::ff:fe00:3";

fn both() -> MobileRouterConfig {
    MobileRouterConfig { load_sharing: LoadSharing::Standby, home_and_away: true, ..config() }
}

/// Bound on one uplink; then the other attaches to the home link. The update that registers both.
fn attach_home_too(config: MobileRouterConfig) -> (TestBed, Update) {
    let mut bench = TestBed::new(config);
    bench.link(LAN, true);
    bench.attach(CELL, "2001:db8:2::/64");
    bench.now = at(3000);
    bench.link(WIFI, true);
    let update = update(&bench.advertise_home(true));
    (bench, update)
}

/// Bound like this, the home agent going on to answer for the home address.
fn bound(config: MobileRouterConfig) -> TestBed {
    let (mut bench, update) = attach_home_too(config);
    bench.acknowledge(&update, Status::MCOA_RETURN_HOME_WITHOUT_NDP);
    bench
}

/// Identifier, home address, flag of each option.
fn bid_options(update: &Update) -> Vec<(u16, CareOfField, bool)> {
    let identifiers = update.bid_options();
    identifiers.iter().map(|option| (option.bid.0, option.care_of, option.simultaneous_home)).collect()
}

#[test]
fn home_link_becomes_a_direct_path() {
    let (mut bench, update) = attach_home_too(both());
    assert_eq!((update.via, update.source), (Via::Link(CELL), ip(ON_CELL)));
    let field = |address| CareOfField::V6(ip(address));
    assert_eq!(bid_options(&update), [(1, field(HOME), true), (2, field(ON_CELL), false)]);
    let own = MobilityOption::LinkLayerAddress { code: 2, address: vec![2, 0, 0, 0, 0, WIFI.0 as u8] };
    assert!(update.message.options.contains(&own), "{:?}", update.message.options);
    assert_eq!(bench.paths(), [(ip(ON_CELL), 1), (ip(HOME), 0)]);

    bench.acknowledge(&update, Status::MCOA_RETURN_HOME_WITHOUT_NDP);
    assert_eq!(bench.paths(), [(ip(HOME), 1), (ip(ON_CELL), 0)], "by priority");
    let path = bench.tunnel().unwrap().paths[0].clone();
    assert_eq!((path.direct, path.link, path.remote, path.mtu), (true, Some(WIFI), ROUTER_MAC.link_local(), 1500));
    assert!(bench.plan.find(&Key::Neighbour(WIFI, path.remote)).is_some());
    assert_eq!(bench.default_route(), Some(NextHop::Tunnel(TunnelId(1))));
    assert!(bench.home_address_on(LAN) && !bench.home_address_on(WIFI), "the home agent defends it");
    assert!(updates(&bench.wait(40_000)).is_empty());
}

#[test]
fn leaving_home_sends_one_update() {
    let mut bench = bound(both());
    bench.now = at(9000);
    let outputs = bench.link(WIFI, false);
    assert_eq!(bench.paths(), [(ip(ON_CELL), 1)], "at once, without NUD");
    let update = update(&outputs);
    assert_eq!(bid_options(&update), [(2, CareOfField::V6(ip(ON_CELL)), false)]);
    bench.acknowledge(&update, Status::ACCEPTED);
    assert!(bench.plan.find(&Key::Neighbour(WIFI, ROUTER_MAC.link_local())).is_none());
}

#[test]
fn loss_of_last_visited_uplink_keeps_home_link() {
    let mut bench = bound(both());
    bench.now = at(9000);
    let update = update(&bench.link(CELL, false));
    assert_eq!(bench.paths(), [(ip(HOME), 1)], "at once");
    assert_eq!((update.source, bid_options(&update)), (ip(HOME), vec![(1, CareOfField::V6(ip(HOME)), true)]));
    assert_eq!(update.via, Via::Neighbour { link: WIFI, address: ROUTER_MAC }, "over the home link");
    assert!(update.message.lifetime_units > 0);
    bench.acknowledge(&update, Status::MCOA_RETURN_HOME_WITHOUT_NDP);
    assert!(!bench.home_address_on(WIFI), "it is registered as a path, although it is the only one");
    assert_eq!(bench.default_route(), Some(NextHop::Tunnel(TunnelId(1))));
    let refresh = super::update(&bench.wait(54_500));
    assert_eq!(bid_options(&refresh).len(), 1);
    bench.acknowledge(&refresh, Status::MCOA_RETURN_HOME_WITHOUT_NDP);
    bench.link(CELL, true);
    let back = super::update(&bench.advertise(CELL, "2001:db8:2::/64"));
    assert_eq!((back.source, bid_options(&back).len()), (ip(ON_CELL), 2));
}

#[test]
fn visited_uplink_is_registered_from_home() {
    let mut bench = TestBed::new(MobileRouterConfig { authentication: Authentication::None, ..both() });
    bench.link(LAN, true);
    bench.link(WIFI, true);
    bench.advertise_home(true);
    bench.wait(3000);
    assert!(bench.home_address_on(WIFI));
    bench.link(CELL, true);
    let update = update(&bench.advertise(CELL, "2001:db8:2::/64"));
    assert_eq!(bid_options(&update).len(), 2);
    assert!(!bench.home_address_on(WIFI), "no node defends it before the acknowledgement");
    assert_eq!(
        bench.default_route(),
        Some(NextHop::Gateway { link: WIFI, router: ip("fe80::a") }),
        "forwarding continues meanwhile"
    );
    bench.acknowledge(&update, Status::MCOA_RETURN_HOME_WITHOUT_NDP);
    assert_eq!(bench.default_route(), Some(NextHop::Tunnel(TunnelId(1))));
    assert_eq!(bench.paths(), [(ip(HOME), 1), (ip(ON_CELL), 0)]);
}

#[test]
fn home_address_is_defended_if_home_agent_does_not() {
    let (mut bench, update) = attach_home_too(both());
    assert!(!bench.home_address_on(WIFI));
    bench.acknowledge(&update, Status::ACCEPTED);
    assert!(bench.home_address_on(WIFI));
    assert_eq!(bench.paths(), [(ip(HOME), 1), (ip(ON_CELL), 0)]);
}

#[test]
fn rejected_home_and_away_returns_home() {
    let (mut bench, first) = attach_home_too(both());
    let update = update(&bench.acknowledge(&first, Status::MCOA_SIMULTANEOUS_PROHIBITED));
    assert_eq!((update.source, update.message.lifetime_units), (ip(HOME), 0));
    bench.acknowledge(&update, Status::ACCEPTED);
    assert!(bench.home_address_on(WIFI));

    let (mut bench, first) = attach_home_too(both());
    let sequence = first.message.sequence;
    let outputs = bench.acknowledge_with(&first, Status::ACCEPTED, AckFlags::ROUTER, sequence, Vec::new());
    assert_eq!(super::update(&outputs).source, ip(HOME), "it does not support BIDs (RFC 5648 §6.3)");
}

#[test]
fn return_home_deregisters_unless_home_and_away() {
    let (_, update) = attach_home_too(MobileRouterConfig { load_sharing: LoadSharing::Standby, ..config() });
    assert_eq!((update.source, update.message.lifetime_units), (ip(HOME), 0));
}

#[test]
fn black_hole_on_home_link_is_detected() {
    let probe = Some(ProbeConfig {
        interval: core::time::Duration::from_millis(200),
        down_after: 3,
        up_after: 5,
        burst: false,
        idle: None,
        standby: None,
    });
    let mut bench = bound(MobileRouterConfig { probe, ..both() });
    let mut update_without = None;
    while update_without.is_none() && bench.now < at(6000) {
        bench.now = bench.router.deadline().unwrap();
        let outputs = bench.feed(Input::Tick);
        update_without = updates(&outputs).first().cloned();
        for transmit in transmits(&outputs) {
            let datagram = Datagram::parse(&transmit.bytes).unwrap();
            if datagram.protocol == protocol::ICMPV6 && datagram.source == ip(HOME) {
                assert_eq!(transmit.via, Via::Neighbour { link: WIFI, address: ROUTER_MAC });
            }
            let Ok(inner) = Datagram::parse(datagram.payload) else { continue };
            if let (protocol::IPV6, Ok(icmp6::Message::EchoRequest(echo))) =
                (datagram.protocol, icmp6::Message::parse(&inner))
            {
                bench.echo_reply(echo);
            }
        }
    }
    assert_eq!(bid_options(&update_without.unwrap()), [(2, CareOfField::V6(ip(ON_CELL)), false)]);
    assert_eq!(bench.paths()[0], (ip(ON_CELL), 1));
}

#[test]
fn ipv4_uplink_is_registered_beside_the_home_link() {
    let agents = vec![core::net::Ipv4Addr::new(203, 0, 113, 1)];
    let mut bench = TestBed::new(MobileRouterConfig { home_agents_ipv4: agents, ..both() });
    bench.link(LAN, true);
    bench.link(WIFI, true);
    let returned = update(&bench.advertise_home(true));
    bench.acknowledge(&returned, Status::ACCEPTED);
    bench.wait(2000);
    bench.link(CELL, true);
    let own = core::net::Ipv4Addr::new(10, 0, 0, 2);
    let (link, address) = (CELL, own.to_ipv6_mapped());
    bench.feed(Input::Address(crate::AddressEvent { link, address, state: AddressState::Preferred }));
    // No advertisement of an IPv6 router for half a second.
    let over_home = update(&bench.wait(2600));
    let home = (1, CareOfField::V6(ip(HOME)), true);
    assert_eq!((over_home.ends, bid_options(&over_home)), (None, vec![home]));
    assert_eq!(over_home.via, Via::Neighbour { link: WIFI, address: ROUTER_MAC });
    let outputs = bench.acknowledge(&over_home, Status::MCOA_RETURN_HOME_WITHOUT_NDP);
    assert_eq!(bench.paths()[0], (ip(HOME), 1));

    let first = update(&outputs);
    assert_eq!(first.via, Via::Link(CELL));
    assert_eq!(bid_options(&first), [home, (2, CareOfField::V4(own), false)]);
    assert!(!first.message.flags.contains(UpdateFlags::OVERWRITE), "the home link stays");
    // The home link carries packets, whether or not the home agent answers over IPv4.
    let repeated = updates(&bench.wait(8000));
    assert!((1..=5).contains(&repeated.len()) && repeated.iter().all(|update| update.ends.is_some()));
    assert_eq!(bench.paths()[0], (ip(HOME), 1));

    let last = repeated.last().unwrap();
    bench.acknowledge(last, Status::MCOA_RETURN_HOME_WITHOUT_NDP);
    let (end, _) = last.ends.unwrap();
    assert_eq!(bench.paths(), [(ip(HOME), 1), (end.to_ipv6(), 0)], "by priority");
    bench.link(WIFI, false);
    assert_eq!(bench.paths()[0], (end.to_ipv6(), 1), "at once");
}

impl TestBed {
    fn echo_reply(&mut self, echo: Echo) {
        let (source, destination) = (ip("2001:db8::1"), ip(HOME));
        let message = icmp6::Message::EchoReply(echo).emit(source, destination);
        let bytes = ip6::emit(&Header::new(source, destination), protocol::ICMPV6, &message);
        self.feed(Input::Packet(Packet { link: CELL, sender: Some(ROUTER_MAC), bytes }));
    }
}
