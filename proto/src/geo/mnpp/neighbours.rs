//! Neighbour routers and the networks behind them: the first router that announces a network keeps it until its
//! lifetime ends, or it does not answer after another has announced the same network.

use super::authentication::REPLAY_WINDOW;
use crate::{LinkId, Time, VecMap};
use core::time::Duration;
use roam6_wire::{LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// Neighbour routers at most.
pub const MAX_ROUTERS: usize = 256;
/// Networks at most.
pub const MAX_NETWORKS: usize = 1024;

/// A neighbour router on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NeighbourRouter {
    /// The link.
    pub link: LinkId,
    /// Its link-local address.
    pub address: Ipv6Addr,
}

/// The neighbour routers and their networks.
#[derive(Debug, Default)]
pub struct NeighbourTable {
    routers: VecMap<NeighbourRouter, RouterState>,
    networks: VecMap<Prefix, NetworkEntry>,
}

/// The state of a neighbour router.
#[derive(Debug, Clone, Copy)]
struct RouterState {
    /// Its link-layer address, if its link-local address is derived from it; then no neighbour solicitation is needed.
    link_address: Option<LinkAddress>,
    /// The host has a neighbour entry for it.
    neighbour_installed: bool,
    last: Time,
    /// The time of its last proof, Unix microseconds.
    last_proof_micros: Option<u64>,
}

/// A network and its router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkEntry {
    /// The router.
    pub router: NeighbourRouter,
    /// When its lifetime ends.
    pub until: Time,
}

/// The effect of an announced network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkUpdate {
    /// The entry is new.
    New,
    /// The entry was renewed.
    Renewed,
    /// Another router has the network.
    OwnedByOther(NeighbourRouter),
    /// The table is full.
    Full,
}

impl NeighbourTable {
    /// Updates a router. `Some(true)` if it is new; `None` if its proof is not newer than its last one, or the table is
    /// full.
    pub fn update_router(
        &mut self,
        now: Time,
        router: NeighbourRouter,
        link_address: Option<LinkAddress>,
        proved: Option<u64>,
    ) -> Option<bool> {
        let known = self.routers.get(&router);
        let is_new = known.is_none();
        if is_new && self.routers.len() >= MAX_ROUTERS {
            return None;
        }
        if known.is_some_and(|known| known.last_proof_micros.is_some() && proved <= known.last_proof_micros) {
            return None;
        }
        let entered = known.is_some_and(|known| known.neighbour_installed);
        self.routers.insert(
            router,
            RouterState { link_address, neighbour_installed: entered, last: now, last_proof_micros: proved },
        );
        Some(is_new)
    }

    /// Adds or renews a network of a router for a lifetime from `now`.
    pub fn update_network(
        &mut self,
        now: Time,
        router: NeighbourRouter,
        network: Prefix,
        lifetime: Duration,
    ) -> NetworkUpdate {
        let is_full = self.networks.len() >= MAX_NETWORKS;
        match self.networks.get_mut(&network) {
            Some(held) if held.router != router => NetworkUpdate::OwnedByOther(held.router),
            Some(held) => {
                held.until = now + lifetime;
                NetworkUpdate::Renewed
            }
            None if is_full => NetworkUpdate::Full,
            None => {
                self.networks.insert(network, NetworkEntry { router, until: now + lifetime });
                NetworkUpdate::New
            }
        }
    }

    /// Removes and returns the networks for which `is_over` is true, in the order of their prefixes.
    pub fn remove_if(&mut self, is_over: impl Fn(Prefix, &NetworkEntry) -> bool) -> Vec<(Prefix, NeighbourRouter)> {
        let over = self.networks.iter().filter(|(network, held)| is_over(**network, held));
        let over: Vec<(Prefix, NeighbourRouter)> = over.map(|(network, held)| (*network, held.router)).collect();
        for (network, _) in &over {
            self.networks.remove(network);
        }
        over
    }

    /// Removes routers without a network whose last proof can no longer be replayed.
    pub fn expire(&mut self, now: Time) {
        let networks = &self.networks;
        let has_one = |router: &NeighbourRouter| networks.values().any(|held| held.router == *router);
        self.routers.retain(|router, entry| now.since(entry.last) <= 2 * REPLAY_WINDOW || has_one(router));
    }

    /// When a router's last announcement was received; `None` if it is not known.
    pub fn last_heard(&self, router: NeighbourRouter) -> Option<Time> {
        self.routers.get(&router).map(|entry| entry.last)
    }

    fn has(&self, router: NeighbourRouter) -> bool {
        self.networks.values().any(|held| held.router == router)
    }

    /// The link-layer address of a router that has no neighbour entry yet; the caller installs one.
    pub fn take_new_neighbour(&mut self, router: NeighbourRouter) -> Option<LinkAddress> {
        let entry = self.routers.get_mut(&router).filter(|entry| !entry.neighbour_installed)?;
        entry.neighbour_installed = entry.link_address.is_some();
        entry.link_address
    }

    /// Whether a router without networks still has a neighbour entry; the caller removes it.
    pub fn take_stale_neighbour(&mut self, router: NeighbourRouter) -> bool {
        let is_idle = !self.has(router);
        self.routers.get_mut(&router).is_some_and(|entry| is_idle && std::mem::take(&mut entry.neighbour_installed))
    }

    /// When the next entry expires.
    pub fn deadline(&self) -> Option<Time> {
        let routers = self.routers.values().map(|entry| entry.last + 2 * REPLAY_WINDOW + Duration::from_micros(1));
        // Routers that have a network are kept beyond that, until the network ends.
        let networks = self.networks.values().map(|held| held.until);
        networks.min().or_else(|| routers.min())
    }

    /// The networks.
    pub fn networks(&self) -> impl Iterator<Item = (Prefix, &NetworkEntry)> {
        self.networks.iter().map(|(network, held)| (*network, held))
    }

    /// The number of routers.
    pub fn routers(&self) -> usize {
        self.routers.len()
    }
}
