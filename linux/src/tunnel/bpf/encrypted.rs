//! Encrypted paths of tunnels: their devices, and what must not go on in the clear.

use super::attach::{Interface, Program};
use super::maps::Maps;
use super::{Attached, Bpf, abi};
use crate::error::Error;
use roam6_proto::contract::item::{Tunnel, TunnelId};

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

    /// Removes the peers of the tunnel that it has no more.
    pub(super) fn release_wireguard(&mut self, id: TunnelId, now: Option<&Tunnel>) -> Result<(), Error> {
        self.wireguard.as_mut().map_or(Ok(()), |wireguard| wireguard.release(id, now))
    }
}
