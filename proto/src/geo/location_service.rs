//! The location service: EN 302 636-4-1 §10.3.7. Lookups of stations without a location table entry, and the packets
//! that wait for them.

use super::request::PacketRequest;
use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use crate::contract::config::geo::Mib;
use roam6_wire::LinkAddress;
use roam6_wire::geo::GeoAddress;
use std::collections::VecDeque;

/// Lookups in progress at most.
pub const MAX_LOOKUPS: usize = 64;

/// The lookups in progress.
#[derive(Debug, Default)]
pub struct LocationService {
    pending: VecMap<LinkAddress, PendingLookup>,
}

/// A lookup of one station.
#[derive(Debug)]
struct PendingLookup {
    address: GeoAddress,
    waiting: VecDeque<WaitingRequest>,
    octets: usize,
    transmissions: u32,
    next_transmission: Time,
}

/// A request that waits, and the end of its packet's lifetime.
#[derive(Debug)]
struct WaitingRequest {
    request: PacketRequest,
    until: Time,
}

/// What a lookup's timer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupExpiry {
    /// Send the LS request again.
    Retransmit(GeoAddress),
    /// The lookup has failed; so many packets are dropped.
    GiveUp(GeoAddress, usize),
}

/// How a request for a station without an entry was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// It joins the queue of a lookup in progress; so many older packets were dropped for it.
    Appended(usize),
    /// It has begun a lookup: send an LS request.
    LookupBegun,
    /// The limit of lookups is reached.
    Full,
}

impl LocationService {
    /// Queues a request until the position of its station is known.
    pub fn enqueue(&mut self, now: Time, address: GeoAddress, request: PacketRequest, mib: &Mib) -> Enqueued {
        let is_new = !self.pending.contains_key(&address.mid);
        if is_new && self.pending.len() >= MAX_LOOKUPS {
            return Enqueued::Full;
        }
        let next = now + mib.location_service_timer;
        let fresh = || PendingLookup {
            address,
            waiting: VecDeque::new(),
            octets: 0,
            transmissions: 1,
            next_transmission: next,
        };
        let lookup = self.pending.entry(address.mid).or_insert_with(fresh);
        let until = now + request.lifetime.unwrap_or(mib.default_lifetime).min(mib.max_lifetime);
        let given_up = lookup.push(WaitingRequest { request, until }, mib.location_service_buffer);
        if is_new { Enqueued::LookupBegun } else { Enqueued::Appended(given_up) }
    }

    /// Ends the lookup of a station: its waiting requests, each with the remaining lifetime, and the number of packets
    /// whose lifetime has ended (§10.3.7.1.3).
    pub fn resolve(&mut self, now: Time, mid: LinkAddress) -> (Vec<PacketRequest>, usize) {
        let waiting = self.pending.remove(&mid).map(|lookup| lookup.waiting).unwrap_or_default();
        let count = waiting.len();
        let alive = waiting.into_iter().filter(|one| one.until > now);
        let requests: Vec<PacketRequest> =
            alive.map(|one| PacketRequest { lifetime: Some(one.until.since(now)), ..one.request }).collect();
        let expired = count - requests.len();
        (requests, expired)
    }

    /// Drops the packets whose lifetime has ended and returns their number. The lookup itself goes on.
    pub fn drop_expired(&mut self, now: Time) -> usize {
        self.pending.values_mut().map(|lookup| lookup.drop_expired(now)).sum()
    }

    /// Takes one lookup whose timer has expired.
    pub fn expire(&mut self, now: Time, mib: &Mib) -> Option<LookupExpiry> {
        let lookup = self.pending.values_mut().find(|lookup| lookup.next_transmission <= now)?;
        let address = lookup.address;
        if lookup.transmissions > mib.location_service_retransmissions {
            let waiting = self.pending.remove(&address.mid).map_or(0, |lookup| lookup.waiting.len());
            return Some(LookupExpiry::GiveUp(address, waiting));
        }
        lookup.transmissions += 1;
        lookup.next_transmission = now + mib.location_service_timer;
        Some(LookupExpiry::Retransmit(address))
    }

    /// When the next timer expires.
    pub fn deadline(&self) -> Option<Time> {
        self.pending.values().map(|lookup| lookup.next_transmission).min()
    }

    /// The stations looked up.
    pub fn iter(&self) -> impl Iterator<Item = GeoAddress> {
        self.pending.values().map(|lookup| lookup.address)
    }
}

impl PendingLookup {
    /// Queues the newest request; the oldest are dropped at the octet limit (§10.3.7.1.2).
    fn push(&mut self, waiting: WaitingRequest, limit: usize) -> usize {
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

    fn drop_expired(&mut self, now: Time) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|one| one.until > now);
        self.octets = self.waiting.iter().map(|one| one.request.payload.len()).sum();
        before - self.waiting.len()
    }
}
