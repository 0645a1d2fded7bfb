//! Fuzz harness: invariants of the mobile router under arbitrary input, for the fuzzer and the seeded loop alike.

use super::{MobileRouter, forwarding};
use crate::contract::command::{LifecycleCommand, MobileRouterCommand};
use crate::contract::config::nemo::{
    Authentication, CareOfPrefixConfig, DadMode, IngressConfig, LoadSharing, MobileRouterConfig, PrefixMode,
    PrefixPreference, PrefixSharing, ProbeConfig, SecurityAssociationPair, SharedKey, Transport, UplinkConfig,
};
use crate::contract::input::{Interception, NeighbourEvent};
use crate::crypto::authenticator::authenticate;
use crate::crypto::esp::{Integrity, SecurityAssociation};
use crate::{
    Clock, Command, Engine, Entropy, Input, Item, Key, LinkEvent, LinkId, Outbox, Outcome, Output, Packet, Put, Time,
    Transmit, Via, View,
};
use core::time::Duration;
use roam6_wire::dhcp6::{
    self, CLIENT_PORT, ClientServerMessage, DhcpOption, Duid, IdentityAssociation, MessageType, SERVER_PORT, Timers,
};
use roam6_wire::icmp6::{self, NeighbourAdvertisement, NeighbourOption, RouterAdvertisement};
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{self, AckFlags, BindingAcknowledgement, MobilityOption, Status};
use roam6_wire::udp::Udp;
use roam6_wire::{Bid, CareOfAddress, HomeAddress, LinkAddress, Prefix, Reader};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Limits of outputs for one input, and of timer calls at one time.
const MAX_OUTPUTS: usize = 400;
const MAX_TICKS: usize = 64;
/// Maximum items of a mobile router.
const MAX_ITEMS: usize = 300;
/// Actions from the first value on are answers of DHCPv6 servers; from the second on, confirmation of all items.
const DELEGATION: u8 = 0xe0;
const CONFIRMATION: u8 = 0xf0;
const KEY: [u8; 16] = [7; 16];
const HOME: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x100);
const HOME_AGENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// The ingress interface.
const INGRESS: LinkId = LinkId(3);
const PEER: LinkAddress = LinkAddress([2, 0, 0, 0, 1, 1]);

