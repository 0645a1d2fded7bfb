//! The networks of the experiment, and what is seen on the links that an observer reaches.

use crate::bed::ObservedFrame;
use crate::bed::Port;
use crate::experiments::prelude::*;
use crate::threads::Shared;
use crate::topology::nemo::{CORRESPONDENT, NemoNetwork, Vehicle};
use roam6_proto::contract::config::encryption::{MAX_WIREGUARD_DEVICES, WIREGUARD_PORT};
use roam6_wire::ip6::{Datagram, protocol};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// One-way delay to the home agent: a round trip of 20 ms.
pub(super) const DELAY: Duration = Duration::from_millis(10);

/// What was seen on the visited links and the links of their routers.
#[derive(Debug, Clone, Default)]
pub(super) struct Sightings {
    /// Packets in which an address of the mobile network or of its correspondent is readable.
    pub(super) plaintext: usize,
    /// Packets between the WireGuard devices, by sending port.
    pub(super) encrypted: BTreeMap<Port, usize>,
    /// IPv6 packets with a Mobility Header that mobile routers have sent.
    pub(super) updates: Vec<Vec<u8>>,
}

/// Updates that are kept.
const MAX_UPDATES: usize = 1000;

/// Networks whose visited links are observed from the start, and a vehicle that is not yet plugged in.
pub(super) struct Observed {
    pub(super) vehicle: Vehicle,
    pub(super) network: NemoNetwork,
    pub(super) sightings: Shared<Sightings>,
}

impl Observed {
    /// `more` is added to the configuration of the mobile router.
    pub(super) fn build(encrypted: bool, uplinks: &[&str], more: &str) -> Result<Observed> {
        let (agent, router) = if encrypted { ("encrypt = \"required\"", "encrypt = true\n") } else { ("", "") };
        let network = NemoNetwork::build(DELAY, 1, agent)?;
        let vehicle = network.vehicle_with(0, uplinks, &format!("{router}{more}"))?;
        let visited: Vec<_> = network.visited.iter().flat_map(|visited| [visited.link, visited.cable]).collect();
        let own = vehicle.uplinks.clone();
        let inner = [vehicle.mnn_address, CORRESPONDENT].map(|address| address.octets());
        let sightings = network.emulator.collect(move |seen: &mut Sightings, frame| {
            if visited.contains(&frame.segment) {
                seen.record(frame, &inner, own.contains(&frame.port));
            }
        });
        Ok(Observed { vehicle, network, sightings })
    }

    /// Plugs the uplinks into the access networks, and waits until the mobile network is reachable.
    pub(super) fn plug_all(&self) -> Result<()> {
        let mut since = 0;
        for (uplink, visited) in self.vehicle.uplinks.iter().zip(&self.network.visited) {
            since = self.network.emulator.plug(*uplink, visited.link)?;
        }
        self.vehicle.wait_registered(since, self.vehicle.uplinks.len())?;
        self.vehicle.wait_until_connected(CORRESPONDENT)
    }

    /// The mobile network node and its correspondent.
    pub(super) fn ends(&self) -> [Endpoint<'_>; 2] {
        [self.vehicle.node(), self.network.correspondent()]
    }

    /// Adds the readable packets of this network to the figure; encrypted ones must have been there.
    pub(super) fn count_plaintext(&self, run: &mut Run) {
        let seen = self.sightings.lock().clone();
        let before = run.summary.get("plaintext_packets").and_then(Value::as_u64).unwrap_or_default();
        run.summarise("plaintext_packets", before + seen.plaintext as u64);
        run.require(!seen.encrypted.is_empty(), || "no encrypted packet was captured".to_owned());
    }
}

impl Sightings {
    fn record(&mut self, frame: &ObservedFrame<'_>, inner: &[[u8; 16]], is_own: bool) {
        let Some(packet) = frame.packet() else { return };
        if inner.iter().any(|address| contains(packet, address)) {
            self.plaintext += 1;
        }
        let Ok(datagram) = Datagram::parse(packet) else { return };
        if datagram.protocol == protocol::UDP && is_to_device(datagram.payload) {
            *self.encrypted.entry(frame.port).or_default() += 1;
        }
        if is_own && datagram.protocol == protocol::MOBILITY && self.updates.len() < MAX_UPDATES {
            self.updates.push(packet.to_vec());
        }
    }
}

fn is_to_device(udp: &[u8]) -> bool {
    let port = udp.get(2..4).and_then(|port| port.try_into().ok()).map(u16::from_be_bytes);
    port.is_some_and(|port| (WIREGUARD_PORT..WIREGUARD_PORT + MAX_WIREGUARD_DEVICES).contains(&port))
}

fn contains(packet: &[u8], address: &[u8; 16]) -> bool {
    let [first, ..] = address;
    let mut places = packet.iter().enumerate().filter(|(_, octet)| *octet == first);
    places.any(|(at, _)| packet.get(at..).is_some_and(|rest| rest.starts_with(address)))
}

/// The value of a quick or of a full run.
pub(super) fn pick<T>(run: &Run, [quick, full]: [T; 2]) -> T {
    if run.quick { quick } else { full }
}

/// Milliseconds between two moments.
pub(super) fn millis(begin: u64, end: u64) -> f64 {
    (end as f64 - begin as f64) / 1000.0
}

/// Whether an address is of the second access network.
pub(super) fn is_second(address: Ipv6Addr) -> bool {
    crate::topology::nemo::is_of_access_network(1, address)
}
