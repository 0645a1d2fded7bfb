//! Coming home, being there, and leaving again.

use super::*;
use crate::contract::input::{AddressEvent, AddressState};
use crate::contract::report::{LinkReport, NemoReport};

const CARE_OF: &str = "2001:db8:1::ff:fe00:2";

impl TestBed {
    /// The home agent advertises the home link.
    pub(super) fn advertise_home(&mut self, router: bool) -> Vec<Output> {
        let mut prefix = information("2001:db8::/64");
        if let NeighbourOption::PrefixInformation { address, router_address, .. } = &mut prefix {
            *address = ip("2001:db8::1");
            *router_address = router;
        }
        let message = icmp6::Message::RouterAdvertisement(RouterAdvertisement {
            home_agent: router,
            lifetime: 1800,
            options: vec![NeighbourOption::SourceLinkAddress(ROUTER_MAC), prefix],
            ..RouterAdvertisement::default()
        });
        self.neighbour(WIFI, ip("fe80::a"), icmp6::ALL_NODES, &message)
    }

    /// Where packets from the mobile network go.
    pub(super) fn default_route(&self) -> Option<NextHop> {
        match self.plan.find(&Key::Route(RouteTable(6_275_000), Prefix::ALL, Prefix::ALL, 512))? {
            Item::Route(route) => Some(route.target),
            _ => None,
        }
    }

    pub(super) fn home_address_on(&self, link: LinkId) -> bool {
        self.plan.find(&Key::Address(link, ip("2001:db8::100"))).is_some()
    }
}

#[test]
fn return_home_deregisters_before_announcing_the_home_address() {
    let mut bench = TestBed::new(config());
    bench.link(LAN, true);
    bench.attach(WIFI, "2001:db8:1::/64");
    assert!(bench.home_address_on(LAN) && !bench.home_address_on(WIFI));
    bench.now = at(3000);
    bench.link(WIFI, false);
    bench.link(WIFI, true);
    let outputs = bench.advertise_home(true);
    let update = update(&outputs);
    assert_eq!(update.via, Via::Neighbour { link: WIFI, address: ROUTER_MAC });
    assert_eq!((update.source, update.message.lifetime_units), (ip("2001:db8::100"), 0));
    assert!(update.message.flags.router() && update.care_of().is_empty());
    assert!(bench.home_address_on(WIFI) && !bench.home_address_on(LAN), "it defends the home address from now on");
    let outputs = bench.acknowledge(&update, Status::ACCEPTED);
    assert!(reports(&outputs).contains(&&Report::Nemo(NemoReport::AtHome { link: WIFI })));
    let announcement = |target| {
        icmp6::Message::NeighbourAdvertisement(NeighbourAdvertisement {
            router: true,
            solicited: false,
            overrides: true,
            target: ip(target),
            options: vec![NeighbourOption::TargetLinkAddress(LinkAddress([2, 0, 0, 0, 0, 2]))],
        })
    };
    assert_eq!(messages(&outputs), ["2001:db8::100", "fe80::ff:fe00:2"].map(announcement), "RFC 6275 §11.5.5");
    assert_eq!(bench.default_route(), Some(NextHop::Gateway { link: WIFI, router: ip("fe80::a") }));
    assert!(bench.paths().is_empty());
    assert!(updates(&bench.wait(200_000)).is_empty(), "at home there is no binding to refresh");

    bench.link(WIFI, false);
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    let away = super::update(&outputs);
    assert_eq!((away.source, away.message.lifetime_units), (ip(CARE_OF), 15));
    assert_eq!(bench.paths(), [(ip(CARE_OF), 1)], "it served us before");
    assert!(bench.home_address_on(LAN) && !bench.home_address_on(WIFI));
    bench.acknowledge(&away, Status::ACCEPTED);
    assert_eq!((bench.default_route(), bench.paths()), (Some(NextHop::Tunnel(TunnelId(1))), vec![(ip(CARE_OF), 1)]));
}

