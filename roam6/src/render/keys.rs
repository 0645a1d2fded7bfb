//! `roam6 show keys`: the encrypted paths, a row for each peer.

use crate::config::duration::format_duration;
use crate::render::table::Table;
use core::time::Duration;
use roam6_linux::wireguard::Session;
use roam6_proto::base::hex;

/// All sessions.
pub(crate) fn table(sessions: &[Session]) -> Table {
    let span = |seconds| format_duration(Duration::from_secs(seconds));
    let mut table = Table::new(&[
        "BID",
        "DEVICE",
        "PUBLIC KEY",
        "AGE",
        "PEER",
        "ENDPOINT",
        "HANDSHAKE",
        "SENT",
        "RECEIVED",
        "PREFIXES",
    ]);
    for session in sessions {
        let handshake = session.handshake_age.map(|age| format!("{} ago", span(age)));
        table.push(vec![
            session.bid.to_string(),
            session.device.clone(),
            hex::encode(&session.public_key.0),
            session.key_age.map(span).unwrap_or_default(),
            hex::encode(&session.peer.0),
            session.endpoint.map(|end| end.to_string()).unwrap_or_default(),
            handshake.unwrap_or_else(|| "none".to_owned()),
            session.sent.to_string(),
            session.received.to_string(),
            session.prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        ]);
    }
    table
}
