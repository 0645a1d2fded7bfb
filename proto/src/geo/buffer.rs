//! Packet buffers for store-carry-forward (EN 302 636-4-1 §8.4, §8.5 and annex D): first in, first out, until the
//! lifetime ends. At the octet limit the oldest packet of the largest source of the largest sender is evicted, so that
//! one flooding station cannot evict the packets of others.

use crate::base::time::Time;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::Lifetime;
use std::collections::{BTreeMap, BTreeSet};

/// Offset of the lifetime field in a packet (EN 302 636-4-1 §9.6.1).
const LIFETIME_OFFSET: usize = 2;

/// A packet buffer, with the data needed to send each packet.
#[derive(Debug, Clone)]
pub struct PacketBuffer<T> {
    /// By order of arrival.
    packets: BTreeMap<u64, BufferedPacket<T>>,
    next: u64,
    octets: usize,
    limit: usize,
    senders: Shares<SenderShares>,
}

/// The sender and source whose share of the buffer a packet uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The link-layer sender of the frame, or this station.
    pub sender: LinkAddress,
    /// The source of the packet.
    pub source: LinkAddress,
}

/// Octets and content of each party, and the largest party.
#[derive(Debug, Clone)]
struct Shares<S> {
    each: BTreeMap<LinkAddress, (usize, S)>,
    /// Parties by their octets: the largest is the last.
    by_size: BTreeSet<(usize, LinkAddress)>,
}

/// A sender's packets by source.
type SenderShares = Shares<BTreeSet<u64>>;

impl<S> Default for Shares<S> {
    fn default() -> Shares<S> {
        Shares { each: BTreeMap::new(), by_size: BTreeSet::new() }
    }
}

impl<S: Default> Shares<S> {
    /// Changes a party's content by `change` and its octets by `resize`; a party without octets is removed.
    fn change(&mut self, who: LinkAddress, resize: impl FnOnce(usize) -> usize, change: impl FnOnce(&mut S)) {
        let (octets, share) = self.each.entry(who).or_default();
        self.by_size.remove(&(*octets, who));
        *octets = resize(*octets);
        change(share);
        if *octets == 0 {
            self.each.remove(&who);
        } else {
            self.by_size.insert((*octets, who));
        }
    }

    fn largest(&self) -> Option<&S> {
        let (_, who) = self.by_size.last()?;
        self.each.get(who).map(|(_, share)| share)
    }
}

/// A buffered packet.
#[derive(Debug, Clone)]
pub struct BufferedPacket<T> {
    /// The data needed to send it.
    pub target: T,
    /// The owner of the share it uses.
    pub owner: Owner,
    /// The packet.
    pub bytes: Vec<u8>,
    since: Time,
    until: Time,
}

impl<T> PacketBuffer<T> {
    /// An empty buffer of `limit` octets.
    pub fn new(limit: usize) -> PacketBuffer<T> {
        PacketBuffer { packets: BTreeMap::new(), next: 0, octets: 0, limit, senders: Shares::default() }
    }

    /// Buffers a packet until its lifetime ends; returns the number of packets evicted or refused: one larger than the
    /// whole buffer is not stored, and counts.
    pub fn put(&mut self, now: Time, owner: Owner, with: T, bytes: Vec<u8>) -> usize {
        if bytes.len() > self.limit {
            return 1;
        }
        let lifetime = Lifetime(bytes.get(LIFETIME_OFFSET).copied().unwrap_or(0)).duration();
        self.restore(BufferedPacket { target: with, owner, bytes, since: now, until: now + lifetime });
        let mut given_up = 0;
        while self.octets > self.limit && self.evict().is_some() {
            given_up += 1;
        }
        given_up
    }

    /// Takes the oldest packet, expired or not.
    pub fn take(&mut self) -> Option<BufferedPacket<T>> {
        let oldest = *self.packets.first_key_value()?.0;
        self.remove(oldest)
    }

    /// Puts back a packet that was taken and stays buffered.
    pub fn restore(&mut self, stored: BufferedPacket<T>) {
        let (number, owner, length) = (self.next, stored.owner, stored.bytes.len());
        self.next += 1;
        self.packets.insert(number, stored);
        self.octets += length;
        let more = |octets| octets + length;
        self.senders.change(owner.sender, more, |sources| {
            sources.change(owner.source, more, |packets| {
                packets.insert(number);
            });
        });
    }

