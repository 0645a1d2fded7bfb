//! Encryption of data between mobile router and home agent.

use crate::crypto::wireguard::{PublicKey, fingerprint};
use roam6_wire::Bid;
use roam6_wire::mobility::{MobilityOption, WireguardKey};
use serde::{Deserialize, Serialize};

/// Binding identifiers with a WireGuard device are below this.
pub const MAX_WIREGUARD_BID: u16 = 16;
/// Numbers of devices are below this.
pub const MAX_WIREGUARD_DEVICES: u16 = 4 * MAX_WIREGUARD_BID;
/// A device receives on the UDP port that is its number plus this.
pub const WIREGUARD_PORT: u16 = 4192;

/// What is added to the number of a device if the keys of the mobile router were renewed an odd number of times.
const ODD_ROUTER: u16 = MAX_WIREGUARD_BID;
/// The same for the keys of the home agent.
const ODD_AGENT: u16 = 2 * MAX_WIREGUARD_BID;

/// The number of a WireGuard device: the BID of its path, and whether the keys of either end were renewed an odd number of times.
/// The devices at both ends of a path have the same number, which they tell each other by their UDP ports.
///
/// A renewal needs a second device. The kernel's has one private key, and gives a prefix to one peer: with the new key in the same
/// device, packets under way with the former one would be dropped at the home agent, and those that wait for the handshake beyond
/// the first 128 too. With a device of its own the new key has a session before the first packet takes it, and whatever keeps it from
/// that leaves the packets where they were.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceNumber(pub u16);

impl DeviceNumber {
    /// The number for a path; `None`: its BID has no device.
    pub fn new(bid: Bid, is_router_odd: bool, is_agent_odd: bool) -> Option<DeviceNumber> {
        let renewals = u16::from(is_router_odd) * ODD_ROUTER + u16::from(is_agent_odd) * ODD_AGENT;
        (bid.0 < MAX_WIREGUARD_BID).then(|| DeviceNumber(bid.0 + renewals))
    }

    /// The number of the device with this port, if it is one for this BID.
    pub fn of_port(port: u16, bid: Bid) -> Option<DeviceNumber> {
        let number = DeviceNumber(port.checked_sub(WIREGUARD_PORT)?);
        (number.0 < MAX_WIREGUARD_DEVICES && number.bid() == bid).then_some(number)
    }

    /// Its UDP port.
    pub fn port(self) -> u16 {
        WIREGUARD_PORT.saturating_add(self.0)
    }

    /// The BID of its path.
    pub fn bid(self) -> Bid {
        Bid(self.0 % MAX_WIREGUARD_BID)
    }

    /// Whether the keys of the mobile router were renewed an odd number of times.
    pub fn is_router_odd(self) -> bool {
        self.0 & ODD_ROUTER != 0
    }

    /// Whether the keys of the home agent were renewed an odd number of times.
    pub fn is_agent_odd(self) -> bool {
        self.0 & ODD_AGENT != 0
    }
}

/// How data is encrypted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EncryptionMethod {
    /// WireGuard, a device for each binding identifier.
    #[default]
    Wireguard,
    /// ESP (RFC 4303) with AES-GCM (RFC 4106), over IPv6 only. Both ends require it.
    Esp,
}

impl EncryptionMethod {
    /// Whether it is WireGuard.
    pub fn is_wireguard(&self) -> bool {
        *self == EncryptionMethod::Wireguard
    }
}

/// Encryption of data.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Encryption {
    /// How.
    #[serde(default, skip_serializing_if = "EncryptionMethod::is_wireguard")]
    pub method: EncryptionMethod,
    /// Home agent: mobile routers that do not encrypt are refused.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub required: bool,
    /// The public keys of WireGuard of the paths at this host. The host has them, not the file: they are known at the start.
    #[serde(default)]
    pub keys: Vec<(Bid, PublicKey)>,
    /// The public keys before the last renewal. Peers that have not received the present keys use these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<(Bid, PublicKey)>,
    /// How often they were renewed.
    #[serde(default)]
    pub renewals: u64,
}

