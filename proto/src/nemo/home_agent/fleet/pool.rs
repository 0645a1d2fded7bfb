//! Prefixes of the IPv4 pool, which members claim in the same transaction as the record that has them (RFC 5555 §2.5).

use super::super::HomeAgent;
use crate::Time;
use crate::contract::item::TunnelId;
use core::time::Duration;
use roam6_wire::{HomeAddress, Prefix};
use std::collections::BTreeMap;

/// How long a prefix is not chosen that another home address had claimed: by then its record has come.
const EXCLUDED: Duration = Duration::from_secs(60);
/// Maximum such prefixes.
const MAX_EXCLUDED: usize = 1024;

/// The prefixes of the pool that the store's records have.
#[derive(Debug, Default)]
pub(super) struct Pool {
    held: BTreeMap<HomeAddress, Vec<Prefix>>,
    owners: BTreeMap<Prefix, HomeAddress>,
    excluded: BTreeMap<Prefix, Time>,
}

impl Pool {
    /// The prefixes of `home`.
    pub(super) fn held(&self, home: HomeAddress) -> &[Prefix] {
        self.held.get(&home).map(Vec::as_slice).unwrap_or_default()
    }

    /// The record of `home` has these prefixes now.
    pub(super) fn set(&mut self, home: HomeAddress, prefixes: Vec<Prefix>) {
        for prefix in self.held.remove(&home).unwrap_or_default() {
            self.owners.remove(&prefix);
        }
        self.owners.extend(prefixes.iter().map(|prefix| (*prefix, home)));
        if !prefixes.is_empty() {
            self.held.insert(home, prefixes);
        }
    }

    /// Another home address has claimed `prefix`.
    pub(super) fn exclude(&mut self, now: Time, prefix: Prefix) {
        self.excluded.retain(|_, until| *until > now);
        if self.excluded.len() < MAX_EXCLUDED {
            self.excluded.insert(prefix, now + EXCLUDED);
        }
    }
}

impl HomeAgent {
    /// Whether a record of the store has `prefix` that is not of the binding of `own`, or another one is about to have it.
    pub(in super::super) fn is_claimed_by_another(&self, prefix: Prefix, own: Option<TunnelId>) -> bool {
        let Some(fleet) = &self.fleet else { return false };
        let own = own.and_then(|own| self.tunnels.get(&own));
        let owner = fleet.pool.owners.get(&prefix);
        fleet.pool.excluded.contains_key(&prefix) || owner.is_some_and(|owner| Some(owner) != own)
    }
}
