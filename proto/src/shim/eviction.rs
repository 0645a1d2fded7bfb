//! Eviction from a full context table, so that no peer can keep others out of it (RFC 5533 §16.4).
//!
//! Contexts are counted by the /64 prefix of the peer's current locator. A handshake or a probe has shown that the peer
//! receives there, whereas a ULID can be in any prefix: an HBA set (RFC 5535) may name any prefix.

use super::Shim;
use super::context::{Context, ContextIndex};
use crate::{Outbox, Time};
use core::cmp::Reverse;
use core::time::Duration;
use roam6_wire::shim6::VerificationMethod;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// A prefix with more than this fraction of the table is evicted from first.
const MAX_PREFIX_SHARE: usize = 16;
/// An address with more than this fraction of its prefix's contexts is evicted before its neighbours.
const MAX_ADDRESS_SHARE: usize = 4;
/// Fraction of the table freed at once: the search visits every context.
const EVICTION_BATCH: usize = 256;
/// Time between two searches if the first has found nothing to evict.
const SEARCH_INTERVAL: Duration = Duration::from_millis(100);

/// State of the eviction.
#[derive(Debug, Default)]
pub(super) struct Eviction {
    /// The full table has been reported.
    full_reported: bool,
    /// No eviction before this time.
    hold_until: Time,
}

impl Shim {
    /// Makes room for a context with `newcomer`; `false` if no context may be evicted for it.
    pub(super) fn make_room(&mut self, now: Time, newcomer: Ipv6Addr, out: &mut Outbox) -> bool {
        let (held, limit) = (self.contexts.len(), self.config.max_contexts);
        if held < limit {
            self.eviction.full_reported &= held > limit - limit.div_ceil(8);
            return true;
        }
        if !self.eviction.full_reported {
            out.report_full_table("contexts", limit);
            self.eviction.full_reported = true;
        }
        if now < self.eviction.hold_until {
            return false;
        }
        let victims = victims(self.contexts.iter_unsorted(), newcomer, limit);
        for index in &victims {
            self.end_context(*index, "the context table is full", out);
        }
        if self.contexts.len() >= limit {
            self.eviction.hold_until = now + SEARCH_INTERVAL;
            return false;
        }
        true
    }
}

/// The contexts to evict for `newcomer` from a table of `limit`:
///
/// 1. those of the prefix with the most contexts, if it exceeds its share;
/// 2. else those whose peer has proved no address;
/// 3. else those of the prefix with the most contexts, if the prefix of `newcomer` would still have fewer.
///
/// Among these the order is: contexts of an address that exceeds its share, contexts whose peer has proved no address,
/// the least recently used.
fn victims<'a>(
    contexts: impl Iterator<Item = (ContextIndex, &'a Context)> + Clone,
    newcomer: Ipv6Addr,
    limit: usize,
) -> Vec<ContextIndex> {
    let mut by_prefix: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, context) in contexts.clone() {
        *by_prefix.entry(prefix(context.path.peer)).or_default() += 1;
    }
    let Some((most, largest)) = by_prefix.iter().map(|(prefix, count)| (*count, *prefix)).max() else {
        return Vec::new();
    };
    let batch = (limit / EVICTION_BATCH).max(1);
    let share = (limit / MAX_PREFIX_SHARE).max(1);
    let of_largest = |context: &Context| prefix(context.path.peer) == largest;
    if most > share {
        return first_evicted(contexts.filter(|(_, context)| of_largest(context)), batch.min(most - share));
    }
    let unproved = first_evicted(contexts.clone().filter(|(_, context)| !has_proved(context)), batch);
    let held = by_prefix.get(&prefix(newcomer)).copied().unwrap_or_default();
    if unproved.is_empty() && most > held + 1 {
        return first_evicted(contexts.filter(|(_, context)| of_largest(context)), 1);
    }
    unproved
}

/// The first `count` contexts in the order of eviction.
fn first_evicted<'a>(
    contexts: impl Iterator<Item = (ContextIndex, &'a Context)> + Clone,
    count: usize,
) -> Vec<ContextIndex> {
    let mut by_address: BTreeMap<Ipv6Addr, usize> = BTreeMap::new();
    let mut total = 0;
    for (_, context) in contexts.clone() {
        *by_address.entry(context.path.peer).or_default() += 1;
        total += 1;
    }
    let is_busy = |address| by_address.get(&address).is_some_and(|held| held * MAX_ADDRESS_SHARE > total);
    let worth = |context: &Context| (Reverse(is_busy(context.path.peer)), has_proved(context), context.last_activity);
    let mut ranked: Vec<_> = contexts.map(|(index, context)| (worth(context), index)).collect();
    if count < ranked.len() {
        ranked.select_nth_unstable(count);
        ranked.truncate(count);
    }
    ranked.into_iter().map(|(_, index)| index).collect()
}

/// Whether the peer has proved that an address is its own, by HBA or CGA.
fn has_proved(context: &Context) -> bool {
    context
        .peer
        .as_ref()
        .is_some_and(|peer| peer.locators.iter().any(|locator| locator.method != VerificationMethod(0)))
}

/// The /64 prefix of an address.
fn prefix(address: Ipv6Addr) -> u64 {
    (address.to_bits() >> 64) as u64
}
