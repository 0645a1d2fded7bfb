//! Packets that go out unless somebody else is quicker (EN 302 636-4-1 §E.3, §F.3).

use crate::agenda::Agenda;
use crate::time::Time;
use roam6_wire::LinkAddress;
use std::collections::BTreeMap;

/// A packet of more than one hop: its source and its number.
pub type PacketId = (LinkAddress, u16);

/// The contention buffer.
#[derive(Debug, Clone)]
pub struct Contention {
    packets: BTreeMap<PacketId, Vec<u8>>,
    turns: Agenda<PacketId>,
    octets: usize,
    limit: usize,
}

impl Contention {
    /// An empty buffer of `limit` octets.
    pub fn new(limit: usize) -> Contention {
        Contention { packets: BTreeMap::new(), turns: Agenda::new(), octets: 0, limit }
    }

    /// Lets a packet wait for its turn; `false` if there is no room for it. Those whose turn is near are not given up for
    /// one that comes later.
    pub fn put(&mut self, id: PacketId, bytes: Vec<u8>, turn: Time) -> bool {
        self.cancel(id);
        if self.octets + bytes.len() > self.limit {
            return false;
        }
        self.octets += bytes.len();
        self.packets.insert(id, bytes);
        self.turns.put(id, turn);
        true
    }

    /// Somebody else was quicker; whether the packet was waiting.
    pub fn cancel(&mut self, id: PacketId) -> bool {
        self.turns.drop(&id);
        let found = self.packets.remove(&id);
        self.octets -= found.as_ref().map_or(0, Vec::len);
        found.is_some()
    }

    /// Takes out one packet whose turn it is.
    pub fn expire(&mut self, now: Time) -> Option<Vec<u8>> {
        let id = self.turns.expire(now)?;
        let bytes = self.packets.remove(&id)?;
        self.octets -= bytes.len();
        Some(bytes)
    }

    /// The next turn.
    pub fn deadline(&self) -> Option<Time> {
        self.turns.deadline()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}
