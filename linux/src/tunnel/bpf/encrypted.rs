//! Encrypted paths of tunnels: their devices, and what must not go on in the clear.

use super::attach::{Interface, Program};
use super::maps::Maps;
use super::{Attached, Bpf, abi};
use crate::error::Error;
use crate::esp::{self, EspPaths};
use crate::netlink::socket::Netlink;
use crate::wireguard::{DEVICE_PREFIX, PathDevices, PublicKeys, Renewed, WireguardPaths, remove_devices};
use roam6_proto::Time;
use roam6_proto::base::ids::LinkId;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::item::{Encap, Tunnel, TunnelId, TunnelPath, WireguardPeer};
use roam6_wire::Bid;
use std::borrow::Cow;

/// The counter of packets that their path could not encrypt: it has no session with the other end.
const NO_SESSION: &str = "dropped_no_session";
/// In the BID of a path that is hidden from flow rules; BIDs of encrypted paths are less.
const HIDDEN: u16 = 1 << 15;

/// Removes the tunnels of an earlier daemon that send in the clear; with those of an older layout they end when the programs are
/// replaced.
///
/// # Errors
/// The kernel's.
pub(super) fn remove_plain(maps: &mut Maps) -> Result<(), Error> {
    for id in maps.tunnels.keys()? {
        if maps.tunnels.find(&id).is_some_and(|value| abi::has_plain_path(&value)) {
            maps.tunnels.drop(&id)?;
        }
    }
    Ok(())
}

impl Bpf {
    /// Installs the peers or associations of encrypted paths, and the program of new devices, before any packet is led there.
    pub(super) fn put_encrypted(&mut self, tunnel: &Tunnel) -> Result<(), Error> {
        let has = |is_of: fn(&Encap) -> bool| tunnel.paths.iter().any(|path| is_of(&path.encap));
        let none = || Error::new("encryption", "it is not configured on this host");
        let mut new = Vec::new();
        if has(|encap| encap.wireguard().is_some()) {
            new.extend(self.wireguard.as_mut().ok_or_else(none)?.put(tunnel)?);
        }
        if has(|encap| encap.esp().is_some()) {
            new.extend(self.esp.as_mut().ok_or_else(none)?.put(tunnel)?);
        }
        for (link, name) in new {
            self.attached.insert(link, Attached { name: name.clone(), program: Program::Decrypted, deferred: false });
            self.programs.attach(Program::Decrypted, Interface { link, name: &name })?;
        }
        Ok(())
    }

    /// The link of the device of an encrypted path.
    pub(super) fn device_of(&self, id: TunnelId, path: &TunnelPath) -> Option<LinkId> {
        match path.encap {
            Encap::Wireguard(peer) => self.wireguard.as_ref()?.link_of(peer.device),
            Encap::Esp(_) => self.esp.as_ref()?.link_of(id, shown(path.bid)),
            Encap::Native | Encap::Udp { .. } => None,
        }
    }

    /// Removes the devices, peers and associations of an earlier daemon that were not put again.
    pub(super) fn remove_stale_encrypted(&mut self) -> Result<(), Error> {
        match &mut self.esp {
            Some(esp) => esp.remove_stale()?,
            None => esp::remove_everything()?,
        }
        match &mut self.wireguard {
            Some(wireguard) => wireguard.remove_stale(),
            None => remove_devices(&mut Netlink::open()?, |_| false),
        }
    }

    /// The packet counters; those of encryption are the kernel's.
    pub(super) fn packet_counters(&mut self) -> VecMap<String, u64> {
        let mut counters = self.maps.counters();
        if let Some(wireguard) = &mut self.wireguard {
            counters.insert(NO_SESSION.to_owned(), wireguard.unsent());
        }
        if let Some(esp) = &mut self.esp {
            counters.insert(NO_SESSION.to_owned(), esp.unsent());
        }
        counters
    }

    /// Makes the devices again that are gone, with all that leads to them. Until then packets of their paths are dropped.
    pub(super) fn repair_encrypted(&mut self) -> Result<Option<String>, Error> {
        if self.esp.is_some() {
            return self.repair_esp();
        }
        let Some(wireguard) = &mut self.wireguard else { return Ok(None) };
        let lost = wireguard.find_lost()?;
        if lost.is_empty() {
            return Ok(None);
        }
        wireguard.forget(&lost)?;
        self.attached.retain(|link, _| !lost.iter().any(|(_, gone)| gone == link));
        let uses = |tunnel: &Tunnel| {
            let mut paths = tunnel.paths.iter().filter(|path| path.encap.wireguard().is_some());
            paths.any(|path| lost.iter().any(|(number, _)| number.bid() == path.bid))
        };
        let tunnels = self.installed.values().flatten().map(|full| &full.tunnel).filter(|tunnel| uses(tunnel));
        for tunnel in tunnels.cloned().collect::<Vec<_>>() {
            self.change(&tunnel)?;
        }
        self.begin_epoch()?;
        let names: Vec<String> = lost.iter().map(|(number, _)| format!("{DEVICE_PREFIX}{}", number.0)).collect();
        Ok(Some(format!("{} had been removed, by hand or with the module wireguard: made again", names.join(", "))))
    }

