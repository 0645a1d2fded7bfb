//! Binding cache entries: the registration in force, the pending one, and what is needed to reject an old update (RFC
//! 6275 §9.1, RFC 3963 §6.1.1, RFC 5648 §6.1).

use super::types::{CareOf, Reply};
use crate::base::token_bucket::BucketLevel;
use crate::contract::config::flow::FlowRule;
use crate::contract::item::{BindingRecord, TunnelId};
use crate::crypto::authenticator::{Timestamp, WallClock};
use crate::nemo::OLD_PATH_LIFETIME;
use crate::{Key, Time};
use core::time::Duration;
use roam6_wire::{HomeAddress, LinkAddress, Prefix, Sequence};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// How long an ended binding rejects delayed updates (RFC 6275 §12, MAX_DELETE_BCE_TIMEOUT).
pub(super) const MAX_DELETE_BCE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum remaining lifetime at which a refresh is requested (RFC 6275 §9.5.5).
const MAX_REFRESH_REQUEST_LEAD: Duration = Duration::from_secs(30);

/// Maximum paths of one tunnel, lingering ones included.
pub(super) const MAX_PATHS: usize = 8;

/// The binding cache entry of one home address.
#[derive(Debug, Default)]
pub(super) struct Binding {
    /// Its tunnel.
    pub tunnel: TunnelId,
    /// The token bucket of its updates.
    pub updates: BucketLevel,
    /// Last sequence number accepted.
    pub sequence: Sequence,
    /// Last timestamp accepted.
    pub timestamp: Timestamp,
    /// The acknowledged registration; `None` before the first acknowledgement and after the end.
    pub current: Option<Registration>,
    /// The registration that is not acknowledged yet.
    pub pending: Option<Box<PendingRegistration>>,
    /// Former care-of addresses from which packets may still arrive, each with the end of its time.
    pub lingering: Vec<(CareOf, Time)>,
    /// When an ended binding is forgotten.
    pub forget_at: Option<Time>,
    /// A refresh of this registration was requested.
    pub refresh_requested: bool,
    /// A second router with the same home address was reported.
    pub duplicate_reported: bool,
    /// The journal has a tombstone of it.
    pub has_tombstone: bool,
}

/// A registration of a mobile router.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Registration {
    /// Its care-of addresses, in order of preference.
    pub care_of: Vec<CareOf>,
    /// Its prefixes; shared with the row of the prefix table if they are the same.
    pub prefixes: Arc<[Prefix]>,
    /// Explicit mode: it listed the prefixes.
    pub explicit: bool,
    /// Its flow rules, by priority.
    pub flows: Vec<FlowRule>,
    /// It is a mobile router, not a mobile host.
    pub router: bool,
    /// Its link-local address, if the home link is to defend that too (RFC 6275 §10.3.1, L=1).
    pub link_local: Option<Ipv6Addr>,
    /// Its link-layer address on the home link, if it is at home and away (RFC 5648 §5.6).
    pub home_link_address: Option<LinkAddress>,
    /// The lifetime last granted.
    pub lifetime: Duration,
}

/// A registration that is not acknowledged yet.
#[derive(Debug)]
pub(super) struct PendingRegistration {
    /// Distinguishes the outcomes of this transaction from those of a superseded one.
    pub transaction: u64,
    /// The registration to install.
    pub registration: Registration,
    /// Its state.
    pub state: RegistrationState,
    /// The acknowledgement to send.
    pub reply: Reply,
}

/// The state of a pending registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RegistrationState {
    /// Duplicate address detection on the home link, until then.
    CheckingDuplicates(Time),
    /// Waiting for outcomes from the host.
    Installing {
        /// Outstanding outcomes.
        outstanding: usize,
        /// The first item that the host rejected, if any.
        rejected: Option<Key>,
    },
}

impl Binding {
    /// When the timer of this binding is due; a pending registration has precedence.
    pub(super) fn deadline(&self) -> Option<Time> {
        if let Some(pending) = &self.pending {
            return match pending.state {
                RegistrationState::CheckingDuplicates(until) => Some(until),
                RegistrationState::Installing { .. } => None,
            };
        }
        let ends = self.current.iter().flat_map(|current| current.care_of.iter().map(|care_of| care_of.expires));
        let left = self.lingering.iter().map(|(_, until)| *until);
        ends.chain(left).chain(self.forget_at).chain(self.refresh_request_at()).min()
    }

    /// When a refresh is to be requested; `None` if it was requested already. Restored paths whose keys are written nowhere are
    /// refreshed at once, so that new keys are agreed: the host may have lost their associations.
    pub(super) fn refresh_request_at(&self) -> Option<Time> {
        let current = self.current.as_ref().filter(|_| !self.refresh_requested && self.pending.is_none())?;
        let expires = current.expires()?;
        let without_keys = |care_of: &&CareOf| care_of.esp.as_ref().is_some_and(|agreed| agreed.pair.keys.is_none());
        if let Some(restored) = current.care_of.iter().find(without_keys) {
            return Some(restored.since);
        }
        Some(expires - (current.lifetime / 8).min(MAX_REFRESH_REQUEST_LEAD))
    }

    /// The registration accepted last: the pending one, else the one in force.
    pub(super) fn latest(&self) -> Option<&Registration> {
        self.pending.as_ref().map(|pending| &pending.registration).or(self.current.as_ref())
    }

