//! Fuzz harness of the Shim6 engine: its invariants under arbitrary inputs, for the fuzzer and the seeded test.

use super::Shim;
use crate::contract::command::{LifecycleCommand, ShimCommand};
use crate::contract::config::shim::{
    AddressGeneration, AddressProof, Identity, PeerFilter, ShimConfig, UplinkPreference,
};
use crate::contract::input::{AddressState, TrafficCount};
use crate::contract::item::{ContextTrigger, MAX_LOCATORS, ShimContext};
use crate::crypto::cga::Sec;
use crate::crypto::hba::{self, KeyField};
use crate::{
    Activity, AddressEvent, AddressPair, Command, Engine, Entropy, FlowEvent, Input, Item, Key, LinkEvent, LinkId,
    Outbox, Output, Packet, Put, Time, VecMap, View,
};
use core::time::Duration;
use roam6_wire::icmp6::{self, NeighbourOption, RouterAdvertisement};
use roam6_wire::ip6::{self, Datagram, Header, MINIMUM_MTU};
use roam6_wire::shim6::{
    self, Fork, LocatorList, Message, Nonce, Probe, ProbeRecord, ProbeState, ShimOption, Tag, VerificationMethod,
};
use roam6_wire::{Prefix, Reader};
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv6Addr;

/// Outputs of one input at most.
const MAX_OUTPUTS: usize = 200;
const MAX_TICKS: usize = 64;
const MAX_CONTEXTS: usize = 4;
/// Messages that the simulated peer remembers.
const MAX_REMEMBERED: usize = 8;

