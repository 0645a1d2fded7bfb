//! The devices of encrypted paths and the sessions of their peers, as the kernel shows them.

use super::keys::{PublicKeys, device_of};
use super::message::{Peer, Wireguard};
use crate::error::Error;
use crate::netlink::socket::Netlink;
use crate::survey::clock_state;
use crate::tunnel::device;
use core::time::Duration;
use roam6_proto::contract::config::encryption::DeviceNumber;
use roam6_proto::crypto::wireguard::PublicKey;
use roam6_wire::{Bid, Prefix};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A session, or a peer with which there is none yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The binding identifier of the path.
    pub bid: Bid,
    /// The device.
    pub device: String,
    /// The public key of the device, which the peer knows.
    pub public_key: PublicKey,
    /// Seconds since that key was made; only the daemon knows.
    #[serde(default)]
    pub key_age: Option<u64>,
    /// The public key of the peer.
    pub peer: PublicKey,
    /// Where packets to the peer go.
    pub endpoint: Option<SocketAddr>,
    /// Seconds since the last handshake; none if there was none.
    pub handshake_age: Option<u64>,
    /// Octets received from the peer, headers of WireGuard included.
    pub received: u64,
    /// Octets sent to the peer.
    pub sent: u64,
    /// The IPv6 prefixes of the peer.
    pub prefixes: Vec<Prefix>,
}

/// All sessions, by device; `own`: the keys of this host.
///
/// # Errors
/// The kernel's.
pub fn sessions(own: Option<&PublicKeys>) -> Result<Vec<Session>, Error> {
    let mut devices: Vec<(DeviceNumber, String)> = device::all(&mut Netlink::open()?)?
        .into_iter()
        .filter(|link| link.kind == "wireguard")
        .filter_map(|link| Some((device_of(&link.name)?, link.name)))
        .collect();
    devices.sort_unstable();
    if devices.is_empty() {
        return Ok(Vec::new());
    }
    let mut wireguard = Wireguard::open()?;
    let now = Duration::from_secs(clock_state().unix);
    let mut sessions = Vec::new();
    for (number, name) in devices {
        let (Some(public_key), peers) = wireguard.device(&name)? else { continue };
        let key_age = own.and_then(|own| now.as_secs().checked_sub(own.made(&public_key)?));
        let of = |peer| Session { key_age, ..session(number.bid(), &name, public_key, peer, now) };
        sessions.extend(peers.into_iter().map(of));
    }
    Ok(sessions)
}

fn session(bid: Bid, device: &str, public_key: PublicKey, peer: Peer, now: Duration) -> Session {
    Session {
        bid,
        device: device.to_owned(),
        public_key,
        key_age: None,
        peer: peer.public_key,
        endpoint: peer.endpoint,
        handshake_age: peer.last_handshake.map(|at| now.saturating_sub(at).as_secs()),
        received: peer.received,
        sent: peer.sent,
        prefixes: peer.prefixes,
    }
}
