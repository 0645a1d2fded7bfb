//! Connections and the local addresses of their subflows, as the kernel reports them (RFC 8684).

use crate::base::ids::MptcpToken;
use crate::base::vec_set::VecSet;
use crate::contract::input::{SubflowEvent, SubflowEventKind};
use crate::contract::report::MptcpReport;
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddrV6};

/// Connections remembered; further ones are unknown.
pub const MAX_CONNECTIONS: usize = 4096;
/// Subflows remembered of one connection: the kernel makes eight besides the first, more while others close.
pub const MAX_SUBFLOWS: usize = 32;

/// The connections of this host.
#[derive(Debug, Default)]
pub(super) struct Subflows {
    connections: BTreeMap<MptcpToken, VecSet<(SocketAddrV6, SocketAddrV6)>>,
    /// Some connections were not recorded.
    incomplete: bool,
}

impl Subflows {
    /// Processes an event of the kernel; `false` the first time that the table is full.
    pub(super) fn handle_event(&mut self, event: &SubflowEvent) -> bool {
        let SubflowEvent { token, kind: change, local, remote, .. } = *event;
        match change {
            SubflowEventKind::ConnectionClosed => drop(self.connections.remove(&token)),
            SubflowEventKind::SubflowClosed => {
                if let Some(subflows) = self.connections.get_mut(&token) {
                    subflows.remove(&(local, remote));
                }
            }
            SubflowEventKind::ConnectionEstablished
            | SubflowEventKind::SubflowEstablished
            | SubflowEventKind::PriorityChanged => {
                let room = self.connections.contains_key(&token) || self.connections.len() < MAX_CONNECTIONS;
                if !room {
                    return !std::mem::replace(&mut self.incomplete, true);
                }
                let subflows = self.connections.entry(token).or_default();
                if subflows.len() < MAX_SUBFLOWS {
                    subflows.insert((local, remote));
                }
            }
        }
        if self.connections.is_empty() {
            self.incomplete = false;
        }
        true
    }

    /// Whether any connection has a subflow from `address`; `None` without connections.
    pub(super) fn uses(&self, address: Ipv6Addr) -> Option<bool> {
        let any = !self.connections.is_empty();
        any.then(|| self.connections.values().any(|subflows| has(subflows, &[address])))
    }

    /// Whether every connection with a subflow from `old` also has one from one of `others`.
    pub(super) fn all_have_alternative(&self, old: Ipv6Addr, others: &[Ipv6Addr]) -> bool {
        let users = self.connections.values().filter(|subflows| has(subflows, &[old]));
        !self.incomplete && users.into_iter().all(|subflows| has(subflows, others))
    }
}

fn has(subflows: &VecSet<(SocketAddrV6, SocketAddrV6)>, addresses: &[Ipv6Addr]) -> bool {
    subflows.iter().any(|(local, _)| addresses.contains(local.ip()))
}

/// The report of an event; `backup` is the endpoint's own flag, because the kernel reports the peer's only.
pub(super) fn report(event: &SubflowEvent, backup: bool) -> MptcpReport {
    let SubflowEvent { token, kind: change, local, remote, error } = *event;
    match change {
        SubflowEventKind::ConnectionEstablished => MptcpReport::SubflowUp { token, local, remote, backup, first: true },
        SubflowEventKind::SubflowEstablished => MptcpReport::SubflowUp { token, local, remote, backup, first: false },
        SubflowEventKind::PriorityChanged => MptcpReport::SubflowPriorityChanged { token, local, remote },
        SubflowEventKind::SubflowClosed => MptcpReport::SubflowDown { token, local, remote, error },
        SubflowEventKind::ConnectionClosed => MptcpReport::ConnectionClosed { token },
    }
}
