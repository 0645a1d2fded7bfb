//! `roam6 show keys`: the encrypted paths, a row for each peer.

use crate::config::duration::format_duration;
use crate::render::table::Table;
use core::time::Duration;
use roam6_linux::wireguard::Session;
use roam6_proto::base::hex;

/// All sessions.
pub(crate) fn table(sessions: &[Session]) -> Table {
    let mut table = Table::new(&["BID", "PUBLIC KEY", "PEER", "ENDPOINT", "HANDSHAKE", "SENT", "RECEIVED", "PREFIXES"]);
    for session in sessions {
        let age = session.handshake_age.map(|age| format!("{} ago", format_duration(Duration::from_secs(age))));
        table.push(vec![
            session.bid.to_string(),
            hex::encode(&session.public_key.0),
            hex::encode(&session.peer.0),
            session.endpoint.map(|end| end.to_string()).unwrap_or_default(),
            age.unwrap_or_else(|| "none".to_owned()),
            session.sent.to_string(),
            session.received.to_string(),
            session.prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        ]);
    }
    table
}
