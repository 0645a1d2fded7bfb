//! The engines of mobile router and home agent, and the network between them.

use crate::contract::command::{Command, LifecycleCommand};
use crate::contract::config::nemo::{
    Authentication, DadMode, DsmipService, HomeAgentConfig, IngressConfig, MobileRouterConfig, PrefixMode, PrefixTable,
    PrefixTableRow, ProbeConfig, SharedKey, UplinkConfig,
};
use crate::contract::input::AddressState;
use crate::contract::item::{Encap, JournalRecord, Tunnel, TunnelPath};
use crate::contract::report::NemoReport;
use crate::nemo::home_agent::HomeAgent;
use crate::nemo::mobile_router::MobileRouter;
use crate::{
    AddressEvent, Clock, Engine, Entropy, Input, Item, LinkEvent, LinkId, Outbox, Output, Packet, Plan, Report, Time,
    Transmit, Via, View,
};
use core::time::Duration;
use roam6_wire::icmp6::{self, NeighbourOption, RouterAdvertisement};
use roam6_wire::ip4::Encapsulated;
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::udp6::Encapsulated6;
use roam6_wire::{Bid, HomeAddress, Ipv4Endpoint, Ipv6Endpoint, LinkAddress, Prefix, icmp4};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) const UPLINK: LinkId = LinkId(2);
const AGENT_LINK: LinkId = LinkId(9);
const ROUTER_MAC: LinkAddress = LinkAddress([2, 0, 0, 0, 1, 1]);
/// Microseconds since 1970 when a pair's time is zero.
pub(super) const START_UNIX_MICROS: u64 = 1_790_000_000_000_000;
/// From here to there and back.
const DELAY: Duration = Duration::from_millis(10);
pub(super) const AGENT_IPV4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
/// The mobile router's own address, inside.
pub(super) const BEHIND_NAT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The NAT's, outside.
pub(super) const NAT_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

pub(super) fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

pub(super) fn net(text: &str) -> Prefix {
    text.parse().unwrap()
}

pub(super) fn home() -> HomeAddress {
    HomeAddress(ip("2001:db8::100"))
}

pub(super) fn agent() -> Ipv6Addr {
    ip("2001:db8::1")
}

pub(super) fn key() -> SharedKey {
    SharedKey { spi: 256, secret: (0..16).collect() }
}

pub(super) fn router_config() -> MobileRouterConfig {
    let uplink = UplinkConfig { interface: "up0".into(), bid: Bid(1), ..Default::default() };
    let prefix = net("2001:db8:f00::/64");
    MobileRouterConfig {
        home_address: home(),
        home_prefix: net("2001:db8::/64"),
        home_agents: vec![agent()],
        home_agents_ipv4: vec![AGENT_IPV4],
        prefixes: vec![net("2001:db8:f00::/56")],
        prefix_mode: PrefixMode::Implicit,
        authentication: Authentication::SharedKey(key()),
        uplinks: vec![uplink],
        ingress: vec![IngressConfig {
            interface: "lan0".into(),
            prefix,
            advertisement_interval: Duration::from_secs(10),
            ..Default::default()
        }],
        duplicate_detection: DadMode::Off,
        probe: Some(ProbeConfig::default()),
        ..Default::default()
    }
}

pub(super) fn agent_config() -> HomeAgentConfig {
    let row = PrefixTableRow {
        next_key: None,
        invitation: None,
        home_address: home(),
        prefixes: [net("2001:db8:f00::/56")].into(),
        authentication: Authentication::SharedKey(key()),
    };
    HomeAgentConfig {
        address: agent(),
        home_prefixes: vec![net("2001:db8::/64")],
        prefix_table: PrefixTable { rows: vec![row] }.into(),
        max_bindings: 10,
        ipv4: Some(DsmipService { address: AGENT_IPV4, keepalive: Duration::from_secs(110), force_udp: false }),
        ..Default::default()
    }
}

/// A NAT, symmetric, since there is one destination only.
#[derive(Debug, Default)]
pub(super) struct Nat {
    mappings: BTreeMap<u16, (LinkId, Ipv4Endpoint)>,
    next: u16,
}

/// A visited network of a further uplink.
#[derive(Debug, Default)]
pub(super) struct Access {
    /// The uplink's IPv4 address; `None`: it has IPv6 only.
    pub address: Option<Ipv4Addr>,
    /// The NAT's address outside; that of the first uplink's NAT if both are behind it, `None` without NAT.
    pub public: Option<Ipv4Addr>,
    /// Its own NAT.
    pub nat: Nat,
    /// The prefix, if it has IPv6.
    pub prefix: Option<Prefix>,
}

