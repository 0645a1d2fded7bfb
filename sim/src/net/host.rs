//! A host: interfaces, a kernel, clocks, a journal, and an engine that runs until it is killed.

use crate::net::clock::HostClock;
use crate::net::ipv4::nat::Nat44;
use crate::net::journal::Journal;
use crate::net::kernel::Kernel;
use crate::net::neighbours::Neighbours;
use crate::net::path_counters::PathCounters;
use crate::net::{MediumId, Track};
use core::fmt;
use roam6_proto::contract::input::TrafficCount;
use roam6_proto::geo::geometry::Offset;
use roam6_proto::{Engine, Input, Key, LinkEvent, LinkId, Outbox, Time, View};
use roam6_wire::LinkAddress;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

/// The loopback interface.
pub const LOOPBACK: LinkId = LinkId::LOOPBACK;
/// The interface on which decapsulated packets appear.
pub const TUNNELS: LinkId = LinkId(2);
/// The first number of an interface with a medium.
pub const FIRST_LINK: u32 = 3;
const MTU: u32 = 1500;

/// The engine of a host.
pub type BoxedEngine = Box<dyn Engine>;

/// An engine without behaviour.
struct IdleEngine;

impl Engine for IdleEngine {
    fn handle(&mut self, _: Time, _: &Input, _: &mut Outbox) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn view(&self, _: Time, _: &mut View) {}
}

/// A host.
pub struct Host {
    /// Its name in the log.
    pub name: String,
    /// Interfaces that can be attached to a medium.
    pub interfaces: BTreeMap<LinkId, Interface>,
    /// Forwarding state.
    pub kernel: Kernel,
    /// Neighbours on virtual links.
    pub neighbours: Neighbours,
    /// Its track; then its engine gets a position fix every second.
    pub track: Option<Track>,
    /// Forwards packets of others.
    pub forwards: bool,
    /// Source address validation: drops packets whose source has no route back by the interface (BCP 38).
    pub source_validation: bool,
    /// A NAT between one interface and the others.
    pub nat: Option<Nat44>,
    /// Has a DHCP client on every interface.
    pub dhcp_client: bool,
    /// The error of its clocks.
    pub clock: HostClock,
    /// The journal on its disk.
    pub journal: Journal,
    /// The traffic of the paths of its tunnels.
    pub path_counters: PathCounters,
    /// Items the kernel refuses, of a thousand.
    pub refused_per_mille: u16,
    /// Whether it has power.
    pub powered: bool,
    /// The engine receives the present addresses at its start.
    pub reports_addresses: bool,
    /// Creates the engine of the n-th instance.
    pub spawn: Box<dyn Fn(u32) -> BoxedEngine>,
    /// Renews the keys of encrypted paths, for all later instances too; what the engine is told, if it has keys.
    pub renew_keys: Box<dyn Fn() -> Option<Input>>,
    /// Instances started so far.
    pub instances: u32,
    /// The running engine, unless it was killed.
    pub instance: Option<Instance>,
}

/// An interface with a medium.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its link-layer address.
    pub address: LinkAddress,
    /// The medium to which it is attached.
    pub medium: Option<MediumId>,
    /// Its MTU, octets.
    pub mtu: u32,
    /// For a virtual interface of the engine: whether it exists.
    pub virtual_up: Option<bool>,
    /// What it has sent and received.
    pub traffic: (TrafficCount, TrafficCount),
}

/// Counts a packet of so many octets.
pub(crate) fn count_packet(traffic: &mut TrafficCount, octets: usize) {
    traffic.packets += 1;
    traffic.octets += u64::try_from(octets).unwrap_or_default();
}

/// A running engine, from its start until it is killed.
pub struct Instance {
    /// The engine.
    pub engine: BoxedEngine,
    /// When it was started.
    pub started: Time,
    /// Items without an outcome yet.
    pub unanswered: usize,
    /// When the last outcome arrives; outcomes keep their order.
    pub answered_by: Time,
    /// Every item recalled at the start has its outcome.
    pub begun: bool,
    /// Items of the previous instance were removed.
    pub stale_removed: bool,
    /// Items this instance has requested.
    pub claimed: BTreeSet<Key>,
    /// When it is to be woken.
    pub wake: Option<Time>,
    /// Inputs at the present moment, to detect an endless loop.
    pub busy: (Time, u32),
}

