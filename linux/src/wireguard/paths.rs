//! Encrypted paths: a device for each BID, and at the device a peer for each tunnel with such a path. Everything outlives the
//! daemon: sessions go on while it restarts.

use super::keys::{PrivateKeys, bid_of, load_or_create};
use super::message::{Peer, PeerChange, Wireguard};
use super::steering::{self, Ends};
use super::{DEVICE_PREFIX, Encryption};
use crate::error::Error;
use crate::netlink::link::LinkChange;
use crate::netlink::message::Message;
use crate::netlink::socket::{Netlink, Request};
use crate::tunnel::device;
use roam6_proto::LinkId;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::config::encryption::WIREGUARD_PORT;
use roam6_proto::contract::item::tunnel::WIREGUARD_DEVICE_MTU;
use roam6_proto::contract::item::{Tunnel, TunnelId, TunnelPath, WireguardPeer};
use roam6_proto::crypto::wireguard::PublicKey;
use roam6_wire::{Bid, Ipv4Endpoint, Prefix};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// Interval of keepalives to a home agent, seconds: shorter than NATs forget (RFC 4787 §4.3).
const KEEPALIVE: u16 = 25;

/// The devices and their peers.
pub(crate) struct WireguardPaths {
    wireguard: Wireguard,
    netlink: Netlink,
    keys: PrivateKeys,
    devices: VecMap<Bid, Device>,
    /// The peer of each path of a tunnel.
    peers: BTreeMap<(TunnelId, Bid), Installed>,
    /// Whose peer it is.
    owners: BTreeMap<(Bid, PublicKey), TunnelId>,
    /// Devices that are gone and not yet made again.
    lost: Vec<(Bid, LinkId)>,
}

struct Device {
    name: String,
    link: LinkId,
    mtu: u32,
    /// The path that its packets take, with the gateway, if the kernel has a route.
    led: Option<(Ends, Option<Option<IpAddr>>)>,
}

/// What was installed last.
#[derive(PartialEq, Eq)]
struct Installed {
    peer: WireguardPeer,
    remote: Ipv6Addr,
    ends: Option<Ends>,
    allowed: Vec<Prefix>,
}

impl WireguardPaths {
    /// Takes over the devices of an earlier daemon as they are put again; `None` if nothing is to be encrypted.
    ///
    /// # Errors
    /// There are no keys, or the kernel has no WireGuard.
    pub(crate) fn open(encryption: Encryption, state_dir: &Path) -> Result<Option<WireguardPaths>, Error> {
        if encryption == Encryption::Off {
            return Ok(None);
        }
        Ok(Some(WireguardPaths {
            wireguard: Wireguard::open()?,
            netlink: Netlink::open()?,
            keys: load_or_create(state_dir)?,
            devices: VecMap::new(),
            peers: BTreeMap::new(),
            owners: BTreeMap::new(),
            lost: Vec::new(),
        }))
    }

    /// The device of a BID.
    pub(crate) fn link_of(&self, bid: Bid) -> Option<LinkId> {
        self.devices.get(&bid).map(|device| device.link)
    }

    /// Installs the peers of a tunnel. Returns the devices that are new, with their names.
    ///
    /// # Errors
    /// The kernel's; or a public key is that of another tunnel.
    pub(crate) fn put(&mut self, tunnel: &Tunnel) -> Result<Vec<(LinkId, String)>, Error> {
        let mut new = Vec::new();
        for (path, peer) in first_paths(tunnel) {
            let key = (path.bid, peer.public_key);
            if self.owners.get(&key).is_some_and(|owner| *owner != tunnel.id) {
                let why = format!("another mobile router has the WireGuard key of path {}", path.bid);
                return Err(Error::new("encryption", why));
            }
            new.extend(self.ensure_device(path, peer)?);
            self.put_peer(tunnel, path, peer)?;
            self.owners.insert(key, tunnel.id);
        }
        Ok(new)
    }