/// Runs the events encoded in `data`, and asserts the invariants after each.
///
/// # Panics
///
/// If an invariant is violated.
pub fn run(data: &[u8]) {
    let mut reader = Reader::new("scenario", data);
    let seed = reader.u8().unwrap_or_default();
    let mut world = Harness::new(seed);
    while let Ok(action) = reader.u8() {
        let choice = reader.u8().unwrap_or_default();
        match world.next_input(action, choice, &mut reader) {
            Some(input) => world.feed(&input),
            None if action >= CONFIRMATION => world.confirm_all(),
            None => world.wait(Duration::from_millis(u64::from(choice) * u64::from(choice) / 8)),
        }
    }
    world.feed(&Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    assert!(
        world.plan.keys().all(|key| matches!(key, Key::JournalRecord(_))),
        "stopped, yet it holds {:?}",
        world.plan
    );
}

struct Harness {
    router: MobileRouter,
    now: Time,
    plan: BTreeMap<Key, Put>,
    up: BTreeMap<LinkId, bool>,
    /// The last Binding Update, and its source.
    update: Option<(Ipv6Addr, mobility::BindingUpdate)>,
    /// The last DHCPv6 message, with its interface and source.
    dhcp_request: Option<(LinkId, Ipv6Addr, ClientServerMessage)>,
    /// The prefixes last advertised as preferred, and until when.
    preferred: BTreeMap<Prefix, Time>,
}

impl Harness {
    fn new(seed: u8) -> Harness {
        let router = MobileRouter::new(config(seed), Entropy::seed_from_u64(seed.into()));
        let (plan, up) = (BTreeMap::new(), BTreeMap::new());
        let mut world =
            Harness { router, now: Time::ZERO, plan, up, update: None, dhcp_request: None, preferred: BTreeMap::new() };
        world.feed(&Input::Clock(Clock { unix_micros: 1_790_000_000_000_000 }));
        world
    }

    /// The next input; `None`: time passes, or the host confirms all items.
    fn next_input(&mut self, action: u8, choice: u8, reader: &mut Reader<'_>) -> Option<Input> {
        let link = LinkId(u32::from(choice % 3) + 1);
        if action >= DELEGATION {
            return self.dhcp_answer(choice, reader.u8().unwrap_or_default()).filter(|_| action < CONFIRMATION);
        }
        Some(match action % 10 {
            0 | 1 => Input::Link(LinkEvent {
                link,
                name: format!("if{}", link.0),
                address: Some(LinkAddress([2, 0, 0, 0, 0, choice % 3])),
                up: choice & 7 != 7,
                mtu: 1280 + u32::from(choice),
            }),
            2 | 3 => self.advertisement(link, choice, reader.u8().unwrap_or_default()),
            4 | 5 => self.home_agent_answer(choice, reader.u8().unwrap_or_default())?,
            6 => {
                let length = usize::from(choice).min(reader.len());
                let bytes = reader.bytes(length).unwrap_or_default().to_vec();
                Input::Packet(Packet { link, sender: Some(PEER), bytes })
            }
            7 => self.neighbour(link, choice),
            8 if choice & 1 == 0 => {
                let put = self.plan.values().nth(usize::from(choice))?;
                Input::Outcome(put.outcome((choice & 2 == 0).then(|| "refused".to_owned())))
            }
            8 => Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(config(choice))))),
            _ => return None,
        })
    }

    fn advertisement(&self, link: LinkId, choice: u8, detail: u8) -> Input {
        let prefix = if choice & 0xc0 == 0 {
            HOME
        } else {
            Ipv6Addr::new(0x2001, 0xdb8, u16::from(detail & 7) + 1, 0, 0, 0, 0, 0)
        };
        let lifetime = u32::from(detail) * 20;
        let message = icmp6::Message::RouterAdvertisement(RouterAdvertisement {
            home_agent: choice & 0x20 != 0,
            lifetime: u16::from(detail),
            options: vec![
                NeighbourOption::SourceLinkAddress(PEER),
                NeighbourOption::Mtu(1200 + u32::from(detail)),
                NeighbourOption::AdvertisementInterval { milliseconds: u32::from(detail) * 16 },
                NeighbourOption::PrefixInformation {
                    prefix: Prefix::new(prefix, 64).unwrap_or(Prefix::ALL),
                    address: HOME_AGENT,
                    on_link: choice & 7 != 7,
                    autonomous: choice & 0x38 != 0x38,
                    router_address: choice & 4 == 0,
                    valid: lifetime,
                    preferred: lifetime / 2,
                },
            ],
            ..RouterAdvertisement::default()
        });
        let source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(choice >> 3) + 1);
        self.on_link(link, source, &message)
    }

    fn neighbour(&self, link: LinkId, choice: u8) -> Input {
        let mut addresses = self.plan.keys().filter_map(|key| match key {
            Key::Address(_, address) => Some(*address),
            _ => None,
        });
        let target = addresses.nth(usize::from(choice % 4)).unwrap_or(HOME);
        if choice & 0x80 == 0 {
            let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(choice >> 3) + 1);
            return Input::Neighbour(NeighbourEvent { link, address: router, link_address: None, reachable: false });
        }
        let options = vec![NeighbourOption::TargetLinkAddress(PEER)];
        let message = NeighbourAdvertisement { router: true, solicited: false, overrides: true, target, options };
        self.on_link(link, target, &icmp6::Message::NeighbourAdvertisement(message))
    }

    fn on_link(&self, link: LinkId, source: Ipv6Addr, message: &icmp6::Message) -> Input {
        let header = Header::new(source, icmp6::ALL_NODES).with_hop_limit(icmp6::ON_LINK_HOP_LIMIT);
        let bytes = ip6::emit(&header, protocol::ICMPV6, &message.emit(source, icmp6::ALL_NODES));
        Input::Packet(Packet { link, sender: Some(PEER), bytes })
    }

    /// The home agent's answer to the last update, with any status.
    fn home_agent_answer(&self, choice: u8, status: u8) -> Option<Input> {
        let (source, update) = self.update.as_ref()?;
        let identifiers = update.options.iter().filter(|option| matches!(option, MobilityOption::BindingIdentifier(_)));
        let mut options: Vec<MobilityOption> = identifiers.filter(|_| choice & 7 != 1).cloned().collect();
        options.push(MobilityOption::BindingRefreshAdvice((choice >> 4).into()));
        let stamp = update.options.iter().find_map(|option| match option {
            MobilityOption::ReplayProtection(stamp) => Some(*stamp),
            _ => None,
        });
        let clock = if choice & 0x0f == 0x0a { u64::from(status) << 56 } else { 0 };
        options.push(MobilityOption::ReplayProtection(stamp.unwrap_or_default() ^ clock));
        let message = mobility::Message::BindingAcknowledgement(BindingAcknowledgement {
            status: Status(if choice & 7 != 2 { 0 } else { status }),
            flags: if choice & 0x78 != 0x78 { AckFlags::ROUTER } else { AckFlags::NONE },
            sequence: update.sequence,
            lifetime_units: u16::from(choice >> 2),
            options,
        });
        let mut protocol = protocol::MOBILITY;
        let mut payload = message.emit_authenticated(HOME_AGENT, HOME, 256, |part| {
            authenticate(&KEY, CareOfAddress(*source), HomeAddress(HOME), part)
        });
        if let Authentication::Ipsec(pair) = &self.router.config.authentication {
            payload = pair.to_mobile_router.seal(1, protocol, &payload);
            protocol = protocol::ESP;
        }
        let header = Header::new(HOME_AGENT, *source);
        let header = if *source == HOME { header } else { header.with_routing_home(HOME) };
        let bytes = ip6::emit(&header, protocol, &payload);
        Some(Input::Packet(Packet { link: LinkId(1), sender: Some(PEER), bytes }))
    }

    /// A server's answer to the last DHCPv6 message, correct or not.
    fn dhcp_answer(&self, choice: u8, detail: u8) -> Option<Input> {
        let (link, client, dhcp_request) = self.dhcp_request.as_ref()?;
        let kind = if choice & 3 == 0 { MessageType::Advertise } else { MessageType::Reply };
        let mut options = vec![DhcpOption::ServerId(Duid::from_uuid([choice >> 6; 16])), DhcpOption::RapidCommit];
        options.extend(dhcp_request.options.iter().filter(|option| matches!(option, DhcpOption::ClientId(_))).cloned());
        let lease = |number: u8| {
            let network = u16::from((detail & 7).wrapping_add(number));
            let address = Ipv6Addr::new(0x2001, 0xdb8, 0xa0 + network, 0, 0, 0, 0, 0);
            let prefix = Prefix::new(address, 56 + (choice >> 2 & 8)).unwrap_or(Prefix::ALL);
            let valid = u32::from(detail >> 3) * u32::from(detail);
            DhcpOption::Prefix(dhcp6::Prefix { prefix, preferred: valid / 2, valid, options: Vec::new() })
        };
        let id = dhcp_request.options.iter().find_map(|option| match option {
            DhcpOption::Prefixes(association) => Some(association.id),
            _ => None,
        })?;
        let inside = (0..choice >> 3 & 3).map(lease).collect();
        options.push(DhcpOption::Prefixes(IdentityAssociation { id, timers: Timers::default(), options: inside }));
        let exchange = ClientServerMessage { kind, transaction: dhcp_request.transaction, options };
        let payload = dhcp6::Message::Exchange(exchange).emit();
        let server = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x547);
        let udp = Udp { source: SERVER_PORT, destination: CLIENT_PORT, payload: &payload };
        let bytes = ip6::emit(&Header::new(server, *client), protocol::UDP, &udp.emit(server, *client));
        Some(Input::Packet(Packet { link: *link, sender: Some(PEER), bytes }))
    }

    /// The host confirms all items.
    fn confirm_all(&mut self) {
        let outcomes: Vec<Outcome> = self.plan.values().map(|put| put.outcome(None)).collect();
        for outcome in outcomes {
            self.feed(&Input::Outcome(outcome));
        }
    }

    fn wait(&mut self, span: Duration) {
        let end = self.now + span;
        let mut ticks = 0;
        while let Some(next) = self.router.deadline().filter(|next| *next <= end) {
            ticks = if next > self.now { 0 } else { ticks + 1 };
            assert!(ticks < MAX_TICKS, "turns in circles at {}: {:?}", self.now, self.router);
            self.now = self.now.max(next);
            self.feed(&Input::Tick);
        }
        self.now = end;
    }

    fn feed(&mut self, input: &Input) {
        if let Input::Link(event) = input {
            self.up.insert(event.link, event.up);
            if event.link == INGRESS {
                // The nodes have changed.
                self.preferred.clear();
            }
        }
        let mut out = Outbox::new();
        let mut queried = None;
        self.router.handle(self.now, input, &mut out);
        assert!(out.outputs().len() < MAX_OUTPUTS, "{} outputs of one input", out.outputs().len());
        for output in out.drain() {
            match output {
                Output::Put(put) => {
                    self.plan.insert(put.item.key(), put);
                }
                Output::Drop(key) => {
                    assert!(self.plan.remove(&key).is_some(), "dropped an item that was not put: {key:?}");
                }
                Output::Transmit(transmit) => self.record_sent(&transmit),
                Output::Report(_)
                | Output::ActivityQuery(_)
                | Output::LinkTrafficQuery(_)
                | Output::PathTrafficQuery(_)
                | Output::ChannelUseQuery(_)
                | Output::Verify(_)
                | Output::Sign(_)
                | Output::Frame(_) => {}
                Output::InterceptionQuery(link) => queried = Some(link),
            }
        }
        if let Some(link) = queried {
            let url = Some("http://a\u{1b}[2J\n".to_owned());
            self.router.handle(self.now, &Input::Interception(Interception { link, accepted: true, url }), &mut out);
            assert!(out.drain().all(|output| matches!(output, Output::Report(_))), "a hint has no other consequence");
        }
        let mut view = View::default();
        self.router.view(self.now, &mut view);
        let mut hints = view.links.iter().flat_map(|link| &link.hints);
        assert!(!hints.any(|hint| hint.contains(char::is_control)), "control characters in a hint");
        self.check();
    }

    fn record_sent(&mut self, transmit: &Transmit) {
        let Ok(datagram) = Datagram::parse(&transmit.bytes) else {
            assert_empty(&transmit.bytes);
            return;
        };
        match datagram.protocol {
            protocol::UDP => self.dhcp_request = parse_dhcp(transmit, &datagram),
            protocol::ICMPV6 => self.preferred.extend(preferred(self.now, &datagram)),
            _ => {}
        }
        let payload = match datagram.protocol {
            protocol::ESP => {
                pair().to_home_agent.open(datagram.payload).map(|opened| opened.payload).unwrap_or_default()
            }
            _ => datagram.payload,
        };
        if let Ok(mobility::Message::BindingUpdate(update)) =
            mobility::Message::parse(payload, datagram.real_source(), datagram.destination)
        {
            self.update = Some((datagram.source, update));
        }
    }

    /// No stale items, and a bounded number of them.
    fn check(&self) {
        assert!(self.plan.len() < MAX_ITEMS, "{} items", self.plan.len());
        for (prefix, _) in self.preferred.iter().filter(|(_, until)| **until > self.now) {
            let leads = |item: &Item| matches!(item, Item::Rule(rule) if rule.source.covers(*prefix));
            assert!(self.plan.values().any(|put| leads(&put.item)), "{prefix} is preferred and has no route");
        }
        let Some(Put { item: Item::Tunnel(tunnel), .. }) = self.plan.get(&Key::Tunnel(forwarding::TUNNEL)) else {
            return;
        };
        for path in &tunnel.paths {
            let link = path.link.unwrap_or(LinkId(0));
            assert_eq!(self.up.get(&link), Some(&true), "a path over {link}, which is down");
            let needs = if path.direct { Key::Neighbour(link, path.remote) } else { Key::Address(link, path.local) };
            assert!(self.plan.contains_key(&needs), "a path without {needs:?}");
            // 1280, without an IPv6 header and that of UDP.
            assert!(path.mtu >= 1232, "a path of {} octets", path.mtu);
        }
    }
}

