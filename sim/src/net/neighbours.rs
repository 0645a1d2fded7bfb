//! The neighbour cache of virtual links: entries learned from neighbour discovery, and packets that wait for them
//! (RFC 4861 §7.2). On other media the simulator resolves addresses without messages.

use roam6_proto::LinkId;
use roam6_wire::LinkAddress;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Packets that wait for one neighbour; the oldest are dropped.
const MAX_WAITING: usize = 3;

/// The neighbour cache of a host.
#[derive(Debug, Default)]
pub struct Neighbours {
    known: BTreeMap<(LinkId, Ipv6Addr), LinkAddress>,
    waiting: BTreeMap<(LinkId, Ipv6Addr), Vec<Vec<u8>>>,
}

impl Neighbours {
    /// The link-layer address of a neighbour.
    pub fn find(&self, link: LinkId, address: Ipv6Addr) -> Option<LinkAddress> {
        self.known.get(&(link, address)).copied()
    }

    /// Learns a link-layer address; returns the packets that have waited for it.
    pub fn learn(&mut self, link: LinkId, address: Ipv6Addr, link_address: LinkAddress) -> Vec<Vec<u8>> {
        self.known.insert((link, address), link_address);
        self.waiting.remove(&(link, address)).unwrap_or_default()
    }

    /// Lets a packet wait for a neighbour.
    pub fn wait(&mut self, link: LinkId, address: Ipv6Addr, packet: Vec<u8>) {
        let waiting = self.waiting.entry((link, address)).or_default();
        if waiting.len() >= MAX_WAITING {
            waiting.remove(0);
        }
        waiting.push(packet);
    }

    /// Address resolution has failed: drops the packets that have waited, and returns their number.
    pub fn give_up(&mut self, link: LinkId, address: Ipv6Addr) -> usize {
        self.waiting.remove(&(link, address)).map_or(0, |packets| packets.len())
    }

    /// The interface has gone.
    pub fn forget(&mut self, link: LinkId) {
        self.known.retain(|(on, _), _| *on != link);
        self.waiting.retain(|(on, _), _| *on != link);
    }
}