    fn ensure_device(&mut self, path: &TunnelPath, peer: &WireguardPeer) -> Result<Option<(LinkId, String)>, Error> {
        let bid = path.bid;
        let mtu = if peer.initiates { path.mtu } else { WIREGUARD_DEVICE_MTU };
        if let Some(device) = self.devices.get_mut(&bid) {
            if device.mtu != mtu {
                let change = Message::new(libc::RTM_SETLINK, &LinkChange::of(device.link.0).mtu(mtu));
                device::change_link(&mut self.netlink, &device.name, Request::change(change))?;
                device.mtu = mtu;
            }
            return Ok(None);
        }
        let name = format!("{DEVICE_PREFIX}{bid}");
        let Some(key) = self.keys.of(bid) else {
            return Err(Error::new("encryption", format!("path {bid} has no key: BIDs with encryption are below 16")));
        };
        let is_known = device::find(&mut self.netlink, &name)?.is_some_and(|link| link.kind == "wireguard");
        if !is_known {
            device::make(&mut self.netlink, &name, "wireguard")?;
            let mark = if peer.initiates { steering::mark(bid) } else { 0 };
            self.wireguard.set_device(&name, key, Some((WIREGUARD_PORT.saturating_add(bid.0), mark)))?;
        }
        if peer.initiates {
            steering::begin(&mut self.netlink, bid)?;
        }
        let link = device::set_up(&mut self.netlink, &name, mtu)?;
        self.devices.insert(bid, Device { name: name.clone(), link, mtu, led: None });
        self.lost.retain(|(lost, _)| *lost != bid);
        Ok(Some((link, name)))
    }

    fn put_peer(&mut self, tunnel: &Tunnel, path: &TunnelPath, peer: &WireguardPeer) -> Result<(), Error> {
        let ends = path.link.map(|link| Ends { local: path.local, remote: path.remote, link });
        let allowed = tunnel.remote_prefixes.clone();
        let wanted = Installed { peer: *peer, remote: path.remote, ends, allowed };
        let id = (tunnel.id, path.bid);
        let former = self.peers.get(&id);
        if former == Some(&wanted) {
            return Ok(());
        }
        let replaced = former.map(|former| former.peer.public_key).filter(|key| *key != peer.public_key);
        let is_moved = former.is_none_or(|former| {
            replaced.is_some() || (former.remote, former.peer.port, former.ends) != (path.remote, peer.port, ends)
        });
        let is_allowed = former.is_some_and(|former| replaced.is_none() && former.allowed == wanted.allowed);
        if let Some(ends) = ends {
            self.lead(path.bid, ends)?;
        }
        let Some(name) = self.devices.get(&path.bid).map(|device| device.name.clone()) else { return Ok(()) };
        if let Some(key) = replaced {
            self.owners.remove(&(path.bid, key));
            self.wireguard.remove_peer(&name, &key)?;
        }
        let endpoint = Some(end(path.remote, peer.port)).filter(|_| is_moved && peer.port != 0);
        let change = |keepalive| PeerChange {
            public_key: peer.public_key,
            preshared_key: &peer.preshared_key,
            endpoint,
            keepalive,
            allowed: (!is_allowed).then_some(wanted.allowed.as_slice()),
        };
        let starts = peer.initiates && is_moved;
        self.wireguard.put_peer(&name, &change(starts.then_some(0)))?;
        if starts {
            // A keepalive at once: the session begins, or the home agent learns of the move.
            self.wireguard.put_peer(&name, &PeerChange { endpoint: None, allowed: None, ..change(Some(KEEPALIVE)) })?;
        }
        self.peers.insert(id, wanted);
        Ok(())
    }

    fn lead(&mut self, bid: Bid, ends: Ends) -> Result<(), Error> {
        let Some(device) = self.devices.get_mut(&bid) else { return Ok(()) };
        let gateway = steering::lead(&mut self.netlink, bid, &ends)?;
        device.led = Some((ends, gateway));
        Ok(())
    }

