//! The kernel's MPTCP endpoints and limits. The kernel does not say whose an endpoint is, so ours are written down,
//! with the limits as we found them: a later life removes what an earlier one left, and nothing of anybody else's.

mod buffers;
pub mod diag;
pub(crate) mod events;
pub mod force;
mod netlink;
pub mod status;

pub use buffers::MIN_RECEIVE_BUFFER;

use crate::error::{Context, Error};
use buffers::Buffers;
use netlink::{KernelEndpoint, PathManager};
use roam6_proto::base::few;
use roam6_proto::contract::item::{MptcpEndpoint, MptcpEndpointFlags, MptcpLimits};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

/// What of MPTCP is ours. The kernel is not asked before there is any.
pub(crate) struct Mptcp {
    file: PathBuf,
    saved: SavedState,
    endpoints: few::VecMap<Ipv6Addr, MptcpEndpoint>,
    limits: Option<MptcpLimits>,
    manager: Option<PathManager>,
    /// What an earlier life left stays, because removing it would close the subflows of connections that live.
    adopting: bool,
}

/// What a later life must know.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedState {
    /// The limits before us.
    former_limits: Option<MptcpLimits>,
    /// The receive buffers before us.
    #[serde(default)]
    former_buffers: Option<Buffers>,
    /// Endpoints that are ours, or were about to be.
    endpoints: few::VecSet<Ipv6Addr>,
}

impl Mptcp {
    /// Reads what an earlier life wrote down.
    pub(crate) fn open(run_dir: &Path) -> Result<Mptcp, Error> {
        let file = run_dir.join("mptcp.json");
        let written = match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| Error::new(file.display(), error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => SavedState::default(),
            Err(error) => return Err(error).context(file.display()),
        };
        let adopting = !written.endpoints.is_empty();
        Ok(Mptcp { file, saved: written, endpoints: few::VecMap::new(), limits: None, manager: None, adopting })
    }

    /// Makes an address an endpoint, or changes what it is for. Refused if it is another program's already.
    pub(crate) fn put(&mut self, endpoint: &MptcpEndpoint) -> Result<(), Error> {
        let address = endpoint.address;
        let there = self.find(address)?;
        if there.is_some() && !self.saved.endpoints.contains(&address) {
            return Err(Error::new(format!("MPTCP endpoint {address}"), "another program has made it one"));
        }
        self.save(|written| {
            written.endpoints.insert(address);
        })?;
        let put = self.apply_endpoint(endpoint, there);
        if put.is_ok() {
            self.endpoints.insert(address, *endpoint);
        } else if there.is_none() {
            self.save(|written| {
                written.endpoints.remove(&address);
            })?;
        }
        put
    }

    /// Makes an address an endpoint no longer. Fine if it is none, or another program's.
    pub(crate) fn drop(&mut self, address: Ipv6Addr) -> Result<(), Error> {
        self.endpoints.remove(&address);
        if !self.saved.endpoints.contains(&address) {
            return Ok(());
        }
        if let Some(there) = self.find(address)? {
            self.manager()?.delete(&there)?;
        }
        self.save(|written| {
            written.endpoints.remove(&address);
        })
    }

    /// Sets the limits, and makes room for what they allow.
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

    /// Gives the limits their former values back, and the buffers.
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

    /// Whether something of an earlier life is kept until this one has had time to put it again.
    pub(crate) fn is_adopting(&self) -> bool {
        self.adopting
    }

    /// From now on what this life has not put again goes.
    pub(crate) fn end_adoption(&mut self) {
        self.adopting = false;
    }

    /// Removes what an earlier life has left and this one has not put again, while adopting only that which is on no
    /// interface any more; and puts again what others removed or changed. Returns how many differences there were.
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

    /// Makes the kernel hold an endpoint of ours in place of what is there. What can be changed is changed: to remove
    /// an endpoint closes its subflows.
    fn apply_endpoint(&mut self, endpoint: &MptcpEndpoint, there: Option<KernelEndpoint>) -> Result<(), Error> {
        let manager = self.manager()?;
        match there {
            None => {
                manager.add(endpoint)?;
                // A twin too many does no harm but for its place; not every kernel can end it.
                let _ = diag::close_replaced_subflows(endpoint.address);
                if !endpoint.flags.backup {
                    return Ok(());
                }
                // Connections that began at this address before do not hear of it, only of changes (RFC 8684 §3.3.8).
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

    /// Changes what is written down, on disk too.
    fn save(&mut self, change: impl FnOnce(&mut SavedState)) -> Result<(), Error> {
        let mut written = self.saved.clone();
        change(&mut written);
        if written == self.saved {
            return Ok(());
        }
        let what = self.file.display();
        if written == SavedState::default() {
            fs::remove_file(&self.file).context(what)?;
        } else {
            let text = serde_json::to_vec(&written).map_err(|error| Error::new(&what, error))?;
            let new = self.file.with_extension("new");
            fs::write(&new, text).and_then(|()| fs::rename(&new, &self.file)).context(what)?;
        }
        self.saved = written;
        Ok(())
    }
}

fn alike_but_for_backup(one: &MptcpEndpoint, other: &MptcpEndpoint) -> bool {
    let plain = |endpoint: &MptcpEndpoint| (endpoint.link, endpoint.flags.signal, endpoint.flags.subflow);
    plain(one) == plain(other)
}
