//! Messages of WireGuard's generic netlink family (linux/wireguard.h).

use crate::error::Error;
use crate::netlink::attribute::{NESTED, attribute, find, parse_attributes, text_attribute, u16_of, u64_of};
use crate::netlink::generic::Family;
use core::time::Duration;
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
const PEER_LAST_HANDSHAKE: u16 = 6;
const PEER_RECEIVED: u16 = 7;
const PEER_SENT: u16 = 8;
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

/// A peer, as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) public_key: PublicKey,
    pub(super) endpoint: Option<SocketAddr>,
    /// Since 1970-01-01T00:00Z.
    pub(super) last_handshake: Option<Duration>,
    /// Octets.
    pub(super) received: u64,
    pub(super) sent: u64,
    /// Those of IPv6.
    pub(super) prefixes: Vec<Prefix>,
}

impl Peer {
    fn read(peer: &[u8]) -> Option<Peer> {
        let octets = |kind| find(peer, kind).and_then(u64_of).unwrap_or_default();
        let handshake = find(peer, PEER_LAST_HANDSHAKE).and_then(u64_of).filter(|seconds| *seconds != 0);
        let allowed = find(peer, PEER_ALLOWED_IPS).into_iter().flat_map(parse_attributes);
        Some(Peer {
            public_key: PublicKey(key_of(find(peer, PEER_PUBLIC_KEY)?)?),
            endpoint: find(peer, PEER_ENDPOINT).and_then(read_socket_address),
            last_handshake: handshake.map(Duration::from_secs),
            received: octets(PEER_RECEIVED),
            sent: octets(PEER_SENT),
            prefixes: allowed.filter_map(|(_, prefix)| read_prefix(prefix)).collect(),
        })
    }
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

    /// The public key of a device, and its peers.
    pub(super) fn device(&mut self, name: &str) -> Result<(Option<PublicKey>, Vec<Peer>), Error> {
        let asked = self.0.request(GET_DEVICE, NLM_F_ACK | NLM_F_DUMP, &text_attribute(DEVICE_NAME, name));
        let replies = asked.map_err(|(_, why)| Error::new(name, why))?;
        let key = replies.iter().find_map(|reply| key_of(find(reply, DEVICE_PUBLIC_KEY)?));
        let lists = replies.iter().filter_map(|reply| find(reply, DEVICE_PEERS));
        let mut peers: Vec<Peer> = Vec::new();
        for peer in lists.flat_map(parse_attributes).filter_map(|(_, peer)| Peer::read(peer)) {
            // One whose prefixes do not fit one message is in the next too.
            match peers.last_mut().filter(|last| last.public_key == peer.public_key) {
                Some(last) => last.prefixes.extend(peer.prefixes),
                None => peers.push(peer),
            }
        }
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

/// The endpoint in a `struct sockaddr_in` or `sockaddr_in6`.
fn read_socket_address(value: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(*value.get(2..)?.first_chunk()?);
    let address = match i32::from(u16_of(value.get(..2)?)?) {
        libc::AF_INET => IpAddr::from(*value.get(4..)?.first_chunk::<4>()?),
        libc::AF_INET6 => IpAddr::from(*value.get(8..)?.first_chunk::<16>()?),
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

fn read_prefix(value: &[u8]) -> Option<Prefix> {
    let address = <[u8; 16]>::try_from(find(value, ALLOWED_ADDRESS)?).ok()?;
    Prefix::new(address.into(), *find(value, ALLOWED_LENGTH)?.first()?)
}

fn key_of(value: &[u8]) -> Option<[u8; KEY_LENGTH]> {
    value.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn peer_is_read_as_it_is_written_and_a_damaged_one_is_none() {
        let endpoint: SocketAddr = "[2001:db8::7]:4193".parse().unwrap();
        let prefixes: Vec<u8> = allowed_prefixes("2001:db8:100::/56".parse().unwrap()).concat().into_iter().collect();
        let handshake = [7_u64.to_ne_bytes(), 5_u64.to_ne_bytes()].concat();
        let octets = [
            attribute(PEER_PUBLIC_KEY, &[3; KEY_LENGTH]),
            attribute(PEER_ENDPOINT, &socket_address(endpoint)),
            attribute(PEER_LAST_HANDSHAKE, &handshake),
            attribute(PEER_RECEIVED, &9_u64.to_ne_bytes()),
            attribute(PEER_ALLOWED_IPS | NESTED, &prefixes),
        ];
        let peer = Peer::read(&octets.concat()).unwrap();
        assert_eq!((peer.public_key, peer.endpoint), (PublicKey([3; KEY_LENGTH]), Some(endpoint)));
        assert_eq!((peer.last_handshake, peer.received, peer.sent), (Some(Duration::from_secs(7)), 9, 0));
        assert_eq!(peer.prefixes, ["2001:db8:100::/56".parse().unwrap()]);
        assert_eq!(Peer::read(&attribute(PEER_PUBLIC_KEY, &[3; 31])), None);
        assert_eq!(read_socket_address(&socket_address(endpoint)[..20]), None);
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
