//! The ESP associations of a host's encrypted paths, with the rules of the data plane: packets of former pairs are accepted, a
//! mobile router sends by the newest pair, a home agent by the newest that leads to the registered care-of address and on which
//! packets have come.

use roam6_proto::contract::item::{EspPair, Tunnel, TunnelId, TunnelPath};
use roam6_proto::crypto::path_esp::AssociationKey;
use roam6_wire::Bid;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Pairs of one path that are kept.
const MAX_PAIRS: usize = 4;

/// The associations, by path; the newest first.
#[derive(Debug, Default)]
pub(super) struct Associations(BTreeMap<(TunnelId, Bid), Vec<Association>>);

#[derive(Debug, Clone, Copy)]
struct Association {
    pair: EspPair,
    remote: Ipv6Addr,
    /// Packets have come by it.
    is_used: bool,
}

impl Associations {
    /// Adds the pairs of a tunnel that are new.
    pub(super) fn put(&mut self, tunnel: &Tunnel) {
        let mut seen = Vec::new();
        for path in &tunnel.paths {
            let Some(pair) = path.encap.esp().filter(|_| !seen.contains(&path.bid)) else { continue };
            seen.push(path.bid);
            let pairs = self.0.entry((tunnel.id, path.bid)).or_default();
            let is_same =
                |known: &Association| (known.pair.inbound, known.pair.outbound) == (pair.inbound, pair.outbound);
            match pairs.iter_mut().find(|known| is_same(known)) {
                Some(known) => known.remote = path.remote,
                None => pairs.insert(0, Association { pair: *pair, remote: path.remote, is_used: false }),
            }
            pairs.truncate(MAX_PAIRS);
        }
    }

    /// Removes those of a tunnel.
    pub(super) fn drop(&mut self, id: TunnelId) {
        self.0.retain(|(of, _), _| *of != id);
    }

    /// The pair by which packets of a path leave.
    pub(super) fn carrier(&self, id: TunnelId, path: &TunnelPath) -> Option<EspPair> {
        let pairs = self.0.get(&(id, path.bid))?;
        let leads_there = |known: &&Association| known.pair.initiates || known.remote == path.remote;
        let used = pairs.iter().filter(leads_there).find(|known| known.pair.initiates || known.is_used);
        used.or_else(|| pairs.iter().find(leads_there)).map(|known| known.pair)
    }

    /// The path that receives by this key.
    pub(super) fn path_of(&self, key: AssociationKey) -> Option<(TunnelId, Bid)> {
        let has = |pairs: &[Association]| pairs.iter().any(|known| receives_by(known, key));
        self.0.iter().find(|(_, pairs)| has(pairs)).map(|(path, _)| *path)
    }

    /// A packet has come by this key.
    pub(super) fn note_packet(&mut self, key: AssociationKey) {
        for known in self.0.values_mut().flatten().filter(|known| receives_by(known, key)) {
            known.is_used = true;
        }
    }
}

fn receives_by(known: &Association, key: AssociationKey) -> bool {
    known.pair.keys.is_some_and(|keys| keys.inbound == key)
}
