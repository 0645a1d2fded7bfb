//! Test bench: a mobile router, its inputs, and checks of its outputs.

mod addresses;
mod attach;
mod blackhole;
mod bonding;
mod cadence;
mod care_of_prefix;
mod damping;
mod data_plan;
mod encryption;
mod esp;
mod failover;
mod faults;
mod flows;
mod forged;
mod hints;
mod home;
mod home_and_away;
mod home_prefix;
mod hostile;
mod interfaces;
mod ipsec;
mod links;
mod mcoa;
mod quality;
mod renumbering;
mod replication;
mod resolvers;
mod restart;
mod sources;

use super::*;
use crate::contract::command::LifecycleCommand;
use crate::contract::config::nemo as config;
use crate::contract::config::nemo::{
    Authentication, DadMode, HomeNetwork, IngressConfig, LoadSharing, PrefixMode, SharedKey,
};
use crate::contract::input::NeighbourEvent;
use crate::contract::item::{JournalRecord, NextHop, RouteTable, SequenceRecord, Tunnel, TunnelId};
use crate::crypto::authenticator::{authenticate, verify};
use crate::nemo::dsmip::encapsulate;
use crate::{Clock, Command, Item, Key, Output, Packet, Plan, Put, Report, Transmit, Via};
use core::time::Duration;
use roam6_wire::icmp6::{
    self, NeighbourAdvertisement, NeighbourOption, NeighbourSolicitation, RouterAdvertisement, RouterSolicitation,
};
use roam6_wire::ip4::Encapsulated;
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{
    self, AckFlags, BindingAcknowledgement, BindingIdentifier, BindingUpdate, CareOfField, MobilityOption, Status,
    UpdateFlags, authenticated_part,
};
use roam6_wire::{CareOfAddress, HomeAddress, Ipv4Endpoint, LinkAddress, Prefix};
use std::collections::BTreeMap;

