//! Stations whose position is not known, and what waits for it: the location service of EN 302 636-4-1 §10.3.7.

use super::config::Mib;
use super::request::Request;
use crate::few;
use crate::time::Time;
use roam6_wire::LinkAddress;
use roam6_wire::geo::GeoAddress;
use std::collections::VecDeque;

/// Stations looked for at once.
pub const MAX_LOOKUPS: usize = 64;

/// The stations looked for.
#[derive(Debug, Default)]
pub struct Lookups {
    sought: few::Map<LinkAddress, Lookup>,
}

/// A station looked for.
#[derive(Debug)]
struct Lookup {
    address: GeoAddress,
    waiting: VecDeque<Request>,
    octets: usize,
    asked: u32,
    next: Time,
}

/// What is to be done about a station looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Ask again.
    Ask(GeoAddress),
    /// Nobody has answered; so many requests were given up.
    GiveUp(GeoAddress, usize),
}

/// What became of a request for a station that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// It waits with others; so many older ones were given up for it.
    Joined(usize),
    /// It waits, and is the first: time to ask.
    First,
    /// Too many stations are looked for.
    Full,
}

impl Lookups {
    /// Lets a request wait for the position of the station.
    pub fn put(&mut self, now: Time, address: GeoAddress, request: Request, mib: &Mib) -> Waiting {
        let is_new = !self.sought.contains_key(&address.mid);
        if is_new && self.sought.len() >= MAX_LOOKUPS {
            return Waiting::Full;
        }
        let next = now + mib.location_service_timer;
        let fresh = || Lookup { address, waiting: VecDeque::new(), octets: 0, asked: 1, next };
        let lookup = self.sought.entry(address.mid).or_insert_with(fresh);
        let given_up = lookup.put(request, mib.location_service_buffer);
        if is_new { Waiting::First } else { Waiting::Joined(given_up) }
    }

    /// The station has been heard of: what waited for it.
    pub fn found(&mut self, mid: LinkAddress) -> VecDeque<Request> {
        self.sought.remove(&mid).map(|lookup| lookup.waiting).unwrap_or_default()
    }

    /// Takes one station whose timer has ended.
    pub fn expire(&mut self, now: Time, mib: &Mib) -> Option<Turn> {
        let lookup = self.sought.values_mut().find(|lookup| lookup.next <= now)?;
        let address = lookup.address;
        if lookup.asked > mib.location_service_retransmissions {
            let waiting = self.found(address.mid).len();
            return Some(Turn::GiveUp(address, waiting));
        }
        lookup.asked += 1;
        lookup.next = now + mib.location_service_timer;
        Some(Turn::Ask(address))
    }

    /// The next timer.
    pub fn deadline(&self) -> Option<Time> {
        self.sought.values().map(|lookup| lookup.next).min()
    }

    /// The stations looked for.
    pub fn iter(&self) -> impl Iterator<Item = GeoAddress> {
        self.sought.values().map(|lookup| lookup.address)
    }
}

impl Lookup {
    /// The newest request always waits, the oldest go when octets run out (§10.3.7.1.2).
    fn put(&mut self, request: Request, limit: usize) -> usize {
        self.octets += request.payload.len();
        self.waiting.push_back(request);
        let mut given_up = 0;
        while self.octets > limit && self.waiting.len() > 1 {
            let oldest = self.waiting.pop_front();
            self.octets -= oldest.map_or(0, |request| request.payload.len());
            given_up += 1;
        }
        given_up
    }
}