/// The prefixes of an advertisement, and until when they are preferred.
fn preferred(now: Time, datagram: &Datagram<'_>) -> Vec<(Prefix, Time)> {
    let Ok(icmp6::Message::RouterAdvertisement(message)) = icmp6::Message::parse(datagram) else { return Vec::new() };
    let until = |option: &NeighbourOption| match option {
        NeighbourOption::PrefixInformation { prefix, preferred, .. } if *prefix != mobile_network() => {
            Some((*prefix, now + Duration::from_secs((*preferred).into())))
        }
        _ => None,
    };
    message.options.iter().filter_map(until).collect()
}

/// The DHCPv6 message as a server receives it.
fn parse_dhcp(transmit: &Transmit, datagram: &Datagram<'_>) -> Option<(LinkId, Ipv6Addr, ClientServerMessage)> {
    let udp = Udp::parse(datagram.payload, datagram.source, datagram.destination).ok()?;
    match (dhcp6::Message::parse(udp.payload), transmit.via) {
        (Ok(dhcp6::Message::Exchange(exchange)), Via::Link(link)) => Some((link, datagram.source, exchange)),
        _ => None,
    }
}

/// A sent packet must parse.
fn assert_empty(bytes: &[u8]) {
    assert!(bytes.is_empty(), "sent a malformed packet: {bytes:02x?}");
}

