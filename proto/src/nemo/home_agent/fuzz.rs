//! Fuzz harness: invariants of the home agent under any packets, outcomes of the host, time, link events and crashes.
//! One function, driven by the seeded loop in `cargo test`, by the committed corpus, and by the fuzzer.

use super::HomeAgent;
use super::home_routes::HOME_ROUTE_METRIC;
use super::types::HomeAgentTimer;
use super::unreachable_routes::UNREACHABLE_METRIC;
use crate::contract::command::{HomeAgentCommand, LifecycleCommand};
use crate::contract::config::nemo::{
    Authentication, HomeAgentConfig, PrefixTable, PrefixTableRow, SecurityAssociationPair, SharedKey,
};
use crate::contract::input::AddressState;
use crate::contract::item::{BindingRecord, JournalKey, JournalRecord, RouteTable, TunnelPath};
use crate::crypto::authenticator::{Timestamp, authenticate};
use crate::crypto::esp::{Integrity, SecurityAssociation};
use crate::{
    AddressEvent, Clock, Command, Engine, Entropy, Input, Item, Key, LinkEvent, LinkId, Outbox, Output, Packet, Plan,
    Put, Time,
};
use core::time::Duration;
use roam6_wire::checksum::checksum;
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{
    BindingIdentifier, BindingUpdate, CareOfField, FlowIdentification, Message, MobilityOption, Selector, Status,
    TrafficSelector, UpdateFlags,
};
use roam6_wire::{Bid, CareOfAddress, Fid, HomeAddress, LinkAddress, Prefix, Sequence};
use std::collections::VecDeque;
use std::net::Ipv6Addr;
use std::sync::Arc;

/// Maximum bindings, fewer than there are rows.
const MAX_BINDINGS: usize = 3;
/// The mobile router that uses ESP.
const ESP_ROUTER: u16 = 3;
const LINK: LinkId = LinkId(2);
const AGENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const START_UNIX_MICROS: u64 = 1_767_225_600_000_000;
/// Longer than every timer of a home agent.
const LONG: Duration = Duration::from_secs(4000);

/// Runs the events encoded in `data`, and checks the invariants after each and at the end.
///
/// # Panics
///
/// If an invariant is violated.
pub fn run(data: &[u8]) {
    let mut story = FuzzInput(data.iter());
    let mut world = Harness::new(story.byte());
    while let Some(event) = story.next() {
        world.event(event, &mut story);
        world.check();
    }
    world.run_out();
}

/// The octets of the input; zeros after its end.
struct FuzzInput<'a>(core::slice::Iter<'a, u8>);

impl FuzzInput<'_> {
    fn next(&mut self) -> Option<u8> {
        self.0.next().copied()
    }

    fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        self.0.by_ref().take(count).copied().collect()
    }
}

/// A home agent and its host.
struct Harness {
    agent: HomeAgent,
    config: HomeAgentConfig,
    now: Time,
    /// `Put`s without an outcome so far, and whether each is accepted.
    unanswered: VecDeque<(Put, bool)>,
    /// Items confirmed by the host.
    confirmed: Plan,
    /// Items put.
    requested: Plan,
    /// The number of next `Put`s that are rejected.
    puts_to_refuse: u8,
}

impl Harness {
    fn new(kind: u8) -> Harness {
        let config = config(kind);
        let mut world = Harness {
            agent: HomeAgent::new(config.clone(), Entropy::seed_from_u64(kind.into())),
            config,
            now: Time::ZERO,
            unanswered: VecDeque::new(),
            confirmed: Plan::new(),
            requested: Plan::new(),
            puts_to_refuse: 0,
        };
        world.feed(Input::Clock(Clock { unix_micros: START_UNIX_MICROS }));
        world.feed(Input::Command(Command::Lifecycle(LifecycleCommand::JournalRestored)));
        world
    }

    fn event(&mut self, event: u8, story: &mut FuzzInput<'_>) {
        match event % 16 {
            0 => self.advance(Duration::from_millis(u64::from(story.byte()) * 10)),
            1 => self.advance(Duration::from_secs(story.byte().into())),
            2..=5 => self.update(story),
            6 => self.mobility(story),
            7 => {
                let length = usize::from(story.byte());
                self.packet(story.bytes(length));
            }
            8 | 9 => self.answer_puts(story.byte() % 8),
            10 => self.puts_to_refuse = story.byte() % 4,
            11 => self.icmp6(story),
            12 => self.link(story.byte()),
            13 => {
                let order = self.command(story.byte());
                self.feed(Input::Command(order));
            }
            14 => self.crash(),
            _ => self.answer_puts(u8::MAX),
        }
    }

