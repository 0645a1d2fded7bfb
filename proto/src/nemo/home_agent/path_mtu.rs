//! Path MTU towards care-of addresses, learnt from Packet Too Big, forgotten after a while (RFC 2473 §7.1, RFC 8201 §5).

use crate::time::Time;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Most care-of addresses with a path MTU of their own.
pub(super) const MAX_PATHS: usize = 4096;

/// How long a Packet Too Big is believed.
pub(super) const PATH_MTU_AGE: Duration = Duration::from_secs(600);

/// The least MTU of an IPv6 link (RFC 8200 §5).
pub(super) const IPV6_MINIMUM_MTU: u32 = 1280;

/// Path MTUs that differ from what is assumed.
#[derive(Debug)]
pub(super) struct PathMtu {
    assumed: u32,
    learnt: BTreeMap<Ipv6Addr, (u32, Time)>,
}

impl PathMtu {
    /// All paths carry `assumed` octets.
    pub(super) fn new(assumed: u32) -> PathMtu {
        PathMtu { assumed: assumed.max(IPV6_MINIMUM_MTU), learnt: BTreeMap::new() }
    }

    /// Largest outer packet to `remote`, octets.
    pub(super) fn find(&self, remote: Ipv6Addr) -> u32 {
        self.learnt.get(&remote).map_or(self.assumed, |(mtu, _)| *mtu)
    }

    /// Whether nothing can be learnt of `remote` until something is forgotten of another.
    pub(super) fn is_full_for(&self, remote: Ipv6Addr) -> bool {
        self.learnt.len() >= MAX_PATHS && !self.learnt.contains_key(&remote)
    }

    /// Learns that packets of more than `told` octets do not reach `remote`; the MTU now, if it became less.
    pub(super) fn put(&mut self, now: Time, remote: Ipv6Addr, told: u32) -> Option<u32> {
        let mtu = told.max(IPV6_MINIMUM_MTU);
        if mtu >= self.find(remote) {
            return None;
        }
        self.learnt.insert(remote, (mtu, now + PATH_MTU_AGE));
        Some(mtu)
    }

    /// Forgets what was learnt of `remote` if it is too old; when it will be, otherwise.
    pub(super) fn expire(&mut self, now: Time, remote: Ipv6Addr) -> Option<Time> {
        let (_, until) = *self.learnt.get(&remote)?;
        if until <= now {
            self.learnt.remove(&remote);
            return None;
        }
        Some(until)
    }
}