    /// Care-of addresses that still receive for a while once `next` is in force, the latest first. The home link needs
    /// none, since it has no tunnel.
    pub(super) fn lingering_after(&self, next: &Registration) -> Vec<CareOf> {
        let current = self.current.iter().flat_map(|current| &current.care_of);
        let left = self.lingering.iter().rev().map(|(care_of, _)| care_of);
        let mut leaving: Vec<CareOf> = Vec::new();
        for care_of in current.chain(left).filter(|care_of| !care_of.simultaneous_home) {
            let seen = leaving.iter().chain(&next.care_of).any(|other| other.covers(care_of));
            if !seen {
                leaving.push(care_of.clone());
            }
        }
        leaving.truncate(MAX_PATHS.saturating_sub(next.care_of.len()));
        leaving
    }

    /// Has the care-of addresses that `next` lacks linger from now on, and no others.
    pub(super) fn linger(&mut self, now: Time, next: &Registration) {
        for care_of in self.lingering_after(next) {
            if !self.lingering.iter().any(|(old, _)| old.covers(&care_of)) {
                self.lingering.reserve_exact(1);
                self.lingering.push((care_of, now + OLD_PATH_LIFETIME));
            }
        }
        self.lingering.retain(|(old, _)| !next.care_of.iter().any(|care_of| care_of.covers(old)));
    }

    /// The registrations in force and pending.
    pub(super) fn live(&self) -> impl Iterator<Item = &Registration> {
        self.current.iter().chain(self.pending.iter().map(|pending| &pending.registration))
    }

    /// Whether `prefix` is registered or pending.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn has_prefix(&self, prefix: Prefix) -> bool {
        self.live().any(|live| live.prefixes.contains(&prefix))
    }

    /// Whether `address` is a registered care-of address.
    pub(super) fn has_care_of(&self, address: Ipv6Addr) -> bool {
        self.current.iter().any(|current| current.care_of.iter().any(|care_of| care_of.address == address))
    }

    /// The journal record of a registration; none of its times is known before the `clock` is.
    pub(super) fn journal_record(
        &self,
        home: HomeAddress,
        registration: &Registration,
        clock: &WallClock,
    ) -> BindingRecord {
        let unix_at = |care_of: &CareOf| clock.unix_micros(care_of.expires).unwrap_or_default();
        let mut ends: Vec<u64> = registration.care_of.iter().map(unix_at).collect();
        let last = ends.iter().copied().max().unwrap_or_default();
        if ends.iter().all(|end| *end == last) {
            ends.clear();
        }
        BindingRecord {
            home_address: home,
            care_of: registration.care_of.iter().map(|one| (one.bid, one.address, one.priority)).collect(),
            prefixes: registration.prefixes.to_vec(),
            explicit: registration.explicit,
            flows: registration.flows.clone(),
            sequence: self.sequence,
            timestamp: self.timestamp.0,
            expires_unix_micros: last,
            each_expires_unix_micros: ends,
            router: registration.router,
            link_local: registration.link_local.is_some(),
            home_link_address: registration.home_link_address,
            udp_ports: registration.care_of.iter().filter_map(|one| Some((one.bid, one.udp?))).collect(),
            path_mtus: Vec::new(),
            wireguard: registration.care_of.iter().filter_map(CareOf::wireguard_record).collect(),
            esp: registration.care_of.iter().filter_map(CareOf::esp_record).collect(),
        }
    }
}

impl Registration {
    /// Sets since when it has each of its paths: those of `former` are no new ones.
    pub(super) fn date(&mut self, now: Time, former: Option<&Registration>) {
        for care_of in &mut self.care_of {
            let mut known = former.iter().flat_map(|former| &former.care_of);
            care_of.since = known.find(|known| known.is_same_path(care_of)).map_or(now, |known| known.since);
        }
    }

    /// When the last of its care-of addresses expires.
    pub(super) fn expires(&self) -> Option<Time> {
        self.care_of.iter().map(|care_of| care_of.expires).max()
    }

    /// Whether only lifetimes differ, so that the host needs no change.
    pub(super) fn forwards_same_as(&self, other: &Registration) -> bool {
        (self.router, self.home_link_address, self.link_local)
            == (other.router, other.home_link_address, other.link_local)
            && self.prefixes == other.prefixes
            && self.flows == other.flows
            && self.care_of.len() == other.care_of.len()
            && self.care_of.iter().zip(&other.care_of).all(|(mine, other)| mine.is_same_path(other))
    }

    /// Sorts care-of addresses and flow rules by preference.
    pub(super) fn sort_by_preference(&mut self) {
        self.care_of.sort_by_key(|care_of| (care_of.rank(), care_of.bid));
        self.flows.sort_by_key(|flow| (flow.priority, flow.id));
    }

    /// Its care-of addresses in visited networks, in order of preference.
    pub(super) fn away(&self) -> impl Iterator<Item = &CareOf> {
        self.care_of.iter().filter(|care_of| !care_of.simultaneous_home)
    }

    /// The IPv6 addresses that are defended for it on the home link.
    pub(super) fn defended_addresses(&self, home: HomeAddress) -> impl Iterator<Item = Ipv6Addr> + use<> {
        core::iter::once(home.0).chain(self.link_local)
    }

    /// Its addresses, in order of preference.
    pub(super) fn addresses(&self) -> Vec<Ipv6Addr> {
        self.care_of.iter().map(|care_of| care_of.address).collect()
    }
}
