//! Age of each MPTCP subflow: the kernel does not record it, so it is derived from subflow events.

use roam6_linux::mptcp::diag::Connections;
use roam6_proto::base::ids::MptcpToken;
use roam6_proto::contract::report::MptcpReport;
use roam6_proto::{Report, Time};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Subflows tracked; further ones have no age.
const MAX_SUBFLOWS: usize = 16_384;

/// Start times of subflows.
#[derive(Debug, Default)]
pub(super) struct SubflowAges {
    began: BTreeMap<(MptcpToken, SocketAddr, SocketAddr), Time>,
}

impl SubflowAges {
    /// Tracks subflows by their events.
    pub(super) fn observe(&mut self, at: Time, report: &Report) {
        match *report {
            Report::Mptcp(MptcpReport::SubflowUp { token, local, remote, .. }) if self.began.len() < MAX_SUBFLOWS => {
                self.began.entry((token, local.into(), remote.into())).or_insert(at);
            }
            Report::Mptcp(MptcpReport::SubflowDown { token, local, remote, .. }) => {
                self.began.remove(&(token, local.into(), remote.into()));
            }
            Report::Mptcp(MptcpReport::ConnectionClosed { token }) => self.began.retain(|(of, _, _), _| *of != token),
            _ => {}
        }
    }

    /// Forgets all start times: subflows from before the start of the daemon have no known age.
    pub(super) fn clear(&mut self) {
        self.began.clear();
    }

    /// Fills in the age of each subflow.
    pub(super) fn fill_in(&self, now: Time, connections: &mut Connections) {
        for connection in &mut connections.connections {
            for subflow in &mut connection.subflows {
                let began = self.began.get(&(MptcpToken(connection.token), subflow.local, subflow.remote));
                subflow.age_seconds = began.map(|began| now.since(*began).as_secs());
            }
        }
    }
}
