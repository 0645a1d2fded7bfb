//! An off-path attacker of Shim6: forges every message, replays overheard handshakes and impersonates hosts, without
//! knowledge of context tags and without receiving packets of others.

use super::topology::Topology;
use crate::net::{Choice, Event, Header, Observation};
use core::time::Duration;
use roam6_proto::Entropy;
use roam6_wire::ip6::{self, Datagram};
use roam6_wire::shim6::{
    self, Fork, LocatorList, Message, Nonce, Probe, ProbeRecord, ProbeState, ShimOption, Tag, VerificationMethod, kind,
};
use std::collections::VecDeque;
use std::net::Ipv6Addr;
use std::rc::Rc;

/// One attack in so many events with an observation.
const ONE_IN: u64 = 6;
/// Messages remembered at most.
const MAX_OVERHEARD: usize = 40;

/// The attacker.
#[derive(Debug)]
pub struct Attacker {
    entropy: Entropy,
    overheard: VecDeque<Rc<Vec<u8>>>,
}

impl Attacker {
    /// An attacker whose choices follow from `seed`.
    pub fn new(seed: u64) -> Attacker {
        Attacker { entropy: Entropy::seed_from_u64(seed ^ 0xa77ac), overheard: VecDeque::new() }
    }

    /// Overhears handshakes, and now and then injects a packet into a medium.
    pub fn step(&mut self, topology: &mut Topology, observations: &[Observation]) {
        for observation in observations {
            // Handshakes only: Shim6 does not protect against an attacker that captures context tags (RFC 5533 §16).
            if let Observation::Sent(_, packet) = observation
                && Header::parse(packet).is_some_and(|header| header.next == shim6::PROTOCOL)
                && packet.get(ip6::HEADER_LENGTH + 2).is_some_and(|kind| (kind::I1..=kind::R2).contains(kind))
            {
                if self.overheard.len() >= MAX_OVERHEARD {
                    self.overheard.pop_front();
                }
                self.overheard.push_back(Rc::clone(packet));
            }
        }
        if self.entropy.below(ONE_IN) != 0 {
            return;
        }
        let all: Vec<_> = topology.hosts.iter().flat_map(|host| host.uplinks.iter().map(|at| (at.1, at.2))).collect();
        let (Some((medium, victim)), Some((_, other))) = (self.entropy.pick(&all), self.entropy.pick(&all)) else {
            return;
        };
        let packet = match self.entropy.below(3) {
            0 => self.replay(),
            _ => Some(self.forge(victim, other)),
        };
        if let Some(packet) = packet {
            topology.world.schedule(Duration::from_millis(self.entropy.below(40_000)), Event::Inject(medium, packet));
        }
    }

    /// Replays a message, unchanged or mutated.
    fn replay(&mut self) -> Option<Vec<u8>> {
        let packet = Rc::clone(self.overheard.get(self.entropy.index(self.overheard.len()))?);
        let datagram = Datagram::parse(&packet).ok()?;
        if self.entropy.below(2) == 0 {
            return Some(packet.to_vec());
        }
        let Ok(message) = Message::parse(datagram.payload) else { return Some(packet.to_vec()) };
        let changed = match message {
            Message::I2 { tag, initiator_nonce, responder_nonce, mut options } => {
                let mine = self.random_address();
                for option in &mut options {
                    if let ShimOption::Locators(list) = option {
                        list.locators.push((VerificationMethod::HBA, mine));
                    }
                }
                Message::I2 { tag, initiator_nonce, responder_nonce, options }
            }
            Message::R2 { nonce, options, .. } => Message::R2 { tag: self.random_tag(), nonce, options },
            Message::R1 { initiator_nonce, options, .. } => {
                Message::R1 { initiator_nonce, responder_nonce: self.random_nonce(), options }
            }
            other => other,
        };
        Some(ip6::emit(&datagram.header, shim6::PROTOCOL, &changed.emit()))
    }

    /// Forges any message with guessed tags and nonces.
    fn forge(&mut self, victim: Ipv6Addr, other: Ipv6Addr) -> Vec<u8> {
        let mine = self.random_address();
        let (tag, nonce, responder_nonce) = (self.random_tag(), self.random_nonce(), self.random_nonce());
        let claimed = ShimOption::Ulids { sender: other, receiver: victim };
        let validator = ShimOption::Validator(vec![7; 16]);
        let list = LocatorList {
            generation: 1,
            locators: vec![(VerificationMethod::HBA, mine), (VerificationMethod::HBA, other)],
        };
        let second = vec![validator.clone(), claimed.clone(), ShimOption::Locators(list.clone())];
        let record = ProbeRecord { source: mine, destination: victim, nonce, data: 0 };
        let message = match self.entropy.below(9) {
            0 => Message::I1 { tag, nonce, options: vec![claimed] },
            1 => Message::I1 { tag, nonce, options: vec![ShimOption::Fork(Fork(nonce.0))] },
            2 => Message::I2 { tag, initiator_nonce: nonce, responder_nonce, options: second },
            3 => Message::I2bis { tag, initiator_nonce: nonce, responder_nonce, packet_tag: tag, options: second },
            4 => Message::R1bis { packet_tag: tag, responder_nonce, options: vec![validator] },
            5 => Message::UpdateRequest { tag, nonce, options: vec![ShimOption::Locators(list)] },
            6 => Message::Keepalive { tag, options: Vec::new() },
            7 => Message::R2 { tag, nonce, options: vec![ShimOption::Locators(list)] },
            _ => {
                let (state, sent, received) = (ProbeState::InboundOk, vec![record], vec![record]);
                Message::Probe(Probe { tag, state, sent, received, options: Vec::new() })
            }
        };
        let source = if self.entropy.below(2) == 0 { mine } else { other };
        ip6::emit(&ip6::Header::new(source, victim), shim6::PROTOCOL, &message.emit())
    }

    fn random_address(&mut self) -> Ipv6Addr {
        Ipv6Addr::from_bits(0x2001_0db8_0bad_0000_0000_0000_0000_0000 | u128::from(self.entropy.below(8)))
    }

    fn random_tag(&mut self) -> Tag {
        Tag::from_low_bits(self.entropy.next_u64())
    }

    fn random_nonce(&mut self) -> Nonce {
        Nonce(self.entropy.next_u64() as u32)
    }
}
