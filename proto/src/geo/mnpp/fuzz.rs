//! Fuzz harness of MNPP. Invariants: no panic, bounded tables, no route to a prefix that is not accepted, no item
//! removed that was not installed, and no announcement beyond the rate limit.
//!
//! One function, driven by the seeded loop in `cargo test`, by the committed corpus, and by the fuzzer.

use super::neighbours::{MAX_NETWORKS, MAX_ROUTERS};
use super::{Mnpp, authentication};
use crate::contract::command::{LifecycleCommand, MnppCommand};
use crate::contract::config::mnpp::{AcceptanceRule, MnppConfig};
use crate::contract::config::nemo::SharedKey;
use crate::contract::input::AddressState;
use crate::{
    AddressEvent, Clock, Command, Engine, Entropy, Input, Item, Key, LinkEvent, LinkId, Outbox, Output, Packet, Time,
};
use core::time::Duration;
use roam6_wire::icmp6::{ALL_ROUTERS, ON_LINK_HOP_LIMIT};
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::mnpp::{Announcement, Network};
use roam6_wire::{LinkAddress, Prefix, Reader};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

const LINK: LinkId = LinkId(7);
const UNIX: u64 = 1_790_000_000_000_000;
const ALLOWED: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0);
/// Ticks at one moment at most.
const MAX_TICKS: usize = 8;

