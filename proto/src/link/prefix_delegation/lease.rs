//! Leases of delegated prefixes and assigned addresses, and which of those granted are acceptable: RFC 8415 §14.2,
//! §18.2.10.1, §21.22.

use super::message::{DhcpClientConfig, IaType, ServerMessage};
use crate::base::time::Time;
use core::time::Duration;
use roam6_wire::dhcp6::{self, INFINITY};
use roam6_wire::{Prefix, dhcp6::Timers};

/// Maximum leases of one uplink; further ones are ignored.
pub const MAX_LEASES: usize = 4;
/// Acceptable lengths of a delegated prefix. A shorter one would cover addresses that the visited network cannot
/// delegate; a longer one has no /64 subnet.
const ALLOWED_LENGTHS: core::ops::RangeInclusive<u8> = 20..=64;
/// Acceptable address ranges: global unicast and unique local addresses (RFC 4291 §2.4, RFC 4193 §3.1).
const ALLOWED_RANGES: [(u128, u8); 2] = [(0x2000 << 112, 3), (0xfc00 << 112, 7)];
/// Minimum acceptable valid lifetime, seconds.
const MIN_LIFETIME: u32 = 5;
/// Minimum time between two Renews.
const MIN_RENEW_TIME: Duration = Duration::from_secs(1);

/// A leased prefix; an address is a prefix of 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The prefix.
    pub prefix: Prefix,
    /// End of the preferred lifetime, which bounds that of its addresses.
    pub preferred_until: Time,
    /// End of the valid lifetime.
    pub valid_until: Time,
}

/// What a Reply changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseChange {
    /// It had none of the leases, and no new one.
    Unchanged,
    /// Lifetimes only.
    Lifetimes,
    /// The set of prefixes.
    Prefixes,
}

/// The leases of one identity association.
#[derive(Debug, Clone, Default)]
pub(super) struct Leases {
    pub(super) all: Vec<Lease>,
    /// The time of T1.
    pub(super) renew_at: Time,
    /// The time of T2.
    pub(super) rebind_at: Time,
}

/// The acceptable prefixes of an offer, without overlaps.
pub(super) fn usable_prefixes(client: &DhcpClientConfig, prefixes: &[dhcp6::Prefix]) -> Vec<Prefix> {
    let usable = prefixes.iter().filter(|offer| is_usable(client, offer)).map(|offer| offer.prefix);
    let mut found = Vec::new();
    for prefix in usable.take(MAX_LEASES) {
        if !found.iter().any(|known| overlap(*known, prefix)) {
            found.push(prefix);
        }
    }
    found
}

impl Leases {
    /// The prefix of each lease.
    pub(super) fn prefixes(&self) -> Vec<Prefix> {
        self.all.iter().map(|lease| lease.prefix).collect()
    }

    /// When the next lease ends.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.all.iter().map(|lease| lease.valid_until).min()
    }

    /// Removes expired leases; returns whether there were any.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        let before = self.all.len();
        self.all.retain(|lease| lease.valid_until > now);
        self.all.len() < before
    }

    /// Applies the grants, extensions and withdrawals of a Reply.
    pub(super) fn update(&mut self, now: Time, client: &DhcpClientConfig, answer: &ServerMessage) -> LeaseChange {
        let (before, mut spoken_of) = (self.prefixes(), false);
        for granted in &answer.prefixes {
            let known = self.all.iter().position(|lease| lease.prefix == granted.prefix);
            match known {
                Some(at) if granted.valid == 0 => drop(self.all.remove(at)),
                Some(at) if granted.preferred <= granted.valid => {
                    if let Some(lease) = self.all.get_mut(at) {
                        *lease = lease_of(now, granted);
                    }
                }
                None if self.has_room_for(granted.prefix) && is_usable(client, granted) => {
                    self.all.push(lease_of(now, granted));
                }
                _ => continue,
            }
            spoken_of = true;
        }
        if !spoken_of {
            return LeaseChange::Unchanged;
        }
        // A message may withdraw a prefix and grant it again: only the result counts.
        self.all.sort_by_key(|lease| lease.prefix);
        self.schedule(now, answer.timers);
        if self.prefixes() == before { LeaseChange::Lifetimes } else { LeaseChange::Prefixes }
    }

    fn has_room_for(&self, prefix: Prefix) -> bool {
        self.all.len() < MAX_LEASES && !self.all.iter().any(|lease| overlap(lease.prefix, prefix))
    }

    /// Sets T1 and T2: those of the server, or a half and four fifths of the shortest preferred lifetime (RFC 8415
    /// §14.2), and never too late for the shortest valid lifetime.
    fn schedule(&mut self, now: Time, timers: Timers) {
        let rest =
            |until: fn(&Lease) -> Time| self.all.iter().map(|lease| until(lease).since(now)).filter(is_positive).min();
        let valid = rest(|lease| lease.valid_until).unwrap_or_default();
        let preferred = rest(|lease| lease.preferred_until).unwrap_or(valid).min(valid);
        let wanted = |seconds: u32, otherwise: Duration, latest: Duration| match seconds {
            0 => otherwise,
            seconds => Duration::from_secs(seconds.into()).min(latest),
        };
        let renew = wanted(timers.renew, preferred / 2, valid / 2).max(MIN_RENEW_TIME);
        let rebind = wanted(timers.rebind, preferred * 4 / 5, valid * 4 / 5).max(renew);
        (self.renew_at, self.rebind_at) = (now + renew, now + rebind);
    }
}

fn is_positive(time: &Duration) -> bool {
    !time.is_zero()
}

fn lease_of(now: Time, granted: &dhcp6::Prefix) -> Lease {
    let until = |seconds| if seconds == INFINITY { FOREVER } else { now + Duration::from_secs(u64::from(seconds)) };
    let (preferred_until, valid_until) = (until(granted.preferred), until(granted.valid));
    Lease { prefix: granted.prefix, preferred_until, valid_until }
}

/// The end of an infinite lifetime.
const FOREVER: Time = Time::from_micros(u64::MAX);

/// Whether a granted prefix is acceptable: one that a network can delegate, and that overlaps none of our own.
fn is_usable(client: &DhcpClientConfig, granted: &dhcp6::Prefix) -> bool {
    let prefix = granted.prefix;
    let given = |(bits, length): &(u128, u8)| {
        Prefix::new(std::net::Ipv6Addr::from_bits(*bits), *length).is_some_and(|space| space.covers(prefix))
    };
    granted.valid >= MIN_LIFETIME
        && granted.preferred <= granted.valid
        && match client.ia_type {
            IaType::IaPd => ALLOWED_LENGTHS.contains(&prefix.length()),
            IaType::IaNa => prefix.length() == 128,
        }
        && ALLOWED_RANGES.iter().any(given)
        && !client.excluded.iter().any(|own| overlap(*own, prefix))
}

fn overlap(one: Prefix, other: Prefix) -> bool {
    one.covers(other) || other.covers(one)
}
