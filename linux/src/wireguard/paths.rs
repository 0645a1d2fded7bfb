//! Encrypted paths: a device for each BID, and at the device a peer for each tunnel with such a path. Everything outlives the
//! daemon: sessions go on while it restarts.
//!
//! If a path gets another device, because one end has renewed its keys, packets take the former one until the kernel shows a
//! session of the new one, and are accepted from both until that of the former has ended by itself. See [`DeviceNumber`].

use super::keys::{PrivateKeys, PublicKeys, device_of, load_or_create, public_keys};
use super::message::{Peer, PeerChange, Wireguard};
use super::path_state::{Carried, Installed, PAUSE, PathDevices, Retained, SessionState};
use super::steering::{self, Ends};
use super::{DEVICE_PREFIX, Encryption};
use crate::error::Error;
use crate::netlink::link::LinkChange;
use crate::netlink::message::Message;
use crate::netlink::socket::{Netlink, Request};
use crate::tunnel::device;
use core::time::Duration;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::config::encryption::{DeviceNumber, EncryptionMethod};
use roam6_proto::contract::item::subflow::part_of_path;
use roam6_proto::contract::item::tunnel::WIREGUARD_DEVICE_MTU;
use roam6_proto::contract::item::{Tunnel, TunnelId, TunnelPath, WireguardPeer};
use roam6_proto::crypto::wireguard::PublicKey;
use roam6_proto::{LinkId, Time};
use roam6_wire::Bid;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Interval of keepalives to a home agent, seconds: shorter than NATs forget (RFC 4787 §4.3).
const KEEPALIVE: u16 = 25;
/// The least pause for each peer that was looked at, so that many peers do not take the processor.
const PAUSE_PER_PEER: Duration = Duration::from_micros(50);
/// The devices and their peers.
pub(crate) struct WireguardPaths {
    wireguard: Wireguard,
    netlink: Netlink,
    keys: PrivateKeys,
    state_dir: PathBuf,
    devices: VecMap<DeviceNumber, Device>,
    /// The paths of tunnels.
    paths: BTreeMap<(TunnelId, Bid), Carried>,
    /// Removed paths whose sessions are kept for their return.
    retained: BTreeMap<(TunnelId, Bid), Retained>,
    /// Whose peer it is.
    owners: BTreeMap<(DeviceNumber, PublicKey), TunnelId>,
    /// Sessions of an earlier daemon.
    inherited: BTreeSet<(DeviceNumber, PublicKey)>,
    /// Devices that are gone and not yet made again.
    lost: Vec<(DeviceNumber, LinkId)>,
    /// When to look for sessions, while paths wait for one or have two devices, and the earliest time for a path that is new.
    next_check: Time,
    earliest_check: Time,
}

struct Device {
    name: String,
    link: LinkId,
    mtu: u32,
    /// It is one of a mobile router.
    initiates: bool,
    /// The path that its packets take, with the gateway, if the kernel has a route.
    led: Option<(Ends, Option<Option<IpAddr>>)>,
}

/// What has changed since the last look for sessions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Renewed {
    /// Tunnels with a path whose packets take another device, or are accepted from one device less.
    pub(crate) tunnels: Vec<TunnelId>,
    /// What to tell the operator.
    pub(crate) notices: Vec<String>,
}

/// Whether a device has keys of this host of an odd number of renewals.
fn is_own_odd(device: DeviceNumber, initiates: bool) -> bool {
    if initiates { device.is_router_odd() } else { device.is_agent_odd() }
}