#[test]
fn home_address_is_announced_again_once_the_kernel_has_it() {
    let mut bench = TestBed::new(config());
    bench.link(LAN, true);
    bench.attach(WIFI, "2001:db8:1::/64");
    bench.now = at(3000);
    bench.link(WIFI, false);
    bench.link(WIFI, true);
    let update = update(&bench.advertise_home(true));
    let assigned = |bench: &mut TestBed, link, address| {
        let state = AddressState::Preferred;
        messages(&bench.feed(Input::Address(AddressEvent { link, address: ip(address), state })))
    };
    assert_eq!(assigned(&mut bench, WIFI, "2001:db8::100"), [], "the home agent still defends it");
    let announcements = messages(&bench.acknowledge(&update, Status::ACCEPTED));
    assert_eq!(announcements.len(), 2);
    assert_eq!(assigned(&mut bench, WIFI, "2001:db8::100"), announcements);
    assert_eq!(assigned(&mut bench, LAN, "2001:db8::100"), []);
    assert_eq!(assigned(&mut bench, WIFI, "fe80::ff:fe00:2"), []);
}

#[test]
fn return_home_keeps_tunnel_until_acknowledged() {
    let mut bench = TestBed::new(config());
    bench.attach(CELL, "2001:db8:2::/64");
    bench.now = at(3000);
    bench.link(WIFI, true);
    let update = update(&bench.advertise_home(true));
    assert_eq!(bench.default_route(), Some(NextHop::Tunnel(TunnelId(1))));
    assert_eq!(bench.paths(), [(ip("2001:db8:2::ff:fe00:3"), 1)]);
    bench.acknowledge(&update, Status::ACCEPTED);
    assert_eq!(bench.default_route(), Some(NextHop::Gateway { link: WIFI, router: ip("fe80::a") }));
    assert_eq!(bench.paths(), [(ip("2001:db8:2::ff:fe00:3"), 0)]);
    bench.wait(8001);
    assert!(bench.paths().is_empty());
}

#[test]
fn home_agent_is_found_by_its_neighbour_advertisement() {
    let mut bench = TestBed::new(config());
    bench.attach(WIFI, "2001:db8:1::/64");
    bench.now = at(3000);
    bench.link(WIFI, false);
    bench.link(WIFI, true);
    let outputs = bench.advertise_home(false);
    let target = ip("2001:db8::100");
    let ask = icmp6::Message::NeighbourSolicitation(NeighbourSolicitation { target, options: Vec::new() });
    assert_eq!(messages(&outputs), [ask]);
    let defender = LinkAddress([2, 0, 0, 0, 9, 9]);
    let defence = icmp6::Message::NeighbourAdvertisement(NeighbourAdvertisement {
        router: true,
        solicited: false,
        overrides: true,
        target,
        options: vec![NeighbourOption::TargetLinkAddress(defender)],
    });
    let outputs = bench.neighbour(WIFI, ip("2001:db8::1"), icmp6::ALL_NODES, &defence);
    assert_eq!(update(&outputs).via, Via::Neighbour { link: WIFI, address: defender });
}

#[test]
fn undefended_home_address_is_used_without_deregistration() {
    let mut bench = TestBed::new(config());
    bench.attach(WIFI, "2001:db8:1::/64");
    bench.now = at(3000);
    bench.link(WIFI, false);
    bench.link(WIFI, true);
    bench.advertise_home(false);
    let outputs = bench.wait(6000);
    assert!(reports(&outputs).contains(&&Report::Nemo(NemoReport::AtHome { link: WIFI })));
    assert!(bench.home_address_on(WIFI));
}

