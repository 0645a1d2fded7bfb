//! Bonding over encrypted paths: packets to the addresses of subflows take the path whose BID they have. Nothing of them leaves
//! this host otherwise, whatever the state of the binding: what no tunnel takes is discarded.

use super::HomeAgent;
use super::cache::Registration;
use super::unreachable_routes::UNREACHABLE_METRIC;
use crate::contract::item::subflow::{subflow_network, subflow_prefix};
use crate::contract::item::{NextHop, RouteTable, TunnelId};
use crate::{Item, Outbox};
use roam6_wire::{HomeAddress, Prefix};

/// Behind the rules of a mobile router on the same host, which has such addresses too.
const RULE_FROM_SUBFLOWS: u32 = 1140;
/// The table that discards; the numbers above it are those of a mobile router.
const DISCARD_TABLE: RouteTable = RouteTable(6_274_996);

impl HomeAgent {
    /// Discards what has such an address and is neither for this host nor for a tunnel.
    pub(super) fn guard_subflows(&mut self, out: &mut Outbox) {
        if !self.config.has_encrypted_subflows() {
            return;
        }
        let network = subflow_network();
        self.put_own(Item::route(DISCARD_TABLE, Prefix::ALL, UNREACHABLE_METRIC, NextHop::Blackhole), out);
        self.put_own(Item::rule(RULE_FROM_SUBFLOWS, network, Prefix::ALL, DISCARD_TABLE), out);
        self.put_own(Item::route(RouteTable::MAIN, network, UNREACHABLE_METRIC, NextHop::Unreachable), out);
    }

    /// What a registration leads into its tunnel beside the home address: the prefixes, and that of the addresses of subflows.
    pub(super) fn tunnelled_prefixes(
        &self,
        tunnel: TunnelId,
        home: HomeAddress,
        registration: &Registration,
    ) -> impl Iterator<Item = Prefix> {
        registration.prefixes.iter().copied().chain(self.subflow_prefix(tunnel, home, registration))
    }

    /// The prefix of the addresses of a mobile router's subflows; `None` if it does not encrypt, or another one has the same: the
    /// home addresses of both have one hash.
    fn subflow_prefix(&self, tunnel: TunnelId, home: HomeAddress, registration: &Registration) -> Option<Prefix> {
        let is_encrypted = || registration.care_of.iter().any(|at| at.wireguard.is_some() || at.esp.is_some());
        if !self.config.has_encrypted_subflows() || !is_encrypted() {
            return None;
        }
        let prefix = subflow_prefix(home.0);
        self.prefixes.owner(prefix).is_none_or(|owner| owner == tunnel).then_some(prefix)
    }
}