impl Host {
    /// A host without interfaces.
    pub fn new(name: &str, spawn: impl Fn(u32) -> BoxedEngine + 'static) -> Host {
        Host {
            name: name.to_owned(),
            interfaces: BTreeMap::new(),
            kernel: Kernel::default(),
            neighbours: Neighbours::default(),
            track: None,
            forwards: false,
            source_validation: false,
            nat: None,
            dhcp_client: false,
            clock: HostClock::default(),
            journal: Journal::default(),
            path_counters: PathCounters::default(),
            refused_per_mille: 0,
            powered: true,
            reports_addresses: false,
            spawn: Box::new(spawn),
            renew_keys: Box::new(|| None),
            instances: 0,
            instance: None,
        }
    }

    /// A host without engine, such as an end of traffic.
    pub fn idle(name: &str) -> Host {
        Host::new(name, |_| Box::new(IdleEngine))
    }

    /// A host without engine that forwards packets of others.
    pub fn router(name: &str) -> Host {
        Host { forwards: true, ..Host::idle(name) }
    }

    /// Adds an interface, numbered in order; its link-layer address is derived from `unit`, which is unique in the
    /// world.
    pub fn add_interface(&mut self, name: &str, unit: u16) -> LinkId {
        let [high, low] = unit.to_be_bytes();
        let number = u32::try_from(self.interfaces.len()).unwrap_or(0);
        let link = LinkId(FIRST_LINK + number);
        let address = LinkAddress([0x02, 0, 0, 0, high, low]);
        let (name, traffic) = (name.to_owned(), Default::default());
        self.interfaces.insert(link, Interface { name, address, medium: None, mtu: MTU, virtual_up: None, traffic });
        link
    }

    /// Reserves the number of a virtual interface, which the engine creates.
    pub fn add_virtual_interface(&mut self, name: &str) -> LinkId {
        let link = self.add_interface(name, 0);
        if let Some(interface) = self.interfaces.get_mut(&link) {
            interface.virtual_up = Some(false);
        }
        link
    }

    /// The link-layer address of an interface; zeros if there is no such interface.
    pub fn link_address(&self, link: LinkId) -> LinkAddress {
        self.interfaces.get(&link).map_or(LinkAddress([0; 6]), |interface| interface.address)
    }

    /// The link-local address of an interface (RFC 4862 §5.3).
    pub fn link_local(&self, link: LinkId) -> Ipv6Addr {
        self.link_address(link).link_local()
    }

    /// Whether the interface is a virtual one of the engine.
    pub fn is_virtual(&self, link: LinkId) -> bool {
        self.interfaces.get(&link).is_some_and(|interface| interface.virtual_up.is_some())
    }

    /// Its track; it is at the origin if it has none.
    pub fn track(&self) -> Track {
        self.track.clone().unwrap_or_else(|| Track::standing(Offset { east: 0.0, north: 0.0 }))
    }

    /// The time of the engine's monotonic clock at `now`.
    pub fn time(&self, now: Time) -> Time {
        match &self.instance {
            Some(instance) => self.clock.count(now.since(instance.started)),
            None => Time::ZERO,
        }
    }

    /// The view of the running engine; empty if none runs.
    pub fn view(&self, now: Time) -> View {
        let mut view = View::default();
        if let Some(instance) = &self.instance {
            instance.engine.view(self.time(now), &mut view);
        }
        view
    }

    /// The state of an interface as it is reported to the engine.
    pub fn link_event(&self, link: LinkId, up: bool) -> Option<LinkEvent> {
        let interface = self.interfaces.get(&link)?;
        Some(LinkEvent { link, name: interface.name.clone(), address: Some(interface.address), up, mtu: interface.mtu })
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host {{ {} }}", self.name)
    }
}
