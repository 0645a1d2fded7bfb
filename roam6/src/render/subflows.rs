//! `roam6 show subflows`: the kernel's MPTCP connections, a row for each subflow.

use crate::config::duration::format_duration;
use crate::render::table::Table;
use core::time::Duration;
use roam6_linux::mptcp::diag::{Connection, Connections, State, Subflow};
use roam6_proto::contract::item::MptcpEndpointFlags;

/// All connections.
pub(crate) fn table(connections: &Connections) -> Table {
    let mut table =
        Table::new(&["TOKEN", "LOCAL", "REMOTE", "USE", "STATE", "SENT", "RECEIVED", "AGAIN", "RTT", "AGE"]);
    for connection in &connections.connections {
        for subflow in &connection.subflows {
            table.push(subflow_row(connection, subflow));
        }
        if connection.subflows.is_empty() {
            table.push(connection_row(connection));
        }
    }
    if connections.left_out > 0 {
        table.push(vec![format!("and {} more", connections.left_out)]);
    }
    table
}

/// What an endpoint is for.
pub(crate) fn endpoint_use(flags: MptcpEndpointFlags) -> String {
    let names = [(flags.signal, "signal"), (flags.subflow, "subflow"), (flags.backup, "backup")];
    let names: Vec<&str> = names.into_iter().filter(|(on, _)| *on).map(|(_, word)| word).collect();
    names.join(", ")
}

fn subflow_row(connection: &Connection, subflow: &Subflow) -> Vec<String> {
    let purpose = match (connection.fallback, subflow.backup) {
        (true, _) => "plain TCP",
        (false, true) => "backup",
        (false, false) => "regular",
    };
    vec![
        format!("{:08x}", connection.token),
        subflow.local.to_string(),
        subflow.remote.to_string(),
        purpose.to_owned(),
        state_name(subflow.state).to_owned(),
        subflow.bytes_sent.to_string(),
        subflow.bytes_received.to_string(),
        subflow.bytes_retransmitted.to_string(),
        format_duration(Duration::from_micros(subflow.rtt_micros.into())),
        subflow.age_seconds.map(|age| format_duration(Duration::from_secs(age))).unwrap_or_default(),
    ]
}

/// A connection that has lost all of its subflows, or has none that the kernel lists.
fn connection_row(connection: &Connection) -> Vec<String> {
    let purpose = if connection.fallback { "plain TCP" } else { "no path" };
    vec![
        format!("{:08x}", connection.token),
        connection.local.to_string(),
        connection.remote.to_string(),
        purpose.to_owned(),
        state_name(connection.state).to_owned(),
        connection.bytes_sent.to_string(),
        connection.bytes_received.to_string(),
        connection.bytes_retransmitted.to_string(),
    ]
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Established => "established",
        State::SynSent => "syn-sent",
        State::SynReceived => "syn-received",
        State::FinWait1 => "fin-wait-1",
        State::FinWait2 => "fin-wait-2",
        State::TimeWait => "time-wait",
        State::Closed => "closed",
        State::CloseWait => "close-wait",
        State::LastAck => "last-ack",
        State::Listen => "listen",
        State::Closing => "closing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::table::Paint;

    #[test]
    fn every_subflow_is_a_row() {
        let subflow = Subflow {
            local: "[2001:db8:a::5]:40000".parse().unwrap(),
            local_id: 1,
            remote: "[2001:db8:5::5]:443".parse().unwrap(),
            remote_id: 0,
            link: 2,
            state: State::Established,
            backup: true,
            first: true,
            bytes_sent: 12_000,
            bytes_received: 7,
            bytes_retransmitted: 0,
            rtt_micros: 2_000,
            idle_millis: 4,
            age_seconds: Some(61),
        };
        let connection = Connection {
            token: 0xabc,
            local: subflow.local,
            remote: subflow.remote,
            state: State::Established,
            fallback: false,
            bytes_sent: 1,
            bytes_received: 2,
            bytes_retransmitted: 3,
            subflows: vec![subflow],
        };
        let plain = Connection { token: 0, fallback: true, subflows: Vec::new(), ..connection.clone() };
        let connections = Connections { connections: vec![connection, plain], left_out: 5 };
        let expected = "\
TOKEN       LOCAL                   REMOTE                USE        STATE        SENT   RECEIVED  AGAIN  RTT    AGE
00000abc    [2001:db8:a::5]:40000   [2001:db8:5::5]:443   backup     established  12000  7         0      2ms    1m1s
00000000    [2001:db8:a::5]:40000   [2001:db8:5::5]:443   plain TCP  established  1      2         3      -      -
and 5 more  -                       -                     -          -            -      -         -      -      -
";
        let squeeze = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(squeeze(&table(&connections).render(Paint::Plain)), squeeze(expected));
    }
}