    /// Passes in one input; outputs are applied, but outcomes withheld.
    fn feed(&mut self, input: Input) {
        let mut out = Outbox::new();
        self.agent.handle(self.now, &input, &mut out);
        assert!(self.agent.deadline().is_none_or(|at| at > self.now), "an expired timer was not handled");
        for output in out.drain() {
            match output {
                Output::Put(put) if self.puts_to_refuse > 0 => {
                    self.puts_to_refuse -= 1;
                    self.unanswered.push_back((put, false));
                }
                Output::Put(put) => {
                    self.requested.put(put.item.clone());
                    self.unanswered.push_back((put, true));
                }
                Output::Drop(key) => {
                    self.requested.drop(&key);
                    self.confirmed.drop(&key);
                    // An item dropped before its outcome is not installed, whatever the outcome.
                    for (_, accepted) in self.unanswered.iter_mut().filter(|(put, _)| put.item.key() == key) {
                        *accepted = false;
                    }
                }
                Output::Transmit(transmit) => self.check_sent(&transmit.bytes),
                Output::Report(_)
                | Output::ActivityQuery(_)
                | Output::LinkTrafficQuery(_)
                | Output::PathTrafficQuery(_)
                | Output::ChannelUseQuery(_)
                | Output::InterceptionQuery(_)
                | Output::Verify(_)
                | Output::Sign(_)
                | Output::Frame(_) => {}
            }
        }
    }

    /// Checks a packet that the home agent sends; what it acknowledges must be installed.
    fn check_sent(&self, bytes: &[u8]) {
        let Ok(datagram) = Datagram::parse(bytes) else { unreachable!("what is sent is well formed") };
        let home = HomeAddress(datagram.real_destination());
        let payload = match datagram.protocol {
            protocol::MOBILITY => datagram.payload,
            protocol::ESP => match pair().to_mobile_router.open(datagram.payload) {
                Ok(opened) => opened.payload,
                Err(_) => unreachable!("sealed with the key of another router"),
            },
            _ => return,
        };
        let message = Message::parse(payload, datagram.real_source(), home.0);
        let Ok(Message::BindingAcknowledgement(acknowledgement)) = message else { return };
        assert_eq!(datagram.protocol == protocol::ESP, home.0 == home_address(ESP_ROUTER), "in ESP or not");
        if !acknowledgement.status.is_accepted() || acknowledgement.lifetime_units == 0 {
            return;
        }
        assert!(u64::from(acknowledgement.lifetime_seconds()) <= self.config.max_lifetime.as_secs());
        let Some(Item::JournalRecord(JournalRecord::Binding(record))) =
            self.confirmed.find(&Key::JournalRecord(JournalKey::Binding(home)))
        else {
            unreachable!("acknowledged before it is in the journal")
        };
        assert_eq!(record.sequence, acknowledgement.sequence, "the journal has another update");
        self.check_forwarding(record);
    }

    /// The host has confirmed all forwarding items of `record`.
    fn check_forwarding(&self, record: &BindingRecord) {
        let far = core::iter::once(Prefix::host(record.home_address.0)).chain(record.prefixes.iter().copied());
        let far: Vec<Prefix> = far.collect();
        let serves = |item: &Item| match item {
            Item::Tunnel(tunnel) => {
                // Over the home link if that is up.
                let at_home = |address: &Ipv6Addr| *address == record.home_address.0;
                let leads_to = |address: &Ipv6Addr| tunnel.paths.iter().any(|path| path.remote == *address);
                tunnel.remote_prefixes == far
                    && record.care_of.iter().all(|(_, address, _)| at_home(address) || leads_to(address))
            }
            _ => false,
        };
        assert!(self.confirmed.iter().any(|(_, item)| serves(item)), "acknowledged without a tunnel");
        for destination in far {
            let key = Key::Route(RouteTable::MAIN, destination, Prefix::ALL, super::forwarding::TUNNEL_METRIC);
            assert!(self.confirmed.find(&key).is_some(), "acknowledged without a route to {destination}");
        }
    }

    /// The host returns the oldest `count` outcomes.
    fn answer_puts(&mut self, count: u8) {
        for _ in 0..count {
            let Some((put, accepted)) = self.unanswered.pop_front() else { return };
            let outcome = put.outcome((!accepted).then(|| "refused".into()));
            if accepted {
                self.confirmed.put(put.item);
            }
            self.feed(Input::Outcome(outcome));
        }
    }

