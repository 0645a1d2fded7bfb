//! Messages of WireGuard's generic netlink family (linux/wireguard.h).

use crate::error::Error;
use crate::netlink::attribute::{NESTED, attribute, find, parse_attributes, text_attribute};
use crate::netlink::generic::Family;
use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP};
use roam6_proto::crypto::wireguard::{PresharedKey, PublicKey};
use roam6_wire::Prefix;
use std::net::{IpAddr, SocketAddr};

const GET_DEVICE: u8 = 0;
const SET_DEVICE: u8 = 1;

// Attributes of a device.
const DEVICE_NAME: u16 = 2;
const DEVICE_PRIVATE_KEY: u16 = 3;
const DEVICE_PUBLIC_KEY: u16 = 4;
const DEVICE_LISTEN_PORT: u16 = 6;
const DEVICE_FWMARK: u16 = 7;
const DEVICE_PEERS: u16 = 8;

// Attributes of a peer.
const PEER_PUBLIC_KEY: u16 = 1;
const PEER_PRESHARED_KEY: u16 = 2;
const PEER_FLAGS: u16 = 3;
const PEER_ENDPOINT: u16 = 4;
const PEER_KEEPALIVE: u16 = 5;
const PEER_ALLOWED_IPS: u16 = 9;

const REMOVE_PEER: u32 = 1;
const REPLACE_ALLOWED_IPS: u32 = 2;

// Attributes of an allowed prefix.
const ALLOWED_FAMILY: u16 = 1;
const ALLOWED_ADDRESS: u16 = 2;
const ALLOWED_LENGTH: u16 = 3;

/// Octets of keys.
pub(super) const KEY_LENGTH: usize = 32;

/// The family.
pub(super) struct Wireguard(Family);

/// A private key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PrivateKey(pub(super) [u8; KEY_LENGTH]);

/// A peer, as it is to be.
pub(super) struct PeerChange<'a> {
    pub(super) public_key: PublicKey,
    pub(super) preshared_key: &'a PresharedKey,
    /// Where packets go from now on; `None`: where they went so far.
    pub(super) endpoint: Option<SocketAddr>,
    /// Interval of keepalives, seconds; one other than before sends a packet at once.
    pub(super) keepalive: Option<u16>,
    /// The prefixes whose packets come from it and go to it; `None`: those that it has.
    pub(super) allowed: Option<&'a [Prefix]>,
}

impl Wireguard {
    /// Opens the family.
    ///
    /// # Errors
    /// The kernel has none.
    pub(super) fn open() -> Result<Wireguard, Error> {
        let found = Family::open(b"wireguard\0")?;
        let cure = "this kernel has no WireGuard: load the module wireguard (modprobe wireguard; on OpenWrt the package \
                    kmod-wireguard), or remove encrypt from the configuration";
        found.map(|(family, _)| Wireguard(family)).ok_or_else(|| Error::new("encryption", cure))
    }

    /// Sets the private key of a device and, if they are given, its port and firewall mark.
    pub(super) fn set_device(&mut self, name: &str, key: &PrivateKey, ends: Option<(u16, u32)>) -> Result<(), Error> {
        let mut attributes = attribute(DEVICE_PRIVATE_KEY, &key.0);
        if let Some((port, mark)) = ends {
            attributes.extend(attribute(DEVICE_LISTEN_PORT, &port.to_ne_bytes()));
            attributes.extend(attribute(DEVICE_FWMARK, &mark.to_ne_bytes()));
        }
        self.change(name, &attributes)
    }

    /// Adds or changes a peer.
    pub(super) fn put_peer(&mut self, name: &str, peer: &PeerChange<'_>) -> Result<(), Error> {
        let mut attributes = attribute(PEER_PUBLIC_KEY, &peer.public_key.0);
        attributes.extend(attribute(PEER_PRESHARED_KEY, &peer.preshared_key.0));
        let flags = if peer.allowed.is_some() { REPLACE_ALLOWED_IPS } else { 0 };
        attributes.extend(attribute(PEER_FLAGS, &flags.to_ne_bytes()));
        attributes.extend(peer.endpoint.map(|end| attribute(PEER_ENDPOINT, &socket_address(end))).unwrap_or_default());
        let keepalive = peer.keepalive.map(|seconds| attribute(PEER_KEEPALIVE, &seconds.to_ne_bytes()));
        attributes.extend(keepalive.unwrap_or_default());
        if let Some(allowed) = peer.allowed {
            let prefixes: Vec<u8> = allowed.iter().flat_map(|prefix| allowed_prefixes(*prefix)).flatten().collect();
            attributes.extend(attribute(PEER_ALLOWED_IPS | NESTED, &prefixes));
        }
        self.change_peer(name, &attributes)
    }

