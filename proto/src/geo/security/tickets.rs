//! Authorisation tickets whose signatures were verified, by their digest.

use super::Refusal;
use super::authorities::SignatureKey;
use super::replay::ReplayWindow;
use crate::base::time::Time;
use crate::contract::report::DropReason;
use core::time::Duration;
use roam6_wire::security::{Certificate, HashedId8};
use std::collections::BTreeMap;

/// Tickets at most.
pub(super) const MAX_TICKETS: usize = 4096;
/// A ticket that has signed a packet within this time is not replaced by another.
const IN_USE: Duration = Duration::from_secs(10);

/// An authorisation ticket.
#[derive(Debug, Clone)]
pub(super) struct Ticket {
    octets: Vec<u8>,
    key: SignatureKey,
    /// When a packet of its holder was last verified.
    verified: Option<Time>,
    single_hop: ReplayWindow,
    multi_hop: ReplayWindow,
}

impl Ticket {
    pub(super) fn new(certificate: &Certificate<'_>) -> Result<Ticket, Refusal> {
        let (single_hop, multi_hop) = (ReplayWindow::default(), ReplayWindow::default());
        let key = SignatureKey::of(&certificate.verification_key)?;
        Ok(Ticket { octets: certificate.octets().to_vec(), key, verified: None, single_hop, multi_hop })
    }

    pub(super) fn certificate(&self) -> Result<Certificate<'_>, Refusal> {
        parsed(&self.octets)
    }

    pub(super) fn key(&self) -> &SignatureKey {
        &self.key
    }

    pub(super) fn replay(&self, single_hop: bool) -> &ReplayWindow {
        if single_hop { &self.single_hop } else { &self.multi_hop }
    }

    /// A packet was verified: its time of generation, and its fingerprint.
    pub(super) fn note_verified(&mut self, now: Time, single_hop: bool, packet: (u64, u64)) {
        self.verified = Some(now);
        let window = if single_hop { &mut self.single_hop } else { &mut self.multi_hop };
        window.record(packet);
    }
}

/// A certificate that was parsed before.
pub(super) fn parsed(octets: &[u8]) -> Result<Certificate<'_>, Refusal> {
    Certificate::parse(octets).map_err(|error| Refusal::refuted(DropReason::InvalidCertificate, error.to_string()))
}

/// The tickets.
#[derive(Debug, Default)]
pub(super) struct TicketCache {
    tickets: BTreeMap<HashedId8, Ticket>,
}

impl TicketCache {
    pub(super) fn find(&self, digest: HashedId8) -> Option<&Ticket> {
        self.tickets.get(&digest)
    }

    pub(super) fn find_mut(&mut self, digest: HashedId8) -> Option<&mut Ticket> {
        self.tickets.get_mut(&digest)
    }

    pub(super) fn len(&self) -> usize {
        self.tickets.len()
    }

    /// Adds a ticket, in place of the one that was used longest ago; `false` if all are in use. What is known of a ticket
    /// stays.
    pub(super) fn insert(&mut self, now: Time, digest: HashedId8, ticket: Ticket) -> bool {
        if self.tickets.len() >= MAX_TICKETS && !self.tickets.contains_key(&digest) {
            let unused = self.tickets.iter().min_by_key(|(_, ticket)| ticket.verified);
            let unused = unused.filter(|(_, ticket)| ticket.verified.is_none_or(|at| now.since(at) >= IN_USE));
            let Some(unused) = unused.map(|(digest, _)| *digest) else { return false };
            self.tickets.remove(&unused);
        }
        self.tickets.entry(digest).or_insert(ticket);
        true
    }
}