impl WireguardPaths {
    /// Takes over the devices of an earlier daemon as they are put again; `None` if nothing is to be encrypted.
    ///
    /// # Errors
    /// There are no keys, or the kernel has no WireGuard.
    pub(crate) fn open(encryption: Encryption, state_dir: &Path) -> Result<Option<WireguardPaths>, Error> {
        if encryption.method() != Some(EncryptionMethod::Wireguard) {
            return Ok(None);
        }
        Ok(Some(WireguardPaths {
            wireguard: Wireguard::open()?,
            netlink: Netlink::open()?,
            keys: load_or_create(state_dir)?,
            state_dir: state_dir.to_owned(),
            devices: VecMap::new(),
            paths: BTreeMap::new(),
            retained: BTreeMap::new(),
            owners: BTreeMap::new(),
            inherited: BTreeSet::new(),
            lost: Vec::new(),
            next_check: Time::ZERO,
            earliest_check: Time::ZERO,
        }))
    }

    /// The link of a device.
    pub(crate) fn link_of(&self, device: DeviceNumber) -> Option<LinkId> {
        self.devices.get(&device).map(|device| device.link)
    }

    /// The devices of a path.
    pub(crate) fn devices_of(&self, id: TunnelId, bid: Bid) -> Option<PathDevices> {
        self.paths.get(&(id, bid)).map(Carried::devices)
    }

    /// Installs the peers of a tunnel. Returns the devices that are new, with their names.
    ///
    /// # Errors
    /// The kernel's; or a public key is that of another tunnel.
    pub(crate) fn put(&mut self, tunnel: &Tunnel) -> Result<Vec<(LinkId, String)>, Error> {
        let mut new = Vec::new();
        for (path, peer) in first_paths(tunnel) {
            let key = (peer.device, peer.public_key);
            if self.owners.get(&key).is_some_and(|owner| *owner != tunnel.id) {
                let why = format!("another mobile router has the WireGuard key of path {}", path.bid);
                return Err(Error::new("encryption", why));
            }
            new.extend(self.ensure_device(path, peer)?);
            self.put_path(tunnel, path, peer)?;
            self.owners.insert(key, tunnel.id);
        }
        Ok(new)
    }

    fn ensure_device(&mut self, path: &TunnelPath, peer: &WireguardPeer) -> Result<Option<(LinkId, String)>, Error> {
        let number = peer.device;
        let mtu = if peer.initiates { path.mtu } else { WIREGUARD_DEVICE_MTU };
        if let Some(device) = self.devices.get_mut(&number) {
            if device.mtu != mtu {
                let change = Message::new(libc::RTM_SETLINK, &LinkChange::of(device.link.0).mtu(mtu));
                device::change_link(&mut self.netlink, &device.name, Request::change(change))?;
                device.mtu = mtu;
            }
            return Ok(None);
        }
        let name = format!("{DEVICE_PREFIX}{}", number.0);
        let Some(key) = self.keys.of(number.bid(), is_own_odd(number, peer.initiates)) else {
            return Err(Error::new(
                "encryption",
                format!("device {name} has no key: the keys before a renewal are gone"),
            ));
        };
        if device::find(&mut self.netlink, &name)?.is_none_or(|link| link.kind != "wireguard") {
            device::make(&mut self.netlink, &name, "wireguard")?;
        } else {
            let (with_session, _) = with_session(&mut self.wireguard, number, &name);
            self.inherited.extend(with_session);
        }
        // The device may be left over from an earlier daemon. If its key is the same, its sessions continue; a different key is
        // replaced.
        let mark = if peer.initiates { steering::mark(number) } else { 0 };
        self.wireguard.set_device(&name, key, Some((number.port(), mark)))?;
        if peer.initiates {
            steering::begin(&mut self.netlink, number)?;
        }
        let link = device::set_up(&mut self.netlink, &name, mtu)?;
        let device = Device { name: name.clone(), link, mtu, initiates: peer.initiates, led: None };
        self.devices.insert(number, device);
        self.lost.retain(|(lost, _)| *lost != number);
        Ok(Some((link, name)))
    }

