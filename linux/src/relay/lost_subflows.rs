//! The subflows of mobile routers at their home agent. A mobile router that has lost an uplink removes its subflow, and the kernel
//! says so once (RFC 8684 §3.4.2, REMOVE_ADDR), which is lost where no other uplink works. The kernel of the home agent would keep
//! that subflow for good, and accept no more than eight: a connection under which all uplinks are lost a few times would have none
//! at last. So this relay closes what has been replaced.

use crate::error::Error;
use crate::mptcp::diag::{self, Connection, close_subflow};
use crate::mptcp::events::SubflowEvents;
use roam6_proto::base::ids::MptcpToken;
use roam6_proto::contract::input::{SubflowEvent, SubflowEventKind};
use roam6_proto::contract::item::subflow::is_subflow_address;
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddrV6};

/// Announcements read at once.
const BATCH: usize = 256;

/// The subflows of all bearers, by the token of each.
pub(super) struct Subflows {
    events: SubflowEvents,
    known: Known,
}

/// The remote ends of a bearer; the first is that of its first subflow, the home address.
#[derive(Debug, Default)]
struct Known(BTreeMap<MptcpToken, Vec<SocketAddrV6>>);

crate::sys::impl_as_fd!(Subflows, events);

impl Subflows {
    /// Subscribes to the announcements. Bearers of an earlier process have ended with it.
    ///
    /// # Errors
    /// The kernel announces none (Linux 5.13 does).
    pub(super) fn open() -> Result<Subflows, Error> {
        Ok(Subflows { events: SubflowEvents::open()?, known: Known::default() })
    }

    /// Closes the subflows that those announced replace. `care_of_addresses`: those of a home address.
    ///
    /// # Errors
    /// The kernel's, as where it cannot close sockets (`CONFIG_INET_DIAG_DESTROY`).
    pub(super) fn receive(&mut self, care_of_addresses: impl Fn(Ipv6Addr) -> Vec<Ipv6Addr>) -> Result<(), Error> {
        let batch = self.events.receive(BATCH)?;
        let mut closed = Ok(());
        for event in batch.events {
            let local = event.local;
            for remote in self.known.receive(&event, &care_of_addresses) {
                closed = close_subflow(local, remote).and(closed);
            }
        }
        if batch.lost {
            self.read_again()?;
        }
        closed
    }

    fn read_again(&mut self) -> Result<(), Error> {
        self.known = Known::default();
        let connections = diag::connections()?.connections;
        for event in connections.iter().flat_map(Connection::events) {
            self.known.receive(&event, &|_| Vec::new());
        }
        Ok(())
    }
}

impl Known {
    /// The remote ends of the subflows that are replaced.
    fn receive(
        &mut self,
        event: &SubflowEvent,
        care_of_addresses: &impl Fn(Ipv6Addr) -> Vec<Ipv6Addr>,
    ) -> Vec<SocketAddrV6> {
        match event.kind {
            SubflowEventKind::ConnectionEstablished if event.local.port() == roam6_wire::relay::PORT => {
                self.0.entry(event.token).or_default().insert(0, event.remote);
            }
            SubflowEventKind::SubflowEstablished => {
                let Some(remotes) = self.0.get_mut(&event.token) else { return Vec::new() };
                let current = remotes.first().map(|home| care_of_addresses(*home.ip())).unwrap_or_default();
                let replaced = replaced_by(*event.remote.ip(), remotes.get(1..).unwrap_or_default(), &current);
                remotes.retain(|remote| !replaced.contains(remote));
                remotes.push(event.remote);
                return replaced;
            }
            SubflowEventKind::SubflowClosed => {
                if let Some(remotes) = self.0.get_mut(&event.token) {
                    let home = remotes.first().copied();
                    remotes.retain(|remote| *remote != event.remote || Some(*remote) == home);
                }
            }
            SubflowEventKind::ConnectionClosed => drop(self.0.remove(&event.token)),
            _ => {}
        }
        Vec::new()
    }
}

