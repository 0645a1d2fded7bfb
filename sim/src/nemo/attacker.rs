//! An off-path attacker: replays, mutates and invents mobility signalling, without a key and without intercepting
//! packets.

use crate::nemo::binding_messages::{self, BindingMessage};
use crate::nemo::topology::{self, Topology};
use crate::net::datagram::MOBILITY;
use crate::net::{Choice, Event, Header, Observation, datagram};
use core::time::Duration;
use roam6_proto::Entropy;
use roam6_wire::Sequence;
use roam6_wire::ip6::{self, Datagram, protocol};
use roam6_wire::mobility::{AUTHENTICATOR_LENGTH, Message, MobilityOption};
use std::collections::VecDeque;
use std::rc::Rc;

/// One attack in so many events with an observation.
const ONE_IN: u64 = 12;
/// Messages remembered at most.
const MAX_OVERHEARD: usize = 40;
const MAX_MESSAGE: u64 = 120;

/// The attacker.
#[derive(Debug)]
pub struct Attacker {
    entropy: Entropy,
    overheard: VecDeque<Rc<Vec<u8>>>,
    /// The sequence number of the last overheard update, whose acknowledgement is expected.
    expected_sequence: Sequence,
}

impl Attacker {
    /// An attacker whose choices follow from `seed`.
    pub fn new(seed: u64) -> Attacker {
        Attacker {
            entropy: Entropy::seed_from_u64(seed ^ 0xa77ac),
            overheard: VecDeque::new(),
            expected_sequence: Sequence(0),
        }
    }

    /// Captures sent packets, and now and then injects one into a medium.
    pub fn step(&mut self, topology: &mut Topology, observations: &[Observation]) {
        let mut tempting = false;
        for observation in observations {
            if let Observation::Sent(_, packet) = observation
                && let Some(signal) = binding_messages::parse(packet)
            {
                if let BindingMessage::Update(update) = signal {
                    self.expected_sequence = update.sequence;
                    tempting = true;
                }
                if self.overheard.len() >= MAX_OVERHEARD {
                    self.overheard.pop_front();
                }
                self.overheard.push_back(Rc::clone(packet));
            }
        }
        if self.entropy.below(if tempting { 2 } else { ONE_IN }) != 0 {
            return;
        }
        let media: Vec<_> = topology.visited.iter().chain(&topology.backbone).copied().collect();
        let Some(medium) = self.entropy.pick(&media) else { return };
        if let Some(packet) = self.random_message() {
            topology.world.schedule(Duration::ZERO, Event::Inject(medium, packet));
        }
    }

    fn random_message(&mut self) -> Option<Vec<u8>> {
        let mut packet = self.overheard.get(self.entropy.index(self.overheard.len()))?.as_ref().clone();
        match self.entropy.below(6) {
            0 => {}
            4 | 5 => packet = self.forge_from(&packet)?,
            1 => {
                for _ in 0..=self.entropy.below(4) {
                    let at = self.entropy.index(packet.len());
                    let bits = u8::try_from(self.entropy.below(256)).unwrap_or(0);
                    if let Some(octet) = packet.get_mut(at) {
                        *octet ^= bits;
                    }
                }
            }
            2 => {
                let header = Header::parse(&packet)?;
                let length = usize::try_from(self.entropy.below(MAX_MESSAGE)).unwrap_or(0);
                let mut message = vec![0; length];
                self.entropy.fill(&mut message);
                packet = datagram::build(Header { next: MOBILITY, ..header }, &message);
            }
            _ => {
                let header = Header::parse(&packet)?;
                let turned = Header { source: header.destination, destination: header.source, ..header };
                packet = datagram::build(turned, datagram::payload(&packet));
            }
        }
        Some(packet)
    }

    /// A message that is valid but for its authenticator: newer, from another address, for another lifetime.
    fn forge_from(&mut self, overheard: &[u8]) -> Option<Vec<u8>> {
        let datagram = Datagram::parse(overheard).ok()?;
        let (source, destination) = (datagram.real_source(), datagram.real_destination());
        let mut message = Message::parse(datagram.payload, source, destination).ok()?;
        let ahead = u16::try_from(self.entropy.below(2_000)).unwrap_or(0);
        let mut proof = [0; AUTHENTICATOR_LENGTH];
        self.entropy.fill(&mut proof);
        let mut header = datagram.header;
        let options = match &mut message {
            Message::BindingUpdate(update) => {
                update.sequence.0 = update.sequence.0.wrapping_add(ahead);
                update.lifetime_units = u16::try_from(self.entropy.below(20)).unwrap_or(0);
                if self.entropy.below(2) == 0 {
                    header.source = topology::visited_prefix(0).with_identifier(self.entropy.next_u64())?;
                    update.options.retain(|option| !matches!(option, MobilityOption::AlternateCareOf(_)));
                }
                &mut update.options
            }
            Message::BindingAcknowledgement(acknowledgement) => {
                acknowledgement.sequence = self.expected_sequence;
                acknowledgement.status.0 = self.entropy.pick(&[0, 128, 135, 144])?;
                &mut acknowledgement.options
            }
            _ => return None,
        };
        let mut spi = None;
        options.retain(|option| match option {
            MobilityOption::Authentication { spi: real, .. } => {
                spi = Some(*real);
                false
            }
            _ => true,
        });
        let payload = match spi.filter(|_| self.entropy.below(4) > 0) {
            Some(spi) => message.emit_authenticated(source, destination, spi, |_| proof),
            None => message.emit(source, destination),
        };
        Some(ip6::emit(&header, protocol::MOBILITY, &payload))
    }
}