    fn put_path(&mut self, tunnel: &Tunnel, path: &TunnelPath, peer: &WireguardPeer) -> Result<(), Error> {
        let ends = path.link.map(|link| Ends { local: path.local, remote: path.remote, link });
        let allowed = tunnel.remote_prefixes.iter().map(|prefix| part_of_path(*prefix, path.bid)).collect();
        let wanted = Installed { peer: *peer, remote: path.remote, ends, allowed };
        let id = (tunnel.id, path.bid);
        let Some(mut carried) = self.take_path(id, peer)? else {
            let carried = self.add_path(wanted)?;
            self.paths.insert(id, carried);
            return Ok(());
        };
        let changed = self.change_path(&mut carried, wanted);
        self.paths.insert(id, carried);
        changed
    }

    /// The path as it is installed, or as it is retained for this peer.
    fn take_path(&mut self, id: (TunnelId, Bid), peer: &WireguardPeer) -> Result<Option<Carried>, Error> {
        if let Some(carried) = self.paths.remove(&id) {
            return Ok(Some(carried));
        }
        match self.retained.remove(&id) {
            Some(retained) if retained.installed.peer == *peer => Ok(Some(retained.resume())),
            Some(retained) => self.remove(&retained.installed).map(|()| None),
            None => Ok(None),
        }
    }

    fn add_path(&mut self, wanted: Installed) -> Result<Carried, Error> {
        let is_inherited = self.inherited.contains(&(wanted.peer.device, wanted.peer.public_key));
        self.install(None, &wanted, is_inherited)?;
        let session = if is_inherited { SessionState::Established } else { self.await_session() };
        Ok(Carried { peer: wanted, session, former: None })
    }

    /// The state of a path that has got a peer.
    fn await_session(&mut self) -> SessionState {
        self.next_check = self.next_check.min(self.earliest_check);
        SessionState::Awaited(None)
    }

    fn change_path(&mut self, carried: &mut Carried, wanted: Installed) -> Result<(), Error> {
        if carried.peer.peer.device == wanted.peer.device {
            let is_replaced = carried.peer.peer.public_key != wanted.peer.public_key;
            self.install(Some(&carried.peer), &wanted, !is_replaced && carried.has_endpoint())?;
            if is_replaced {
                carried.session = self.await_session();
            }
        } else if !carried.devices().has_session {
            self.remove(&carried.peer)?;
            *carried = self.add_path(wanted)?;
            return Ok(());
        } else {
            // A path has two devices at most: that of its packets, and one without a session or without packets.
            let kept = match carried.former.take() {
                Some(former) if carried.is_waiting() => {
                    self.remove(&carried.peer)?;
                    former
                }
                Some(former) => {
                    self.remove(&former)?;
                    carried.peer.clone()
                }
                None => carried.peer.clone(),
            };
            let is_kept = kept.peer.device == wanted.peer.device && kept.peer.public_key == wanted.peer.public_key;
            if kept.peer.device == wanted.peer.device {
                self.install(Some(&kept), &wanted, is_kept)?;
            } else {
                self.install(None, &wanted, false)?;
                carried.former = Some(kept);
            }
            carried.session = if is_kept { SessionState::Established } else { self.await_session() };
        }
        carried.peer = wanted;
        if let Some(follows) = carried.follows() {
            self.install(carried.former.as_ref(), &follows, true)?;
            carried.former = Some(follows);
        }
        Ok(())
    }

