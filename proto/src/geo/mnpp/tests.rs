//! Two vehicles that meet and part, and one that forges announcements.

use super::neighbours::MAX_ROUTERS;
use super::*;
use crate::contract::command::{LifecycleCommand, MnppCommand};
use crate::contract::config::mnpp::{AcceptanceRule, MnppConfig};
use crate::contract::config::nemo::SharedKey;
use crate::contract::input::AddressState;
use crate::contract::report::HostReport;
use crate::{Clock, Output, Put, Report};
use std::collections::{BTreeMap, BTreeSet};

const LINK: LinkId = LinkId(7);
const UNIX: u64 = 1_790_000_000_000_000;

fn key(spi: u32) -> SharedKey {
    SharedKey { spi, secret: vec![spi as u8; 20] }
}

fn mac(number: u8) -> LinkAddress {
    LinkAddress([2, 0, 0, 0, 0, number])
}

fn network(number: u8) -> Prefix {
    format!("2001:db8:{number}00::/56").parse().unwrap()
}

fn config(number: u8) -> MnppConfig {
    MnppConfig {
        interfaces: ["gn0".to_owned()].into(),
        announced: vec![network(number)],
        key: Some(key(300)),
        accepted: vec![AcceptanceRule { key: Some(key(300)), prefixes: vec!["2001:db8::/32".parse().unwrap()] }],
        interval: Duration::from_secs(1),
    }
}

/// A router, and the items it has put.
struct Car {
    engine: Mnpp,
    number: u8,
    routes: BTreeMap<Prefix, NextHop>,
    /// Networks with a tunnel bypass.
    shortcuts: BTreeSet<Prefix>,
    neighbours: usize,
    rules: usize,
    drops: Vec<DropReason>,
}

impl Car {
    fn new(config: MnppConfig, number: u8) -> Car {
        let engine = Mnpp::new(config, Entropy::seed_from_u64(number.into()));
        let (routes, shortcuts, drops) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        Car { engine, number, routes, shortcuts, neighbours: 0, rules: 0, drops }
    }
}

/// Vehicles within or out of radio range of one another.
struct Street {
    now: Time,
    cars: Vec<Car>,
    near: bool,
    sent: Vec<Packet>,
}

impl Street {
    fn of(configs: Vec<MnppConfig>) -> Street {
        let mut street = Street { now: Time::from_micros(1_000), cars: Vec::new(), near: true, sent: Vec::new() };
        for (config, number) in configs.into_iter().zip(1..) {
            street.cars.push(Car::new(config, number));
            let index = street.cars.len() - 1;
            street.feed(index, &Input::Clock(Clock { unix_micros: UNIX }));
            street.up(index, true);
            let (address, state) = (mac(number).link_local(), AddressState::Preferred);
            street.feed(index, &Input::Address(AddressEvent { link: LINK, address, state }));
        }
        street
    }

    fn pair() -> Street {
        let mut street = Street::of(vec![config(1), config(2)]);
        street.run(Duration::from_secs(3));
        street
    }

    fn up(&mut self, car: usize, up: bool) {
        let address = Some(mac(self.cars[car].number));
        self.feed(car, &Input::Link(LinkEvent { link: LINK, name: "gn0".to_owned(), address, up, mtu: 1398 }));
    }

    fn feed(&mut self, car: usize, input: &Input) {
        let mut out = Outbox::new();
        self.cars[car].engine.handle(self.now, input, &mut out);
        for output in out.drain().collect::<Vec<_>>() {
            self.take(car, output);
        }
        let Car { routes, shortcuts, .. } = &self.cars[car];
        assert!(shortcuts.iter().eq(routes.keys()), "{shortcuts:?}");
    }

