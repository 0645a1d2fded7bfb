//! `roam6 show flows`: the relayed TCP connections, a row for each uplink that one uses.

use super::table::Table;
use crate::config::duration::format_duration;
use core::time::Duration;
use roam6_linux::mptcp::diag::{Connection, Connections, Subflow};
use roam6_linux::relay::{FlowState, RelayState};
use serde::Serialize;
use std::net::SocketAddr;

/// All of them, and the counters of the relay.
#[derive(Serialize)]
pub(crate) struct Flows<'a> {
    flows: Vec<Flow<'a>>,
    idle_bearers: usize,
    counters: roam6_proto::relay::Counters,
}

/// One of them.
#[derive(Serialize)]
struct Flow<'a> {
    #[serde(flatten)]
    flow: &'a FlowState,
    /// The paths that it uses; empty if the kernel does not list its MPTCP connection.
    subflows: &'a [Subflow],
    /// MPTCP was taken out on the way: it uses the tunnel alone.
    fallback: bool,
}

/// The connections of the relay, with the kernel's MPTCP connections.
pub(crate) fn of<'a>(state: &'a RelayState, kernel: &'a Connections) -> Flows<'a> {
    let one = |flow: &'a FlowState| {
        let ends = (SocketAddr::from(flow.bearer_local), SocketAddr::from(flow.bearer_remote));
        let is_it = |connection: &&Connection| (connection.local, connection.remote) == ends;
        let connection = kernel.connections.iter().find(is_it);
        Flow {
            flow,
            subflows: connection.map_or(&[], |connection| &connection.subflows),
            fallback: connection.is_some_and(|connection| connection.fallback),
        }
    };
    Flows { flows: state.flows.iter().map(one).collect(), idle_bearers: state.idle_bearers, counters: state.counters }
}

/// As a table.
pub(crate) fn table(flows: &Flows<'_>) -> Table {
    let mut table = Table::new(&["PEER", "FAR END", "AGE", "OUT", "IN", "PATH", "USE", "RTT", "SENT", "RECEIVED"]);
    for Flow { flow, subflows, fallback } in &flows.flows {
        let mut row = vec![
            flow.peer.to_string(),
            flow.far.to_string(),
            format_duration(Duration::from_secs(flow.age_seconds)),
            flow.octets_out.to_string(),
            flow.octets_in.to_string(),
        ];
        for subflow in *subflows {
            row.extend([
                format!("{} - {}", subflow.local.ip(), subflow.remote.ip()),
                if subflow.backup { "backup" } else { "regular" }.to_owned(),
                format_duration(Duration::from_micros(subflow.rtt_micros.into())),
                subflow.bytes_sent.to_string(),
                subflow.bytes_received.to_string(),
            ]);
            table.push(std::mem::replace(&mut row, vec![String::new(); 5]));
        }
        if subflows.is_empty() {
            row.push(if *fallback { "plain TCP through the tunnel" } else { "" }.to_owned());
            table.push(row);
        }
    }
    table
}