#[test]
fn first_start_at_home_sends_no_update() {
    let config = MobileRouterConfig { authentication: Authentication::None, ..config() };
    let mut bench = TestBed::new(config);
    bench.link(WIFI, true);
    let outputs = bench.advertise_home(true);
    assert!(updates(&outputs).is_empty());
    assert!(reports(&outputs).contains(&&Report::Nemo(NemoReport::AtHome { link: WIFI })));
    assert!(bench.home_address_on(WIFI));
    assert_eq!(bench.default_route(), Some(NextHop::Gateway { link: WIFI, router: ip("fe80::a") }));
}

#[test]
fn deregistration_answered_with_133_completes_return_home() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    let update = update(&bench.advertise_home(true));
    let outputs = bench.acknowledge(&update, Status::NOT_HOME_AGENT);
    assert!(reports(&outputs).contains(&&Report::Nemo(NemoReport::AtHome { link: WIFI })));
    assert_eq!(bench.default_route(), Some(NextHop::Gateway { link: WIFI, router: ip("fe80::a") }));
}

fn defence(defender: LinkAddress) -> icmp6::Message {
    icmp6::Message::NeighbourAdvertisement(NeighbourAdvertisement {
        router: true,
        solicited: false,
        overrides: true,
        target: ip("2001:db8::100"),
        options: vec![NeighbourOption::TargetLinkAddress(defender)],
    })
}

#[test]
fn undefended_home_address_is_checked_by_dad() {
    let mut bench = TestBed::new(config());
    bench.link(LAN, true);
    bench.attach(WIFI, "2001:db8:1::/64");
    bench.now = at(3000);
    bench.link(WIFI, false);
    bench.link(WIFI, true);
    let update = update(&bench.advertise_home(true));
    let outputs = bench.acknowledge(&update, Status::NOT_HOME_AGENT);
    let target = ip("2001:db8::100");
    let check = icmp6::Message::NeighbourSolicitation(NeighbourSolicitation { target, options: Vec::new() });
    assert_eq!(messages(&outputs), [check]);
    assert!(bench.home_address_on(WIFI), "used beside the check");
    let other = defence(LinkAddress([2, 0, 0, 0, 9, 9]));
    let outputs = bench.neighbour(WIFI, target, icmp6::ALL_NODES, &other);
    assert!(reports(&outputs).contains(&&Report::Link(LinkReport::DuplicateAddress { link: WIFI, address: target })));
    assert!(!bench.home_address_on(WIFI));
    assert!(updates(&bench.wait(60_000)).is_empty());
}

#[test]
fn defended_home_address_is_deregistered_without_journal() {
    let mut bench = TestBed::new(MobileRouterConfig { authentication: Authentication::None, ..config() });
    bench.link(WIFI, true);
    assert_eq!(messages(&bench.advertise_home(true)).len(), 1, "the check");
    let outputs = bench.neighbour(WIFI, ip("2001:db8::1"), icmp6::ALL_NODES, &defence(ROUTER_MAC));
    let update = update(&outputs);
    assert_eq!((update.via, update.message.lifetime_units), (Via::Neighbour { link: WIFI, address: ROUTER_MAC }, 0));
}

#[test]
fn non_optimistic_dad_delays_the_home_address() {
    let wait = DadMode::Wait;
    let mut bench = TestBed::new(MobileRouterConfig { duplicate_detection: wait, ..config() });
    bench.link(WIFI, true);
    let update = update(&bench.advertise_home(true));
    bench.acknowledge(&update, Status::NOT_HOME_AGENT);
    assert!(!bench.home_address_on(WIFI));
    bench.wait(1000);
    assert!(bench.home_address_on(WIFI));
}

#[test]
fn first_registration_after_home_uses_first_timeout() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    let update = update(&bench.advertise_home(true));
    bench.acknowledge(&update, Status::ACCEPTED);
    bench.link(WIFI, false);
    bench.link(WIFI, true);
    assert_eq!(updates(&bench.advertise(WIFI, "2001:db8:1::/64")).len(), 1);
    assert!(updates(&bench.wait(1499)).is_empty());
    assert_eq!(updates(&bench.wait(1501)).len(), 1);
}
