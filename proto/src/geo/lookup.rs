//! The location service: EN 302 636-4-1 §10.3.7. Lookups of stations without a location table entry, and the packets
//! that wait for them.

use super::request::Request;
use crate::base::few;
use crate::base::time::Time;
use crate::contract::config::geo::Mib;
use roam6_wire::LinkAddress;
use roam6_wire::geo::GeoAddress;
use std::collections::VecDeque;

/// Lookups in progress at most.
pub const MAX_LOOKUPS: usize = 64;

/// The lookups in progress.
#[derive(Debug, Default)]
pub struct Lookups {
    sought: few::VecMap<LinkAddress, Lookup>,
}

/// A lookup of one station.
#[derive(Debug)]
struct Lookup {
    address: GeoAddress,
    waiting: VecDeque<Waiting>,
    octets: usize,
    asked: u32,
    next: Time,
}

/// A request that waits, and the end of its packet's lifetime.
#[derive(Debug)]
struct Waiting {
    request: Request,
    until: Time,
}

/// What a lookup's timer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Send the LS request again.
    Ask(GeoAddress),
    /// The lookup has failed; so many packets are dropped.
    GiveUp(GeoAddress, usize),
}

/// How a request for a station without an entry was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It joins the queue of a lookup in progress; so many older packets were dropped for it.
    Joined(usize),
    /// It has begun a lookup: send an LS request.
    First,
    /// The limit of lookups is reached.
    Full,
}

impl Lookups {
    /// Queues a request until the position of its station is known.
    pub fn put(&mut self, now: Time, address: GeoAddress, request: Request, mib: &Mib) -> Accepted {
        let is_new = !self.sought.contains_key(&address.mid);
        if is_new && self.sought.len() >= MAX_LOOKUPS {
            return Accepted::Full;
        }
        let next = now + mib.location_service_timer;
        let fresh = || Lookup { address, waiting: VecDeque::new(), octets: 0, asked: 1, next };
        let lookup = self.sought.entry(address.mid).or_insert_with(fresh);
        let until = now + request.lifetime.unwrap_or(mib.default_lifetime).min(mib.max_lifetime);
        let given_up = lookup.put(Waiting { request, until }, mib.location_service_buffer);
        if is_new { Accepted::First } else { Accepted::Joined(given_up) }
    }

    /// Ends the lookup of a station: its waiting requests, each with the remaining lifetime, and the number of packets
    /// whose lifetime has ended (§10.3.7.1.3).
    pub fn found(&mut self, now: Time, mid: LinkAddress) -> (Vec<Request>, usize) {
        let waiting = self.sought.remove(&mid).map(|lookup| lookup.waiting).unwrap_or_default();
        let count = waiting.len();
        let alive = waiting.into_iter().filter(|one| one.until > now);
        let requests: Vec<Request> =
            alive.map(|one| Request { lifetime: Some(one.until.since(now)), ..one.request }).collect();
        let expired = count - requests.len();
        (requests, expired)
    }

    /// Drops the packets whose lifetime has ended and returns their number. The lookup itself goes on.
    pub fn forget_expired(&mut self, now: Time) -> usize {
        self.sought.values_mut().map(|lookup| lookup.forget_expired(now)).sum()
    }

    /// Takes one lookup whose timer has expired.
    pub fn expire(&mut self, now: Time, mib: &Mib) -> Option<Turn> {
        let lookup = self.sought.values_mut().find(|lookup| lookup.next <= now)?;
        let address = lookup.address;
        if lookup.asked > mib.location_service_retransmissions {
            let waiting = self.sought.remove(&address.mid).map_or(0, |lookup| lookup.waiting.len());
            return Some(Turn::GiveUp(address, waiting));
        }
        lookup.asked += 1;
        lookup.next = now + mib.location_service_timer;
        Some(Turn::Ask(address))
    }

    /// When the next timer expires.
    pub fn deadline(&self) -> Option<Time> {
        self.sought.values().map(|lookup| lookup.next).min()
    }

    /// The stations looked up.
    pub fn iter(&self) -> impl Iterator<Item = GeoAddress> {
        self.sought.values().map(|lookup| lookup.address)
    }
}

impl Lookup {
    /// Queues the newest request; the oldest are dropped at the octet limit (§10.3.7.1.2).
    fn put(&mut self, waiting: Waiting, limit: usize) -> usize {
        self.octets += waiting.request.payload.len();
        self.waiting.push_back(waiting);
        let mut given_up = 0;
        while self.octets > limit && self.waiting.len() > 1 {
            let oldest = self.waiting.pop_front();
            self.octets -= oldest.map_or(0, |oldest| oldest.request.payload.len());
            given_up += 1;
        }
        given_up
    }

    fn forget_expired(&mut self, now: Time) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|one| one.until > now);
        self.octets = self.waiting.iter().map(|one| one.request.payload.len()).sum();
        before - self.waiting.len()
    }
}