/// Plays the inputs encoded in `data`, and asserts the invariants.
///
/// # Panics
/// If an invariant is violated.
pub fn run(data: &[u8]) {
    let mut reader = Reader::new("scenario", data);
    let mut world = Harness::new(reader.u8().unwrap_or_default());
    while let Ok(action) = reader.u8() {
        let choice = reader.u8().unwrap_or_default();
        match world.next_input(action, choice, &mut reader) {
            Some(input) => world.feed(&input),
            None => world.wait(Duration::from_millis(u64::from(choice) * u64::from(choice) / 4)),
        }
    }
    world.feed(&Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    let left: Vec<&Key> = world.plan.keys().filter(|key| !matches!(key, Key::JournalRecord(_))).collect();
    assert!(left.is_empty(), "stopped, yet it holds {left:?}");
}

struct Harness {
    shim: Shim,
    now: Time,
    plan: BTreeMap<Key, Put>,
    local_addresses: Vec<Ipv6Addr>,
    peer_addresses: Vec<Ipv6Addr>,
    parameters: Vec<u8>,
    received: VecDeque<(AddressPair, Message)>,
}

impl Harness {
    fn new(seed: u8) -> Harness {
        let (config, ours) = config(seed);
        let (identity, theirs) = identity(0xb, 9);
        let mut world = Harness {
            shim: Shim::new(config, Entropy::seed_from_u64(seed.into())),
            now: Time::ZERO,
            plan: BTreeMap::new(),
            local_addresses: ours,
            peer_addresses: theirs,
            parameters: identity.parameters.emit(),
            received: VecDeque::new(),
        };
        for index in 0..2 {
            world.feed(&link(index, true));
            world.feed(&world.address(index, AddressState::Preferred));
        }
        world
    }

    /// The next input; `None` lets time pass.
    fn next_input(&mut self, action: u8, choice: u8, reader: &mut Reader<'_>) -> Option<Input> {
        let detail = if action % 12 > 8 { 0 } else { reader.u8().unwrap_or_default() };
        let path = AddressPair { local: self.local_address(choice), peer: self.peer_address(choice >> 2) };
        Some(match action % 12 {
            0 => link(choice & 1, choice & 6 != 6),
            1 => {
                let states = [AddressState::Preferred, AddressState::Removed, AddressState::Preferred];
                self.address(choice & 1, *states.get(usize::from(detail % 3))?)
            }
            2 => Input::Flow(FlowEvent { pair: path, link: LinkId(1), packets: 9, octets: 3000, since: Time::ZERO }),
            3 | 4 => self.peer_answer(choice, detail)?,
            5 | 6 => self.packet(path, &self.peer_message(choice, detail)?),
            7 if choice > 0xe0 => self.advertisement(choice & 1, detail),
            7 => {
                let length = usize::from(detail).min(reader.len());
                let body = reader.bytes(length).unwrap_or_default().to_vec();
                self.packet(path, &Message::Unknown { kind: choice % 80, body })
            }
            8 => Input::Activity(self.activity(choice, detail)?),
            9 => {
                let put = self.plan.values().nth(usize::from(choice >> 1))?;
                Input::Outcome(put.outcome((choice & 1 == 0).then(|| "refused".to_owned())))
            }
            10 => Input::Command(match choice % 4 {
                0 => Command::Shim(ShimCommand::DeleteContext(self.context(choice)?.id)),
                1 => Command::Shim(ShimCommand::Reload(Box::new(config(choice).0))),
                2 => Command::Shim(ShimCommand::SwitchPath { ulids: None, fork: Fork(u32::from(choice >> 7)), path }),
                _ => return self.dad_result(choice >> 2),
            }),
            _ => return None,
        })
    }

    /// The peer's answer to a message that it has received.
    fn peer_answer(&self, choice: u8, detail: u8) -> Option<Input> {
        let (path, message) = self.received.get(usize::from(choice) % self.received.len().max(1))?;
        let tag = Tag::from_low_bits(u64::from(detail & 3) + 100);
        let locators = if detail & 0x80 == 0 { self.locators(detail) } else { Vec::new() };
        let validator = |message: &Message| {
            message.options().iter().find(|option| matches!(option, ShimOption::Validator(_))).cloned()
        };
        let reply = match message {
            Message::I1 { nonce, .. } if detail & 4 == 0 => {
                let options = vec![ShimOption::Validator(vec![detail; 12])];
                Message::R1 { initiator_nonce: *nonce, responder_nonce: Nonce(5), options }
            }
            Message::I1 { nonce, .. } => Message::R2 { tag, nonce: *nonce, options: locators },
            Message::I2 { initiator_nonce, .. } | Message::I2bis { initiator_nonce, .. } => {
                Message::R2 { tag, nonce: *initiator_nonce, options: locators }
            }
            Message::R1 { initiator_nonce, responder_nonce, .. } => {
                let options = validator(message).into_iter().chain(locators).collect();
                let (initiator_nonce, responder_nonce) = (*initiator_nonce, *responder_nonce);
                Message::I2 { tag: INITIATOR, initiator_nonce, responder_nonce, options }
            }
            Message::R1bis { packet_tag, responder_nonce, .. } => {
                let options = validator(message).into_iter().chain(locators).collect();
                let (responder_nonce, packet_tag) = (*responder_nonce, *packet_tag);
                Message::I2bis { tag, initiator_nonce: Nonce(detail.into()), responder_nonce, packet_tag, options }
            }
            Message::UpdateRequest { nonce, .. } => {
                Message::UpdateAck { tag: self.context(detail)?.tag_in, nonce: *nonce, options: Vec::new() }
            }
            Message::Probe(probe) => Message::Probe(Probe {
                tag: self.context(detail)?.tag_in,
                state: state(detail),
                sent: vec![record(*path, u32::from(choice))],
                received: probe.sent.clone(),
                options: Vec::new(),
            }),
            _ => return None,
        };
        Some(self.packet(*path, &reply))
    }

    /// An unsolicited message of the peer, which knows our tags.
    fn peer_message(&self, choice: u8, detail: u8) -> Option<Message> {
        let nonce = Nonce(u32::from(detail));
        let tag = self.context(choice).map(|context| context.tag_in);
        let ulids = ShimOption::Ulids { sender: self.peer_address(detail), receiver: self.local_address(detail >> 1) };
        let named =
            if detail & 8 == 0 { Vec::new() } else { vec![ulids, ShimOption::Fork(Fork(u32::from(detail >> 6)))] };
        Some(match choice % 6 {
            0 | 1 => Message::I1 { tag: INITIATOR, nonce, options: named },
            2 => Message::UpdateRequest { tag: tag?, nonce, options: self.locators(detail) },
            3 => Message::Keepalive { tag: tag.unwrap_or(Tag::from_low_bits(detail.into())), options: Vec::new() },
            4 => {
                let packet_tag = self.context(choice)?.tag_out;
                let options = vec![ShimOption::Validator(vec![detail; 16])];
                Message::R1bis { packet_tag, responder_nonce: nonce, options }
            }
            _ => {
                let path = AddressPair { local: self.local_address(detail), peer: self.peer_address(detail >> 1) };
                let sent = vec![record(path, u32::from(detail))];
                let (tag, state) = (tag?, state(detail));
                Message::Probe(Probe { tag, state, sent, received: Vec::new(), options: Vec::new() })
            }
        })
    }

    /// A locator list of the peer, valid or not, with its proof.
    fn locators(&self, detail: u8) -> Vec<ShimOption> {
        let mut locators: Vec<_> =
            self.peer_addresses.iter().map(|address| (VerificationMethod::HBA, *address)).collect();
        match detail & 0x70 {
            0x10 => locators.push((VerificationMethod::HBA, self.local_address(0))),
            0x20 => locators.truncate(1),
            0x30 => locators.iter_mut().for_each(|(method, _)| *method = VerificationMethod::CGA),
            0x40 => locators.clear(),
            _ => {}
        }
        let list = LocatorList { generation: u32::from(detail & 3), locators };
        let mut options = vec![ShimOption::Locators(list), ShimOption::Parameters(self.parameters.clone())];
        options.extend((detail & 8 != 0).then(|| ShimOption::Signature(vec![detail; 64])));
        options.extend((detail & 4 != 0).then_some(ShimOption::KeepaliveMilliseconds(u32::from(detail) * 8)));
        options
    }

    fn activity(&self, choice: u8, detail: u8) -> Option<Activity> {
        let context = self.context(choice)?.id;
        let ago = |bits: u8| (bits != 0).then(|| self.now - Duration::from_millis(u64::from(bits) * u64::from(detail)));
        let (sent, received) = (ago(choice & 3), ago(choice >> 2 & 3));
        let unanswered = sent.filter(|sent| received.is_none_or(|received| received < *sent));
        let unreturned = received.filter(|received| sent.is_none_or(|sent| sent < *received));
        let (out, into) = (TrafficCount::default(), TrafficCount::default());
        Some(Activity {
            context,
            last_sent: sent,
            last_received: received,
            unanswered_since: unanswered,
            unreturned_since: unreturned,
            tx: out,
            rx: into,
        })
    }

    fn feed(&mut self, input: &Input) {
        let mut out = Outbox::new();
        self.shim.handle(self.now, input, &mut out);
        assert!(self.shim.deadline().is_none_or(|at| at > self.now), "an expired timer was not handled");
        assert!(out.outputs().len() < MAX_OUTPUTS, "{} outputs of one input", out.outputs().len());
        for output in out.drain() {
            match output {
                Output::Put(put) => {
                    self.check_context(&put.item);
                    self.plan.insert(put.item.key(), put);
                }
                Output::Drop(key) => drop(self.plan.remove(&key)),
                Output::Transmit(transmit) => self.remember(&transmit.bytes),
                Output::ActivityQuery(sample) => assert!(self.plan.contains_key(&Key::ShimContext(sample.context))),
                Output::Report(_)
                | Output::Frame(_)
                | Output::LinkTrafficQuery(_)
                | Output::PathTrafficQuery(_)
                | Output::ChannelUseQuery(_)
                | Output::InterceptionQuery(_)
                | Output::Verify(_)
                | Output::Sign(_) => {}
            }
        }
        self.shim.view(self.now, &mut View::default());
        let contexts = self.plan.keys().filter(|key| matches!(key, Key::ShimContext(_)));
        assert!(contexts.count() <= MAX_CONTEXTS);
    }

    /// Every locator in the data plane is one that the peer has proved.
    fn check_context(&self, item: &Item) {
        if let Item::ShimContext(context) = item {
            let all = context.allowed_sources.iter().chain([&context.locators.peer]);
            for address in all {
                assert!(
                    self.peer_addresses.contains(address) || *address == context.id.ulids.peer,
                    "{address} is not the peer's"
                );
            }
            assert!(context.allowed_sources.len() <= MAX_LOCATORS);
        }
    }

    fn remember(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= MINIMUM_MTU as usize, "a message of {} octets", bytes.len());
        let Ok(datagram) = Datagram::parse(bytes) else { return };
        if datagram.protocol != shim6::PROTOCOL {
            return;
        }
        let message = Message::parse(datagram.payload);
        assert!(message.is_ok(), "it cannot be read back: {message:?}");
        self.received.extend(
            message.map(|message| (AddressPair { local: datagram.source, peer: datagram.destination }, message)),
        );
        if self.received.len() > MAX_REMEMBERED {
            self.received.pop_front();
        }
    }

    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        let mut ticks = (self.now, 0);
        while let Some(due) = self.shim.deadline().filter(|due| *due <= until) {
            self.now = due.max(self.now);
            ticks = if ticks.0 == self.now { (self.now, ticks.1 + 1) } else { (self.now, 0) };
            assert!(ticks.1 < MAX_TICKS, "time does not go on");
            self.feed(&Input::Tick);
        }
        self.now = until;
    }

    fn packet(&self, path: AddressPair, message: &Message) -> Input {
        let bytes = ip6::emit(&Header::new(path.peer, path.local), shim6::PROTOCOL, &message.emit());
        Input::Packet(Packet { link: LinkId(1), sender: None, bytes })
    }

    /// A Router Advertisement of a prefix with a lifetime of some seconds.
    fn advertisement(&self, index: u8, detail: u8) -> Input {
        let prefix = Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, 0xc, u16::from(detail >> 4), 0, 0, 0, 0), 64);
        let prefix = prefix.unwrap_or(Prefix::ALL);
        let (valid, preferred) = (u32::from(detail & 15) * 1000, u32::from(detail & 7) * 1000);
        let (address, on_link, autonomous, router_address) = (prefix.address(), true, true, false);
        let option = NeighbourOption::PrefixInformation {
            prefix,
            address,
            on_link,
            autonomous,
            router_address,
            valid,
            preferred,
        };
        let message = RouterAdvertisement { lifetime: 1800, options: vec![option], ..RouterAdvertisement::default() };
        let source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let header = Header { hop_limit: 255, ..Header::new(source, icmp6::ALL_NODES) };
        let message = icmp6::Message::RouterAdvertisement(message).emit(source, icmp6::ALL_NODES);
        let link = LinkId(u32::from(index) + 1);
        Input::Packet(Packet { link, sender: None, bytes: ip6::emit(&header, ip6::protocol::ICMPV6, &message) })
    }

    /// The kernel's result of duplicate address detection.
    fn dad_result(&self, choice: u8) -> Option<Input> {
        let given = self.plan.keys().filter_map(|key| match key {
            Key::Address(link, address) => Some((*link, *address)),
            _ => None,
        });
        let given: Vec<_> = given.collect();
        let (link, address) = *given.get(usize::from(choice >> 2).checked_rem(given.len())?)?;
        let states =
            [AddressState::Tentative, AddressState::Preferred, AddressState::DadFailed, AddressState::Preferred];
        let state = *states.get(usize::from(choice & 3))?;
        Some(Input::Address(AddressEvent { link, address, state }))
    }

    fn address(&self, index: u8, state: AddressState) -> Input {
        let link = LinkId(u32::from(index) + 1);
        Input::Address(AddressEvent { link, address: self.local_address(index), state })
    }

    fn context(&self, choice: u8) -> Option<&ShimContext> {
        let contexts: Vec<&ShimContext> = self
            .plan
            .values()
            .filter_map(|put| match &put.item {
                Item::ShimContext(context) => Some(context),
                _ => None,
            })
            .collect();
        contexts.get(usize::from(choice).checked_rem(contexts.len())?).copied()
    }

    fn local_address(&self, index: u8) -> Ipv6Addr {
        self.local_addresses.get(usize::from(index & 1)).copied().unwrap_or(Ipv6Addr::LOCALHOST)
    }

    fn peer_address(&self, index: u8) -> Ipv6Addr {
        self.peer_addresses.get(usize::from(index & 1)).copied().unwrap_or(Ipv6Addr::LOCALHOST)
    }
}