    fn repair_esp(&mut self) -> Result<Option<String>, Error> {
        let Some(esp) = &mut self.esp else { return Ok(None) };
        let lost = esp.find_lost()?;
        if lost.is_empty() {
            return Ok(None);
        }
        esp.forget(&lost);
        self.attached.retain(|link, _| !lost.iter().any(|(_, gone, _)| gone == link));
        let is_lost = |tunnel: &Tunnel| lost.iter().any(|(id, ..)| *id == tunnel.id);
        let tunnels = self.installed.values().flatten().map(|full| &full.tunnel).filter(|tunnel| is_lost(tunnel));
        for tunnel in tunnels.cloned().collect::<Vec<_>>() {
            self.change(&tunnel)?;
        }
        self.begin_epoch()?;
        let names: Vec<&str> = lost.iter().map(|(.., name)| name.as_str()).collect();
        let why = "had been removed, by hand or with the module xfrm_interface: made again";
        Ok(Some(format!("{} {why}", names.join(", "))))
    }

    /// A tunnel with the devices of its paths, as the programs are to have it.
    pub(super) fn with_devices<'t>(&self, tunnel: &'t Tunnel) -> Cow<'t, Tunnel> {
        if let Some(esp) = self.esp.as_ref().filter(|_| tunnel.paths.iter().any(|path| path.encap.esp().is_some())) {
            let mut carried = tunnel.clone();
            spare(&mut carried.paths, |bid| esp.has_session(tunnel.id, bid));
            return Cow::Owned(carried);
        }
        let Some(wireguard) = &self.wireguard else { return Cow::Borrowed(tunnel) };
        with_devices(tunnel, |bid| wireguard.devices_of(tunnel.id, bid))
    }

    /// When to look for new sessions of encrypted paths.
    pub(super) fn next_encryption_check(&self) -> Option<Time> {
        let wireguard = self.wireguard.as_ref().and_then(WireguardPaths::next_check);
        wireguard.into_iter().chain(self.esp.as_ref().and_then(EspPaths::next_check)).min()
    }

    /// Has packets take the devices that have got a session, in place of former ones. Returns what to tell the operator.
    pub(super) fn look_for_sessions(&mut self, now: Time) -> Result<Vec<String>, Error> {
        let Renewed { tunnels, notices } = match (&mut self.wireguard, &mut self.esp) {
            (Some(wireguard), _) => wireguard.check(now),
            (None, Some(esp)) => {
                let (tunnels, notices) = esp.check(now);
                Renewed { tunnels, notices }
            }
            (None, None) => return Ok(Vec::new()),
        };
        if tunnels.is_empty() {
            return Ok(notices);
        }
        let mut done = Ok(());
        for tunnel in tunnels {
            if let Some(tunnel) = self.installed.get(&tunnel).and_then(|held| Some(held.as_ref()?.tunnel.clone())) {
                done = done.and(self.change(&tunnel));
            }
        }
        self.begin_epoch().and(done).map(|()| notices)
    }

    /// See [`crate::wireguard::WireguardPaths::renew`].
    pub(super) fn renew_wireguard_keys(&mut self) -> Result<PublicKeys, Error> {
        let why = match self.esp {
            Some(_) => {
                "keys of ESP are agreed with updates, and none is kept: restart the daemon of a mobile router for new ones"
            }
            None => "encrypt is not in the configuration",
        };
        let none = || Error::new("keys not renewed", why);
        self.wireguard.as_mut().ok_or_else(none)?.renew()
    }

    /// Removes the peers and associations of the tunnel that it has no more.
    pub(super) fn release_encrypted(&mut self, id: TunnelId, now: Option<&Tunnel>) -> Result<(), Error> {
        if let Some(esp) = &mut self.esp {
            esp.release(id, now)?;
        }
        self.wireguard.as_mut().map_or(Ok(()), |wireguard| wireguard.release(id, now))
    }
}

/// A tunnel whose encrypted paths have the devices that `devices_of` names for their BIDs: that of their packets, and the one that
/// packets are accepted from besides. The latter is that of a path that only receives: of one with a former care-of address, or of
/// one that is added, if there is room.
fn with_devices(tunnel: &Tunnel, devices_of: impl Fn(Bid) -> Option<PathDevices>) -> Cow<'_, Tunnel> {
    if tunnel.paths.iter().all(|path| path.encap.wireguard().is_none()) {
        return Cow::Borrowed(tunnel);
    }
    let mut carried = tunnel.clone();
    let mut seen: VecSet<Bid> = VecSet::new();
    let mut others: Vec<TunnelPath> = Vec::new();
    for path in &mut carried.paths {
        let Encap::Wireguard(peer) = &mut path.encap else { continue };
        let Some(PathDevices { carrier, other, .. }) = devices_of(path.bid) else { continue };
        let is_first = seen.insert(path.bid);
        peer.device = if is_first { carrier } else { other.unwrap_or(carrier) };
        match other.filter(|_| is_first) {
            Some(device) => {
                let encap = Encap::Wireguard(WireguardPeer { device, ..*peer });
                others.push(TunnelPath { encap, weight: 0, ..path.clone() });
            }
            None => others.retain(|receiving| receiving.bid != path.bid),
        }
    }
    carried.paths.extend(others);
    carried.paths.truncate(abi::PATHS.max(tunnel.paths.len()));
    spare(&mut carried.paths, |bid| devices_of(bid).is_none_or(|devices| devices.has_session));
    Cow::Owned(carried)
}

