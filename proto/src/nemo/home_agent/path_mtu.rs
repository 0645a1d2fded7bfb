//! Path MTU to care-of addresses, from Packet Too Big or from the mobile router, kept for a time (RFC 2473 §7.1, RFC
//! 8201 §5).

use super::HomeAgent;
use super::cache::Registration;
use super::types::{CareOf, HomeAgentTimer};
use crate::{Outbox, Time};
use core::time::Duration;
use roam6_wire::Bid;
use roam6_wire::ip6::MINIMUM_MTU;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Maximum care-of addresses with a path MTU of their own.
pub(super) const MAX_PATH_MTUS: usize = 4096;

/// How long a Packet Too Big is valid.
pub(super) const PATH_MTU_AGE: Duration = Duration::from_secs(600);

/// How long a value from a mobile router is valid: it probes again after ten minutes, and reports the result.
const REPORTED_AGE: Duration = Duration::from_secs(1200);

/// Path MTUs that differ from the configured one.
#[derive(Debug)]
pub(super) struct PathMtuCache {
    default_mtu: u32,
    learned: BTreeMap<Ipv6Addr, (u32, Time)>,
    /// Reported by mobile routers, for paths without Packet Too Big.
    reported: BTreeMap<Ipv6Addr, (u32, Time)>,
}

impl PathMtuCache {
    /// All paths have an MTU of `assumed` octets.
    pub(super) fn new(assumed: u32) -> PathMtuCache {
        PathMtuCache { default_mtu: assumed.max(MINIMUM_MTU), learned: BTreeMap::new(), reported: BTreeMap::new() }
    }

    /// The path MTU to `remote`, octets.
    pub(super) fn mtu_to(&self, remote: Ipv6Addr) -> u32 {
        let known = [self.learned.get(&remote), self.reported.get(&remote)];
        known.into_iter().flatten().fold(self.default_mtu, |least, (mtu, _)| least.min(*mtu))
    }

    /// Whether the cache is full and has no entry for `remote`.
    pub(super) fn is_full_for(&self, remote: Ipv6Addr) -> bool {
        self.learned.len() >= MAX_PATH_MTUS && !self.learned.contains_key(&remote)
    }

    /// Records a Packet Too Big of `reported` octets; returns the path MTU if it decreased.
    pub(super) fn learn(&mut self, now: Time, remote: Ipv6Addr, reported: u32) -> Option<u32> {
        if reported >= self.mtu_to(remote) {
            return None;
        }
        self.learned.insert(remote, (reported, now + PATH_MTU_AGE));
        Some(reported)
    }

    /// Records the path MTU that the mobile router at `remote` has reported, or removes it. Returns its expiry if it
    /// counts.
    pub(super) fn set_reported(&mut self, now: Time, remote: Ipv6Addr, reported: Option<u32>) -> Option<Time> {
        let room = self.reported.len() < MAX_PATH_MTUS || self.reported.contains_key(&remote);
        let Some(reported) = reported.filter(|reported| room && *reported < self.default_mtu) else {
            self.reported.remove(&remote);
            return None;
        };
        let until = now + REPORTED_AGE;
        self.reported.insert(remote, (reported.max(MINIMUM_MTU), until));
        Some(until)
    }

    /// The path MTUs that the mobile router has reported for these care-of addresses.
    pub(super) fn reported_to(&self, registration: &Registration) -> Vec<(Bid, u16)> {
        let reported = |care_of: &CareOf| {
            let (mtu, _) = self.reported.get(&care_of.address)?;
            Some((care_of.bid, u16::try_from(*mtu).ok()?))
        };
        registration.away().filter_map(reported).collect()
    }

    /// Removes expired values for `remote`; returns when the next one expires.
    pub(super) fn expire(&mut self, now: Time, remote: Ipv6Addr) -> Option<Time> {
        for known in [&mut self.learned, &mut self.reported] {
            if known.get(&remote).is_some_and(|(_, until)| *until <= now) {
                known.remove(&remote);
            }
        }
        let known = [self.learned.get(&remote), self.reported.get(&remote)];
        known.into_iter().flatten().map(|(_, until)| *until).min()
    }
}

impl HomeAgent {
    /// Records the path MTUs in an accepted update, or in the journal, for the care-of addresses that it registers.
    pub(super) fn receive_path_mtus(
        &mut self,
        now: Time,
        path_mtus: &[(Bid, u16)],
        next: &Registration,
        out: &mut Outbox,
    ) {
        for care_of in next.away() {
            let remote = care_of.address;
            let reported = path_mtus.iter().find(|(bid, _)| *bid == care_of.bid);
            let before = self.path_mtu.mtu_to(remote);
            let until = self.path_mtu.set_reported(now, remote, reported.map(|(_, mtu)| u32::from(*mtu)));
            if until.is_some()
                && let Some(until) = self.path_mtu.expire(now, remote)
            {
                self.timers.set(HomeAgentTimer::PathMtu(remote), until);
            }
            let mtu = self.path_mtu.mtu_to(remote);
            if mtu != before {
                self.path_mtu_changed(remote, mtu, out);
            }
        }
    }
}
