//! Encryption of data between mobile router and home agent.

use crate::crypto::wireguard::PublicKey;
use roam6_wire::Bid;
use roam6_wire::mobility::{MobilityOption, WireguardKey};
use serde::{Deserialize, Serialize};

/// Binding identifiers with a WireGuard device are below this.
pub const MAX_WIREGUARD_BID: u16 = 16;
/// The device of a binding identifier receives on the UDP port that is its BID plus this.
pub const WIREGUARD_PORT: u16 = 4192;

/// Encryption of data by WireGuard, one device for each binding identifier.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Encryption {
    /// Home agent: mobile routers that do not encrypt are refused.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub required: bool,
    /// The public keys of the devices of this host. The host has them, not the file: they are known at the start.
    #[serde(default)]
    pub keys: Vec<(Bid, PublicKey)>,
}

impl Encryption {
    /// The public key of the device of this binding identifier.
    pub fn key_of(&self, bid: Bid) -> Option<&PublicKey> {
        self.keys.iter().find(|(known, _)| *known == bid).map(|(_, key)| key)
    }

    /// The option that tells the public key of the device of this binding identifier.
    pub fn option(&self, bid: Bid) -> Option<MobilityOption> {
        let PublicKey(public_key) = *self.key_of(bid)?;
        let port = WIREGUARD_PORT.saturating_add(bid.0);
        Some(MobilityOption::WireguardKey(WireguardKey { bid, port, public_key }))
    }
}