impl Nat {
    /// The port outside of `inside`.
    fn leave(&mut self, inside: (LinkId, Ipv4Endpoint)) -> u16 {
        let known = self.mappings.iter().find(|(_, end)| **end == inside).map(|(port, _)| *port);
        let port = known.unwrap_or_else(|| {
            self.next += 1;
            40_000 + self.next
        });
        self.mappings.insert(port, inside);
        port
    }

    /// Forgets every mapping, as a restart does.
    pub(super) fn forget(&mut self) {
        self.mappings.clear();
    }

    /// Forgets every mapping, and gives the same ports again.
    pub(super) fn restart(&mut self) {
        *self = Nat::default();
    }
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PairEnd {
    Router,
    Agent,
}

pub(super) struct Pair {
    pub router: MobileRouter,
    pub agent: HomeAgent,
    pub router_plan: Plan,
    pub agent_plan: Plan,
    pub now: Time,
    /// `None`: the uplink's IPv4 address is a public one.
    pub nat: Option<Nat>,
    /// Whether the visited link has IPv6 connectivity.
    pub ipv6: bool,
    /// The networks of the other uplinks.
    pub others: BTreeMap<LinkId, Access>,
    /// Uplinks with carrier that carry nothing.
    pub black_holes: BTreeSet<LinkId>,
    /// Uplinks by whose networks nothing comes back from elsewhere, although everything leaves.
    pub deaf: BTreeSet<LinkId>,
    /// Uplinks whose delay is not [`DELAY`].
    pub delays: BTreeMap<LinkId, Duration>,
    /// The longest packet, octets, that the network of an uplink lets out, if it may not fragment it.
    pub mtus: BTreeMap<LinkId, usize>,
    /// Protocols right behind IPv6 headers and options, or IPv4 headers, that an uplink's network drops.
    pub filters: BTreeMap<LinkId, Vec<u8>>,
    /// Uplinks whose networks let out what they drop on the way in.
    pub inbound_filters: BTreeSet<LinkId>,
    /// The address outside of an uplink's IPv6 addresses in UDP; the port is changed too.
    pub nat66: BTreeMap<LinkId, Ipv6Addr>,
    inside66: BTreeMap<Ipv6Addr, (LinkId, Ipv6Endpoint)>,
    /// Lost packets per thousand.
    pub loss: u64,
    rng: Entropy,
    /// The reports of both.
    pub reports: Vec<(Time, Report)>,
    /// The IPv4 packets that the home agent has received.
    pub received: Vec<Packet>,
    /// The packets sent by either.
    pub sent: Vec<(Time, Transmit)>,
    in_flight: BTreeMap<(Time, u32), (PairEnd, Packet)>,
    serial: u32,
}

impl Pair {
    pub(super) fn new(router: MobileRouterConfig, agent: HomeAgentConfig) -> Pair {
        let mut pair = Pair {
            router: MobileRouter::new(router, Entropy::seed_from_u64(1)),
            agent: HomeAgent::new(agent, Entropy::seed_from_u64(2)),
            router_plan: Plan::new(),
            agent_plan: Plan::new(),
            now: Time::ZERO,
            nat: Some(Nat::default()),
            ipv6: true,
            others: BTreeMap::new(),
            black_holes: BTreeSet::new(),
            deaf: BTreeSet::new(),
            delays: BTreeMap::new(),
            mtus: BTreeMap::new(),
            filters: BTreeMap::new(),
            inbound_filters: BTreeSet::new(),
            nat66: BTreeMap::new(),
            inside66: BTreeMap::new(),
            loss: 0,
            rng: Entropy::seed_from_u64(3),
            reports: Vec::new(),
            received: Vec::new(),
            sent: Vec::new(),
            in_flight: BTreeMap::new(),
            serial: 0,
        };
        for side in [PairEnd::Router, PairEnd::Agent] {
            pair.feed(side, Input::Clock(Clock { unix_micros: START_UNIX_MICROS }));
        }
        pair
    }

    /// On an IPv4-only link behind a NAT.
    pub(super) fn behind_nat() -> Pair {
        let mut pair = Pair::new(router_config(), agent_config());
        pair.link(true);
        pair.address4(BEHIND_NAT, true);
        pair
    }

