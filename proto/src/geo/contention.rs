//! Contention-based forwarding (EN 302 636-4-1 §E.3, §F.3): packets that are sent unless a copy is received before.

use crate::base::time::Time;
use crate::base::timers::TimerQueue;
use crate::contract::view::Trust;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{ExtendedHeader, Packet, Timestamp, is_secured};
use std::collections::BTreeMap;

/// Identifies a multi-hop packet, as duplicate packet detection does: a packet with another timestamp is another packet,
/// even if its sequence number is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PacketId {
    /// The link-layer address in the GeoNetworking address of its source.
    pub source: LinkAddress,
    /// Its sequence number.
    pub sequence: u16,
    /// The timestamp of its source position vector, milliseconds.
    timestamp: u32,
    /// How far it is trusted: the same packet without its envelope, or with one that is not verified, is another one, which
    /// receivers may refuse.
    trust: Trust,
}

impl PacketId {
    /// The identity of an unsecured packet sent by `source` at `time`.
    pub fn new(source: LinkAddress, sequence: u16, time: Timestamp) -> PacketId {
        PacketId { source, sequence, timestamp: time.0, trust: Trust::Unsigned }
    }

    /// The identity of a packet with this header; `None` if it has no sequence number.
    pub fn of(extended: &ExtendedHeader, trust: Trust) -> Option<PacketId> {
        let source = extended.source();
        Some(PacketId { trust, ..PacketId::new(source.address.mid, extended.sequence()?, source.timestamp) })
    }
}

/// The share of the buffer for packets of one sender: 1/n.
const SENDER_SHARE: usize = 4;

/// The contention buffer.
#[derive(Debug, Clone)]
pub struct ContentionBuffer {
    packets: BTreeMap<PacketId, ContendingPacket>,
    timers: TimerQueue<PacketId>,
    octets: usize,
    limit: usize,
    /// Octets of each sender.
    octets_by_sender: BTreeMap<LinkAddress, usize>,
}

#[derive(Debug, Clone)]
struct ContendingPacket {
    sender: LinkAddress,
    bytes: Vec<u8>,
    /// Copies received, where one copy does not end the contention.
    copies: Option<u8>,
}

impl ContentionBuffer {
    /// An empty buffer of `limit` octets.
    pub fn new(limit: usize) -> ContentionBuffer {
        let (packets, shares) = (BTreeMap::new(), BTreeMap::new());
        ContentionBuffer { packets, timers: TimerQueue::new(), octets: 0, limit, octets_by_sender: shares }
    }

    /// Adds a packet received from `from`, to be sent at `turn`; `false` if the buffer, or the share of the sender, is
    /// full. A contending packet is not evicted by a later one.
    pub fn put(&mut self, id: PacketId, from: LinkAddress, bytes: Vec<u8>, turn: Time) -> bool {
        self.cancel(id);
        let share = self.octets_by_sender.get(&from).copied().unwrap_or(0);
        if self.octets + bytes.len() > self.limit || share + bytes.len() > self.limit / SENDER_SHARE {
            return false;
        }
        self.octets += bytes.len();
        self.octets_by_sender.insert(from, share + bytes.len());
        self.packets.insert(id, ContendingPacket { sender: from, bytes, copies: None });
        self.timers.set(id, turn);
        true
    }

    /// A single copy does not end the contention of this packet (§F.4).
    pub fn make_persistent(&mut self, id: PacketId) {
        if let Some(packet) = self.packets.get_mut(&id) {
            packet.copies = Some(0);
        }
    }

    /// Whether a copy shows that the packet went on: its remaining hop limit is at least one less than that of the
    /// packet held here, as that of a packet which another receiver of the same frame, or one hop further on, has sent. A
    /// copy of a secured packet has the same octets after the Basic Header.
    pub fn went_on(&self, id: PacketId, copy: &[u8]) -> bool {
        let Some(held) = self.packets.get(&id).map(|packet| packet.bytes.as_slice()) else { return true };
        let is_same = !cfg!(feature = "geo-security") || !is_secured(held) || held.get(4..) == copy.get(4..);
        is_same && Packet::remaining_hop_limit_of(copy).saturating_add(1) >= Packet::remaining_hop_limit_of(held)
    }

    /// Counts a copy of a persistent packet: its first sender, and the number of copies.
    pub fn note_copy(&mut self, id: PacketId) -> Option<(LinkAddress, u8)> {
        let packet = self.packets.get_mut(&id)?;
        let copies = packet.copies.as_mut()?;
        *copies = copies.saturating_add(1);
        Some((packet.sender, *copies))
    }

    /// Restarts the timer of a contending packet.
    pub fn postpone(&mut self, id: PacketId, turn: Time) {
        if self.packets.contains_key(&id) {
            self.timers.set(id, turn);
        }
    }

    /// Ends the contention of a packet after a copy; whether it was contending.
    pub fn cancel(&mut self, id: PacketId) -> bool {
        self.timers.cancel(&id);
        self.remove(id).is_some()
    }

    /// Takes one packet whose timer has expired.
    pub fn expire(&mut self, now: Time) -> Option<Vec<u8>> {
        let id = self.timers.pop_expired(now)?;
        self.remove(id)
    }

    fn remove(&mut self, id: PacketId) -> Option<Vec<u8>> {
        let ContendingPacket { sender: from, bytes, .. } = self.packets.remove(&id)?;
        self.octets -= bytes.len();
        match self.octets_by_sender.get_mut(&from) {
            Some(share) if *share > bytes.len() => *share -= bytes.len(),
            _ => drop(self.octets_by_sender.remove(&from)),
        }
        Some(bytes)
    }

    /// When the next timer expires.
    pub fn deadline(&self) -> Option<Time> {
        self.timers.deadline()
    }

    /// The number of contending packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether no packet is contending.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sender_fills_only_its_share_of_the_cbf_buffer() {
        let mut contention = ContentionBuffer::new(1000);
        let sender = |number| LinkAddress([2, 0, 0, 0, 0, number]);
        let id = |number| PacketId::new(sender(9), number, Timestamp(7));
        let mut put = |from, number| contention.put(id(number), sender(from), vec![0; 100], Time::ZERO);
        let first: Vec<bool> = (0..5).map(|number| put(1, number)).collect();
        assert_eq!(first, [true, true, false, false, false]);
        assert!(put(2, 100));
        while contention.expire(Time::ZERO).is_some() {}
        assert!(contention.octets_by_sender.is_empty() && contention.octets == 0);
    }
}