    /// The devices that are gone. Those that [`WireguardPaths::forget`] was told of are so until they are made again.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn find_lost(&mut self) -> Result<Vec<(Bid, LinkId)>, Error> {
        if self.devices.is_empty() {
            return Ok(self.lost.clone());
        }
        let present: VecSet<LinkId> = device::all(&mut self.netlink)?.iter().map(|link| LinkId(link.index)).collect();
        let gone = self.devices.iter().map(|(bid, device)| (*bid, device.link));
        Ok(gone.filter(|(_, link)| !present.contains(link)).chain(self.lost.iter().copied()).collect())
    }

    /// Forgets these devices and their sessions, so that the next `put` makes them.
    ///
    /// # Errors
    /// The kernel has no WireGuard any more.
    pub(crate) fn forget(&mut self, lost: &[(Bid, LinkId)]) -> Result<(), Error> {
        self.lost = lost.to_vec();
        self.devices.retain(|bid, _| !lost.iter().any(|(gone, _)| gone == bid));
        self.peers.retain(|(_, bid), _| !lost.iter().any(|(gone, _)| gone == bid));
        // The module was perhaps unloaded: the family has another number then.
        self.wireguard = Wireguard::open()?;
        Ok(())
    }

    /// Packets that the devices could not send, for want of a session or of a peer.
    pub(crate) fn unsent(&mut self) -> u64 {
        let links = device::all(&mut self.netlink).unwrap_or_default();
        let ours = links.iter().filter(|link| link.kind == "wireguard" && bid_of(&link.name).is_some());
        ours.map(|link| link.unsent).sum()
    }

    /// Routes of the host have changed: those of marked packets follow.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn follow_routes(&mut self) -> Result<(), Error> {
        let led: Vec<(Bid, Ends)> =
            self.devices.iter().filter_map(|(bid, device)| Some((*bid, device.led.as_ref()?.0))).collect();
        led.into_iter().try_for_each(|(bid, ends)| self.lead(bid, ends))
    }

    /// Removes the peers that a tunnel has no more.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn release(&mut self, id: TunnelId, now: Option<&Tunnel>) -> Result<(), Error> {
        let kept: VecSet<Bid> = now.into_iter().flat_map(first_paths).map(|(path, _)| path.bid).collect();
        let gone: Vec<Bid> = self.peers.range((id, Bid(0))..=(id, Bid(u16::MAX))).map(|((_, bid), _)| *bid).collect();
        for bid in gone.into_iter().filter(|bid| !kept.contains(bid)) {
            let Some(former) = self.peers.remove(&(id, bid)) else { continue };
            self.owners.remove(&(bid, former.peer.public_key));
            if let Some(device) = self.devices.get(&bid) {
                self.wireguard.remove_peer(&device.name, &former.peer.public_key)?;
            }
        }
        Ok(())
    }

    /// Removes the peers and devices of an earlier daemon that were not put again.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn remove_stale(&mut self) -> Result<(), Error> {
        remove_devices(&mut self.netlink, |bid| self.devices.contains_key(&bid))?;
        for (bid, device) in &self.devices {
            for Peer { public_key, .. } in self.wireguard.device(&device.name)?.1 {
                if !self.owners.contains_key(&(*bid, public_key)) {
                    self.wireguard.remove_peer(&device.name, &public_key)?;
                }
            }
        }
        Ok(())
    }
}

/// Removes the devices of BIDs that are not to be kept, and the way of their packets.
///
/// # Errors
/// The kernel's.
pub(crate) fn remove_devices(netlink: &mut Netlink, keep: impl Fn(Bid) -> bool) -> Result<(), Error> {
    for link in device::all(netlink)? {
        if let Some(bid) = bid_of(&link.name).filter(|bid| link.kind == "wireguard" && !keep(*bid)) {
            steering::end(netlink, bid);
            device::remove(&link.name)?;
        }
    }
    Ok(())
}

/// The paths of a tunnel that are encrypted, one for each BID: the first, since former care-of addresses follow those in use.
fn first_paths(tunnel: &Tunnel) -> impl Iterator<Item = (&TunnelPath, &WireguardPeer)> {
    let mut seen = VecSet::new();
    let encrypted = tunnel.paths.iter().filter_map(|path| Some((path, path.encap.wireguard()?)));
    encrypted.filter(move |(path, _)| seen.insert(path.bid))
}

fn end(remote: Ipv6Addr, port: u16) -> SocketAddr {
    let address = Ipv4Endpoint::from_ipv6(remote).map_or(IpAddr::V6(remote), |end| IpAddr::V4(end.address));
    SocketAddr::new(address, port)
}