const WIFI: LinkId = LinkId(2);
const CELL: LinkId = LinkId(3);
const LAN: LinkId = LinkId(4);
const MAC: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 2]);
const ROUTER_MAC: LinkAddress = LinkAddress([2, 0, 0, 0, 1, 1]);
const KEY: [u8; 16] = *b"0123456789abcdef";
const LIFETIME: u16 = 15;

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn net(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

fn config() -> MobileRouterConfig {
    let uplink = |interface: &str, bid: u16, priority: u8| config::UplinkConfig {
        interface: interface.to_owned(),
        bid: Bid(bid),
        priority,
        ..Default::default()
    };
    MobileRouterConfig {
        home_address: HomeAddress(ip("2001:db8::100")),
        home_prefix: net("2001:db8::/64"),
        home_agents: vec![ip("2001:db8::1")],
        prefixes: vec![net("2001:db8:f00::/56")],
        prefix_mode: PrefixMode::Implicit,
        authentication: Authentication::SharedKey(SharedKey { spi: 256, secret: KEY.to_vec() }),
        lifetime: Duration::from_secs(60),
        uplinks: vec![uplink("wifi", 1, 1), uplink("cell", 2, 2)],
        ingress: vec![IngressConfig {
            interface: "lan".to_owned(),
            prefix: net("2001:db8:f00::/64"),
            advertisement_interval: Duration::from_secs(10),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A router under test, and the host it believes to have.
#[derive(Clone)]
struct TestBed {
    router: MobileRouter,
    plan: Plan,
    /// The last `Put` of each key.
    puts: BTreeMap<Key, Put>,
    now: Time,
    /// Packets that the interfaces count.
    counters: u64,
    /// Echo replies that are under way, and when they arrive, milliseconds.
    replies: Vec<(u64, icmp6::Echo)>,
}

impl TestBed {
    fn new(config: MobileRouterConfig) -> TestBed {
        let router = MobileRouter::new(config, Entropy::seed_from_u64(1));
        let (plan, puts, replies) = (Plan::new(), BTreeMap::new(), Vec::new());
        let mut bench = TestBed { router, plan, puts, now: Time::ZERO, counters: 0, replies };
        let sequence = SequenceRecord { home_address: HomeAddress(ip("2001:db8::100")), sequence: Sequence(84) };
        bench.feed(Input::Clock(Clock { unix_micros: 1_790_000_000_000_000 }));
        if bench.router.config.authentication != Authentication::None {
            bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(vec![
                JournalRecord::Sequence(sequence),
            ]))));
        }
        bench
    }

    /// Feeds `input` now; the outputs, in order. The host applies them.
    fn feed(&mut self, input: Input) -> Vec<Output> {
        let mut out = Outbox::new();
        self.router.handle(self.now, &input, &mut out);
        let outputs: Vec<Output> = out.drain().collect();
        for output in &outputs {
            match output {
                Output::Put(put) => {
                    self.plan.put(put.item.clone());
                    self.puts.insert(put.item.key(), put.clone());
                }
                Output::Drop(key) => {
                    self.plan.drop(key);
                }
                _ => {}
            }
        }
        outputs
    }

    /// Advances the time to `millis`, with a tick at every deadline.
    fn wait(&mut self, millis: u64) -> Vec<Output> {
        let mut outputs = Vec::new();
        for _ in 0..100_000 {
            let Some(next) = self.router.deadline().filter(|next| *next <= at(millis)) else {
                self.now = at(millis);
                return outputs;
            };
            self.now = self.now.max(next);
            outputs.extend(self.feed(Input::Tick));
        }
        panic!("never at rest: {:?}", self.router.deadline());
    }

    fn link(&mut self, link: LinkId, up: bool) -> Vec<Output> {
        let name = match link {
            WIFI => "wifi",
            CELL => "cell",
            _ => "lan",
        };
        let address = LinkAddress([2, 0, 0, 0, 0, link.0 as u8]);
        let event = LinkEvent { link, name: name.to_owned(), address: Some(address), up, mtu: 1500 };
        self.feed(Input::Link(event))
    }

    /// An advertisement of `fe80::1` for the /64 of `prefix`.
    fn advertise(&mut self, link: LinkId, prefix: &str) -> Vec<Output> {
        self.router_advertisement(link, ip("fe80::1"), prefix, 1800)
    }

    fn router_advertisement(&mut self, link: LinkId, source: Ipv6Addr, prefix: &str, lifetime: u16) -> Vec<Output> {
        let message = icmp6::Message::RouterAdvertisement(RouterAdvertisement {
            hop_limit: 64,
            lifetime,
            options: vec![NeighbourOption::SourceLinkAddress(ROUTER_MAC), information(prefix)],
            ..RouterAdvertisement::default()
        });
        self.neighbour(link, source, icmp6::ALL_NODES, &message)
    }

    /// A router answers that it is reachable.
    fn confirm_router(&mut self, link: LinkId, router: Ipv6Addr) -> Vec<Output> {
        let (options, overrides) = (vec![NeighbourOption::TargetLinkAddress(ROUTER_MAC)], true);
        let advertisement =
            NeighbourAdvertisement { router: true, solicited: true, overrides, target: router, options };
        let own = LinkAddress([2, 0, 0, 0, 0, link.0 as u8]).link_local();
        self.neighbour(link, router, own, &icmp6::Message::NeighbourAdvertisement(advertisement))
    }

    /// A neighbour discovery message of another node.
    fn neighbour(
        &mut self,
        link: LinkId,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        message: &icmp6::Message,
    ) -> Vec<Output> {
        let header = Header::new(source, destination).with_hop_limit(255);
        let bytes = ip6::emit(&header, protocol::ICMPV6, &message.emit(source, destination));
        self.feed(Input::Packet(Packet { link, sender: Some(ROUTER_MAC), bytes }))
    }

    /// The home agent's answer to `update`.
    fn acknowledge(&mut self, update: &Update, status: Status) -> Vec<Output> {
        let options = update.bid_options().into_iter().map(MobilityOption::BindingIdentifier).collect();
        self.acknowledge_with(update, status, AckFlags::ROUTER, update.message.sequence, options)
    }

    fn acknowledge_with(
        &mut self,
        update: &Update,
        status: Status,
        flags: AckFlags,
        sequence: Sequence,
        mut options: Vec<MobilityOption>,
    ) -> Vec<Output> {
        let home = self.router.config.home_address;
        if !options.iter().any(|option| matches!(option, MobilityOption::ReplayProtection(_))) {
            options.extend(update.timestamp().map(MobilityOption::ReplayProtection));
        }
        let lifetime_units = if status.is_accepted() { update.message.lifetime_units.min(LIFETIME) } else { 0 };
        let message = BindingAcknowledgement { status, flags, sequence, lifetime_units, options };
        let message = mobility::Message::BindingAcknowledgement(message);
        let care_of = CareOfAddress(update.source);
        let payload =
            message.emit_authenticated(update.home_agent, home.0, 256, |part| authenticate(&KEY, care_of, home, part));
        let mut header = Header::new(update.home_agent, update.source);
        if update.source != home.0 {
            header = header.with_routing_home(home.0);
        }
        let bytes = ip6::emit(&header, protocol::MOBILITY, &payload);
        let (link, bytes) = match update.ends {
            Some((own, home_agent)) => (CELL, encapsulate(home_agent, own, &bytes)),
            None => (WIFI, bytes),
        };
        self.feed(Input::Packet(Packet { link, sender: Some(ROUTER_MAC), bytes }))
    }

    /// Up on `link` in the network of `prefix`, and registered; the update that did it.
    fn attach(&mut self, link: LinkId, prefix: &str) -> Update {
        self.link(link, true);
        let outputs = self.advertise(link, prefix);
        let update = update(&outputs);
        self.acknowledge(&update, Status::ACCEPTED);
        update
    }

    fn tunnel(&self) -> Option<&Tunnel> {
        match self.plan.find(&Key::Tunnel(TunnelId(1)))? {
            Item::Tunnel(tunnel) => Some(tunnel),
            _ => None,
        }
    }

    /// The paths of the tunnel: near end and weight.
    fn paths(&self) -> Vec<(Ipv6Addr, u16)> {
        self.tunnel()
            .map(|tunnel| tunnel.paths.iter().map(|path| (path.local, path.weight)).collect())
            .unwrap_or_default()
    }
}

fn information(prefix: &str) -> NeighbourOption {
    let prefix = net(prefix);
    NeighbourOption::PrefixInformation {
        prefix,
        address: prefix.address(),
        on_link: true,
        autonomous: true,
        router_address: false,
        valid: 86_400,
        preferred: 14_400,
    }
}

/// A Binding Update as it was sent.
#[derive(Debug, Clone)]
struct Update {
    via: Via,
    /// Its source and destination over IPv4, if it was sent so.
    ends: Option<(Ipv4Endpoint, Ipv4Endpoint)>,
    source: Ipv6Addr,
    home_agent: Ipv6Addr,
    message: BindingUpdate,
}

impl Update {
    /// Its Replay Protection timestamp (RFC 4285 §6).
    fn timestamp(&self) -> Option<u64> {
        self.message.options.iter().find_map(|option| match option {
            MobilityOption::ReplayProtection(stamp) => Some(*stamp),
            _ => None,
        })
    }

    fn bid_options(&self) -> Vec<BindingIdentifier> {
        let options = self.message.options.iter();
        options
            .filter_map(|option| match option {
                MobilityOption::BindingIdentifier(identifier) => Some(*identifier),
                _ => None,
            })
            .collect()
    }

    fn care_of(&self) -> Vec<Ipv6Addr> {
        let options = self.message.options.iter();
        options
            .filter_map(|option| match option {
                MobilityOption::BindingIdentifier(BindingIdentifier { care_of: CareOfField::V6(address), .. }) => {
                    Some(*address)
                }
                MobilityOption::AlternateCareOf(address) => Some(*address),
                _ => None,
            })
            .collect()
    }
}

fn transmits(outputs: &[Output]) -> Vec<&Transmit> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Transmit(transmit) => Some(transmit),
            _ => None,
        })
        .collect()
}