/// The peer's context tag as initiator: the same in I1 and I2, as the validator requires.
const INITIATOR: Tag = Tag::from_low_bits(77);

fn state(detail: u8) -> ProbeState {
    match detail % 3 {
        0 => ProbeState::Operational,
        1 => ProbeState::Exploring,
        _ => ProbeState::InboundOk,
    }
}

fn record(path: AddressPair, nonce: u32) -> ProbeRecord {
    ProbeRecord { source: path.peer, destination: path.local, nonce: Nonce(nonce), data: 0 }
}

fn link(index: u8, up: bool) -> Input {
    let link = LinkId(u32::from(index) + 1);
    Input::Link(LinkEvent { link, name: format!("if{index}"), address: None, up, mtu: 1500 })
}

fn identity(site: u16, number: u8) -> (Identity, Vec<Ipv6Addr>) {
    let prefix = |provider: u16| Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, site, provider, 0, 0, 0, 0), 64);
    let prefixes: Vec<Prefix> = (0..2).filter_map(prefix).collect();
    let (parameters, sec) = (hba::parameters([number; 16], &prefixes, KeyField::Random(&[number; 48])), Sec::new(0));
    #[allow(clippy::expect_used, reason = "two prefixes of 64 bits make a set")]
    let (parameters, sec) = parameters.zip(sec).expect("a set");
    let addresses = hba::addresses(&parameters, sec).unwrap_or_default();
    (Identity { parameters, private_key: Vec::new() }, addresses)
}