    fn advance(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(at) = self.agent.deadline().filter(|at| *at <= until) {
            self.now = at;
            self.feed(Input::Tick);
            self.check();
        }
        self.now = until;
    }

    /// A Binding Update that is well formed, and authentic or not.
    fn update(&mut self, story: &mut FuzzInput<'_>) {
        let who = u16::from(story.byte() % 6);
        let home = HomeAddress(home_address(who));
        let care_of = |number: u8| Ipv6Addr::new(0x2001, 0xdb8, 0xa0 + u16::from(number % 5), 0, 0, 0, 2, who);
        let (what, sequence, lifetime) = (story.byte(), story.byte(), story.byte());
        let source = if what & 1 == 1 { home.0 } else { care_of(what >> 1) };
        let mut options = Vec::new();
        for _ in 0..story.byte() % 5 {
            options.push(option(story, care_of, who));
        }
        let ahead = i64::from(story.byte().cast_signed()) * 100_000;
        let unix = (START_UNIX_MICROS + self.now.as_micros()).wrapping_add_signed(ahead);
        options.push(MobilityOption::ReplayProtection(Timestamp::from_unix_micros(unix).0));
        let registered = options.iter().find_map(|option| match option {
            MobilityOption::AlternateCareOf(address) => Some(*address),
            _ => None,
        });
        let flags = UpdateFlags(0xc000 | u16::from(story.byte()) << 3);
        let lifetime_units = u16::from(lifetime);
        let message = BindingUpdate { sequence: Sequence(sequence.into()), flags, lifetime_units, options };
        let header = Header::new(source, AGENT);
        let header = if source == home.0 { header } else { header.with_home_address(home.0) };
        let care_of = CareOfAddress(registered.unwrap_or(source));
        let bytes = Message::BindingUpdate(message)
            .emit_authenticated(home.0, AGENT, 256, |part| authenticate(&[7; 16], care_of, home, part));
        self.packet(match who {
            ESP_ROUTER if what & 0x80 == 0 => {
                ip6::emit(&header, protocol::ESP, &pair().to_home_agent.seal(1, protocol::MOBILITY, &bytes))
            }
            _ => ip6::emit(&header, protocol::MOBILITY, &bytes),
        });
    }

    /// A Mobility Header from the input, with a correct checksum.
    fn mobility(&mut self, story: &mut FuzzInput<'_>) {
        let home = home_address(u16::from(story.byte() % 6));
        let header = Header::new(Ipv6Addr::new(0x2001, 0xdb8, 0xa0, 0, 0, 0, 0, 9), AGENT).with_home_address(home);
        let units = story.byte() % 16;
        let mut bytes = vec![protocol::NONE, units, story.byte() % 12, 0, 0, 0];
        bytes.extend(story.bytes(usize::from(units) * 8 + 2));
        bytes.resize(usize::from(units) * 8 + 8, 0);
        let sum = checksum(home, AGENT, protocol::MOBILITY, &bytes);
        put_checksum(&mut bytes, 4, sum);
        self.packet(ip6::emit(&header, protocol::MOBILITY, &bytes));
    }

