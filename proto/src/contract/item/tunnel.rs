//! Tunnels with their paths and flow rules.

use crate::base::ids::LinkId;
use crate::contract::config::encryption::DeviceNumber;
use crate::contract::config::flow::FlowSelector;
use crate::crypto::path_esp::EspKeys;
use crate::crypto::wireguard::{PresharedKey, PublicKey};
use roam6_wire::ip6::MINIMUM_MTU;
use roam6_wire::{Bid, Prefix};
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// Identifies a tunnel within one node; not 0.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TunnelId(pub u32);

/// An IPv6-in-IPv6 tunnel (RFC 2473) with one or more paths. IPv4 packets take the same paths if IPv4 prefixes are among
/// its prefixes (RFC 5555 §4.4.3, §4.5.1).
///
/// A packet from `near` to `far` is encapsulated. A decapsulated packet must be from `far` to `near`, and its outer header
/// must match one of the paths; other packets are dropped and counted (RFC 3963 §6.5, §9).
/// Replacement is atomic for each packet: no packet is lost, none sees a mixture of old and new state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    /// Its identifier.
    pub id: TunnelId,
    /// Prefixes of the local side: all for a home agent, the mobile network for a mobile router.
    #[serde(rename = "near")]
    pub local_prefixes: Vec<Prefix>,
    /// Prefixes of the remote side: home address and mobile network for a home agent, all for a mobile router.
    #[serde(rename = "far")]
    pub remote_prefixes: Vec<Prefix>,
    /// The paths, best first. If empty, packets are dropped with Destination Unreachable.
    pub paths: Vec<TunnelPath>,
    /// Flow bindings; the first match decides (RFC 6089).
    pub flows: Vec<TunnelFlow>,
}

/// One path of a tunnel: an outer header, or a direct neighbour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelPath {
    /// Binding identifier; 0 without multiple care-of addresses.
    pub bid: Bid,
    /// Local outer address.
    pub local: Ipv6Addr,
    /// Remote outer address.
    pub remote: Ipv6Addr,
    /// Output interface; `None`: by a lookup in the routing tables.
    pub link: Option<LinkId>,
    /// Tunnel MTU: largest inner packet, octets (path MTU to `remote` less 40).
    pub mtu: u32,
    /// Weight in the distribution of flows; 0 for a path that only receives (standby, or a former care-of address).
    pub weight: u16,
    /// No encapsulation: packets are sent to the neighbour `remote` on `link`, and packets from there are ordinary traffic
    /// (RFC 5648 §5.6.2). Requires a link and a [`Neighbour`](super::Neighbour) item for `remote`.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub direct: bool,
    /// What follows the outer IPv6 header. Endpoints over IPv4 say themselves whether it is UDP
    /// ([`Ipv4Endpoint`](roam6_wire::Ipv4Endpoint)): then this is [`Encap::Native`].
    #[serde(default, skip_serializing_if = "Encap::is_native")]
    pub encap: Encap,
    /// DSCP of outer packets; `None`: that of the inner packet (RFC 2983 §3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
}

/// What a path has between the outer header and the inner packet.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encap {
    /// Nothing (RFC 2473). The tunnel MTU is that of the path less 40.
    #[default]
    Native,
    /// UDP without a checksum (RFC 6935, RFC 6936), where nothing else passes. The tunnel MTU is that of the path less 48.
    /// Packets with the outer header alone are accepted too, packets in UDP from these ports only.
    Udp {
        /// The port of `local`.
        local: u16,
        /// The port of `remote`, as a NAT may have mapped it.
        remote: u16,
    },
    /// A WireGuard device of its own, one for each binding identifier: nothing leaves by this path unencrypted, and nothing
    /// that comes otherwise is accepted. Endpoints over IPv4 have port 0. If a path gets another device, packets take its former
    /// one until the new one has a session, and are accepted from both.
    Wireguard(WireguardPeer),
    /// ESP (RFC 4303) in tunnel mode, by a device and a pair of associations of its own for each path: nothing leaves unencrypted,
    /// and nothing that comes otherwise is accepted. If a path gets another pair, packets of the former one are accepted for a
    /// while. A mobile router sends by the new pair at once. A home agent sends by the newest on which packets have come, since
    /// only then it knows that the mobile router has it.
    Esp(EspPair),
}

