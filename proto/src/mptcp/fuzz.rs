//! Fuzz harness of the path manager: its invariants under arbitrary addresses, routers, peers and refusals.
//! Run by the seeded test and the corpus in `cargo test`, and by the fuzzer.
#![allow(clippy::panic, clippy::expect_used, reason = "a scenario fails at the assertion")]

use super::PathManager;
use super::path_manager::MAX_ENDPOINTS;
use crate::base::ids::MptcpToken;
use crate::contract::command::{LifecycleCommand, MptcpCommand};
use crate::contract::config::mptcp::PathManagerConfig;
use crate::contract::input::{AddressState, NeighbourEvent, RouteEvent, SubflowEvent, SubflowEventKind};
use crate::contract::item::{MptcpEndpoint, MptcpLimits, NextHop};
use crate::{AddressEvent, Command, Engine, Input, Item, Key, LinkEvent, LinkId, Outbox, Output, Packet, Put, Time};
use core::time::Duration;
use roam6_wire::icmp6::{self, Message, NeighbourOption, RouterAdvertisement};
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::{Prefix, Reader};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv6Addr, SocketAddrV6};

/// Ticks at one moment, at most.
const MAX_TICKS: usize = 4;
/// Time until a stable state: refused items are put again after one minute.
const STABLE_TIME: Duration = Duration::from_secs(75);
/// An advertisement cannot shorten a valid lifetime below this.
const TWO_HOURS: Duration = Duration::from_secs(7200);
/// Delay before the kernel's deprecated state of an address counts.
const NEWS: Duration = Duration::from_millis(100);
/// A lifetime beyond the end of every run, seconds.
const LONG: u32 = 1_000_000;
const LINKS: u32 = 3;
const PREFIXES: u16 = 6;
const ROUTERS: u16 = 3;

