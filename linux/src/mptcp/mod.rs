//! The kernel's MPTCP endpoints and limits. The kernel does not record the owner of an endpoint, so the daemon stores
//! which are its own, with the former limits: a later daemon removes what an earlier one has left, and nothing of other
//! programs.

mod buffers;
pub mod diag;
pub(crate) mod events;
mod netlink;
pub mod status;

pub use buffers::MIN_RECEIVE_BUFFER;

use crate::error::Error;
use crate::state_file;
use buffers::Buffers;
use netlink::{KernelEndpoint, PathManager};
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::item::{MptcpEndpoint, MptcpEndpointFlags, MptcpLimits};
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

/// The endpoints and limits of roam6. The kernel's path manager is opened when it is first needed.
pub(crate) struct Mptcp {
    file: PathBuf,
    saved: SavedState,
    endpoints: VecMap<Ipv6Addr, MptcpEndpoint>,
    limits: Option<MptcpLimits>,
    manager: Option<PathManager>,
    /// This daemon's subflows are encrypted.
    encrypts: bool,
    /// The endpoints of an earlier daemon are kept until this one has had time to put them again: removing an endpoint
    /// closes the subflows of live connections. Later, reconciliation removes those that this daemon has not put.
    pub(crate) adopting: bool,
}

/// What a later daemon needs.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedState {
    /// The former limits.
    former_limits: Option<MptcpLimits>,
    /// The former receive buffers.
    #[serde(default)]
    former_buffers: Option<Buffers>,
    /// Endpoints of roam6, or about to be.
    endpoints: VecSet<Ipv6Addr>,
    /// There are some, and their subflows are encrypted.
    #[serde(default)]
    encrypted: bool,
}

impl Mptcp {
    /// Reads what an earlier daemon has stored. If that did not encrypt and this one does, the endpoints are removed at once: their
    /// subflows are in the clear.
    ///
    /// # Errors
    /// The file cannot be read; or the kernel's.
    pub(crate) fn open(run_dir: &Path, encrypts: bool) -> Result<Mptcp, Error> {
        let file = run_dir.join("mptcp.json");
        let saved: SavedState = state_file::read(&file)?;
        let (endpoints, limits, manager) = (VecMap::new(), None, None);
        let mut mptcp = Mptcp { file, saved, endpoints, limits, manager, encrypts, adopting: false };
        if encrypts && !mptcp.saved.encrypted {
            mptcp.remove_former()?;
        }
        mptcp.adopting = !mptcp.saved.endpoints.is_empty();
        Ok(mptcp)
    }

    /// Removes the endpoints of an earlier daemon.
    fn remove_former(&mut self) -> Result<(), Error> {
        for address in self.saved.endpoints.iter().copied().collect::<Vec<_>>() {
            if let Some(there) = self.find(address)? {
                self.manager()?.delete(&there)?;
            }
        }
        self.save(|written| written.endpoints = VecSet::new())
    }

    /// Adds or changes an endpoint.
    ///
    /// # Errors
    /// The kernel's; or the endpoint is another program's.
    pub(crate) fn put(&mut self, endpoint: &MptcpEndpoint) -> Result<(), Error> {
        let address = endpoint.address;
        let there = self.find(address)?;
        if there.is_some() && !self.saved.endpoints.contains(&address) {
            return Err(Error::new(format!("MPTCP endpoint {address}"), "another program has configured it"));
        }
        self.save(|written| written.endpoints.insert(address))?;
        let put = self.apply_endpoint(endpoint, there);
        if put.is_ok() {
            self.endpoints.insert(address, *endpoint);
        } else if there.is_none() {
            self.save(|written| written.endpoints.remove(&address))?;
        }
        put
    }