/// The two associations of a path that is encrypted by ESP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EspPair {
    /// The SPI of what is received.
    pub inbound: u32,
    /// The SPI of what is sent.
    pub outbound: u32,
    /// The keys; `None` if the host is to have the associations already, from before a restart. No recording has them.
    #[serde(skip)]
    pub keys: Option<EspKeys>,
    /// This end is the mobile router.
    pub initiates: bool,
}

/// The device of an encrypted path, and its other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireguardPeer {
    /// The device, at both ends.
    #[serde(default)]
    pub device: DeviceNumber,
    /// Its public key: no two tunnels have the same.
    pub public_key: PublicKey,
    /// The preshared key.
    pub preshared_key: PresharedKey,
    /// Its UDP port; 0: its packets tell address and port, because a NAT may have mapped them.
    pub port: u16,
    /// This end begins sessions and keeps mappings of NATs alive, and its outer packets leave by the link of the path.
    pub initiates: bool,
}

/// Octets that WireGuard adds to an inner packet, outer header aside: UDP, message header and authentication tag.
const WIREGUARD_OVERHEAD: u32 = 8 + 16 + 16;
/// Inner packets are padded to a multiple of this, but not beyond the MTU of the device.
const WIREGUARD_PADDING: u32 = 16;
/// The MTU of a device at a home agent, whose paths differ: that of an Ethernet over IPv6.
pub const WIREGUARD_DEVICE_MTU: u32 = 1500 - 40 - WIREGUARD_OVERHEAD;

/// Octets that ESP with AES-GCM adds to an inner packet, outer header and padding aside: header, IV, trailer and ICV (RFC 4303
/// §2, RFC 4106 §3 and §5).
const ESP_OVERHEAD: u32 = 8 + 8 + 2 + 16;
/// Packet and trailer end on a multiple of this (RFC 4303 §2.4).
const ESP_ALIGNMENT: u32 = 4;
/// Octets of the trailer: length of the padding, and next header.
const ESP_TRAILER: u32 = 2;

/// The largest inner packet of a path with this MTU that is encrypted by ESP over IPv6. Where that is less than any link must
/// carry, outer packets are fragmented.
pub fn esp_mtu(path_mtu: u32) -> u32 {
    let room = path_mtu.saturating_sub(40 + ESP_OVERHEAD - ESP_TRAILER);
    (room - room % ESP_ALIGNMENT).saturating_sub(ESP_TRAILER).max(MINIMUM_MTU)
}

/// The largest inner packet of an encrypted path, of whatever padding, on a path with this MTU. Where that is less than any link
/// must carry, WireGuard's packets are fragmented. Over IPv4 an Ethernet has room for 1440 octets, of which 1436 are used: paths of
/// both families share the home agent's device, and its MTU decides the padding.
pub fn wireguard_mtu(path_mtu: u32, is_over_ipv4: bool) -> u32 {
    let outer = if is_over_ipv4 { 20 } else { 40 };
    let room = path_mtu.saturating_sub(outer + WIREGUARD_OVERHEAD);
    // The kernel pads what the MTU of the device leaves over.
    let padded = room - room % WIREGUARD_PADDING;
    let most = match room.checked_sub(WIREGUARD_DEVICE_MTU) {
        None => padded,
        Some(more) if is_over_ipv4 && more >= WIREGUARD_PADDING => WIREGUARD_DEVICE_MTU + WIREGUARD_PADDING,
        Some(_) => WIREGUARD_DEVICE_MTU,
    };
    most.max(MINIMUM_MTU)
}

impl Encap {
    /// Whether the inner packet follows the outer header.
    #[must_use]
    pub fn is_native(&self) -> bool {
        *self == Encap::Native
    }

    /// Octets between the outer header and the inner packet, and behind that.
    #[must_use]
    pub fn overhead(&self) -> u32 {
        match self {
            Encap::Native => 0,
            Encap::Udp { .. } => 8,
            Encap::Wireguard(_) => WIREGUARD_OVERHEAD,
            Encap::Esp(_) => ESP_OVERHEAD,
        }
    }

