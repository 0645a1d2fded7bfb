//! What carries frames: a cable between two or a shared link of several, with faults one can turn up and down.

use crate::host::HostId;
use crate::ipv4::Site;
use crate::link::{LinkModel, LinkSpec};
use roam6_proto::{Entropy, LinkId, Time};
use std::collections::BTreeMap;

/// A medium of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MediumId(pub usize);

/// An interface of a host.
pub type Port = (HostId, LinkId);

/// A link layer and whoever is attached to it.
#[derive(Debug)]
pub struct Medium {
    /// Its name in the log.
    pub name: String,
    /// Carrier: seen by those attached.
    pub carrier: bool,
    /// The IPv4 addresses it gives.
    pub site: Option<Site>,
    /// Swallows everything although the carrier is there.
    pub black_hole: bool,
    spec: LinkSpec,
    members: BTreeMap<Port, LinkModel>,
}

impl Medium {
    /// A medium nobody is attached to.
    pub fn new(name: &str, spec: LinkSpec) -> Medium {
        Medium { name: name.to_owned(), carrier: true, site: None, black_hole: false, spec, members: BTreeMap::new() }
    }

    /// Attaches an interface; each has its own luck with what it receives.
    pub fn attach(&mut self, port: Port, chance: &mut Entropy) {
        self.members.insert(port, LinkModel::new(self.spec, chance.bits()));
    }

    /// Detaches an interface.
    pub fn detach(&mut self, port: Port) {
        self.members.remove(&port);
    }

    /// The interfaces attached.
    pub fn members(&self) -> impl Iterator<Item = Port> {
        self.members.keys().copied()
    }

    /// Carries as `spec` says from now on.
    pub fn set_spec(&mut self, spec: LinkSpec) {
        self.spec = spec;
        for model in self.members.values_mut() {
            model.set_spec(spec);
        }
    }

    /// When the copies of a frame of `size` octets reach `port`: none if it is lost.
    pub fn carry(&mut self, port: Port, now: Time, size: usize) -> impl Iterator<Item = Time> + use<> {
        let usable = self.carrier && !self.black_hole;
        let model = self.members.get_mut(&port).filter(|_| usable);
        model.map(|model| model.offer(now, size)).into_iter().flatten()
    }
}
