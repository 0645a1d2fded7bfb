//! Routers nearby, and the networks each of them has: who announced a network first has it until it ends.

use super::trust::WINDOW;
use crate::base::few;
use crate::base::ids::LinkId;
use crate::base::time::Time;
use core::time::Duration;
use roam6_wire::{LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// Routers known at once.
pub const MAX_ROUTERS: usize = 256;
/// Networks known at once.
pub const MAX_NETWORKS: usize = 1024;

/// A router on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Router {
    /// The link.
    pub link: LinkId,
    /// Its address there.
    pub address: Ipv6Addr,
}

/// All that is known.
#[derive(Debug, Default)]
pub struct Neighbours {
    routers: few::Map<Router, Heard>,
    networks: few::Map<Prefix, Held>,
}

/// What was heard of a router.
#[derive(Debug, Clone, Copy)]
struct Heard {
    /// Its link-layer address, where its own address is made of it: then nobody needs to ask.
    link_address: Option<LinkAddress>,
    /// The host was told of that.
    entered: bool,
    last: Time,
    /// The time of its last proof, microseconds since 1970.
    proved: Option<u64>,
}

/// A network, and who has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Who.
    pub router: Router,
    /// For how long.
    pub until: Time,
}

/// What came of hearing that a router has a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    New,
    /// It goes on.
    Renewed,
    /// Another router has it.
    Taken(Router),
    /// There is no room.
    Full,
}

impl Neighbours {
    /// Hears a router. `Some(is_new)`; `None` if its proof is not newer than the last, or there is no room for it.
    pub fn hear(
        &mut self,
        now: Time,
        router: Router,
        link_address: Option<LinkAddress>,
        proved: Option<u64>,
    ) -> Option<bool> {
        let known = self.routers.get(&router);
        let is_new = known.is_none();
        if is_new && self.routers.len() >= MAX_ROUTERS {
            return None;
        }
        if known.is_some_and(|known| known.proved.is_some() && proved <= known.proved) {
            return None;
        }
        let entered = known.is_some_and(|known| known.entered);
        self.routers.insert(router, Heard { link_address, entered, last: now, proved });
        Some(is_new)
    }

    /// Hears that a router has a network for so long from now.
    pub fn put(&mut self, now: Time, router: Router, network: Prefix, lifetime: Duration) -> Change {
        let is_full = self.networks.len() >= MAX_NETWORKS;
        match self.networks.get_mut(&network) {
            Some(held) if held.router != router => Change::Taken(held.router),
            Some(held) => {
                held.until = now + lifetime;
                Change::Renewed
            }
            None if is_full => Change::Full,
            None => {
                self.networks.insert(network, Held { router, until: now + lifetime });
                Change::New
            }
        }
    }

    /// Takes out the networks of which this is true; in the order of their prefixes.
    pub fn take(&mut self, is_over: impl Fn(Prefix, &Held) -> bool) -> Vec<(Prefix, Router)> {
        let over = self.networks.iter().filter(|(network, held)| is_over(**network, held));
        let over: Vec<(Prefix, Router)> = over.map(|(network, held)| (*network, held.router)).collect();
        for (network, _) in &over {
            self.networks.remove(network);
        }
        over
    }

    /// Forgets routers whose last proof nobody could play again now, and that have no network.
    pub fn expire(&mut self, now: Time) {
        let networks = &self.networks;
        let has_one = |router: &Router| networks.values().any(|held| held.router == *router);
        self.routers.retain(|router, heard| now.since(heard.last) <= 2 * WINDOW || has_one(router));
    }

    fn has(&self, router: Router) -> bool {
        self.networks.values().any(|held| held.router == router)
    }

    /// The link-layer address of a router, once: whoever asks tells the host.
    pub fn enter(&mut self, router: Router) -> Option<LinkAddress> {
        let heard = self.routers.get_mut(&router).filter(|heard| !heard.entered)?;
        heard.entered = heard.link_address.is_some();
        heard.link_address
    }

    /// Whether the host knows the link-layer address of a router that has no network any longer; no more after this.
    pub fn leave(&mut self, router: Router) -> bool {
        let is_idle = !self.has(router);
        self.routers.get_mut(&router).is_some_and(|heard| is_idle && std::mem::take(&mut heard.entered))
    }

    /// When something ends next.
    pub fn deadline(&self) -> Option<Time> {
        let routers = self.routers.values().map(|heard| heard.last + 2 * WINDOW + Duration::from_micros(1));
        // Routers that have a network are kept beyond that, until the network ends.
        let networks = self.networks.values().map(|held| held.until);
        networks.min().or_else(|| routers.min())
    }

    /// All networks.
    pub fn networks(&self) -> impl Iterator<Item = (Prefix, &Held)> {
        self.networks.iter().map(|(network, held)| (*network, held))
    }

    /// How many routers.
    pub fn routers(&self) -> usize {
        self.routers.len()
    }
}
