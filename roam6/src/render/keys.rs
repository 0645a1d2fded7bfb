//! `roam6 show keys`: the encrypted paths, a row for each peer of WireGuard, or for each security association of ESP.

use crate::config::duration::format_duration;
use crate::control::path_keys::PathKeys;
use crate::render::table::Table;
use core::time::Duration;
use roam6_linux::esp::Association;
use roam6_linux::wireguard::Session;
use roam6_proto::base::hex;

/// All that a host has, which encrypts by one method.
pub(crate) fn table(keys: &[PathKeys]) -> Table {
    let associations: Vec<&Association> = keys.iter().filter_map(PathKeys::esp).collect();
    match associations.is_empty() {
        true => sessions(keys.iter().filter_map(PathKeys::wireguard)),
        false => esp(&associations),
    }
}

fn esp(associations: &[&Association]) -> Table {
    let span = |seconds| format_duration(Duration::from_secs(seconds));
    let mut table = Table::new(&[
        "BID",
        "DEVICE",
        "SPI",
        "FROM",
        "TO",
        "AGE",
        "FIRST USED",
        "PACKETS",
        "OCTETS",
        "REPLAYED",
        "FORGED",
    ]);
    for one in associations {
        let used = one.used_age.map(|age| format!("{} ago", span(age)));
        table.push(vec![
            one.bid.to_string(),
            one.device.clone(),
            format!("{:08x}", one.spi),
            one.source.to_string(),
            one.destination.to_string(),
            span(one.age),
            used.unwrap_or_else(|| "never".to_owned()),
            one.packets.to_string(),
            one.octets.to_string(),
            one.replayed.to_string(),
            one.forged.to_string(),
        ]);
    }
    table
}

fn sessions<'s>(sessions: impl Iterator<Item = &'s Session>) -> Table {
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