    /// An ICMPv6 message from the input, with a correct checksum.
    fn icmp6(&mut self, story: &mut FuzzInput<'_>) {
        let source = match story.byte() % 3 {
            0 => Ipv6Addr::UNSPECIFIED,
            1 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(story.byte())),
            _ => Ipv6Addr::new(0x2001, 0xdb8, 0xa0, 0, 0, 0, 0, 9),
        };
        let to = match story.byte() % 4 {
            0 => roam6_wire::icmp6::ALL_NODES,
            1 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0xfdff, 0xffff, 0xffff, 0xfffe),
            2 => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff01, u16::from(story.byte() % 6)),
            _ => AGENT,
        };
        let mut bytes = vec![story.byte(), 0, 0, 0];
        let length = usize::from(story.byte());
        bytes.extend(story.bytes(length));
        let sum = checksum(source, to, protocol::ICMPV6, &bytes);
        put_checksum(&mut bytes, 2, sum);
        self.packet(ip6::emit(&Header::new(source, to).with_hop_limit(255), protocol::ICMPV6, &bytes));
    }

    fn packet(&mut self, bytes: Vec<u8>) {
        self.feed(Input::Packet(Packet { link: LINK, sender: Some(LinkAddress([2; 6])), bytes }));
    }

    fn link(&mut self, what: u8) {
        let link = LinkId(2 + u32::from(what >> 1 & 1));
        let (name, address) = ("home0".to_owned(), Some(LinkAddress([2, 0, 0, 0, 0, 1])));
        self.feed(Input::Link(LinkEvent { link, name, address, up: what & 1 == 0, mtu: 1500 }));
        self.feed(Input::Address(AddressEvent { link, address: AGENT, state: AddressState::Preferred }));
    }

    fn command(&mut self, what: u8) -> Command {
        let home = HomeAddress(home_address(u16::from(what % 6)));
        match what >> 6 {
            0 => Command::HomeAgent(HomeAgentCommand::DeleteBinding(home)),
            1 => {
                let mut table = config(what).prefix_table;
                Arc::make_mut(&mut table).rows.retain(|row| row.home_address != home);
                Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(table))
            }
            2 => Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(config(0).prefix_table)),
            _ => Command::Lifecycle(LifecycleCommand::Stop),
        }
    }

    /// The daemon crashes and restarts with its journal; the host's items are still installed.
    fn crash(&mut self) {
        self.answer_puts(u8::MAX);
        let records = self.confirmed.iter().filter_map(|(_, item)| match item {
            Item::JournalRecord(record) => Some(record.clone()),
            _ => None,
        });
        let records: Vec<JournalRecord> = records.collect();
        self.agent = HomeAgent::new(self.config.clone(), Entropy::seed_from_u64(1));
        let before: Vec<Key> = self.confirmed.iter().map(|(key, _)| key.clone()).collect();
        (self.confirmed, self.requested, self.puts_to_refuse) = (Plan::new(), Plan::new(), 0);
        self.unanswered.clear();
        self.feed(Input::Clock(Clock { unix_micros: START_UNIX_MICROS + self.now.as_micros() }));
        self.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(records))));
        for (key, _) in self.requested.iter().filter(|(key, _)| matches!(key, Key::Tunnel(_) | Key::Route(..))) {
            assert!(before.contains(key), "{key:?} has another name after the crash");
        }
        self.answer_puts(u8::MAX);
    }

    /// The invariants between events.
    fn check(&self) {
        assert!(self.agent.bindings.len() <= MAX_BINDINGS);
        assert_eq!(self.agent.tunnels.len(), self.agent.bindings.len(), "one tunnel each");
        for (prefix, tunnel) in self.agent.prefixes.iter() {
            let owner = self.agent.tunnels.get(tunnel).and_then(|home| self.agent.bindings.get(home));
            assert!(owner.is_some_and(|owner| owner.has_prefix(*prefix)), "{prefix} has no binding");
        }
        for (_, item) in self.requested.iter() {
            let Item::Tunnel(tunnel) = item else { continue };
            let Some(binding) = self.agent.tunnels.get(&tunnel.id).and_then(|home| self.agent.bindings.get(home))
            else {
                unreachable!("{tunnel:?} has no binding")
            };
            assert!(tunnel.paths.len() <= super::cache::MAX_PATHS);
            let live = |path: &TunnelPath| {
                let latest = binding.latest();
                latest.is_some_and(|latest| match path.direct {
                    true => latest.home_link_address.is_some_and(|at| at.link_local() == path.remote),
                    false => latest.away().any(|care_of| care_of.address == path.remote),
                })
            };
            let stale = tunnel.paths.iter().find(|path| path.weight > 0 && !live(path));
            let repairs = self.agent.timers.iter().any(|(_, timer)| matches!(timer, HomeAgentTimer::Reinstall(_)));
            let undone = binding.pending.is_some() || repairs || self.unanswered.iter().any(|(_, accepted)| !accepted);
            assert!(stale.is_none() || undone, "forwards to {stale:?}");
            let ended = binding.current.iter().flat_map(|current| &current.care_of).any(|one| one.expires <= self.now);
            assert!(!ended || binding.pending.is_some(), "forwards beyond its lifetime");
        }
    }

    /// Without further updates, everything expires.
    fn run_out(&mut self) {
        self.puts_to_refuse = 0;
        while !self.unanswered.is_empty() {
            self.answer_puts(u8::MAX);
        }
        self.feed(Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
        for _ in 0..2 {
            self.advance(LONG);
            self.answer_puts(u8::MAX);
        }
        let lasting = |key: &&Key| match key {
            Key::Sysctl(..) | Key::Anycast(..) | Key::Route(_, _, _, HOME_ROUTE_METRIC | UNREACHABLE_METRIC) => true,
            Key::JournalRecord(JournalKey::Sequence(home)) => self.agent.prefix_table_row(*home).is_some(),
            _ => false,
        };
        let rest: Vec<&Key> = self.requested.iter().map(|(key, _)| key).filter(|key| !lasting(key)).collect();
        assert!(rest.is_empty(), "left behind: {rest:?}");
        assert!(
            self.agent.bindings.is_empty() && self.agent.prefixes.is_empty() && self.agent.care_of_index.is_empty()
        );
        assert_eq!(self.agent.desired_state.waiting(), 0, "outcomes still awaited");
        assert_eq!(self.agent.deadline(), None);
    }
}

