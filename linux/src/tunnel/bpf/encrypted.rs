//! Encrypted paths of tunnels: their devices, and what must not go on in the clear.

use super::attach::{Interface, Program};
use super::maps::Maps;
use super::{Attached, Bpf, abi};
use crate::error::Error;
use crate::netlink::socket::Netlink;
use crate::wireguard::{DEVICE_PREFIX, remove_devices};
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::item::{Tunnel, TunnelId};

/// The counter of packets that their path could not encrypt: it has no session with the other end.
const NO_SESSION: &str = "dropped_no_session";

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
    /// Installs the peers of encrypted paths, and the program of new devices, before any packet is led there.
    pub(super) fn put_wireguard(&mut self, tunnel: &Tunnel) -> Result<(), Error> {
        if tunnel.paths.iter().all(|path| path.encap.wireguard().is_none()) {
            return Ok(());
        }
        let none = || Error::new("encryption", "it is not configured on this host");
        for (link, name) in self.wireguard.as_mut().ok_or_else(none)?.put(tunnel)? {
            self.attached.insert(link, Attached { name: name.clone(), program: Program::Decrypted, deferred: false });
            self.programs.attach(Program::Decrypted, Interface { link, name: &name })?;
        }
        Ok(())
    }

    /// Removes the devices and peers of an earlier daemon that were not put again.
    pub(super) fn remove_stale_wireguard(&mut self) -> Result<(), Error> {
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
        counters
    }

    /// Makes the devices again that are gone, with all that leads to them. Until then packets of their paths are dropped.
    pub(super) fn repair_wireguard(&mut self) -> Result<Option<String>, Error> {
        let Some(wireguard) = &mut self.wireguard else { return Ok(None) };
        let lost = wireguard.find_lost()?;
        if lost.is_empty() {
            return Ok(None);
        }
        wireguard.forget(&lost)?;
        self.attached.retain(|link, _| !lost.iter().any(|(_, gone)| gone == link));
        let uses = |tunnel: &Tunnel| {
            let mut paths = tunnel.paths.iter().filter(|path| path.encap.wireguard().is_some());
            paths.any(|path| lost.iter().any(|(bid, _)| *bid == path.bid))
        };
        let tunnels = self.installed.values().flatten().map(|full| &full.tunnel).filter(|tunnel| uses(tunnel));
        for tunnel in tunnels.cloned().collect::<Vec<_>>() {
            self.change(&tunnel)?;
        }
        self.begin_epoch()?;
        let names: Vec<String> = lost.iter().map(|(bid, _)| format!("{DEVICE_PREFIX}{bid}")).collect();
        Ok(Some(format!("{} had been removed, by hand or with the module wireguard: made again", names.join(", "))))
    }

    /// Removes the peers of the tunnel that it has no more.
    pub(super) fn release_wireguard(&mut self, id: TunnelId, now: Option<&Tunnel>) -> Result<(), Error> {
        self.wireguard.as_mut().map_or(Ok(()), |wireguard| wireguard.release(id, now))
    }
}