    fn take(&mut self, car: usize, output: Output) {
        let sender = Some(mac(self.cars[car].number));
        let Car { routes, shortcuts, neighbours, rules, drops, .. } = &mut self.cars[car];
        match output {
            Output::Put(Put { item: Item::Route(route), .. }) => {
                assert_eq!(route.table, TABLE);
                routes.insert(route.destination, route.target);
            }
            Output::Drop(Key::Route(_, prefix, ..)) => assert!(routes.remove(&prefix).is_some(), "{prefix} twice"),
            Output::Put(Put { item: Item::TunnelBypass(prefix), .. }) => {
                assert!(shortcuts.insert(prefix), "{prefix} twice")
            }
            Output::Drop(Key::TunnelBypass(prefix)) => assert!(shortcuts.remove(&prefix), "{prefix} twice"),
            Output::Put(Put { item: Item::Neighbour(_), .. }) => *neighbours += 1,
            Output::Drop(Key::Neighbour(..)) => *neighbours -= 1,
            Output::Put(Put { item: Item::Rule(_), .. }) => *rules += 1,
            Output::Drop(Key::Rule(..)) => *rules -= 1,
            Output::Report(Report::Host(HostReport::Dropped { reason, .. })) => drops.push(reason),
            Output::Transmit(Transmit { via: Via::Link(LINK), bytes }) => {
                self.sent.push(Packet { link: LINK, sender, bytes })
            }
            Output::Report(_) => {}
            other => panic!("{other:?}"),
        }
    }

    fn run(&mut self, span: Duration) {
        let until = self.now + span;
        loop {
            while let Some(packet) = (!self.sent.is_empty()).then(|| self.sent.remove(0)) {
                self.spread(&packet);
            }
            let next = self.cars.iter().enumerate().filter_map(|(car, it)| Some((it.engine.deadline()?, car))).min();
            let Some((at, car)) = next.filter(|(at, _)| *at <= until) else { break };
            assert!(at > self.now || self.now == Time::from_micros(1_000) || at == self.now);
            self.now = self.now.max(at);
            self.feed(car, &Input::Tick);
        }
        self.now = until;
    }

    fn spread(&mut self, packet: &Packet) {
        for car in 0..self.cars.len() {
            if self.near && packet.sender != Some(mac(self.cars[car].number)) {
                self.feed(car, &Input::Packet(packet.clone()));
            }
        }
    }

    fn routes(&self, car: usize) -> Vec<Prefix> {
        self.cars[car].routes.keys().copied().collect()
    }

    fn last_drop(&self, car: usize) -> Option<DropReason> {
        self.cars[car].drops.last().copied()
    }
}

/// What car 9 would send, by these settings at this time.
fn forged(config: MnppConfig, unix_micros: u64) -> Packet {
    let mut street = Street { now: Time::from_micros(5), cars: Vec::new(), near: false, sent: Vec::new() };
    street.cars.push(Car::new(config, 9));
    street.feed(0, &Input::Clock(Clock { unix_micros }));
    street.up(0, true);
    let address = mac(9).link_local();
    street.feed(0, &Input::Address(AddressEvent { link: LINK, address, state: AddressState::Preferred }));
    street.sent.remove(0)
}

#[test]
fn vehicles_that_meet_have_direct_routes_until_they_part() {
    let mut street = Street::pair();
    assert_eq!((street.routes(0), street.routes(1)), (vec![network(2)], vec![network(1)]));
    let target = NextHop::Gateway { link: LINK, router: mac(2).link_local() };
    assert_eq!(street.cars[0].routes[&network(2)], target);
    assert_eq!((street.cars[0].neighbours, street.cars[0].rules), (1, 1));
    street.run(Duration::from_secs(60));
    assert_eq!(street.routes(0), [network(2)]);
    street.near = false;
    street.run(Duration::from_millis(1900));
    assert_eq!(street.routes(0), [network(2)], "the loss of one or two announcements ends no route");
    street.run(Duration::from_millis(1200));
    assert!(street.routes(0).is_empty() && street.routes(1).is_empty());
    assert_eq!((street.cars[0].neighbours, street.cars[0].rules), (0, 1));
    street.near = true;
    street.run(Duration::from_millis(1100));
    assert_eq!((street.routes(0), street.routes(1)), (vec![network(2)], vec![network(1)]));
    assert!(street.cars.iter().all(|car| car.drops.is_empty()));
}