    /// Installs a peer at its device, in place of `former` at the same one; a home agent's without an endpoint unless
    /// `has_endpoint`.
    fn install(&mut self, former: Option<&Installed>, wanted: &Installed, has_endpoint: bool) -> Result<(), Error> {
        if former == Some(wanted) {
            return Ok(());
        }
        let Installed { peer, remote, ends, allowed } = wanted;
        let replaced = former.map(|former| former.peer.public_key).filter(|key| *key != peer.public_key);
        let is_moved = former.is_none_or(|former| {
            replaced.is_some() || (former.remote, former.peer.port, former.ends) != (*remote, peer.port, *ends)
        });
        let is_allowed = former.is_some_and(|former| replaced.is_none() && former.allowed == *allowed);
        if let Some(ends) = ends {
            self.lead(peer.device, *ends)?;
        }
        let Some(name) = self.devices.get(&peer.device).map(|device| device.name.clone()) else { return Ok(()) };
        if let Some(key) = replaced {
            self.owners.remove(&(peer.device, key));
            self.wireguard.remove_peer(&name, &key)?;
        }
        let endpoint = wanted.endpoint().filter(|_| is_moved && (peer.initiates || has_endpoint));
        let change = |keepalive| PeerChange {
            public_key: peer.public_key,
            preshared_key: &peer.preshared_key,
            endpoint,
            keepalive,
            allowed: (!is_allowed).then_some(allowed.as_slice()),
        };
        let starts = peer.initiates && is_moved;
        self.wireguard.put_peer(&name, &change(starts.then_some(0)))?;
        if starts {
            // A keepalive at once: the session begins, or the home agent learns of the move.
            self.wireguard.put_peer(&name, &PeerChange { endpoint: None, allowed: None, ..change(Some(KEEPALIVE)) })?;
        }
        Ok(())
    }

    /// Lets a home agent begin a session.
    fn set_endpoint(&mut self, installed: &Installed) -> Result<(), Error> {
        let Installed { peer: WireguardPeer { device, public_key, preshared_key, .. }, .. } = installed;
        let Some(device) = self.devices.get(device) else { return Ok(()) };
        let endpoint = installed.endpoint();
        let change = PeerChange { public_key: *public_key, preshared_key, endpoint, keepalive: None, allowed: None };
        self.wireguard.put_peer(&device.name, &change)
    }

    /// Removes a peer, with its session.
    fn remove(&mut self, installed: &Installed) -> Result<(), Error> {
        let WireguardPeer { device, public_key, .. } = installed.peer;
        self.owners.remove(&(device, public_key));
        match self.devices.get(&device) {
            Some(device) => self.wireguard.remove_peer(&device.name, &public_key),
            None => Ok(()),
        }
    }

    /// When to look for new sessions; `None` if no path waits for one, and none is retained.
    pub(crate) fn next_check(&self) -> Option<Time> {
        let is_changing = self.paths.values().any(|carried| carried.session != SessionState::Established);
        (is_changing || !self.retained.is_empty()).then_some(self.next_check)
    }

    /// Looks for new sessions: packets take the devices that have got one, and former devices end. Those of paths that are gone for
    /// long end too.
    pub(crate) fn check(&mut self, now: Time) -> Renewed {
        let waiting = self.paths.values().filter(|carried| carried.is_waiting());
        let numbers: BTreeSet<DeviceNumber> = waiting.map(|carried| carried.peer.peer.device).collect();
        let (mut established, mut peers) = (BTreeSet::new(), 0);
        for number in numbers {
            let Some(device) = self.devices.get(&number) else { continue };
            let (more, all) = with_session(&mut self.wireguard, number, &device.name);
            established.extend(more);
            peers += all;
        }
        let mut renewed = Renewed::default();
        let (mut retired, mut late) = (Vec::new(), Vec::new());
        for ((id, bid), carried) in &mut self.paths {
            let WireguardPeer { device, public_key, .. } = carried.peer.peer;
            let before = carried.session;
            if carried.advance(now, established.contains(&(device, public_key))) {
                renewed.tunnels.push(*id);
            }
            if let (SessionState::Awaited(_), SessionState::Late(_)) = (before, carried.session) {
                late.extend((!carried.peer.peer.initiates).then(|| carried.peer.clone()));
            }
            if carried.session == SessionState::Overdue && before != SessionState::Overdue {
                renewed.notices.push(carried.overdue(*bid));
            }
            if carried.is_retired() {
                retired.extend(carried.former.take());
            }
        }
        let expired = self.retained.extract_if(.., |_, retained| retained.until(now) <= now);
        retired.extend(expired.map(|(_, retained)| retained.installed));
        let ended = retired.iter().map(|former| self.remove(former)).collect::<Vec<_>>();
        let begun = late.iter().map(|peer| self.set_endpoint(peer)).collect::<Vec<_>>();
        renewed.notices.extend(ended.into_iter().chain(begun).filter_map(Result::err).map(|error| error.to_string()));
        self.earliest_check = now + PAUSE.0.max(PAUSE_PER_PEER * peers);
        let deadlines = self.paths.values().filter_map(|carried| carried.deadline(now));
        let expirations = self.retained.values_mut().map(|retained| retained.until(now));
        self.next_check = deadlines.chain(expirations).min().unwrap_or(now).max(self.earliest_check);
        renewed
    }

