//! Packets kept until there is somebody to send them to (EN 302 636-4-1 §8.4, §8.5 and annex D): first in first out, each
//! goes when its lifetime ends. When octets run out, not simply the oldest goes, but the oldest of the source that has most
//! in it among those of the sender that has handed over most: the flood of one station takes nothing from others.

use crate::base::time::Time;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::Lifetime;
use std::collections::{BTreeMap, BTreeSet};

/// Where the lifetime is in a packet (EN 302 636-4-1 §9.6.1).
const LIFETIME_AT: usize = 2;

/// A buffer of packets, with what is needed to send each.
#[derive(Debug, Clone)]
pub struct Store<T> {
    /// By the order of their coming.
    packets: BTreeMap<u64, Stored<T>>,
    next: u64,
    octets: usize,
    limit: usize,
    senders: Shares<Sender>,
}

/// Whose a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Who has handed it over: the station itself, or who sent the frame.
    pub sender: LinkAddress,
    /// Whose packet it is.
    pub source: LinkAddress,
}

/// What each of several has in the buffer, and who has most.
#[derive(Debug, Clone)]
struct Shares<S> {
    each: BTreeMap<LinkAddress, (usize, S)>,
    /// Everybody's octets and who it is: the largest is the last.
    by_size: BTreeSet<(usize, LinkAddress)>,
}

/// What a sender has handed over, by source: which packets.
type Sender = Shares<BTreeSet<u64>>;

impl<S> Default for Shares<S> {
    fn default() -> Shares<S> {
        Shares { each: BTreeMap::new(), by_size: BTreeSet::new() }
    }
}

impl<S: Default> Shares<S> {
    /// Changes what one has by `change`, to so many octets as `resize` says; who has none is forgotten.
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

/// A packet that waits.
#[derive(Debug, Clone)]
pub struct Stored<T> {
    /// What is needed to send it.
    pub with: T,
    /// Whose it is.
    pub owner: Owner,
    /// The packet.
    pub bytes: Vec<u8>,
    since: Time,
    until: Time,
}

impl<T> Store<T> {
    /// An empty buffer of `limit` octets.
    pub fn new(limit: usize) -> Store<T> {
        Store { packets: BTreeMap::new(), next: 0, octets: 0, limit, senders: Shares::default() }
    }

    /// Keeps a packet until its lifetime ends; returns how many were given up for it. A packet that would not fit an empty
    /// buffer is not kept, and counts.
    pub fn put(&mut self, now: Time, owner: Owner, with: T, bytes: Vec<u8>) -> usize {
        if bytes.len() > self.limit {
            return 1;
        }
        let lifetime = Lifetime(bytes.get(LIFETIME_AT).copied().unwrap_or(0)).duration();
        self.restore(Stored { with, owner, bytes, since: now, until: now + lifetime });
        let mut given_up = 0;
        while self.octets > self.limit && self.give_up().is_some() {
            given_up += 1;
        }
        given_up
    }

    /// Takes out the oldest, dead or alive.
    pub fn take(&mut self) -> Option<Stored<T>> {
        let oldest = *self.packets.first_key_value()?.0;
        self.remove(oldest)
    }

    /// Puts back what was taken out and still has to wait.
    pub fn restore(&mut self, stored: Stored<T>) {
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

    /// Forgets the packets whose lifetime has ended; how many.
    pub fn expire(&mut self, now: Time) -> usize {
        let dead = self.packets.iter().filter(|(_, stored)| stored.until <= now).map(|(number, _)| *number);
        let dead: Vec<u64> = dead.collect();
        dead.iter().filter_map(|number| self.remove(*number)).count()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Octets kept.
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// The oldest of the source that has most, of the sender that has most.
    fn give_up(&mut self) -> Option<Stored<T>> {
        let oldest = *self.senders.largest()?.largest()?.first()?;
        self.remove(oldest)
    }

    fn remove(&mut self, number: u64) -> Option<Stored<T>> {
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

impl<T> Stored<T> {
    /// The packet as it leaves now: its lifetime is shorter by the time it has waited (§9.6.4).
    pub fn leave(mut self, now: Time) -> (T, Vec<u8>) {
        if now.since(self.since) > Duration::ZERO {
            let rest = Lifetime::of(self.until.since(now));
            if let Some(field) = self.bytes.get_mut(LIFETIME_AT) {
                *field = rest.0;
            }
        }
        (self.with, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(length: usize, seconds: u64) -> Vec<u8> {
        let mut bytes = vec![0; length];
        bytes[LIFETIME_AT] = Lifetime::of(Duration::from_secs(seconds)).0;
        bytes
    }

    const ONE: Owner = owner(1, 1);

    const fn owner(sender: u8, source: u8) -> Owner {
        Owner { sender: LinkAddress([2, 0, 0, 0, 0, sender]), source: LinkAddress([2, 0, 0, 0, 1, source]) }
    }

    #[test]
    fn the_oldest_make_room_and_nothing_exceeds_the_limit() {
        let mut store = Store::new(1000);
        for number in 0..10 {
            store.put(Time::ZERO, ONE, number, packet(300, 60));
            assert!(store.octets() <= 1000);
        }
        assert_eq!((store.len(), store.put(Time::ZERO, ONE, 10, packet(1001, 60)), store.len()), (3, 1, 3));
        assert_eq!(store.take().map(|stored| stored.with), Some(7));
    }

    #[test]
    fn a_flood_gives_up_its_own() {
        // By a sender of its own under many names; by the same sender as others, under one name.
        for flood in [|number: u8| owner(2, number), |_| owner(1, 2)] {
            let mut store = Store::new(1000);
            store.put(Time::ZERO, ONE, 0, packet(200, 60));
            for number in 1..100 {
                store.put(Time::ZERO, flood(number), number, packet(150, 60));
            }
            let left: Vec<u8> = std::iter::from_fn(|| store.take()).map(|stored| stored.with).collect();
            assert_eq!(left.first(), Some(&0), "{left:?}");
            assert_eq!(left.len(), 6, "{left:?}");
            assert_eq!((store.octets(), store.senders.each.len(), store.senders.by_size.len()), (0, 0, 0));
        }
    }

    #[test]
    fn waiting_shortens_life() {
        let mut store = Store::new(1000);
        store.put(Time::ZERO, ONE, (), packet(100, 60));
        store.put(Time::ZERO, ONE, (), packet(100, 5));
        let later = Time::ZERO + Duration::from_secs(20);
        assert_eq!((store.expire(later), store.octets()), (1, 100));
        let (_, bytes) = store.take().unwrap().leave(later);
        assert_eq!(Lifetime(bytes[LIFETIME_AT]).duration(), Duration::from_secs(40));
    }
}