#[test]
fn a_new_neighbour_router_is_answered_at_once() {
    let mut street = Street::of(vec![config(1), config(2)]);
    street.run(Duration::from_millis(30));
    assert_eq!((street.routes(0), street.routes(1)), (vec![network(2)], vec![network(1)]));
}

#[test]
fn a_zero_lifetime_announcement_or_link_loss_removes_all_routes() {
    let mut street = Street::pair();
    street.feed(1, &Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    street.run(Duration::ZERO);
    assert!(street.routes(0).is_empty() && street.routes(1).is_empty());
    assert_eq!(street.cars[1].rules, 0);

    let mut street = Street::pair();
    street.up(0, false);
    assert!(street.routes(0).is_empty());

    let mut street = Street::pair();
    let (address, link_address) = (mac(2).link_local(), None);
    street.feed(0, &Input::Neighbour(NeighbourEvent { link: LINK, address, link_address, reachable: false }));
    assert!(street.routes(0).is_empty());
}

#[test]
fn a_router_of_two_networks_is_one_neighbour_entry() {
    let two = MnppConfig { announced: vec![network(2), network(3)], ..config(2) };
    let mut street = Street::of(vec![config(1), two]);
    street.run(Duration::from_secs(3));
    assert_eq!((street.routes(0).len(), street.cars[0].neighbours), (2, 1));
    street.up(0, false);
    assert_eq!((street.routes(0).len(), street.cars[0].neighbours), (0, 0));
}

#[test]
fn announcements_without_a_valid_key_are_refused() {
    let deaf = MnppConfig { accepted: Vec::new(), ..config(1) };
    let strange = MnppConfig { key: Some(SharedKey { spi: 300, secret: vec![1; 20] }), ..config(9) };
    let bare = MnppConfig { key: None, ..config(9) };
    let other = MnppConfig { key: Some(key(301)), ..config(9) };
    let mut street = Street::of(vec![deaf, config(2)]);
    street.run(Duration::from_secs(2));
    assert_eq!((street.routes(0).len(), street.last_drop(0)), (0, Some(DropReason::NoAssociation)));
    for (config, reason) in [
        (strange, DropReason::BadAuthenticator),
        (bare, DropReason::NotAuthenticated),
        (other, DropReason::NoAssociation),
    ] {
        let packet = forged(config, UNIX);
        street.feed(1, &Input::Packet(packet));
        assert_eq!(street.last_drop(1), Some(reason));
    }
    assert_eq!(street.routes(1), [network(1)]);
}

#[test]
fn acceptance_without_a_key_is_limited_to_listed_prefixes() {
    let listed = AcceptanceRule { key: None, prefixes: vec![network(9)] };
    let mut street = Street::of(vec![MnppConfig { accepted: vec![listed], ..config(1) }]);
    let announced = vec![network(8), network(9)];
    street.feed(0, &Input::Packet(forged(MnppConfig { key: None, announced, ..config(9) }, UNIX)));
    assert_eq!((street.routes(0), street.last_drop(0)), (vec![network(9)], Some(DropReason::Unverified)));
}

#[test]
fn old_and_replayed_announcements_are_refused() {
    let mut street = Street::pair();
    let window = WINDOW_MICROS;
    for unix_micros in [UNIX - window, UNIX + window * 3] {
        street.feed(0, &Input::Packet(forged(config(9), unix_micros)));
        assert_eq!(street.last_drop(0), Some(DropReason::Replayed));
    }
    let packet = forged(config(9), UNIX + 3_000_000);
    street.feed(0, &Input::Packet(packet.clone()));
    assert!(street.routes(0).contains(&network(9)));
    street.feed(0, &Input::Packet(packet.clone()));
    assert_eq!(street.last_drop(0), Some(DropReason::Replayed));
    // It stays a replay after its network has expired.
    street.run(Duration::from_millis(3_500));
    street.feed(0, &Input::Packet(packet));
    assert!(!street.routes(0).contains(&network(9)));
}

const WINDOW_MICROS: u64 = authentication::REPLAY_WINDOW.as_micros() as u64;

#[test]
fn a_network_stays_with_its_router_and_own_networks_are_refused() {
    let mut street = Street::pair();
    let now = UNIX + 3_000_000;
    for (announced, reason) in [
        (network(2), DropReason::Duplicate),
        (network(1), DropReason::Unverified),
        ("2001:db8:100:7::/64".parse().unwrap(), DropReason::Unverified),
        ("2001:db8::/33".parse().unwrap(), DropReason::Unverified),
        ("2001:db9::/64".parse().unwrap(), DropReason::Unverified),
        (Prefix::ALL, DropReason::Unverified),
    ] {
        let mut liar = Street::pair();
        liar.feed(0, &Input::Packet(forged(MnppConfig { announced: vec![announced], ..config(9) }, now)));
        assert_eq!((liar.routes(0), liar.last_drop(0)), (vec![network(2)], Some(reason)), "{announced}");
        let target = liar.cars[0].routes[&network(2)];
        liar.run(Duration::from_secs(2));
        assert_eq!(liar.cars[0].routes[&network(2)], target, "{announced}: its router answers");
    }
    let target = street.cars[0].routes[&network(2)];
    street.run(Duration::from_secs(2));
    assert_eq!(street.cars[0].routes[&network(2)], target);
}

#[test]
fn a_network_follows_its_router_to_a_new_address() {
    let mut street = Street::pair();
    let former = mac(2).link_local();
    let address = mac(7).link_local();
    for (address, state) in [(former, AddressState::Removed), (address, AddressState::Preferred)] {
        street.feed(1, &Input::Address(AddressEvent { link: LINK, address, state }));
    }
    street.run(Duration::from_millis(600));
    assert_eq!(street.cars[0].routes[&network(2)], NextHop::Gateway { link: LINK, router: address });
    assert_eq!(street.routes(1), [network(1)]);
    street.run(Duration::from_secs(20));
    assert_eq!(street.routes(0), [network(2)]);
}

#[test]
fn a_flood_of_claims_causes_few_queries() {
    let mut street = Street::pair();
    for number in 0..1_000_u64 {
        let claim = MnppConfig { announced: vec![network(2)], ..config(9) };
        street.feed(0, &Input::Packet(forged(claim, UNIX + 3_000_000 + number * 1_000)));
        street.now = street.now + Duration::from_millis(1);
        street.feed(0, &Input::Tick);
    }
    assert!((4..12).contains(&street.sent.len()), "{}", street.sent.len());
}

#[test]
fn a_reload_removes_networks_no_longer_accepted() {
    let mut street = Street::pair();
    let strict = MnppConfig { accepted: Vec::new(), ..config(1) };
    street.feed(0, &Input::Command(Command::Mnpp(MnppCommand::Reload(Box::new(strict)))));
    assert!(street.routes(0).is_empty());
    street.feed(0, &Input::Command(Command::Mnpp(MnppCommand::Reload(Box::new(config(1))))));
    street.run(Duration::from_millis(1100));
    assert_eq!(street.routes(0), [network(2)]);
}

#[test]
fn neighbour_routers_beyond_the_limit_are_refused() {
    let open = AcceptanceRule { key: None, prefixes: vec!["2001:db8::/32".parse().unwrap()] };
    let mut street = Street::of(vec![MnppConfig { accepted: vec![open], ..config(1) }]);
    for number in 0..MAX_ROUTERS as u32 + 8 {
        let source = Ipv6Addr::from_bits(mac(9).link_local().to_bits() ^ u128::from(number) << 32);
        let networks = vec![Network { prefix: network(9), lifetime: 9 }];
        let message = Announcement { query: true, networks, proof: None }.emit(source);
        let header = Header::new(source, ALL_ROUTERS).with_hop_limit(ON_LINK_HOP_LIMIT);
        let bytes = ip6::emit(&header, protocol::ICMPV6, &message);
        street.feed(0, &Input::Packet(Packet { link: LINK, sender: Some(mac(9)), bytes }));
    }
    assert_eq!(street.cars[0].engine.neighbours().routers(), MAX_ROUTERS);
    street.sent.clear();
    street.run(Duration::from_millis(100));
    assert!(street.cars[0].drops.contains(&DropReason::Replayed));
}
