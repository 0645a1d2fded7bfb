//! Connections and the local addresses of their subflows, as the kernel reports them (RFC 8684).

use crate::base::few;
use crate::base::ids::Token;
use crate::contract::input::{SubflowChange, SubflowEvent};
use crate::contract::report::Report;
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddrV6};

/// Connections remembered; further ones are unknown.
pub const MAX_CONNECTIONS: usize = 4096;
/// Subflows remembered of one connection: the kernel makes eight besides the first, more while others close.
pub const MAX_SUBFLOWS: usize = 32;

/// The connections of this host.
#[derive(Debug, Default)]
pub(super) struct Subflows {
    connections: BTreeMap<Token, few::Set<(SocketAddrV6, SocketAddrV6)>>,
    /// Some connections were not recorded.
    incomplete: bool,
}

impl Subflows {
    /// Processes an event of the kernel; `false` the first time that the table is full.
    pub(super) fn take(&mut self, event: &SubflowEvent) -> bool {
        let SubflowEvent { token, change, local, remote, .. } = *event;
        match change {
            SubflowChange::Disconnected => drop(self.connections.remove(&token)),
            SubflowChange::Closed => {
                if let Some(subflows) = self.connections.get_mut(&token) {
                    subflows.remove(&(local, remote));
                }
            }
            SubflowChange::Connected | SubflowChange::Opened | SubflowChange::Changed => {
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
    pub(super) fn can_do_without(&self, old: Ipv6Addr, others: &[Ipv6Addr]) -> bool {
        let users = self.connections.values().filter(|subflows| has(subflows, &[old]));
        !self.incomplete && users.into_iter().all(|subflows| has(subflows, others))
    }
}

fn has(subflows: &few::Set<(SocketAddrV6, SocketAddrV6)>, addresses: &[Ipv6Addr]) -> bool {
    subflows.iter().any(|(local, _)| addresses.contains(local.ip()))
}

/// The report of an event; `backup` is the endpoint's own flag, because the kernel reports the peer's only.
pub(super) fn report(event: &SubflowEvent, backup: bool) -> Report {
    let SubflowEvent { token, change, local, remote, error } = *event;
    match change {
        SubflowChange::Connected => Report::SubflowUp { token, local, remote, backup, first: true },
        SubflowChange::Opened => Report::SubflowUp { token, local, remote, backup, first: false },
        SubflowChange::Changed => Report::SubflowChanged { token, local, remote },
        SubflowChange::Closed => Report::SubflowDown { token, local, remote, error },
        SubflowChange::Disconnected => Report::Disconnected { token },
    }
}