    /// New private keys, which the next updates tell; sessions with the present ones go on until there are others.
    ///
    /// # Errors
    /// The keys were renewed lately, so that those before are in use still; or the new ones cannot be written, and then nothing
    /// has changed.
    pub(crate) fn renew(&mut self) -> Result<PublicKeys, Error> {
        let is_odd = self.keys.is_odd();
        let all = self.paths.values().flat_map(|carried| core::iter::once(&carried.peer).chain(&carried.former));
        let all = all.chain(self.retained.values().map(|retained| &retained.installed));
        let outdated = all.filter(|installed| is_own_odd(installed.peer.device, installed.peer.initiates) != is_odd);
        let outdated = outdated.count();
        if outdated > 0 {
            let why = format!(
                "the keys before the last renewal are still those of {outdated} peers (roam6 show keys): a mobile router \
                 leaves them three minutes after its next session, a home agent with the next updates of its mobile routers"
            );
            return Err(Error::new("keys not renewed", why));
        }
        let keys = self.keys.renewed()?;
        let public_keys = public_keys(&keys)?;
        for (number, device) in &self.devices {
            // It has no peer any more, and is used again with these keys only.
            if is_own_odd(*number, device.initiates) != is_odd
                && let Some(key) = keys.of(number.bid(), !is_odd)
            {
                self.wireguard.set_device(&device.name, key, None)?;
            }
        }
        keys.save(&self.state_dir)?;
        self.keys = keys;
        Ok(public_keys)
    }

    fn lead(&mut self, number: DeviceNumber, ends: Ends) -> Result<(), Error> {
        let Some(device) = self.devices.get_mut(&number) else { return Ok(()) };
        let gateway = steering::lead(&mut self.netlink, number, &ends)?;
        device.led = Some((ends, gateway));
        Ok(())
    }

