//! A medium: a cable between two interfaces or a shared link of several, with faults.

use crate::net::ipv4::Ipv4Site;
use crate::net::radio_channel::RadioChannel;
use crate::net::{LinkModel, LinkSpec, Port, RadioSpec, Track, datagram};
use roam6_proto::{Entropy, Time};
use std::collections::BTreeMap;

/// A medium and its members.
#[derive(Debug)]
pub struct Medium {
    /// Its name in the log.
    pub name: String,
    /// Carrier, which the members see.
    pub carrier: bool,
    /// Its IPv4 addressing.
    pub ipv4_site: Option<Ipv4Site>,
    /// Drops every frame although carrier is present.
    pub black_hole: bool,
    /// Drops packets of these protocols, behind options and routing headers of IPv6; 44 are fragments.
    pub dropped: Vec<u8>,
    spec: LinkSpec,
    members: BTreeMap<Port, LinkModel>,
    /// Its radio channel, if it is one.
    pub(crate) channel: Option<RadioChannel>,
}

impl Medium {
    /// A medium without members.
    pub fn new(name: &str, spec: LinkSpec) -> Medium {
        Medium {
            name: name.to_owned(),
            carrier: true,
            ipv4_site: None,
            black_hole: false,
            dropped: Vec::new(),
            spec,
            members: BTreeMap::new(),
            channel: None,
        }
    }

    /// A radio channel without members.
    pub fn radio(name: &str, spec: RadioSpec, seed: u64) -> Medium {
        Medium { channel: Some(RadioChannel::new(spec, seed)), ..Medium::new(name, LinkSpec::default()) }
    }

    /// Attaches an interface, with impairments of its own; on a radio channel it moves along `track`.
    pub fn attach(&mut self, port: Port, track: &Track, entropy: &mut Entropy) {
        if let Some(channel) = &mut self.channel {
            channel.attach(port, track.clone());
        }
        self.members.insert(port, LinkModel::new(self.spec, entropy.next_u64()));
    }

    /// Detaches an interface.
    pub fn detach(&mut self, port: Port) {
        self.members.remove(&port);
        if let Some(channel) = &mut self.channel {
            channel.detach(port);
        }
    }

    /// The attached interfaces.
    pub fn members(&self) -> impl Iterator<Item = Port> {
        self.members.keys().copied()
    }

    /// Changes the impairments.
    pub fn set_spec(&mut self, spec: LinkSpec) {
        self.spec = spec;
        for model in self.members.values_mut() {
            model.set_spec(spec);
        }
    }

    /// Whether a firewall in the network drops a packet.
    pub fn filters_out(&self, packet: &[u8]) -> bool {
        let protocol = || datagram::upper_layer(packet).map(|(protocol, _)| protocol);
        !self.dropped.is_empty() && protocol().is_some_and(|protocol| self.dropped.contains(&protocol))
    }

    /// Arrivals of the copies of a frame of `size` octets at `port`; none if it is lost.
    pub fn deliver(&mut self, port: Port, now: Time, size: usize) -> impl Iterator<Item = Time> + use<> {
        let usable = self.carrier && !self.black_hole;
        let model = self.members.get_mut(&port).filter(|_| usable);
        model.map(|model| model.offer(now, size)).into_iter().flatten()
    }
}