/// Spares the paths without a session while others have one: flows are given to those by their weights. A home agent, which cannot
/// begin a session, disregards the flow rules of these paths too.
fn spare(paths: &mut [TunnelPath], has_session: impl Fn(Bid) -> bool) {
    if !paths.iter().any(|path| path.weight > 0 && has_session(path.bid)) {
        return;
    }
    for path in paths.iter_mut().filter(|path| !has_session(path.bid)) {
        path.weight = 0;
        if !path.encap.initiates() {
            path.bid.0 |= HIDDEN;
        }
    }
}

/// The BID of a path that [`with_devices`] may have hidden from flow rules.
pub(super) fn shown(bid: Bid) -> Bid {
    Bid(bid.0 & !HIDDEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::contract::config::encryption::DeviceNumber;
    use roam6_proto::crypto::wireguard::{PresharedKey, PublicKey};

    fn path(bid: u16, weight: u16) -> TunnelPath {
        let (public_key, preshared_key) = (PublicKey([1; 32]), PresharedKey([2; 32]));
        let peer = WireguardPeer { device: DeviceNumber(bid), public_key, preshared_key, port: 4192, initiates: false };
        TunnelPath {
            bid: Bid(bid),
            local: "2001:db8::1".parse().unwrap(),
            remote: "2001:db8::2".parse().unwrap(),
            link: None,
            mtu: 1420,
            weight,
            direct: false,
            encap: Encap::Wireguard(peer),
            dscp: None,
        }
    }

    fn devices(paths: Vec<TunnelPath>, renewing: &[u16]) -> Vec<(u16, u16, u16)> {
        let all = vec![roam6_wire::Prefix::ALL];
        let tunnel =
            Tunnel { id: TunnelId(1), local_prefixes: all.clone(), remote_prefixes: all, paths, flows: Vec::new() };
        let of = |bid: Bid| {
            let other = renewing.contains(&bid.0).then_some(DeviceNumber(bid.0 + 16));
            Some(PathDevices { carrier: DeviceNumber(bid.0), other, has_session: true })
        };
        let carried = with_devices(&tunnel, of);
        let device = |path: &TunnelPath| path.encap.wireguard().map_or(99, |peer| peer.device.0);
        carried.paths.iter().map(|path| (path.bid.0, path.weight, device(path))).collect()
    }

    #[test]
    fn packets_are_accepted_from_both_devices_of_a_renewal() {
        assert_eq!(devices(vec![path(1, 1), path(2, 1)], &[]), [(1, 1, 1), (2, 1, 2)]);
        assert_eq!(devices(vec![path(1, 1), path(2, 1)], &[2]), [(1, 1, 1), (2, 1, 2), (2, 0, 18)]);
        // A path that only receives takes it.
        assert_eq!(devices(vec![path(1, 1), path(1, 0)], &[1]), [(1, 1, 1), (1, 0, 17)]);
        assert_eq!(devices(vec![path(1, 1), path(1, 0)], &[]), [(1, 1, 1), (1, 0, 1)]);
        let full: Vec<TunnelPath> = (1..=8).map(|bid| path(bid, 1)).collect();
        assert_eq!(devices(full, &[1, 2]).len(), 8, "no more than the programs have room for");
    }

    #[test]
    fn paths_without_a_session_are_spared_while_others_have_one() {
        let spared = |initiates: bool, with_session: &[u16]| {
            let mut paths = vec![path(1, 1), path(2, 3)];
            for path in &mut paths {
                let Encap::Wireguard(peer) = &mut path.encap else { unreachable!("all are encrypted") };
                peer.initiates = initiates;
            }
            spare(&mut paths, |bid| with_session.contains(&bid.0));
            assert_eq!(paths.iter().map(|path| shown(path.bid).0).collect::<Vec<_>>(), [1, 2]);
            paths.iter().map(|path| (path.bid.0, path.weight)).collect::<Vec<_>>()
        };
        assert_eq!(spared(true, &[1]), [(1, 1), (2, 0)]);
        assert_eq!(spared(false, &[1]), [(1, 1), (2 | HIDDEN, 0)], "a home agent disregards its flow rules too");
        assert_eq!(spared(false, &[]), [(1, 1), (2, 3)], "no path is better than the other");
        assert_eq!(spared(false, &[1, 2]), [(1, 1), (2, 3)]);
    }
}
