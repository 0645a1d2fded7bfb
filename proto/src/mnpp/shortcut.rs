//! Ways past the tunnel. A mobile router's fast path knows tunnels and no routes: a network nearby is one more tunnel to it, of
//! which the only path is direct (RFC 5648 §5.6.2 has such paths too). Where that path cannot be taken at once the packet goes
//! the kernel's way, by the route.

use super::neighbours::Router;
use crate::engine::Outbox;
use crate::plan::{Item, Key, Path, Tunnel, TunnelId};
use crate::report::Report;
use roam6_wire::{Bid, Prefix};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Networks that can be led to at once.
pub const MAX_SHORTCUTS: usize = 256;
/// The first name; no tunnel of a mobile router or a home agent is called so.
pub(super) const FIRST: u32 = 1 << 30;
/// The last one.
pub(super) const LAST: u32 = FIRST + MAX_SHORTCUTS as u32 - 1;

/// The ways there are.
#[derive(Debug, Default)]
pub(super) struct Shortcuts(BTreeMap<Prefix, TunnelId>);

/// Where a way leads along.
#[derive(Debug, Clone, Copy)]
pub(super) struct Along {
    /// Our address on the link.
    pub(super) local: Ipv6Addr,
    /// Who has the network.
    pub(super) router: Router,
    /// Largest packet of the link, octets.
    pub(super) mtu: u32,
}

impl Shortcuts {
    /// From these networks of ours to `network`.
    pub(super) fn put(&mut self, near: &[Prefix], network: Prefix, along: Along, out: &mut Outbox) {
        let Some(id) = self.name(network) else {
            return out.report(Report::TableFull { table: "ways past the tunnel".to_owned(), limit: MAX_SHORTCUTS });
        };
        let Along { local, router, mtu } = along;
        let (remote, link) = (router.address, Some(router.link));
        let path = Path { bid: Bid(0), local, remote, link, mtu, weight: 1, direct: true };
        let (near, far, paths, flows) = (near.to_vec(), vec![network], vec![path], Vec::new());
        out.put(Item::Tunnel(Tunnel { id, near, far, paths, flows }));
    }

    /// It is no more.
    pub(super) fn drop(&mut self, network: Prefix, out: &mut Outbox) {
        if let Some(id) = self.0.remove(&network) {
            out.drop(Key::Tunnel(id));
        }
    }

    /// The name it has, or the first that is free.
    fn name(&mut self, network: Prefix) -> Option<TunnelId> {
        if let Some(id) = self.0.get(&network) {
            return Some(*id);
        }
        let taken = |id: &TunnelId| self.0.values().any(|other| other == id);
        let free = (FIRST..=LAST).map(TunnelId).find(|id| !taken(id))?;
        self.0.insert(network, free);
        Some(free)
    }
}