    /// Removes the packets whose lifetime has ended, and returns their number.
    pub fn expire(&mut self, now: Time) -> usize {
        let dead = self.packets.iter().filter(|(_, stored)| stored.until <= now).map(|(number, _)| *number);
        let dead: Vec<u64> = dead.collect();
        dead.iter().filter_map(|number| self.remove(*number)).count()
    }

    /// Removes the packets of a source, and returns their number.
    pub fn remove_of(&mut self, source: LinkAddress) -> usize {
        let own = self.packets.iter().filter(|(_, stored)| stored.owner.source == source).map(|(number, _)| *number);
        let own: Vec<u64> = own.collect();
        own.iter().filter_map(|number| self.remove(*number)).count()
    }

    /// The number of packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Octets in the buffer.
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// Evicts the oldest packet of the largest source of the largest sender.
    fn evict(&mut self) -> Option<BufferedPacket<T>> {
        let oldest = *self.senders.largest()?.largest()?.first()?;
        self.remove(oldest)
    }

    fn remove(&mut self, number: u64) -> Option<BufferedPacket<T>> {
        let stored = self.packets.remove(&number)?;
        let (owner, length) = (stored.owner, stored.bytes.len());
        self.octets -= length;
        let less = |octets: usize| octets - length;
        self.senders.change(owner.sender, less, |sources| {
            sources.change(owner.source, less, |packets| {
                packets.remove(&number);
            });
        });
        Some(stored)
    }
}

impl<T> BufferedPacket<T> {
    /// The packet as it is sent now: its lifetime is reduced by the time in the buffer (§9.6.4).
    pub fn into_parts(mut self, now: Time) -> (T, Vec<u8>) {
        if now.since(self.since) > Duration::ZERO {
            let rest = Lifetime::of(self.until.since(now));
            if let Some(field) = self.bytes.get_mut(LIFETIME_OFFSET) {
                *field = rest.0;
            }
        }
        (self.target, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(length: usize, seconds: u64) -> Vec<u8> {
        let mut bytes = vec![0; length];
        bytes[LIFETIME_OFFSET] = Lifetime::of(Duration::from_secs(seconds)).0;
        bytes
    }

    const ONE: Owner = owner(1, 1);

    const fn owner(sender: u8, source: u8) -> Owner {
        Owner { sender: LinkAddress([2, 0, 0, 0, 0, sender]), source: LinkAddress([2, 0, 0, 0, 1, source]) }
    }

    #[test]
    fn the_oldest_packets_are_evicted_at_the_buffer_limit() {
        let mut store = PacketBuffer::new(1000);
        for number in 0..10 {
            store.put(Time::ZERO, ONE, number, packet(300, 60));
            assert!(store.octets() <= 1000);
        }
        assert_eq!((store.len(), store.put(Time::ZERO, ONE, 10, packet(1001, 60)), store.len()), (3, 1, 3));
        assert_eq!(store.take().map(|stored| stored.target), Some(7));
    }

    #[test]
    fn a_flooding_sender_evicts_its_own_packets() {
        // A flooding sender with many sources; a flooding source whose sender also forwards for others.
        for flood in [|number: u8| owner(2, number), |_| owner(1, 2)] {
            let mut store = PacketBuffer::new(1000);
            store.put(Time::ZERO, ONE, 0, packet(200, 60));
            for number in 1..100 {
                store.put(Time::ZERO, flood(number), number, packet(150, 60));
            }
            let left: Vec<u8> = std::iter::from_fn(|| store.take()).map(|stored| stored.target).collect();
            assert_eq!(left.first(), Some(&0), "{left:?}");
            assert_eq!(left.len(), 6, "{left:?}");
            assert_eq!((store.octets(), store.senders.each.len(), store.senders.by_size.len()), (0, 0, 0));
        }
    }

    #[test]
    fn buffering_time_reduces_the_packet_lifetime() {
        let mut store = PacketBuffer::new(1000);
        store.put(Time::ZERO, ONE, (), packet(100, 60));
        store.put(Time::ZERO, ONE, (), packet(100, 5));
        let later = Time::ZERO + Duration::from_secs(20);
        assert_eq!((store.expire(later), store.octets()), (1, 100));
        let (_, bytes) = store.take().unwrap().into_parts(later);
        assert_eq!(Lifetime(bytes[LIFETIME_OFFSET]).duration(), Duration::from_secs(40));
    }
}