impl Encryption {
    /// Whether the present keys are those of an odd number of renewals.
    pub fn is_odd(&self) -> bool {
        !self.renewals.is_multiple_of(2)
    }

    /// The key of a device at a mobile router.
    pub fn router_key(&self, device: DeviceNumber) -> Option<&PublicKey> {
        self.key_of(device.bid(), device.is_router_odd())
    }

    /// The key of a device at a home agent.
    pub fn agent_key(&self, device: DeviceNumber) -> Option<&PublicKey> {
        self.key_of(device.bid(), device.is_agent_odd())
    }

    fn key_of(&self, bid: Bid, is_odd: bool) -> Option<&PublicKey> {
        let keys = if is_odd == self.is_odd() { &self.keys } else { &self.former };
        keys.iter().find(|(known, _)| *known == bid).map(|(_, key)| key)
    }

    /// What tells these keys from others; `None` if there are none.
    pub fn fingerprint(&self) -> Option<String> {
        (!self.keys.is_empty()).then(|| fingerprint(self.renewals, self.keys.iter().map(|(_, key)| key)))
    }

    /// The option that tells a public key and the port of its device.
    pub fn option(device: DeviceNumber, key: &PublicKey) -> MobilityOption {
        let PublicKey(public_key) = *key;
        MobilityOption::WireguardKey(WireguardKey { bid: device.bid(), port: device.port(), public_key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_renewal_has_another_device_and_each_device_its_port() {
        let mut seen = std::collections::BTreeSet::new();
        for bid in (0..MAX_WIREGUARD_BID).map(Bid) {
            for (router, agent) in [(false, false), (true, false), (false, true), (true, true)] {
                let device = DeviceNumber::new(bid, router, agent).unwrap();
                assert_eq!((device.bid(), device.is_router_odd(), device.is_agent_odd()), (bid, router, agent));
                assert_eq!(DeviceNumber::of_port(device.port(), bid), Some(device));
                seen.insert(device);
            }
        }
        assert_eq!(seen.len(), usize::from(MAX_WIREGUARD_DEVICES));
        assert_eq!(seen.last().map(|device| device.port()), Some(4255));
    }

    #[test]
    fn ports_of_others_are_no_devices() {
        for (port, bid) in [(0, 0), (4191, 15), (4256, 0), (4193, 0), (u16::MAX, 15), (4192, 16)] {
            assert_eq!(DeviceNumber::of_port(port, Bid(bid)), None, "{port}");
        }
        assert_eq!(DeviceNumber::new(Bid(16), false, false), None);
        assert_eq!(DeviceNumber::new(Bid(u16::MAX), true, true), None, "as an option of an update may have it");
    }

    #[test]
    fn former_keys_are_those_of_the_other_parity() {
        let keys = |octet| vec![(Bid(1), PublicKey([octet; 32]))];
        let renewed = Encryption { keys: keys(2), former: keys(1), renewals: 1, ..Encryption::default() };
        let key = |router, agent| {
            let device = DeviceNumber::new(Bid(1), router, agent).unwrap();
            (renewed.router_key(device).unwrap().0[0], renewed.agent_key(device).unwrap().0[0])
        };
        assert_eq!([key(false, false), key(true, false), key(false, true)], [(1, 1), (2, 1), (1, 2)]);
        assert_ne!(renewed.fingerprint(), Encryption { renewals: 3, ..renewed.clone() }.fingerprint());
        assert_ne!(renewed.fingerprint(), Encryption { keys: keys(3), ..renewed.clone() }.fingerprint());
        assert_eq!(Encryption::default().fingerprint(), None);
        let first = Encryption { keys: keys(2), ..Encryption::default() };
        assert_eq!(first.router_key(DeviceNumber::new(Bid(1), true, false).unwrap()), None);
    }
}
