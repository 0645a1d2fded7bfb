//! Since when each subflow stands: the kernel does not remember, so who asks is told what was heard.

use roam6_linux::mptcp::diag::Connections;
use roam6_proto::base::ids::Token;
use roam6_proto::{Report, Time};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Subflows remembered; those beyond have no age.
const MAX_SUBFLOWS: usize = 16_384;

/// The subflows that were heard to begin.
#[derive(Debug, Default)]
pub(super) struct Ages {
    began: BTreeMap<(Token, SocketAddr, SocketAddr), Time>,
}

impl Ages {
    /// Notes what a report tells.
    pub(super) fn note(&mut self, at: Time, report: &Report) {
        match *report {
            Report::SubflowUp { token, local, remote, .. } if self.began.len() < MAX_SUBFLOWS => {
                self.began.entry((token, local.into(), remote.into())).or_insert(at);
            }
            Report::SubflowDown { token, local, remote, .. } => {
                self.began.remove(&(token, local.into(), remote.into()));
            }
            Report::Disconnected { token } => self.began.retain(|(of, _, _), _| *of != token),
            _ => {}
        }
    }

    /// Those that stood before anybody listened have no age.
    pub(super) fn forget(&mut self) {
        self.began.clear();
    }

    /// Fills in the ages.
    pub(super) fn tell(&self, now: Time, connections: &mut Connections) {
        for connection in &mut connections.connections {
            for subflow in &mut connection.subflows {
                let began = self.began.get(&(Token(connection.token), subflow.local, subflow.remote));
                subflow.age_seconds = began.map(|began| now.since(*began).as_secs());
            }
        }
    }
}