fn pair() -> SecurityAssociationPair {
    let association = |spi| SecurityAssociation { spi, integrity: Integrity::HmacSha256, key: vec![7; 32] };
    SecurityAssociationPair { to_home_agent: association(256), to_mobile_router: association(257) }
}

fn mobile_network() -> Prefix {
    Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, 0xf00, 0, 0, 0, 0, 0), 64).unwrap_or(Prefix::ALL)
}

fn config(choice: u8) -> MobileRouterConfig {
    let uplink = |number: u8| UplinkConfig {
        interface: format!("if{number}"),
        bid: Bid(number.into()),
        priority: if choice & 1 == 0 { number } else { 1 },
        weight: (choice >> 6).into(),
        transport: if choice & 2 == 0 { Transport::Native } else { Transport::Auto },
        ..Default::default()
    };
    let prefixes = vec![mobile_network()];
    MobileRouterConfig {
        home_address: HomeAddress(HOME),
        home_prefix: Prefix::new(HOME, 64).unwrap_or(Prefix::ALL),
        home_agents: vec![HOME_AGENT; usize::from(choice >> 4 & 1) + 1],
        prefix_mode: if choice & 2 == 0 { PrefixMode::Implicit } else { PrefixMode::Explicit },
        authentication: match choice & 0x88 {
            0x88 => Authentication::Ipsec(Box::new(pair())),
            _ => Authentication::SharedKey(SharedKey { spi: 256, secret: KEY.to_vec() }),
        },
        home_and_away: choice & 0x20 != 0,
        portal_check: choice & 0x10 != 0,
        lifetime: Duration::from_secs(60),
        uplinks: vec![uplink(1), uplink(2)],
        load_sharing: match choice >> 2 & 3 {
            0 => LoadSharing::Single,
            1 => LoadSharing::Standby,
            _ => LoadSharing::Weighted,
        },
        ingress: prefixes
            .iter()
            .map(|prefix| IngressConfig {
                interface: "if3".to_owned(),
                prefix: *prefix,
                advertisement_interval: Duration::from_millis(u64::from(choice) * 10),
                ..Default::default()
            })
            .collect(),
        prefixes,
        duplicate_detection: match choice >> 4 & 3 {
            0 => DadMode::Off,
            1 => DadMode::Wait,
            _ => DadMode::Optimistic,
        },
        probe: (choice & 0x20 == 0).then(ProbeConfig::default),
        care_of_prefixes: (!choice.is_multiple_of(3)).then_some(CareOfPrefixConfig {
            delegation: !choice.is_multiple_of(5),
            length: choice & 0x38,
            share: if choice & 4 == 0 { PrefixSharing::NdProxy } else { PrefixSharing::Never },
            prefer: if choice & 2 == 0 { PrefixPreference::CareOf } else { PrefixPreference::Either },
        }),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::fuzz_inputs;

    #[test]
    fn the_committed_corpus_passes() {
        fuzz_inputs::run_files("../fuzz/corpus/mobile_router", run);
    }

    #[test]
    fn mobile_router_invariants_hold_for_every_seed() {
        fuzz_inputs::run_seeds(100, 4000, run);
    }
}