/// Those of `remotes`, the oldest first, that a subflow from `address` replaces: from the same address beyond one for each path with it,
/// as several uplinks may be behind one NAT; and from addresses that are none of the present care-of addresses, if these are known. Not so
/// behind a NAT, which may give a connection another address than the tunnel, and not from the addresses of encrypted subflows.
fn replaced_by(address: Ipv6Addr, remotes: &[SocketAddrV6], current: &[Ipv6Addr]) -> Vec<SocketAddrV6> {
    let allowed = current.iter().filter(|other| **other == address).count().max(1);
    let same = remotes.iter().filter(|remote| *remote.ip() == address);
    let surplus = (same.clone().count() + 1).saturating_sub(allowed);
    let is_former = |remote: &&SocketAddrV6| {
        let is_care_of = !is_subflow_address(*remote.ip()) && remote.ip().to_ipv4_mapped().is_none();
        is_care_of && !current.is_empty() && *remote.ip() != address && !current.contains(remote.ip())
    };
    same.take(surplus).chain(remotes.iter().filter(is_former)).copied().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails at the assertion")]
    use super::*;

    const HOME: &str = "2001:db8:1::100";

    fn event(kind: SubflowEventKind, remote: &str, port: u16) -> SubflowEvent {
        let local = SocketAddrV6::new("2001:db8:1::1".parse().unwrap(), roam6_wire::relay::PORT, 0, 0);
        let remote = SocketAddrV6::new(remote.parse().unwrap(), port, 0, 0);
        SubflowEvent { token: MptcpToken(7), kind, local, remote, error: 0 }
    }

    /// The ports of the subflows that are closed if one from this address begins.
    fn begin(known: &mut Known, remote: &str, port: u16, care_of: &[&str]) -> Vec<u16> {
        let current = |home: Ipv6Addr| {
            assert_eq!(home, HOME.parse::<Ipv6Addr>().unwrap());
            care_of.iter().map(|address| address.parse().unwrap()).collect()
        };
        let event = event(SubflowEventKind::SubflowEstablished, remote, port);
        known.receive(&event, &current).iter().map(SocketAddrV6::port).collect()
    }

    #[test]
    fn a_subflow_replaces_those_from_the_same_or_a_former_address() {
        let mut known = Known::default();
        let none = |_: Ipv6Addr| Vec::new();
        known.receive(&event(SubflowEventKind::ConnectionEstablished, HOME, 1), &none);
        let (a, b, c, subflow) = ("2001:db8:a::1", "2001:db8:b::1", "2001:db8:c::1", "fd72:6f61:6d36::11");
        assert!(begin(&mut known, a, 2, &[a, b]).is_empty());
        assert!(begin(&mut known, b, 3, &[a, b]).is_empty());
        assert_eq!(begin(&mut known, a, 4, &[a, b]), [2], "from the same address");
        assert_eq!(begin(&mut known, c, 5, &[a, c]), [3], "from an address that is registered no more");
        assert!(begin(&mut known, subflow, 6, &[a, c]).is_empty());
        assert_eq!(begin(&mut known, a, 7, &[]), [4], "nothing is known about the others");
        assert_eq!(begin(&mut known, c, 8, &[a, c]), [5], "that of an encrypted path stays, and the first one");
        let nat = "::ffff:192.0.2.9";
        assert!(begin(&mut known, nat, 11, &[a, c, nat, nat]).is_empty());
        assert!(begin(&mut known, nat, 12, &[a, c, nat, nat]).is_empty(), "two uplinks behind one NAT");
        assert_eq!(begin(&mut known, nat, 13, &[a, c, nat, nat]), [11]);
        assert_eq!(
            begin(&mut known, a, 14, &[a, c]),
            [7],
            "a NAT may give a connection another address than the tunnel"
        );
        known.receive(&event(SubflowEventKind::SubflowClosed, c, 8), &none);
        assert!(begin(&mut known, c, 9, &[a, c]).is_empty());
        known.receive(&event(SubflowEventKind::ConnectionClosed, HOME, 1), &none);
        assert!(begin_unknown(&mut known, a).is_empty());
        assert!(known.0.is_empty());
    }

    fn begin_unknown(known: &mut Known, remote: &str) -> Vec<SocketAddrV6> {
        known.receive(&event(SubflowEventKind::SubflowEstablished, remote, 10), &|_: Ipv6Addr| Vec::new())
    }
}
