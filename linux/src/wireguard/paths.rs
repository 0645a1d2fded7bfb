//! Encrypted paths: a device for each BID, and at the device a peer for each tunnel with such a path. Everything outlives the
//! daemon: sessions go on while it restarts.
//!
//! If a path gets another device, because one end has renewed its keys, packets take the former one until the kernel shows a
//! session of the new one, and are accepted from both until that of the former has ended by itself. See [`DeviceNumber`].

use super::keys::{PrivateKeys, PublicKeys, device_of, load_or_create, public_keys};
use super::message::{Peer, PeerChange, Wireguard};
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
use roam6_proto::contract::config::encryption::DeviceNumber;
use roam6_proto::contract::item::tunnel::WIREGUARD_DEVICE_MTU;
use roam6_proto::contract::item::{Tunnel, TunnelId, TunnelPath, WireguardPeer};
use roam6_proto::crypto::wireguard::PublicKey;
use roam6_proto::{LinkId, Time};
use roam6_wire::{Bid, Ipv4Endpoint, Prefix};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Interval of keepalives to a home agent, seconds: shorter than NATs forget (RFC 4787 §4.3).
const KEEPALIVE: u16 = 25;
/// Pause between two looks for new sessions, which the kernel does not announce: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How long packets of the former session are accepted: no session lasts longer (Reject-After-Time).
const RETIREMENT: Duration = Duration::from_secs(180);
/// A new key that has no session after this time is reported.
const PATIENCE: Duration = Duration::from_secs(20);

/// The devices and their peers.
pub(crate) struct WireguardPaths {
    wireguard: Wireguard,
    netlink: Netlink,
    keys: PrivateKeys,
    state_dir: PathBuf,
    devices: VecMap<DeviceNumber, Device>,
    /// The paths of tunnels.
    paths: BTreeMap<(TunnelId, Bid), Carried>,
    /// Whose peer it is.
    owners: BTreeMap<(DeviceNumber, PublicKey), TunnelId>,
    /// Devices that are gone and not yet made again.
    lost: Vec<(DeviceNumber, LinkId)>,
    /// When to look for sessions, while paths have two devices, and the pause then.
    next_check: Time,
    pause: Duration,
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

/// A path: its peer, and the one on its former device, while there is one.
struct Carried {
    peer: Installed,
    former: Option<Former>,
}

/// What was installed last.
#[derive(Clone, PartialEq, Eq)]
struct Installed {
    peer: WireguardPeer,
    remote: Ipv6Addr,
    ends: Option<Ends>,
    allowed: Vec<Prefix>,
}

struct Former {
    installed: Installed,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Packets take the former device, because the new one has no session: since when, if that was looked for.
    Waiting(Option<Time>),
    /// The same, and it was reported.
    Overdue,
    /// Packets take the new device, and are accepted from the former one until then.
    Retiring(Time),
}

/// What has changed since the last look for sessions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Renewed {
    /// Tunnels with a path whose packets take another device, or are accepted from one device less.
    pub(crate) tunnels: Vec<TunnelId>,
    /// What to tell the operator.
    pub(crate) notices: Vec<String>,
}

impl Carried {
    /// Whether the device that packets are to take has no session.
    fn is_waiting(&self) -> bool {
        self.former.as_ref().is_some_and(Former::is_waiting)
    }

    /// The device that packets take.
    fn carrier(&self) -> DeviceNumber {
        let former = self.former.as_ref().filter(|former| former.is_waiting());
        former.map_or(self.peer.peer.device, |former| former.installed.peer.device)
    }

    /// The device that they do not take, and are accepted from.
    fn other(&self) -> Option<DeviceNumber> {
        let former = self.former.as_ref()?;
        Some(if former.is_waiting() { self.peer.peer.device } else { former.installed.peer.device })
    }

    /// What the former device needs to know of a path that has changed; a mobile router's leads to the former home agent still.
    fn follows(&self) -> Option<Installed> {
        let former = &self.former.as_ref()?.installed;
        let remote = if former.peer.initiates { former.remote } else { self.peer.remote };
        let ends = self.peer.ends.map(|ends| Ends { remote, ..ends });
        Some(Installed { peer: former.peer, remote, ends, allowed: self.peer.allowed.clone() })
    }
}