    fn feed(&mut self, side: PairEnd, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut out = Outbox::new();
            match side {
                PairEnd::Router => self.router.handle(self.now, &input, &mut out),
                PairEnd::Agent => self.agent.handle(self.now, &input, &mut out),
            }
            let mut outcomes = Vec::new();
            for output in out.drain() {
                let plan = if side == PairEnd::Router { &mut self.router_plan } else { &mut self.agent_plan };
                match output {
                    Output::Put(put) => {
                        outcomes.push(Input::Outcome(put.outcome(None)));
                        plan.put(put.item);
                    }
                    Output::Drop(key) => drop(plan.drop(&key)),
                    Output::Transmit(transmit) => self.transmit(side, transmit),
                    Output::Report(report) => self.reports.push((self.now, report)),
                    Output::ActivityQuery(_)
                    | Output::LinkTrafficQuery(_)
                    | Output::PathTrafficQuery(_)
                    | Output::ChannelUseQuery(_)
                    | Output::InterceptionQuery(_)
                    | Output::Verify(_)
                    | Output::Sign(_)
                    | Output::Frame(_) => {}
                }
            }
            inputs.extend(outcomes.into_iter().rev());
        }
    }

    /// The mobile router's daemon starts again, and finds the links, the addresses and the sequence number.
    pub(super) fn restart_router(&mut self, config: MobileRouterConfig) {
        let records = self.router_plan.iter().filter_map(|(_, item)| match item {
            Item::JournalRecord(record @ JournalRecord::Sequence(_)) => Some(record.clone()),
            _ => None,
        });
        let records = records.collect();
        self.router = MobileRouter::new(config, Entropy::seed_from_u64(4));
        self.feed_router(Input::Clock(Clock { unix_micros: START_UNIX_MICROS + self.now.as_micros() }));
        self.feed_router(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(records))));
    }

    pub(super) fn feed_router(&mut self, input: Input) {
        self.feed(PairEnd::Router, input);
    }

    pub(super) fn feed_agent(&mut self, input: Input) {
        self.feed(PairEnd::Agent, input);
    }

    pub(super) fn deliver_to_agent(&mut self, bytes: Vec<u8>) {
        self.feed_agent(Input::Packet(Packet { link: AGENT_LINK, sender: None, bytes }));
    }

    fn transmit(&mut self, side: PairEnd, transmit: Transmit) {
        self.sent.push((self.now, transmit.clone()));
        let carried = transmit.bytes[0] >> 4 == 4;
        let passing = match (side, carried, transmit.via) {
            (PairEnd::Router, _, Via::Link(link)) if self.is_too_big(link, &transmit.bytes) => None,
            (PairEnd::Router, true, Via::Link(link)) => {
                self.nat_outbound(link, &transmit.bytes).map(|bytes| (link, bytes))
            }
            (PairEnd::Router, false, Via::Link(link)) => {
                self.pass(link, &transmit.bytes).map(|bytes| (link, bytes)).filter(|_| self.has_ipv6(link))
            }
            (PairEnd::Router, ..) => None,
            (PairEnd::Agent, true, _) => self.nat_inbound(&transmit.bytes),
            (PairEnd::Agent, false, _) => {
                let (link, bytes) = self.return_through_nat66(transmit.bytes);
                Some((link, bytes)).filter(|(_, bytes)| self.has_ipv6(link) && !self.filters_out(link, bytes))
            }
        };
        if let Some((link, bytes)) = passing {
            let to = if side == PairEnd::Router { PairEnd::Agent } else { PairEnd::Router };
            self.deliver(to, link, bytes);
        }
    }

    fn deliver(&mut self, to: PairEnd, way: LinkId, bytes: Vec<u8>) {
        let is_deaf = to == PairEnd::Router && self.deaf.contains(&way);
        if self.rng.below(1000) < self.loss || self.black_holes.contains(&way) || is_deaf {
            return;
        }
        let link = if to == PairEnd::Agent { AGENT_LINK } else { way };
        self.serial += 1;
        let delay = self.delays.get(&way).copied().unwrap_or(DELAY);
        self.in_flight.insert((self.now + delay / 2, self.serial), (to, Packet { link, sender: None, bytes }));
    }

    fn is_too_big(&self, link: LinkId, bytes: &[u8]) -> bool {
        let may_fragment = bytes[0] >> 4 == 4 && bytes[6] & 0x40 == 0;
        !may_fragment && self.mtus.get(&link).is_some_and(|mtu| bytes.len() > *mtu)
    }

    fn filters_out(&self, link: LinkId, bytes: &[u8]) -> bool {
        let protocol = Datagram::parse(bytes).unwrap().protocol;
        self.filters.get(&link).is_some_and(|dropped| dropped.contains(&protocol))
    }

    /// The same of a packet over IPv4 from or to this end.
    fn filters_out4(&self, link: LinkId, end: Ipv4Endpoint) -> bool {
        let protocol = if end.port == 0 { protocol::IPV6 } else { protocol::UDP };
        self.filters.get(&link).is_some_and(|dropped| dropped.contains(&protocol))
    }

    /// What leaves the network of an uplink, if it passes.
    fn pass(&mut self, link: LinkId, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.filters_out(link, bytes) {
            return None;
        }
        match (self.nat66.get(&link), Encapsulated6::parse(bytes)) {
            (Some(outside), Ok(carried)) => {
                self.inside66.insert(*outside, (link, carried.source));
                let source = Ipv6Endpoint { address: *outside, port: 50_000 };
                Some(Encapsulated6 { source, ..carried }.emit())
            }
            _ => Some(bytes.to_vec()),
        }
    }

    fn return_through_nat66(&self, bytes: Vec<u8>) -> (LinkId, Vec<u8>) {
        let to = Datagram::parse(&bytes).unwrap().destination;
        match (self.inside66.get(&to), Encapsulated6::parse(&bytes)) {
            (Some((link, destination)), Ok(carried)) if carried.destination.port == 50_000 => {
                (*link, Encapsulated6 { destination: *destination, ..carried }.emit())
            }
            _ => (self.link_of(to), bytes),
        }
    }

    fn has_ipv6(&self, link: LinkId) -> bool {
        self.others.get(&link).map_or(self.ipv6, |access| access.prefix.is_some())
    }

    /// The uplink with this IPv6 address.
    fn link_of(&self, address: Ipv6Addr) -> LinkId {
        let has = |access: &Access| access.prefix.is_some_and(|prefix| prefix.contains(address));
        self.others.iter().find(|(_, access)| has(access)).map_or(UPLINK, |(link, _)| *link)
    }

    fn nat_outbound(&mut self, link: LinkId, bytes: &[u8]) -> Option<Vec<u8>> {
        // No network lets echo requests pass.
        if bytes[9] == icmp4::PROTOCOL {
            return None;
        }
        let carried = Encapsulated::parse(bytes).unwrap();
        if self.filters_out4(link, carried.source) && !self.inbound_filters.contains(&link) {
            return None;
        }
        let access = self.others.get_mut(&link);
        let own = access.as_ref().map_or(Some(BEHIND_NAT), |access| access.address);
        assert_eq!(Some(carried.source.address), own);
        let (nat, address) = match access {
            Some(Access { public: Some(public), nat, .. }) if *public != NAT_ADDRESS => (Some(nat), *public),
            Some(Access { public: None, .. }) => (None, BEHIND_NAT),
            _ => (self.nat.as_mut(), NAT_ADDRESS),
        };
        if nat.is_some() && carried.source.port == 0 {
            // It translates UDP only, as most do.
            return None;
        }
        let source =
            nat.map_or(carried.source, |nat| Ipv4Endpoint { address, port: nat.leave((link, carried.source)) });
        Some(Encapsulated { source, ..carried }.emit())
    }

    /// The uplink that packets to an IPv4 end arrive on, and their destination there.
    pub(super) fn origin(&self, end: Ipv4Endpoint) -> Option<(LinkId, Ipv4Endpoint)> {
        let translates = |access: &&Access| access.public == Some(end.address) && end.address != NAT_ADDRESS;
        if let Some(access) = self.others.values().find(translates) {
            return access.nat.mappings.get(&end.port).copied();
        }
        if end.address == NAT_ADDRESS {
            return self.nat.as_ref()?.mappings.get(&end.port).copied();
        }
        let plain = |access: &Access| access.public.is_none() && access.address == Some(end.address);
        match self.others.iter().find(|(_, access)| plain(access)) {
            Some((link, _)) => Some((*link, end)),
            None => Some((UPLINK, end)).filter(|_| self.nat.is_none() && end.address == BEHIND_NAT),
        }
    }

    fn nat_inbound(&self, bytes: &[u8]) -> Option<(LinkId, Vec<u8>)> {
        let carried = Encapsulated::parse(bytes).unwrap();
        let (link, destination) = self.origin(carried.destination)?;
        if self.filters_out4(link, destination) {
            return None;
        }
        Some((link, Encapsulated { destination, ..carried }.emit()))
    }

    /// What the hosts around the engines do with a packet: probes are answered by the home agent's kernel, by the path its
    /// data plane has; the engine receives all else.
    fn arrive(&mut self, to: PairEnd, packet: Packet) {
        if to == PairEnd::Agent {
            if packet.bytes[0] >> 4 == 4 {
                self.received.push(packet.clone());
            }
            if let Some((link, answer)) = self.echo(&packet.bytes) {
                return self.deliver(PairEnd::Router, link, answer);
            }
        }
        self.feed(to, Input::Packet(packet));
    }

    fn echo(&self, bytes: &[u8]) -> Option<(LinkId, Vec<u8>)> {
        let (inner, outer) = match (Encapsulated::parse(bytes), Encapsulated6::parse(bytes)) {
            (Ok(carried), _) => (carried.inner.to_vec(), Some((carried.source.to_ipv6(), None))),
            (_, Ok(carried)) => (carried.inner.to_vec(), Some((carried.source.address, Some(carried.source.port)))),
            _ => {
                let outer = Datagram::parse(bytes).ok()?;
                match outer.protocol {
                    protocol::IPV6 => (outer.payload.to_vec(), Some((outer.source, None))),
                    _ => (bytes.to_vec(), None),
                }
            }
        };
        let request = Datagram::parse(&inner).ok()?;
        let icmp6::Message::EchoRequest(echo) = icmp6::Message::parse(&request).ok()? else { return None };
        let (from, to) = (request.destination, request.source);
        let bid = Bid(echo.identifier);
        let reply =
            ip6::emit(&Header::new(from, to), protocol::ICMPV6, &icmp6::Message::EchoReply(echo).emit(from, to));
        let Some((outer, port)) = outer else {
            let passes = |link| self.has_ipv6(link) && !self.filters_out(link, bytes);
            return Some((self.link_of(to), reply)).filter(|(link, _)| passes(*link));
        };
        let paths = &self.tunnel(&self.agent_plan)?.paths;
        let is_known = |path: &&TunnelPath| {
            let from_port = |port| matches!(path.encap, Encap::Udp { remote, .. } if remote == port);
            path.remote == outer && port.is_none_or(from_port)
        };
        let received = paths.iter().find(is_known)?;
        let known = paths.iter().find(|path| path.bid == bid).unwrap_or(received);
        let protocol = if known.encap.is_native() { protocol::IPV6 } else { protocol::UDP };
        match Ipv4Endpoint::from_ipv6(known.remote).zip(Ipv4Endpoint::from_ipv6(known.local)) {
            Some((destination, source)) => {
                let answer = Encapsulated { source, destination, tos: 0, inner: &reply }.emit();
                // The data plane decapsulates it.
                self.nat_inbound(&answer).map(|(link, _)| (link, reply))
            }
            None => {
                let inside = self.inside66.get(&known.remote).map(|(link, _)| *link);
                let link = inside.unwrap_or_else(|| self.link_of(known.remote));
                let dropped = self.filters.get(&link).is_some_and(|dropped| dropped.contains(&protocol));
                Some((link, reply)).filter(|_| self.has_ipv6(link) && !dropped)
            }
        }
    }

    /// Lets time pass.
    pub(super) fn advance(&mut self, span: Duration) {
        let until = self.now + span;
        loop {
            let arrival = self.in_flight.first_key_value().map(|((at, _), _)| *at);
            let router = self.router.deadline().map(|at| at.max(self.now));
            let agent = self.agent.deadline().map(|at| at.max(self.now));
            let Some(next) = [arrival, router, agent].into_iter().flatten().min().filter(|at| *at <= until) else {
                break;
            };
            self.now = next;
            if arrival == Some(next) {
                let (_, (to, packet)) = self.in_flight.pop_first().unwrap();
                self.arrive(to, packet);
            } else if router == Some(next) {
                self.feed(PairEnd::Router, Input::Tick);
            } else {
                self.feed(PairEnd::Agent, Input::Tick);
            }
        }
        self.now = until;
    }

    pub(super) fn millis(&mut self, millis: u64) {
        self.advance(Duration::from_millis(millis));
    }

    /// The uplink's carrier.
    pub(super) fn link(&mut self, up: bool) {
        self.link_on(UPLINK, "up0", up);
    }

    /// The carrier of one of several uplinks.
    pub(super) fn link_on(&mut self, link: LinkId, name: &str, up: bool) {
        let address = Some(LinkAddress([2, 0, 0, 0, 0, u8::try_from(link.0).unwrap()]));
        self.feed_router(Input::Link(LinkEvent { link, name: name.into(), address, up, mtu: 1500 }));
    }

    /// An IPv4 address of the uplink.
    pub(super) fn address4(&mut self, address: Ipv4Addr, there: bool) {
        self.address4_on(UPLINK, address, there);
    }

    pub(super) fn address4_on(&mut self, link: LinkId, address: Ipv4Addr, there: bool) {
        let state = if there { AddressState::Preferred } else { AddressState::Removed };
        self.feed_router(Input::Address(AddressEvent { link, address: address.to_ipv6_mapped(), state }));
    }

    /// The router of the visited link speaks.
    pub(super) fn advertise(&mut self, prefix: &str, lifetime: u16) {
        self.advertise_on(UPLINK, prefix, lifetime);
    }

    pub(super) fn advertise_on(&mut self, link: LinkId, prefix: &str, lifetime: u16) {
        let prefix = net(prefix);
        let valid = if lifetime == 0 { 0 } else { 86_400 };
        let message = icmp6::Message::RouterAdvertisement(RouterAdvertisement {
            hop_limit: 64,
            lifetime,
            options: vec![
                NeighbourOption::SourceLinkAddress(ROUTER_MAC),
                NeighbourOption::PrefixInformation {
                    prefix,
                    address: prefix.address(),
                    on_link: true,
                    autonomous: true,
                    router_address: false,
                    valid,
                    preferred: valid / 2,
                },
            ],
            ..RouterAdvertisement::default()
        });
        let source = ip("fe80::1");
        let header = Header::new(source, icmp6::ALL_NODES).with_hop_limit(255);
        let bytes = ip6::emit(&header, protocol::ICMPV6, &message.emit(source, icmp6::ALL_NODES));
        self.feed_router(Input::Packet(Packet { link, sender: Some(ROUTER_MAC), bytes }));
    }

    pub(super) fn tunnel<'a>(&self, plan: &'a Plan) -> Option<&'a Tunnel> {
        plan.iter().find_map(|(_, item)| match item {
            Item::Tunnel(tunnel) => Some(tunnel),
            _ => None,
        })
    }

    /// The path that carries packets at the home agent, and at the mobile router.
    pub(super) fn active_paths(&self) -> [Option<TunnelPath>; 2] {
        [&self.agent_plan, &self.router_plan].map(|plan| {
            let tunnel = self.tunnel(plan)?;
            tunnel.paths.iter().find(|path| path.weight > 0).cloned()
        })
    }

    /// The remote IPv4 endpoint of the home agent's active path, if it is over IPv4.
    pub(super) fn remote4(&self) -> Option<Ipv4Endpoint> {
        let [agent, _] = self.active_paths();
        agent.and_then(|path| Ipv4Endpoint::from_ipv6(path.remote))
    }

    /// Whether both ends use each other's path, and packets would pass.
    pub(super) fn is_connected(&self) -> bool {
        let [Some(agent), Some(router)] = self.active_paths() else { return false };
        match (Ipv4Endpoint::from_ipv6(agent.remote), Ipv4Endpoint::from_ipv6(router.local)) {
            (Some(outside), Some(inside)) => self.origin(outside) == router.link.map(|link| (link, inside)),
            (None, None) => {
                let inside = self.inside66.get(&agent.remote).map_or(agent.remote, |(_, end)| end.address);
                router.link.is_some_and(|link| self.has_ipv6(link))
                    && inside == router.local
                    && agent.local == router.remote
                    && agent.encap.is_native() == router.encap.is_native()
            }
            _ => false,
        }
    }

    pub(super) fn view(&self) -> View {
        let mut view = View::default();
        self.agent.view(self.now, &mut view);
        view
    }

    /// How many updates the mobile router has sent.
    pub(super) fn updates(&self) -> usize {
        self.reports.iter().filter(|(_, report)| matches!(report, Report::Nemo(NemoReport::UpdateSent { .. }))).count()
    }
}