/// Runs the scenario that `data` encodes, and asserts the invariants after each step.
///
/// # Panics
/// If an invariant does not hold.
pub fn run(data: &[u8]) {
    let mut reader = Reader::new("scenario", data);
    let mut world = Harness::new();
    while let Ok(action) = reader.u8() {
        let choice = reader.u8().unwrap_or_default();
        match action % 6 {
            0 => {
                let length = usize::from(choice).min(reader.len());
                world.receive_octets(reader.bytes(length).unwrap_or_default());
            }
            1 | 2 => world.receive_announcement(choice, &mut reader),
            3 => world.wait(Duration::from_millis(u64::from(choice) * 20)),
            4 => world.link(choice & 1 == 0),
            _ => world.reload(choice),
        }
    }
    world.feed(&Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    assert!(world.installed.is_empty(), "items remain after the stop");
    assert_eq!(world.engine.deadline(), None, "a timer remains after the stop");
}

struct Harness {
    engine: Mnpp,
    now: Time,
    installed: BTreeSet<Key>,
}

fn key() -> SharedKey {
    SharedKey { spi: 300, secret: vec![7; 20] }
}

fn config(choice: u8) -> MnppConfig {
    let prefixes: Vec<Prefix> = Prefix::new(ALLOWED, 32).into_iter().collect();
    let accepted = [(1, Some(key())), (2, None)].into_iter().filter(|(bit, _)| choice & bit != 0);
    MnppConfig {
        interfaces: ["gn0".to_owned()].into(),
        announced: Prefix::new(ALLOWED, 40).into_iter().collect(),
        key: (choice & 4 == 0).then(key),
        accepted: accepted.map(|(_, key)| AcceptanceRule { key, prefixes: prefixes.clone() }).collect(),
        interval: Duration::from_millis(200 + u64::from(choice) * 10),
    }
}

impl Harness {
    fn new() -> Harness {
        let engine = Mnpp::new(config(3), Entropy::seed_from_u64(1));
        let mut world = Harness { engine, now: Time::from_micros(1), installed: BTreeSet::new() };
        world.feed(&Input::Clock(Clock { unix_micros: UNIX }));
        world.link(true);
        world
    }

    /// Packets sent.
    fn feed(&mut self, input: &Input) -> usize {
        let mut out = Outbox::new();
        self.engine.handle(self.now, input, &mut out);
        assert!(self.engine.deadline().is_none_or(|at| at > self.now), "an expired timer was not handled");
        let known = self.engine.neighbours();
        assert!(known.routers() <= MAX_ROUTERS && known.networks().count() <= MAX_NETWORKS);
        let mut sent = 0;
        for output in out.drain() {
            match output {
                Output::Put(put) => {
                    if let Item::Route(route) = &put.item {
                        let allowed = Prefix::new(ALLOWED, 32).is_some_and(|all| all.covers(route.destination));
                        assert!(allowed, "{} was not allowed", route.destination);
                    }
                    self.installed.insert(put.item.key());
                }
                Output::Drop(key) => assert!(self.installed.remove(&key), "{key:?} was not there"),
                Output::Transmit(_) => sent += 1,
                _ => {}
            }
        }
        sent
    }

    fn receive(&mut self, source: Ipv6Addr, message: &[u8]) {
        let header = Header::new(source, ALL_ROUTERS).with_hop_limit(ON_LINK_HOP_LIMIT);
        let bytes = ip6::emit(&header, protocol::ICMPV6, message);
        let sender = Some(LinkAddress([2, 0, 0, 0, 0, 9]));
        // An answer is sent at its time, never at once.
        assert!(self.feed(&Input::Packet(Packet { link: LINK, sender, bytes })) <= 1);
    }

    fn receive_octets(&mut self, octets: &[u8]) {
        self.receive(LinkAddress([2, 0, 0, 0, 0, 9]).link_local(), octets);
        self.feed(&Input::Packet(Packet { link: LINK, sender: None, bytes: octets.to_vec() }));
    }

    /// Whole announcements of a few routers, of which some have the key.
    fn receive_announcement(&mut self, choice: u8, reader: &mut Reader<'_>) {
        let source = LinkAddress([2, 0, 0, 0, 0, 9 + (choice >> 5)]).link_local();
        let mut networks = Vec::new();
        for _ in 0..choice & 3 {
            let high = u128::from(reader.u32().unwrap_or_default()) << 80;
            let length = reader.u8().unwrap_or_default();
            let prefix = Prefix::new(Ipv6Addr::from_bits(ALLOWED.to_bits() | high), length % 129);
            networks.extend(prefix.map(|prefix| Network { prefix, lifetime: u32::from(length >> 4) }));
        }
        let announcement = Announcement { query: choice & 4 != 0, networks, proof: None };
        let message = match choice & 24 {
            0 => announcement.emit(source),
            kind => {
                let unix_micros = UNIX + self.now.as_micros() + if kind == 8 { 0 } else { 9_000_000 };
                let secret = if kind == 24 { vec![1; 20] } else { key().secret };
                let prove = |part: &[u8]| authentication::proof_code(&secret, source, ALL_ROUTERS, part);
                announcement.emit_proved(source, 300, unix_micros, prove)
            }
        };
        self.receive(source, &message);
    }

    fn link(&mut self, up: bool) {
        let own = LinkAddress([2, 0, 0, 0, 0, 1]);
        let (link, name) = (LINK, "gn0".to_owned());
        self.feed(&Input::Link(LinkEvent { link, name, address: Some(own), up, mtu: 1398 }));
        let (address, state) = (own.link_local(), AddressState::Preferred);
        self.feed(&Input::Address(AddressEvent { link, address, state }));
    }

    fn reload(&mut self, choice: u8) {
        self.feed(&Input::Command(Command::Mnpp(MnppCommand::Reload(Box::new(config(choice))))));
    }

    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        let mut at_once = 0;
        while let Some(at) = self.engine.deadline().filter(|at| *at <= until) {
            at_once = if at == self.now { at_once + 1 } else { 0 };
            assert!(at_once < MAX_TICKS, "does not stop at {at}");
            self.now = at;
            self.feed(&Input::Tick);
        }
        self.now = until;
    }
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::fuzz_inputs;

    #[test]
    fn the_committed_corpus_passes() {
        fuzz_inputs::run_files("../fuzz/corpus/mnpp", run);
    }

    #[test]
    fn arbitrary_octets_pass() {
        fuzz_inputs::run_seeds(3_000, 400, run);
    }
}
