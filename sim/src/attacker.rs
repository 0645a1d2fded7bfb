//! Somebody off the path: replays, mutates and invents signalling, but knows no key and intercepts nothing.

use crate::datagram::{self, Header, MOBILITY};
use crate::map::Map;
use crate::signal;
use crate::world::{Fact, Happening};
use core::time::Duration;
use roam6_proto::Entropy;
use std::collections::VecDeque;
use std::rc::Rc;

/// One attack for so many events with something to see.
const RARITY: u64 = 12;
/// Messages remembered.
const MEMORY: usize = 40;
const MAX_MESSAGE: u64 = 120;

/// The attacker.
#[derive(Debug)]
pub struct Attacker {
    chance: Entropy,
    overheard: VecDeque<Rc<Vec<u8>>>,
}

impl Attacker {
    /// An attacker whose ideas follow from `seed`.
    pub fn new(seed: u64) -> Attacker {
        Attacker { chance: Entropy::from_number(seed ^ 0xa77ac), overheard: VecDeque::new() }
    }

    /// Listens to what was sent, and now and then puts something onto a medium.
    pub fn act(&mut self, map: &mut Map, facts: &[Fact]) {
        for fact in facts {
            if let Fact::Sent(_, packet) = fact
                && signal::read(packet).is_some()
            {
                if self.overheard.len() >= MEMORY {
                    self.overheard.pop_front();
                }
                self.overheard.push_back(Rc::clone(packet));
            }
        }
        if self.chance.below(RARITY) != 0 {
            return;
        }
        let media: Vec<_> = map.visited.iter().chain(&map.backbone).copied().collect();
        let Some(medium) = media.get(self.below(media.len())).copied() else { return };
        if let Some(packet) = self.invent() {
            map.world.plan(Duration::ZERO, Happening::Inject(medium, packet));
        }
    }

    fn invent(&mut self) -> Option<Vec<u8>> {
        let index = self.below(self.overheard.len());
        let mut packet = self.overheard.get(index)?.as_ref().clone();
        match self.chance.below(4) {
            0 => {}
            1 => {
                for _ in 0..=self.chance.below(4) {
                    let at = self.below(packet.len());
                    let bits = u8::try_from(self.chance.below(256)).unwrap_or(0);
                    if let Some(octet) = packet.get_mut(at) {
                        *octet ^= bits;
                    }
                }
            }
            2 => {
                let header = Header::parse(&packet)?;
                let length = usize::try_from(self.chance.below(MAX_MESSAGE)).unwrap_or(0);
                let mut message = vec![0; length];
                self.chance.fill(&mut message);
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

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.chance.below(u64::try_from(count).unwrap_or(0))).unwrap_or(0)
    }
}