impl Former {
    fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_) | Stage::Overdue)
    }

    /// The stage at `now`, and whether packets take another device than before; `None` once it is not needed any more.
    fn advance(&mut self, now: Time, has_session: bool) -> Option<bool> {
        let (stage, is_changed) = match self.stage {
            Stage::Waiting(_) | Stage::Overdue if has_session => (Stage::Retiring(now + RETIREMENT), true),
            Stage::Waiting(None) => (Stage::Waiting(Some(now)), false),
            Stage::Waiting(Some(since)) if now.since(since) >= PATIENCE => (Stage::Overdue, false),
            Stage::Retiring(until) if until <= now => return None,
            stage => (stage, false),
        };
        self.stage = stage;
        Some(is_changed)
    }
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
        if encryption == Encryption::Off {
            return Ok(None);
        }
        Ok(Some(WireguardPaths {
            wireguard: Wireguard::open()?,
            netlink: Netlink::open()?,
            keys: load_or_create(state_dir)?,
            state_dir: state_dir.to_owned(),
            devices: VecMap::new(),
            paths: BTreeMap::new(),
            owners: BTreeMap::new(),
            lost: Vec::new(),
            next_check: Time::ZERO,
            pause: PAUSE.0,
        }))
    }

    /// The link of a device.
    pub(crate) fn link_of(&self, device: DeviceNumber) -> Option<LinkId> {
        self.devices.get(&device).map(|device| device.link)
    }

    /// The device that packets of a path take, and the one that they are accepted from besides.
    pub(crate) fn devices_of(&self, id: TunnelId, bid: Bid) -> Option<(DeviceNumber, Option<DeviceNumber>)> {
        self.paths.get(&(id, bid)).map(|carried| (carried.carrier(), carried.other()))
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
        let allowed = tunnel.remote_prefixes.clone();
        let wanted = Installed { peer: *peer, remote: path.remote, ends, allowed };
        let id = (tunnel.id, path.bid);
        let Some(mut carried) = self.paths.remove(&id) else {
            self.install(None, &wanted)?;
            self.paths.insert(id, Carried { peer: wanted, former: None });
            return Ok(());
        };
        let changed = self.change_path(&mut carried, wanted);
        self.paths.insert(id, carried);
        changed
    }

    fn change_path(&mut self, carried: &mut Carried, wanted: Installed) -> Result<(), Error> {
        if carried.peer.peer.device == wanted.peer.device {
            self.install(Some(&carried.peer), &wanted)?;
        } else {
            // A path has two devices at most: that of its packets, and one without a session or without packets.
            let kept = match carried.former.take() {
                Some(former) if former.is_waiting() => {
                    self.remove(&carried.peer)?;
                    former.installed
                }
                Some(former) => {
                    self.remove(&former.installed)?;
                    carried.peer.clone()
                }
                None => carried.peer.clone(),
            };
            if kept.peer.device == wanted.peer.device {
                self.install(Some(&kept), &wanted)?;
            } else {
                self.install(None, &wanted)?;
                // While a path waits, further renewals do not restart the backoff: frequent renewals by one peer cause no
                // additional polling.
                if !self.paths.values().any(Carried::is_waiting) {
                    (self.next_check, self.pause) = (Time::ZERO, PAUSE.0);
                }
                carried.former = Some(Former { installed: kept, stage: Stage::Waiting(None) });
            }
        }
        carried.peer = wanted;
        if let Some(follows) = carried.follows()
            && let Some(former) = &mut carried.former
        {
            self.install(Some(&former.installed), &follows)?;
            former.installed = follows;
        }
        Ok(())
    }

    /// Installs a peer at its device, in place of `former` at the same one.
    fn install(&mut self, former: Option<&Installed>, wanted: &Installed) -> Result<(), Error> {
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
        let endpoint = Some(end(*remote, peer.port)).filter(|_| is_moved && peer.port != 0);
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

    /// Removes a peer, with its session.
    fn remove(&mut self, installed: &Installed) -> Result<(), Error> {
        let WireguardPeer { device, public_key, .. } = installed.peer;
        self.owners.remove(&(device, public_key));
        match self.devices.get(&device) {
            Some(device) => self.wireguard.remove_peer(&device.name, &public_key),
            None => Ok(()),
        }
    }

    /// When to look for new sessions; `None` if no path waits for one.
    pub(crate) fn next_check(&self) -> Option<Time> {
        self.paths.values().any(|carried| carried.former.is_some()).then_some(self.next_check)
    }

    /// Looks for new sessions: packets take the devices that have got one, and former devices end.
    pub(crate) fn check(&mut self, now: Time) -> Renewed {
        let waiting = self.paths.values().filter(|carried| carried.is_waiting());
        let devices: BTreeSet<DeviceNumber> = waiting.map(|carried| carried.peer.peer.device).collect();
        let mut with_session: BTreeSet<(DeviceNumber, PublicKey)> = BTreeSet::new();
        for number in &devices {
            let Some(device) = self.devices.get(number) else { continue };
            // A removed device is recreated by `Bpf::repair_wireguard`.
            let (_, peers) = self.wireguard.device(&device.name).unwrap_or_default();
            let peers = peers.into_iter().filter(|peer| peer.last_handshake.is_some());
            with_session.extend(peers.map(|peer| (*number, peer.public_key)));
        }
        let mut renewed = Renewed::default();
        let mut ended = Vec::new();
        for ((id, bid), carried) in &mut self.paths {
            let WireguardPeer { device, public_key, .. } = carried.peer.peer;
            let Some(former) = &mut carried.former else { continue };
            let before = former.stage;
            let advanced = former.advance(now, with_session.contains(&(device, public_key)));
            if former.stage == Stage::Overdue && before != Stage::Overdue {
                renewed.notices.push(overdue(*bid, device));
            }
            if advanced != Some(false) {
                renewed.tunnels.push(*id);
            }
            if advanced.is_none() {
                ended.extend(carried.former.take());
            }
        }
        for former in ended {
            renewed.notices.extend(self.remove(&former.installed).err().map(|error| error.to_string()));
        }
        let formers = self.paths.values().filter_map(|carried| carried.former.as_ref());
        let ends =
            formers.map(|former| if let Stage::Retiring(until) = former.stage { until } else { now + self.pause });
        self.next_check = ends.min().unwrap_or(Time::ZERO);
        self.pause = (self.pause * 2).min(PAUSE.1);
        renewed
    }

    /// New private keys, which the next updates tell; sessions with the present ones go on until there are others.
    ///
    /// # Errors
    /// The keys were renewed lately, so that those before are in use still; or the new ones cannot be written, and then nothing
    /// has changed.
    pub(crate) fn renew(&mut self) -> Result<PublicKeys, Error> {
        let is_odd = self.keys.is_odd();
        let all = self.paths.values().flat_map(|carried| {
            core::iter::once(&carried.peer).chain(carried.former.as_ref().map(|former| &former.installed))
        });
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
        for carried in self.paths.values_mut() {
            if carried.former.as_ref().is_some_and(|former| is_lost(former.installed.peer.device)) {
                carried.former = None;
            }
        }
        let paths = self.paths.iter().filter(|(_, carried)| is_lost(carried.peer.peer.device));
        for id in paths.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(former) = self.paths.remove(&id).and_then(|carried| carried.former) {
                // When the tunnel is installed again, the path has a single device.
                let _ = self.remove(&former.installed);
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

    /// Removes the peers that a tunnel has no more.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn release(&mut self, id: TunnelId, now: Option<&Tunnel>) -> Result<(), Error> {
        let kept: VecSet<Bid> = now.into_iter().flat_map(first_paths).map(|(path, _)| path.bid).collect();
        let gone: Vec<Bid> = self.paths.range((id, Bid(0))..=(id, Bid(u16::MAX))).map(|((_, bid), _)| *bid).collect();
        for bid in gone.into_iter().filter(|bid| !kept.contains(bid)) {
            let Some(carried) = self.paths.remove(&(id, bid)) else { continue };
            let former = carried.former.map(|former| former.installed);
            [Some(carried.peer), former].into_iter().flatten().try_for_each(|peer| self.remove(&peer))?;
        }
        Ok(())
    }

    /// Removes the peers and devices of an earlier daemon that were not put again.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn remove_stale(&mut self) -> Result<(), Error> {
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

fn end(remote: Ipv6Addr, port: u16) -> SocketAddr {
    let address = Ipv4Endpoint::from_ipv6(remote).map_or(IpAddr::V6(remote), |end| IpAddr::V4(end.address));
    SocketAddr::new(address, port)
}

fn overdue(bid: Bid, device: DeviceNumber) -> String {
    let (after, port) = (PATIENCE.as_secs(), device.port());
    format!(
        "the new WireGuard key of path {bid} has no session after {after} s: its packets are encrypted with the former key; let UDP \
         port {port} of the home agent through"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::crypto::wireguard::PresharedKey;

    fn at(seconds: u64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    fn installed(number: u16, initiates: bool, remote: &str) -> Installed {
        let (public_key, preshared_key) = (PublicKey([1; 32]), PresharedKey([2; 32]));
        let peer = WireguardPeer { device: DeviceNumber(number), public_key, preshared_key, port: 4192, initiates };
        let remote = remote.parse().unwrap();
        let ends = Ends { local: Ipv6Addr::LOCALHOST, remote, link: LinkId(3) };
        Installed { peer, remote, ends: Some(ends).filter(|_| initiates), allowed: Vec::new() }
    }

    fn renewing(initiates: bool) -> Carried {
        let former = Former { installed: installed(1, initiates, "2001:db8::1"), stage: Stage::Waiting(None) };
        Carried { peer: installed(17, initiates, "2001:db8::2"), former: Some(former) }
    }

    #[test]
    fn packets_take_the_former_device_until_the_new_one_has_a_session() {
        let mut carried = renewing(true);
        let devices = |carried: &Carried| (carried.carrier().0, carried.other().map(|number| number.0));
        assert_eq!(devices(&carried), (1, Some(17)));
        let mut advance = |now, has_session| {
            let done = carried.former.as_mut().unwrap().advance(at(now), has_session);
            (done, devices(&carried), carried.former.as_ref().unwrap().stage == Stage::Overdue)
        };
        assert_eq!(advance(0, false), (Some(false), (1, Some(17)), false));
        assert_eq!(advance(19, false), (Some(false), (1, Some(17)), false));
        assert_eq!(advance(20, false), (Some(false), (1, Some(17)), true), "the operator is told");
        assert_eq!(advance(3600, false), (Some(false), (1, Some(17)), true), "for as long as it takes");
        assert_eq!(advance(3601, true), (Some(true), (17, Some(1)), false));
        assert_eq!(advance(3780, false), (Some(false), (17, Some(1)), false), "one session is enough");
        assert_eq!(advance(3781, false).0, None, "former sessions have ended by themselves");
    }

    #[test]
    fn former_device_follows_a_move_but_not_to_another_home_agent() {
        let agent = renewing(false).follows().unwrap();
        assert_eq!((agent.remote, agent.ends), ("2001:db8::2".parse().unwrap(), None));
        let router = renewing(true).follows().unwrap();
        assert_eq!(router.remote, "2001:db8::1".parse::<Ipv6Addr>().unwrap());
        assert_eq!(router.ends.map(|ends| ends.remote), Some(router.remote));
        assert_eq!(Carried { former: None, ..renewing(true) }.follows().map(|follows| follows.remote), None);
    }

    #[test]
    fn own_keys_are_those_of_the_role() {
        let device = DeviceNumber::new(Bid(1), true, false).unwrap();
        assert!(is_own_odd(device, true) && !is_own_odd(device, false));
    }
}