    /// Removes an endpoint, if there is one of roam6.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn drop(&mut self, address: Ipv6Addr) -> Result<(), Error> {
        self.endpoints.remove(&address);
        if !self.saved.endpoints.contains(&address) {
            return Ok(());
        }
        if let Some(there) = self.find(address)? {
            self.manager()?.delete(&there)?;
        }
        self.save(|written| written.endpoints.remove(&address))
    }

    /// Sets the limits, and enlarges the receive buffers for them.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn put_limits(&mut self, limits: MptcpLimits) -> Result<(), Error> {
        let now = self.manager()?.limits()?;
        let buffers = Buffers::read()?;
        self.save(|written| {
            written.former_limits.get_or_insert(now);
            written.former_buffers.get_or_insert(buffers);
        })?;
        if now != limits {
            self.manager()?.set_limits(limits)?;
        }
        self.limits = Some(limits);
        if buffers.enlarged() == buffers { Ok(()) } else { buffers.enlarged().write() }
    }

    /// Restores the limits and the receive buffers.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn drop_limits(&mut self) -> Result<(), Error> {
        self.limits = None;
        if let Some(former) = self.saved.former_buffers {
            former.write()?;
            self.save(|written| written.former_buffers = None)?;
        }
        let Some(former) = self.saved.former_limits else { return Ok(()) };
        self.manager()?.set_limits(former)?;
        self.save(|written| written.former_limits = None)
    }

    /// Removes the endpoints that an earlier daemon has left and this one has not put; during adoption only those whose
    /// address is on no interface any more. Installs again what others removed or changed. Returns the number of
    /// differences.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn reconcile(&mut self, is_assigned: impl Fn(Ipv6Addr) -> bool) -> Result<usize, Error> {
        let mut differences = 0;
        let left = self.saved.endpoints.iter().filter(|address| !self.endpoints.contains_key(address));
        let left = left.filter(|address| !self.adopting || !is_assigned(**address));
        for address in left.copied().collect::<Vec<_>>() {
            self.drop(address)?;
            differences += 1;
        }
        if let Some(limits) = self.limits {
            if self.manager()?.limits()? != limits {
                self.manager()?.set_limits(limits)?;
                differences += 1;
            }
        } else if self.saved.former_limits.is_some() && !self.adopting {
            self.drop_limits()?;
            differences += 1;
        }
        for endpoint in self.endpoints.values().copied().collect::<Vec<_>>() {
            let there = self.find(endpoint.address)?;
            if there.is_none_or(|there| there.more_flags || there.endpoint != endpoint) {
                self.apply_endpoint(&endpoint, there)?;
                differences += 1;
            }
        }
        Ok(differences)
    }

    /// Installs an endpoint in place of the present one. Flags are changed in place, because removing an endpoint
    /// closes its subflows.
    fn apply_endpoint(&mut self, endpoint: &MptcpEndpoint, there: Option<KernelEndpoint>) -> Result<(), Error> {
        let manager = self.manager()?;
        match there {
            None => {
                manager.add(endpoint)?;
                // A duplicate subflow only takes an address identifier; not every kernel can close it.
                let _ = diag::close_replaced_subflows(endpoint.address);
                if !endpoint.flags.backup {
                    return Ok(());
                }
                // Existing connections from this address do not notice a backup endpoint, only a change of it (RFC 8684
                // §3.3.8).
                let there = manager.endpoints()?.into_iter().find(|shown| shown.endpoint.address == endpoint.address);
                there.map_or(Ok(()), |there| {
                    manager.set_flags(&there, MptcpEndpointFlags { backup: false, ..endpoint.flags })?;
                    manager.set_flags(&there, endpoint.flags)
                })
            }
            Some(there) if !there.more_flags && alike_but_for_backup(&there.endpoint, endpoint) => {
                if there.endpoint.flags.backup == endpoint.flags.backup {
                    return Ok(());
                }
                manager.set_flags(&there, endpoint.flags)
            }
            Some(there) => {
                manager.delete(&there)?;
                manager.add(endpoint)
            }
        }
    }

    fn find(&mut self, address: Ipv6Addr) -> Result<Option<KernelEndpoint>, Error> {
        Ok(self.manager()?.endpoints()?.into_iter().find(|shown| shown.endpoint.address == address))
    }

    fn manager(&mut self) -> Result<&mut PathManager, Error> {
        match &mut self.manager {
            Some(manager) => Ok(manager),
            none => Ok(none.insert(PathManager::open()?)),
        }
    }

    /// Changes the stored state, on disk too.
    fn save<R>(&mut self, change: impl FnOnce(&mut SavedState) -> R) -> Result<(), Error> {
        let mut written = self.saved.clone();
        change(&mut written);
        written.encrypted = self.encrypts && !written.endpoints.is_empty();
        if written == self.saved {
            return Ok(());
        }
        state_file::write(&self.file, &written)?;
        self.saved = written;
        Ok(())
    }
}

fn alike_but_for_backup(one: &MptcpEndpoint, other: &MptcpEndpoint) -> bool {
    let plain = |endpoint: &MptcpEndpoint| (endpoint.link, endpoint.flags.signal, endpoint.flags.subflow);
    plain(one) == plain(other)
}