fn config(seed: u8) -> (ShimConfig, Vec<Ipv6Addr>) {
    let (identity, ours) = identity(0xa, 3);
    #[allow(clippy::expect_used, reason = "0 is a level")]
    let sec = Sec::new(0).expect("a level");
    let worse = UplinkPreference { priority: seed, weight: 1, transient: seed & 4 == 0 };
    let config = ShimConfig {
        interfaces: ["if0", "if1"].map(str::to_owned).into(),
        addresses: (seed & 32 != 0).then_some(AddressGeneration { proof: AddressProof::Hba, sec }),
        preferences: if seed & 8 == 0 { VecMap::new() } else { [("if1".to_owned(), worse)].into() },
        trigger: (seed & 1 == 0).then(ContextTrigger::default),
        peers: PeerFilter { skip_eui64: seed & 2 == 0, ..PeerFilter::default() },
        max_contexts: MAX_CONTEXTS,
        send_timeout: Duration::from_millis(100 + u64::from(seed) * 20),
        return_after: (seed & 16 == 0).then_some(Duration::from_secs(3)),
        idle_timeout: Duration::from_secs(5 + u64::from(seed)),
        identities: if seed & 4 == 0 { vec![identity] } else { Vec::new() },
        verifications_per_second: 5,
    };
    (config, ours)
}
