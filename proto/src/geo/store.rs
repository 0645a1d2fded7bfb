//! Packets kept until there is somebody to send them to (EN 302 636-4-1 §8.4, §8.5 and annex D): first in first out, the
//! oldest go when octets run out, each goes when its lifetime ends.

use crate::time::Time;
use core::time::Duration;
use roam6_wire::geo::Lifetime;
use std::collections::VecDeque;

/// Where the lifetime is in a packet (EN 302 636-4-1 §9.6.1).
const LIFETIME_AT: usize = 2;

/// A buffer of packets, with what is needed to send each.
#[derive(Debug, Clone)]
pub struct Store<T> {
    packets: VecDeque<Stored<T>>,
    octets: usize,
    limit: usize,
}

/// A packet that waits.
#[derive(Debug, Clone)]
pub struct Stored<T> {
    /// What is needed to send it.
    pub with: T,
    /// The packet.
    pub bytes: Vec<u8>,
    since: Time,
    until: Time,
}

impl<T> Store<T> {
    /// An empty buffer of `limit` octets.
    pub fn new(limit: usize) -> Store<T> {
        Store { packets: VecDeque::new(), octets: 0, limit }
    }

    /// Keeps a packet until its lifetime ends; returns how many older ones were given up for it. A packet that would not
    /// fit an empty buffer is not kept, and counts.
    pub fn put(&mut self, now: Time, with: T, bytes: Vec<u8>) -> usize {
        if bytes.len() > self.limit {
            return 1;
        }
        let mut given_up = 0;
        while self.octets + bytes.len() > self.limit && self.take().is_some() {
            given_up += 1;
        }
        let lifetime = Lifetime(bytes.get(LIFETIME_AT).copied().unwrap_or(0)).duration();
        self.octets += bytes.len();
        self.packets.push_back(Stored { with, bytes, since: now, until: now + lifetime });
        given_up
    }

    /// Takes out the oldest, dead or alive.
    pub fn take(&mut self) -> Option<Stored<T>> {
        let stored = self.packets.pop_front()?;
        self.octets -= stored.bytes.len();
        Some(stored)
    }

    /// Puts back what was taken out and still has to wait.
    pub fn restore(&mut self, stored: Stored<T>) {
        self.octets += stored.bytes.len();
        self.packets.push_back(stored);
    }

    /// Forgets the packets whose lifetime has ended; how many.
    pub fn expire(&mut self, now: Time) -> usize {
        let before = self.packets.len();
        self.packets.retain(|stored| stored.until > now);
        self.octets = self.packets.iter().map(|stored| stored.bytes.len()).sum();
        before - self.packets.len()
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

    #[test]
    fn the_oldest_make_room_and_nothing_exceeds_the_limit() {
        let mut store = Store::new(1000);
        for number in 0..10 {
            store.put(Time::ZERO, number, packet(300, 60));
            assert!(store.octets() <= 1000);
        }
        assert_eq!((store.len(), store.put(Time::ZERO, 10, packet(1001, 60)), store.len()), (3, 1, 3));
        assert_eq!(store.take().map(|stored| stored.with), Some(7));
    }

    #[test]
    fn waiting_shortens_life() {
        let mut store = Store::new(1000);
        store.put(Time::ZERO, (), packet(100, 60));
        store.put(Time::ZERO, (), packet(100, 5));
        let later = Time::ZERO + Duration::from_secs(20);
        assert_eq!((store.expire(later), store.octets()), (1, 100));
        let (_, bytes) = store.take().unwrap().leave(later);
        assert_eq!(Lifetime(bytes[LIFETIME_AT]).duration(), Duration::from_secs(40));
    }
}