/// The Binding Updates among `outputs`, each with a valid authenticator.
fn updates(outputs: &[Output]) -> Vec<Update> {
    let mut found = Vec::new();
    for transmit in transmits(outputs) {
        let outer = (transmit.bytes[0] >> 4 == 4).then(|| Encapsulated::parse(&transmit.bytes).unwrap());
        let datagram = Datagram::parse(outer.as_ref().map_or(&transmit.bytes[..], |outer| outer.inner)).unwrap();
        if datagram.protocol != protocol::MOBILITY {
            continue;
        }
        let home = HomeAddress(datagram.real_source());
        let parsed = mobility::Message::parse(datagram.payload, home.0, datagram.destination).unwrap();
        let mobility::Message::BindingUpdate(message) = parsed else {
            panic!("{parsed:?}");
        };
        if let Some(MobilityOption::Authentication { data, .. }) = message.options.last() {
            let (part, _) = authenticated_part(datagram.payload).unwrap();
            assert!(verify(&KEY, CareOfAddress(datagram.source), home, &part, data));
        }
        let (source, home_agent) = (datagram.source, datagram.destination);
        let ends = outer.map(|outer| (outer.source, outer.destination));
        found.push(Update { via: transmit.via, ends, source, home_agent, message });
    }
    found
}

fn update(outputs: &[Output]) -> Update {
    let found = updates(outputs);
    assert_eq!(found.len(), 1, "{outputs:#?}");
    found[0].clone()
}

fn messages(outputs: &[Output]) -> Vec<icmp6::Message> {
    let datagrams = transmits(outputs).into_iter().map(|transmit| Datagram::parse(&transmit.bytes).unwrap());
    datagrams.filter_map(|datagram| icmp6::Message::parse(&datagram).ok()).collect()
}

fn reports(outputs: &[Output]) -> Vec<&Report> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Report(report) => Some(report),
            _ => None,
        })
        .collect()
}

/// The kinds of outputs in their order, for what must come before what.
fn report_kinds(outputs: &[Output]) -> Vec<String> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Put(put) => Some(format!("put {:?}", put.item.key())),
            Output::Drop(key) => Some(format!("drop {key:?}")),
            Output::Transmit(transmit) => {
                let datagram = Datagram::parse(&transmit.bytes).unwrap();
                Some(format!("send {} {}", datagram.protocol, datagram.destination))
            }
            Output::Report(_)
            | Output::ActivityQuery(_)
            | Output::LinkTrafficQuery(_)
            | Output::PathTrafficQuery(_)
            | Output::ChannelUseQuery(_)
            | Output::InterceptionQuery(_)
            | Output::Verify(_)
            | Output::Sign(_)
            | Output::Frame(_) => None,
        })
        .collect()
}

fn position(outputs: &[Output], what: &str) -> usize {
    let kinds = report_kinds(outputs);
    kinds.iter().position(|kind| kind.starts_with(what)).unwrap_or_else(|| panic!("no {what} in {kinds:#?}"))
}
