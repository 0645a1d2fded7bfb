//! Packets that go out unless somebody else is quicker (EN 302 636-4-1 §E.3, §F.3).

use crate::base::time::Time;
use crate::base::timers::Agenda;
use roam6_wire::LinkAddress;
use std::collections::BTreeMap;

/// A packet of more than one hop: its source and its number.
pub type PacketId = (LinkAddress, u16);

/// Part of the buffer that packets from one sender may fill: one half, one third, ...
const SHARE: usize = 4;

/// The contention buffer.
#[derive(Debug, Clone)]
pub struct Contention {
    packets: BTreeMap<PacketId, Contending>,
    turns: Agenda<PacketId>,
    octets: usize,
    limit: usize,
    /// Octets from each sender.
    shares: BTreeMap<LinkAddress, usize>,
}

#[derive(Debug, Clone)]
struct Contending {
    from: LinkAddress,
    bytes: Vec<u8>,
    /// Copies heard since, where one does not end it.
    copies: Option<u8>,
}

impl Contention {
    /// An empty buffer of `limit` octets.
    pub fn new(limit: usize) -> Contention {
        let (packets, shares) = (BTreeMap::new(), BTreeMap::new());
        Contention { packets, turns: Agenda::new(), octets: 0, limit, shares }
    }

    /// Lets a packet that `from` has sent wait for its turn; `false` if there is no room for it, or for more of that
    /// sender's. Those whose turn is near are not given up for one that comes later.
    pub fn put(&mut self, id: PacketId, from: LinkAddress, bytes: Vec<u8>, turn: Time) -> bool {
        self.cancel(id);
        let share = self.shares.get(&from).copied().unwrap_or(0);
        if self.octets + bytes.len() > self.limit || share + bytes.len() > self.limit / SHARE {
            return false;
        }
        self.octets += bytes.len();
        self.shares.insert(from, share + bytes.len());
        self.packets.insert(id, Contending { from, bytes, copies: None });
        self.turns.put(id, turn);
        true
    }

    /// A copy of this packet that is heard is not to end its contention by itself (§F.4).
    pub fn persist(&mut self, id: PacketId) {
        if let Some(packet) = self.packets.get_mut(&id) {
            packet.copies = Some(0);
        }
    }

    /// Another copy was heard of a packet that persists: who sent the first, and how many others were heard.
    pub fn hear_again(&mut self, id: PacketId) -> Option<(LinkAddress, u8)> {
        let packet = self.packets.get_mut(&id)?;
        let copies = packet.copies.as_mut()?;
        *copies = copies.saturating_add(1);
        Some((packet.from, *copies))
    }

    /// Gives a packet that waits another turn.
    pub fn wait_until(&mut self, id: PacketId, turn: Time) {
        if self.packets.contains_key(&id) {
            self.turns.put(id, turn);
        }
    }

    /// Somebody else was quicker; whether the packet was waiting.
    pub fn cancel(&mut self, id: PacketId) -> bool {
        self.turns.drop(&id);
        self.remove(id).is_some()
    }

    /// Takes out one packet whose turn it is.
    pub fn expire(&mut self, now: Time) -> Option<Vec<u8>> {
        let id = self.turns.expire(now)?;
        self.remove(id)
    }

    fn remove(&mut self, id: PacketId) -> Option<Vec<u8>> {
        let Contending { from, bytes, .. } = self.packets.remove(&id)?;
        self.octets -= bytes.len();
        match self.shares.get_mut(&from) {
            Some(share) if *share > bytes.len() => *share -= bytes.len(),
            _ => drop(self.shares.remove(&from)),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sender_leaves_room_for_others() {
        let mut contention = Contention::new(1000);
        let sender = |number| LinkAddress([2, 0, 0, 0, 0, number]);
        let mut put = |from, number| contention.put((sender(9), number), sender(from), vec![0; 100], Time::ZERO);
        let first: Vec<bool> = (0..5).map(|number| put(1, number)).collect();
        assert_eq!(first, [true, true, false, false, false]);
        assert!(put(2, 100));
        while contention.expire(Time::ZERO).is_some() {}
        assert!(contention.shares.is_empty() && contention.octets == 0);
    }
}