/// Plays the inputs encoded in `data`, and asserts the invariants.
///
/// # Panics
/// If an invariant is violated.
pub fn run(data: &[u8]) {
    let mut reader = Reader::new("scenario", data);
    let mut world = Harness::new(reader.u8().unwrap_or_default());
    while let Ok(action) = reader.u8() {
        let choice = reader.u8().unwrap_or_default();
        world.act(action, choice, &mut reader);
    }
    world.check_stable_state();
    world.feed(Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    assert!(
        world.endpoints.is_empty() && world.routes.is_empty() && world.limits.is_none(),
        "items remain after the stop"
    );
    assert!(world.manager.deadline().is_none(), "does not end");
}

/// A router of a link, as the host knows it.
#[derive(Default)]
struct Router {
    expires: Time,
    unreachable: bool,
    /// Ends of preferred and valid lifetime.
    prefixes: BTreeMap<Prefix, (Time, Time)>,
}

#[derive(Default)]
struct Link {
    up: bool,
    /// Addresses, and the time from which each is deprecated.
    addresses: BTreeMap<Ipv6Addr, Option<Time>>,
    routers: BTreeMap<Ipv6Addr, Router>,
    static_router: Option<Ipv6Addr>,
}

/// The simulated host around the engine, with a model of its state.
struct Harness {
    manager: PathManager,
    config: PathManagerConfig,
    now: Time,
    links: BTreeMap<LinkId, Link>,
    endpoints: BTreeMap<Ipv6Addr, MptcpEndpoint>,
    routes: BTreeMap<Prefix, NextHop>,
    limits: Option<MptcpLimits>,
    tokens: BTreeSet<MptcpToken>,
    /// Number of puts to refuse.
    puts_to_refuse: u8,
}

impl Harness {
    fn new(seed: u8) -> Harness {
        let config = config(seed);
        let links = (1..=LINKS).map(|number| (LinkId(number), Link::default())).collect();
        let manager = PathManager::new(config.clone());
        let (endpoints, routes, tokens) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Harness { manager, config, now: Time::ZERO, links, endpoints, routes, limits: None, tokens, puts_to_refuse: 0 }
    }

    fn act(&mut self, action: u8, choice: u8, reader: &mut Reader<'_>) {
        let link = LinkId(1 + u32::from(choice) % LINKS);
        let number = u16::from(choice / 3) % PREFIXES;
        match action % 16 {
            0 | 1 => self.link_event(link, action & 16 == 0),
            2..=4 => self.address_event(link, address(number, choice >> 6), action),
            5..=7 => self.advertise(link, number, action >> 4),
            8 => self.neighbour_event(link, choice),
            9 => self.route_event(link, choice & 64 == 0),
            10 => self.subflow_event(action >> 4, choice),
            11 => self.wait(Duration::from_millis(u64::from(choice) * 20)),
            12 => self.wait(Duration::from_secs(u64::from(choice))),
            13 => self.puts_to_refuse = choice % 4,
            14 => self.reload(choice),
            _ => {
                let bytes = reader.bytes(usize::from(choice).min(reader.len())).unwrap_or_default().to_vec();
                self.feed(Input::Packet(Packet { link, sender: None, bytes }));
            }
        }
    }

    fn link_event(&mut self, link: LinkId, up: bool) {
        if let Some(link) = self.links.get_mut(&link) {
            link.up = up;
            if !up {
                (link.routers, link.static_router) = (BTreeMap::new(), None);
            }
        }
        self.feed(Input::Link(LinkEvent { link, name: name(link), address: None, up, mtu: 1500 }));
    }

    fn address_event(&mut self, link: LinkId, address: Ipv6Addr, action: u8) {
        let state = match action >> 4 & 3 {
            0 => AddressState::Removed,
            1 => AddressState::Deprecated,
            2 => AddressState::Preferred,
            _ => AddressState::Tentative,
        };
        self.add_link(link);
        if let Some(link) = self.links.get_mut(&link) {
            let known = link.addresses.remove(&address).flatten();
            if state.is_usable() {
                let from = known.unwrap_or(self.now + NEWS);
                link.addresses.insert(address, (state == AddressState::Deprecated).then_some(from));
            }
        }
        self.feed(Input::Address(AddressEvent { link, address, state }));
    }

    /// A Router Advertisement of one prefix; earlier prefixes remain.
    fn advertise(&mut self, link: LinkId, number: u16, manner: u8) {
        let source = router(number % ROUTERS);
        let (lifetime, preferred, valid) = match manner % 8 {
            0 => (0, LONG, LONG),
            1 => (600, 0, LONG),
            2 => (600, 0, 0),
            3 => (600, 30, 60),
            4 => (20, LONG, LONG),
            _ => (u16::MAX, LONG, LONG),
        };
        let now = self.now;
        if let Some(link) = self.links.get_mut(&link).filter(|link| link.up) {
            // Expired state is dropped: a router that is back has to advertise all of it again.
            link.routers.retain(|_, router| router.expires > now);
            let router = link.routers.entry(source).or_default();
            (router.expires, router.unreachable) = (now + seconds(lifetime.into()), false);
            let before = router.prefixes.get(&prefix(number)).map_or(now, |(_, valid)| *valid);
            let valid_until = (now + seconds(valid)).max(before.min(now + TWO_HOURS));
            router.prefixes.insert(prefix(number), (now + seconds(preferred), valid_until));
            // A router lifetime of zero removes the router at once.
            link.routers.retain(|_, router| router.expires > now);
        }
        let option = NeighbourOption::PrefixInformation {
            prefix: prefix(number),
            address: Ipv6Addr::UNSPECIFIED,
            on_link: true,
            autonomous: true,
            router_address: false,
            valid,
            preferred,
        };
        let message = RouterAdvertisement { lifetime, options: vec![option], ..Default::default() };
        let header = Header::new(source, icmp6::ALL_NODES).with_hop_limit(255);
        let payload = Message::RouterAdvertisement(message).emit(header.source, header.destination);
        let bytes = ip6::emit(&header, protocol::ICMPV6, &payload);
        self.feed(Input::Packet(Packet { link, sender: None, bytes }));
    }

    fn neighbour_event(&mut self, link: LinkId, choice: u8) {
        let (address, reachable) = (router(u16::from(choice >> 4) % ROUTERS), choice & 8 == 0);
        if let Some(router) = self.links.get_mut(&link).and_then(|link| link.routers.get_mut(&address)) {
            router.unreachable = !reachable;
        }
        self.feed(Input::Neighbour(NeighbourEvent { link, address, link_address: None, reachable }));
    }

    fn route_event(&mut self, link: LinkId, stands: bool) {
        let router = router(0);
        self.add_link(link);
        if let Some(link) = self.links.get_mut(&link) {
            link.static_router = stands.then_some(router);
        }
        self.feed(Input::Route(RouteEvent { link, router, present: stands }));
    }

    fn subflow_event(&mut self, change: u8, choice: u8) {
        let change = match change % 8 {
            0..=2 => SubflowEventKind::SubflowEstablished,
            3 => SubflowEventKind::SubflowClosed,
            4 => SubflowEventKind::ConnectionClosed,
            5 => SubflowEventKind::PriorityChanged,
            _ => SubflowEventKind::ConnectionEstablished,
        };
        let token = MptcpToken(u32::from(choice % 4));
        match change {
            SubflowEventKind::ConnectionClosed => drop(self.tokens.remove(&token)),
            _ => drop(self.tokens.insert(token)),
        }
        let local = SocketAddrV6::new(address(u16::from(choice / 4) % PREFIXES, choice >> 6), 1, 0, 0);
        let remote = SocketAddrV6::new(router(9), 2, 0, 0);
        self.feed(Input::Subflow(SubflowEvent { token, kind: change, local, remote, error: 0 }));
    }

    fn reload(&mut self, choice: u8) {
        self.config = config(choice);
        self.feed(Input::Command(Command::Mptcp(MptcpCommand::Reload(Box::new(self.config.clone())))));
    }

    /// Sends the link event before any other event of that link.
    fn add_link(&mut self, link: LinkId) {
        let up = self.links.get(&link).is_some_and(|link| link.up);
        self.link_event(link, up);
    }

    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(due) = self.manager.deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            let mut ticks = 0;
            while self.manager.deadline().is_some_and(|due| due <= self.now) {
                ticks += 1;
                assert!(ticks <= MAX_TICKS, "ticks and does not go on");
                self.feed(Input::Tick);
            }
        }
        self.now = until;
        self.feed(Input::Tick);
    }

    fn feed(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut out = Outbox::new();
            self.manager.handle(self.now, &input, &mut out);
            let mut outcomes: Vec<Input> = Vec::new();
            for output in out.drain() {
                match output {
                    Output::Put(put) => outcomes.push(self.put(&put)),
                    Output::Drop(key) => self.drop(&key),
                    Output::Transmit(_) | Output::Report(_) => {}
                    other => panic!("{other:?}"),
                }
            }
            outcomes.reverse();
            inputs.extend(outcomes);
            assert!(self.endpoints.len() <= MAX_ENDPOINTS);
        }
        self.endpoints.values().for_each(|endpoint| self.check_endpoint(endpoint));
        assert!(self.routes.is_empty() || self.config.source_routing);
    }

    fn put(&mut self, put: &Put) -> Input {
        let refused = (self.puts_to_refuse > 0).then(|| "so".to_owned());
        self.puts_to_refuse = self.puts_to_refuse.saturating_sub(1);
        match &put.item {
            _ if refused.is_some() => {}
            Item::MptcpLimits(limits) => self.limits = Some(*limits),
            Item::MptcpEndpoint(endpoint) => {
                let (home, path) = (self.is_home(endpoint.address), self.find(endpoint));
                let deprecated = path.is_some_and(|deprecated| deprecated);
                assert_eq!(endpoint.flags.backup, home || deprecated, "{endpoint:?}");
                let new = self.endpoints.insert(endpoint.address, *endpoint).is_none();
                assert!(!new || !deprecated || home, "new subflows from a deprecated address");
            }
            Item::Route(route) => drop(self.routes.insert(route.source, route.target)),
            other => panic!("{other:?}"),
        }
        Input::Outcome(put.outcome(refused))
    }

    fn drop(&mut self, key: &Key) {
        match key {
            Key::MptcpLimits => self.limits = None,
            Key::MptcpEndpoint(address) => drop(self.endpoints.remove(address)),
            Key::Route(_, _, source, _) => drop(self.routes.remove(source)),
            other => panic!("{other:?}"),
        }
    }

    fn is_home(&self, address: Ipv6Addr) -> bool {
        self.config.home_prefixes.iter().any(|home| home.contains(address))
    }

    /// `Some` if the address has a reachable router, with whether it is deprecated.
    fn find(&self, endpoint: &MptcpEndpoint) -> Option<bool> {
        let link = self.links.get(&endpoint.link).filter(|link| link.up)?;
        let deprecated = link.addresses.get(&endpoint.address)?.is_some_and(|from| from <= self.now);
        let there = link.routers.values().filter(|router| !router.unreachable && router.expires > self.now);
        let prefixes = there.flat_map(|router| &router.prefixes);
        let holding = prefixes.filter(|(prefix, (_, valid))| prefix.contains(endpoint.address) && *valid > self.now);
        let preferred = holding.map(|(_, (preferred, _))| *preferred).max();
        match preferred {
            Some(until) => Some(deprecated || until <= self.now),
            None => link.static_router.map(|_| deprecated),
        }
    }

    /// Every endpoint has an address, a route and the right flags.
    fn check_endpoint(&self, endpoint: &MptcpEndpoint) {
        assert!(self.config.interfaces.contains(&name(endpoint.link)), "{endpoint:?} on another's interface");
        let deprecated = self.find(endpoint).unwrap_or_else(|| panic!("{endpoint:?} does not work"));
        let home = self.is_home(endpoint.address);
        let signal = if home { self.config.signal_home } else { self.config.signal_care_of };
        assert_eq!((endpoint.flags.signal, endpoint.flags.subflow), (signal, true));
        assert_eq!(endpoint.flags.backup, home || deprecated, "{endpoint:?}");
    }

    /// In a stable state each usable prefix of a link has an endpoint.
    fn check_stable_state(&mut self) {
        self.puts_to_refuse = 0;
        for token in std::mem::take(&mut self.tokens) {
            let unspecified = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0);
            let change = SubflowEventKind::ConnectionClosed;
            let event = SubflowEvent { token, kind: change, local: unspecified, remote: unspecified, error: 0 };
            self.feed(Input::Subflow(event));
        }
        self.wait(STABLE_TIME);
        self.wait(STABLE_TIME);
        let mut expected = BTreeSet::new();
        let mut all = BTreeSet::new();
        for (id, link) in self.links.iter().filter(|(id, _)| self.config.interfaces.contains(&name(**id))) {
            for &address in link.addresses.keys() {
                let endpoint = MptcpEndpoint { address, link: *id, flags: Default::default() };
                let found = self.find(&endpoint).is_some_and(|deprecated| !deprecated || self.is_home(address));
                if found && all.insert(address) {
                    expected.extend(Prefix::new(address, 64).map(|prefix| (prefix, *id)));
                }
            }
        }
        if expected.len() <= MAX_ENDPOINTS {
            let reached = |(prefix, _): &(Prefix, LinkId)| self.endpoints.keys().any(|at| prefix.contains(*at));
            let missed: Vec<_> = expected.iter().filter(|place| !reached(place)).collect();
            assert!(missed.is_empty(), "no path from {missed:?}");
        }
        assert!(self.limits.is_some() || self.endpoints.is_empty(), "limits are not set");
    }
}

fn config(seed: u8) -> PathManagerConfig {
    let interfaces = (1..=LINKS).filter(|number| seed >> number & 1 == 0).map(|number| name(LinkId(number)));
    PathManagerConfig {
        interfaces: interfaces.collect(),
        home_prefixes: vec![prefix(0)],
        signal_home: seed & 16 != 0,
        signal_care_of: seed & 32 != 0,
        subflows: u32::from(seed % 9),
        add_addr_accepted: 0,
        source_routing: seed & 64 != 0,
    }
}

fn name(link: LinkId) -> String {
    format!("eth{}", link.0)
}

fn prefix(number: u16) -> Prefix {
    Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, 0), 64).expect("64 is a length")
}

fn address(number: u16, which: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, 5 + u16::from(which))
}

fn router(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1 + number)
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}