    /// Removes a peer, with its session; one that does not exist is no error.
    pub(super) fn remove_peer(&mut self, name: &str, public_key: &PublicKey) -> Result<(), Error> {
        let flags = attribute(PEER_FLAGS, &REMOVE_PEER.to_ne_bytes());
        self.change_peer(name, &[attribute(PEER_PUBLIC_KEY, &public_key.0), flags].concat())
    }

    /// The public key of a device, and those of its peers.
    pub(super) fn device(&mut self, name: &str) -> Result<(Option<PublicKey>, Vec<PublicKey>), Error> {
        let asked = self.0.request(GET_DEVICE, NLM_F_ACK | NLM_F_DUMP, &text_attribute(DEVICE_NAME, name));
        let replies = asked.map_err(|(_, why)| Error::new(name, why))?;
        let key = replies.iter().find_map(|reply| key_of(find(reply, DEVICE_PUBLIC_KEY)?));
        let lists = replies.iter().filter_map(|reply| find(reply, DEVICE_PEERS));
        let peers = lists.flat_map(parse_attributes).filter_map(|(_, peer)| key_of(find(peer, PEER_PUBLIC_KEY)?));
        // One whose prefixes do not fit one message is in the next too.
        let mut peers: Vec<PublicKey> = peers.map(PublicKey).collect();
        peers.dedup();
        Ok((key.map(PublicKey), peers))
    }

    fn change_peer(&mut self, name: &str, peer: &[u8]) -> Result<(), Error> {
        self.change(name, &attribute(DEVICE_PEERS | NESTED, &attribute(NESTED, peer)))
    }

    fn change(&mut self, name: &str, attributes: &[u8]) -> Result<(), Error> {
        let request = [&text_attribute(DEVICE_NAME, name), attributes].concat();
        self.0.request(SET_DEVICE, NLM_F_ACK, &request).map(drop).map_err(|(_, why)| Error::new(name, why))
    }
}

/// The attributes of an allowed prefix; all addresses are those of both families.
fn allowed_prefixes(prefix: Prefix) -> Vec<Vec<u8>> {
    let one = |family: libc::c_int, address: &[u8], length: u8| {
        let family = attribute(ALLOWED_FAMILY, &(family as u16).to_ne_bytes());
        let rest = [attribute(ALLOWED_ADDRESS, address), attribute(ALLOWED_LENGTH, &[length])].concat();
        attribute(NESTED, &[family, rest].concat())
    };
    match prefix.ipv4() {
        Some((address, length)) => vec![one(libc::AF_INET, &address.octets(), length)],
        None if prefix == Prefix::ALL => vec![one(libc::AF_INET6, &[0; 16], 0), one(libc::AF_INET, &[0; 4], 0)],
        None => vec![one(libc::AF_INET6, &prefix.address().octets(), prefix.length())],
    }
}

/// `struct sockaddr_in` or `sockaddr_in6`.
fn socket_address(end: SocketAddr) -> Vec<u8> {
    let (family, rest) = match end.ip() {
        IpAddr::V4(address) => (libc::AF_INET, [&address.octets()[..], &[0; 8]].concat()),
        IpAddr::V6(address) => (libc::AF_INET6, [&[0; 4][..], &address.octets(), &[0; 4]].concat()),
    };
    [&(family as u16).to_ne_bytes()[..], &end.port().to_be_bytes(), &rest].concat()
}

fn key_of(value: &[u8]) -> Option<[u8; KEY_LENGTH]> {
    value.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute::u16_of;

    #[test]
    fn endpoints_are_socket_addresses_of_the_kernel() {
        let v4 = socket_address("192.0.2.7:4193".parse().unwrap());
        assert_eq!((v4.len(), v4.get(2..8)), (16, Some(&[0x10, 0x61, 192, 0, 2, 7][..])));
        let v6 = socket_address("[2001:db8::7]:4193".parse().unwrap());
        assert_eq!(
            (v6.len(), v6.get(2..4), v6.get(8..12)),
            (28, Some(&[0x10, 0x61][..]), Some(&[0x20, 1, 0xd, 0xb8][..]))
        );
        assert_eq!(v6.get(23), Some(&7));
    }

    #[test]
    fn everything_is_everything_of_both_families() {
        assert_eq!(allowed_prefixes(Prefix::ALL).len(), 2);
        let [one] = &allowed_prefixes("10.1.2.0/24".parse().unwrap())[..] else { panic!("one prefix") };
        let inner = parse_attributes(one).next().unwrap().1;
        assert_eq!(find(inner, ALLOWED_ADDRESS), Some(&[10, 1, 2, 0][..]));
        assert_eq!(
            (find(inner, ALLOWED_LENGTH), find(inner, ALLOWED_FAMILY).and_then(u16_of)),
            (Some(&[24][..]), Some(2))
        );
    }
}