    /// The largest inner packet over IPv6 on a path with this MTU.
    #[must_use]
    pub fn inner_mtu(&self, path_mtu: u32) -> u32 {
        match self {
            Encap::Native | Encap::Udp { .. } => path_mtu.saturating_sub(40 + self.overhead()),
            Encap::Wireguard(_) => wireguard_mtu(path_mtu, false),
            Encap::Esp(_) => esp_mtu(path_mtu),
        }
    }

    /// The other end, if the path is encrypted.
    #[must_use]
    pub fn wireguard(&self) -> Option<&WireguardPeer> {
        match self {
            Encap::Wireguard(peer) => Some(peer),
            Encap::Native | Encap::Udp { .. } | Encap::Esp(_) => None,
        }
    }

    /// The associations, if the path is encrypted by ESP.
    #[must_use]
    pub fn esp(&self) -> Option<&EspPair> {
        match self {
            Encap::Esp(pair) => Some(pair),
            Encap::Native | Encap::Udp { .. } | Encap::Wireguard(_) => None,
        }
    }

    /// Whether packets leave through a device that encrypts them.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Encap::Wireguard(_) | Encap::Esp(_))
    }

    /// Whether this end of an encrypted path is the mobile router.
    #[must_use]
    pub fn initiates(&self) -> bool {
        match self {
            Encap::Wireguard(peer) => peer.initiates,
            Encap::Esp(pair) => pair.initiates,
            Encap::Native | Encap::Udp { .. } => false,
        }
    }
}

/// A flow binding of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelFlow {
    /// The packets, in the direction of encapsulation: their source is in the mobile network if `near` is the mobile
    /// network, and the correspondent if `far` is.
    pub selector: FlowSelector,
    /// The interface by which the packets enter; `None` for any, and for packets of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<LinkId>,
    /// The path, by binding identifier; if the tunnel has no such path, the next rule applies.
    pub bid: Bid,
    /// A second path: each packet leaves by both with one sequence number, and the other end eliminates the second copy
    /// (RFC 8655 §3.2.2.2, IEEE 802.1CB). If the tunnel has one of the two paths, packets leave by that alone, without a
    /// number. Back ends that cannot replicate use the first path. What a tunnel with such a flow receives twice it
    /// delivers once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<Bid>,
}

impl TunnelFlow {
    /// Whether its packets leave by the path with this binding identifier.
    #[must_use]
    pub fn uses(&self, bid: Bid) -> bool {
        self.bid == bid || self.replica == Some(bid)
    }
}

/// Maximum number of different prefix lengths on the remote side of all tunnels together.
pub const MAX_PREFIX_LENGTHS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Octets of the outer packet of an inner one, as `calculate_skb_padding` of the kernel has it.
    fn outer_of(inner: u32, device: u32, is_over_ipv4: bool) -> u32 {
        let last = if inner > device { inner % device } else { inner };
        let padded = device.min(last.next_multiple_of(WIREGUARD_PADDING));
        inner + padded - last + WIREGUARD_OVERHEAD + if is_over_ipv4 { 20 } else { 40 }
    }

    #[test]
    fn longest_inner_packet_fits_the_path_with_its_padding_from_either_end() {
        for is_over_ipv4 in [false, true] {
            for path in 1380..=1600 {
                let inner = wireguard_mtu(path, is_over_ipv4);
                for device in [inner, WIREGUARD_DEVICE_MTU] {
                    assert!(outer_of(inner, device, is_over_ipv4) <= path, "{inner} of {path} by a device of {device}");
                }
            }
        }
        assert_eq!((wireguard_mtu(1500, false), wireguard_mtu(1500, true)), (1420, 1436));
        assert_eq!((wireguard_mtu(1492, true), wireguard_mtu(1280, true)), (1420, MINIMUM_MTU));
    }

    #[test]
    fn longest_inner_packet_of_esp_fits_the_path() {
        for path in 1360..=1600 {
            let outer = |inner: u32| 40 + 16 + (inner + ESP_TRAILER).next_multiple_of(ESP_ALIGNMENT) + 16;
            let inner = esp_mtu(path);
            assert!(outer(inner) <= path && outer(inner + 1) > path, "{inner} of {path}");
        }
        assert_eq!((esp_mtu(1500), esp_mtu(1280)), (1426, MINIMUM_MTU));
    }
}