    /// The devices that are gone. Those that [`WireguardPaths::forget`] was told of are so until they are made again.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn find_lost(&mut self) -> Result<Vec<(DeviceNumber, LinkId)>, Error> {
        if self.devices.is_empty() {
            return Ok(self.lost.clone());
        }
        let present: VecSet<LinkId> = device::all(&mut self.netlink)?.iter().map(|link| LinkId(link.index)).collect();
        let gone = self.devices.iter().map(|(number, device)| (*number, device.link));
        Ok(gone.filter(|(_, link)| !present.contains(link)).chain(self.lost.iter().copied()).collect())
    }

    /// Forgets these devices and their sessions, so that the next `put` makes them.
    ///
    /// # Errors
    /// The kernel has no WireGuard any more.
    pub(crate) fn forget(&mut self, lost: &[(DeviceNumber, LinkId)]) -> Result<(), Error> {
        // One that no path needs any more is not made again.
        let needed: VecSet<DeviceNumber> = self.paths.values().map(|carried| carried.peer.peer.device).collect();
        let is_needed = |one: &&(DeviceNumber, LinkId)| needed.contains(&one.0) || self.lost.contains(one);
        self.lost = lost.iter().filter(is_needed).copied().collect();
        let is_lost = |number: DeviceNumber| lost.iter().any(|(gone, _)| *gone == number);
        self.devices.retain(|number, _| !is_lost(*number));
        self.retained.retain(|_, retained| !is_lost(retained.installed.peer.device));
        for carried in self.paths.values_mut() {
            if carried.former.as_ref().is_some_and(|former| is_lost(former.peer.device)) {
                carried.former = None;
            }
        }
        let paths = self.paths.iter().filter(|(_, carried)| is_lost(carried.peer.peer.device));
        for id in paths.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(former) = self.paths.remove(&id).and_then(|carried| carried.former) {
                // When the tunnel is installed again, the path has a single device.
                let _ = self.remove(&former);
            }
        }
        // The module was perhaps unloaded: the family has another number then.
        self.wireguard = Wireguard::open()?;
        Ok(())
    }

    /// Packets that the devices could not send, for want of a session or of a peer.
    pub(crate) fn unsent(&mut self) -> u64 {
        let links = device::all(&mut self.netlink).unwrap_or_default();
        let ours = links.iter().filter(|link| link.kind == "wireguard" && device_of(&link.name).is_some());
        ours.map(|link| link.unsent).sum()
    }

    /// Routes of the host have changed: those of marked packets follow.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn follow_routes(&mut self) -> Result<(), Error> {
        let led: Vec<(DeviceNumber, Ends)> =
            self.devices.iter().filter_map(|(number, device)| Some((*number, device.led.as_ref()?.0))).collect();
        led.into_iter().try_for_each(|(number, ends)| self.lead(number, ends))
    }

    /// Removes the peers that a tunnel has no more; a mobile router's a while later.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn release(&mut self, id: TunnelId, now: Option<&Tunnel>) -> Result<(), Error> {
        let kept: VecSet<Bid> = now.into_iter().flat_map(first_paths).map(|(path, _)| path.bid).collect();
        let gone: Vec<Bid> = self.paths.range((id, Bid(0))..=(id, Bid(u16::MAX))).map(|((_, bid), _)| *bid).collect();
        for bid in gone.into_iter().filter(|bid| !kept.contains(bid)) {
            let Some(carried) = self.paths.remove(&(id, bid)) else { continue };
            if let Some(retained) = Retained::of(&carried) {
                self.retained.insert((id, bid), retained);
                self.next_check = self.next_check.min(self.earliest_check);
                continue;
            }
            [Some(carried.peer), carried.former].into_iter().flatten().try_for_each(|peer| self.remove(&peer))?;
        }
        Ok(())
    }

    /// Removes the peers and devices of an earlier daemon that were not put again.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn remove_stale(&mut self) -> Result<(), Error> {
        self.inherited.clear();
        remove_devices(&mut self.netlink, |number| self.devices.contains_key(&number))?;
        for (number, device) in &self.devices {
            for Peer { public_key, .. } in self.wireguard.device(&device.name)?.1 {
                if !self.owners.contains_key(&(*number, public_key)) {
                    self.wireguard.remove_peer(&device.name, &public_key)?;
                }
            }
        }
        Ok(())
    }
}

/// Removes the devices that are not to be kept, and the way of their packets.
///
/// # Errors
/// The kernel's.
pub(crate) fn remove_devices(netlink: &mut Netlink, keep: impl Fn(DeviceNumber) -> bool) -> Result<(), Error> {
    for link in device::all(netlink)? {
        if let Some(number) = device_of(&link.name).filter(|number| link.kind == "wireguard" && !keep(*number)) {
            steering::end(netlink, number);
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

/// The peers of a device that have, or had, a session; and the number of all.
fn with_session(wireguard: &mut Wireguard, number: DeviceNumber, name: &str) -> (Vec<(DeviceNumber, PublicKey)>, u32) {
    // A removed device is recreated by `Bpf::repair_wireguard`.
    let (_, peers) = wireguard.device(name).unwrap_or_default();
    let with_session = peers.iter().filter(|peer| peer.last_handshake.is_some());
    let with_session = with_session.map(|peer| (number, peer.public_key)).collect();
    (with_session, u32::try_from(peers.len()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_keys_are_those_of_the_role() {
        let device = DeviceNumber::new(Bid(1), true, false).unwrap();
        assert!(is_own_odd(device, true) && !is_own_odd(device, false));
    }
}
