//! A NAT of addresses and UDP ports (RFC 4787); other protocols do not pass.

use roam6_proto::LinkId;
use roam6_wire::Ipv4Endpoint;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

const FIRST_PORT: u16 = 40_000;

/// A NAT with endpoint-independent mappings.
#[derive(Debug, Clone)]
pub struct Nat44 {
    /// The inside interface.
    pub inside: LinkId,
    /// The public address.
    pub public: Ipv4Addr,
    /// The inside end of each port, now or formerly.
    owners: BTreeMap<u16, Ipv4Endpoint>,
    /// Ports with a mapping.
    live: BTreeSet<u16>,
}

impl Nat44 {
    /// A NAT without mappings.
    pub fn new(inside: LinkId, public: Ipv4Addr) -> Nat44 {
        Nat44 { inside, public, owners: BTreeMap::new(), live: BTreeSet::new() }
    }

    /// The public end of the inside end; `None` for packets without ports.
    pub fn outbound(&mut self, inside: Ipv4Endpoint) -> Option<Ipv4Endpoint> {
        if inside.port == 0 {
            return None;
        }
        let known = self.live.iter().copied().find(|port| self.owners.get(port) == Some(&inside));
        let fresh = || self.owners.last_key_value().map_or(FIRST_PORT, |(last, _)| last.wrapping_add(1));
        let port = known.unwrap_or_else(fresh);
        self.owners.insert(port, inside);
        self.live.insert(port);
        Some(Ipv4Endpoint { address: self.public, port })
    }

    /// The inside end of a public port.
    pub fn inbound(&self, port: u16) -> Option<Ipv4Endpoint> {
        self.owners.get(&port).copied().filter(|_| self.live.contains(&port))
    }

    /// Removes every mapping, as a restart does.
    pub fn forget(&mut self) {
        self.live.clear();
    }

    /// The inside address of a port, now or formerly.
    pub fn owner(&self, port: u16) -> Option<Ipv4Addr> {
        self.owners.get(&port).map(|end| end.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nat_mapping_stays_until_it_is_forgotten() {
        let inside = Ipv4Endpoint::dsmip(Ipv4Addr::new(10, 0, 0, 2));
        let mut nat = Nat44::new(LinkId(3), Ipv4Addr::new(198, 51, 100, 1));
        let outside = nat.outbound(inside).unwrap();
        assert_eq!(nat.outbound(inside), Some(outside));
        assert_eq!(nat.inbound(outside.port), Some(inside));
        nat.forget();
        assert_eq!(nat.inbound(outside.port), None);
        assert_ne!(nat.outbound(inside), Some(outside));
        assert_eq!(nat.owner(outside.port), Some(inside.address));
        assert_eq!(nat.outbound(Ipv4Endpoint { port: 0, ..inside }), None);
    }
}