fn put_checksum(bytes: &mut [u8], at: usize, sum: u16) {
    for (to, from) in bytes.iter_mut().skip(at).zip(sum.to_be_bytes()) {
        *to = from;
    }
}

fn home_address(who: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, who)
}

fn pair() -> SecurityAssociationPair {
    let association = |spi| SecurityAssociation { spi, integrity: Integrity::HmacSha1, key: vec![7; 20] };
    SecurityAssociationPair { to_home_agent: association(256), to_mobile_router: association(257) }
}

/// Five mobile routers, two of which share a prefix; one has a shared key, one uses ESP.
fn config(kind: u8) -> HomeAgentConfig {
    let row = |who: u16| PrefixTableRow {
        next_key: None,
        invitation: None,
        home_address: HomeAddress(home_address(who)),
        prefixes: [who, who.max(3)].iter().filter_map(|who| network(*who)).collect(),
        authentication: match who {
            ESP_ROUTER => Authentication::Ipsec(Box::new(pair())),
            who if who % 2 == 0 => Authentication::None,
            _ => Authentication::SharedKey(SharedKey { spi: 256, secret: vec![7; 16] }),
        },
    };
    HomeAgentConfig {
        address: AGENT,
        home_prefixes: Prefix::new(AGENT, 64).into_iter().collect(),
        home_link: (kind & 1 == 1).then(|| "home0".into()),
        prefix_table: PrefixTable { rows: (0..5).map(row).collect() }.into(),
        max_lifetime: Duration::from_secs(600),
        refresh_advice: (kind & 2 == 2).then(|| Duration::from_secs(30)),
        multiple_care_of: kind & 4 == 0,
        home_and_away: kind & 2 == 0,
        max_bindings: MAX_BINDINGS,
        duplicate_detection: kind & 8 == 0,
        advertisement_interval: (kind & 16 == 16).then(|| Duration::from_secs(600)),
        udp6: kind & 1 == 1,
        ..Default::default()
    }
}

fn network(who: u16) -> Option<Prefix> {
    Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, 0xf00 + who, 0, 0, 0, 0, 0), 48)
}

fn option(story: &mut FuzzInput<'_>, care_of: impl Fn(u8) -> Ipv6Addr, who: u16) -> MobilityOption {
    let (kind, value) = (story.byte(), story.byte());
    match kind % 6 {
        0 => MobilityOption::AlternateCareOf(care_of(value)),
        1 => MobilityOption::MobileNetworkPrefix(network(who + u16::from(value % 2)).unwrap_or(Prefix::ALL)),
        2 | 3 => MobilityOption::BindingIdentifier(BindingIdentifier {
            bid: Bid(u16::from(value % 8)),
            status: Status::ACCEPTED,
            simultaneous_home: value > 250,
            priority: kind >> 4 & 3,
            care_of: if kind % 2 == 0 { CareOfField::V6(care_of(value)) } else { CareOfField::None },
        }),
        4 => MobilityOption::FlowSummary(vec![Fid(u16::from(value % 4))]),
        _ => MobilityOption::FlowIdentification(FlowIdentification {
            fid: Fid(u16::from(value % 4)),
            priority: u16::from(kind >> 4),
            status: 0,
            bids: vec![Bid(u16::from(value % 8))],
            selector: (value < 200).then(|| TrafficSelector::V6(Selector::default())),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::fuzz_inputs;

    #[test]
    fn the_committed_corpus_passes() {
        fuzz_inputs::run_files("../fuzz/corpus/home_agent", run);
    }

    #[test]
    fn home_agent_invariants_hold_for_every_seed() {
        fuzz_inputs::run_seeds(3000, 600, run);
    }
}
