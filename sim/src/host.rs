//! A host of the world: interfaces, a kernel, clocks, a journal, and an engine that lives until it is killed.

use crate::clock::HostClock;
use crate::ipv4::nat::Nat;
use crate::journal::Journal;
use crate::kernel::Kernel;
use crate::medium::MediumId;
use core::fmt;
use roam6_proto::{Engine, Key, LinkEvent, LinkId, Time, View};
use roam6_wire::LinkAddress;
use std::collections::{BTreeMap, BTreeSet};

/// A host of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub usize);

/// The interface that is the host itself.
pub const LOOPBACK: LinkId = LinkId::LOOPBACK;
/// The interface on which decapsulated packets appear.
pub const TUNNELS: LinkId = LinkId(2);
/// The first number of an interface with a medium.
pub const FIRST_LINK: u32 = 3;
const MTU: u32 = 1500;

/// The mind of a host.
pub type Brain = Box<dyn Engine>;

/// A host.
pub struct Host {
    /// Its name in the log.
    pub name: String,
    /// Interfaces with a medium.
    pub interfaces: BTreeMap<LinkId, Interface>,
    /// Forwarding state.
    pub kernel: Kernel,
    /// Passes on packets that are not its own.
    pub forwards: bool,
    /// Drops what comes from where an answer would not be sent (BCP 38).
    pub strict: bool,
    /// Translates between the network of one interface and all else.
    pub nat: Option<Nat>,
    /// Has a DHCP client on every interface.
    pub leases: bool,
    /// How wrong its clocks go.
    pub clock: HostClock,
    /// What it keeps on disk.
    pub journal: Journal,
    /// `Put`s the kernel refuses, of a thousand.
    pub refusals: u16,
    /// Switched on at all; an unpowered host is silent.
    pub powered: bool,
    /// The engine hears of addresses that stand when it begins.
    pub tells_addresses: bool,
    /// Makes the engine of its n-th life.
    pub birth: Box<dyn Fn(u32) -> Brain>,
    /// How many lives it has had.
    pub lives: u32,
    /// The engine at work, unless it was killed.
    pub life: Option<Life>,
}

/// An interface with a medium.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its link-layer address.
    pub address: LinkAddress,
    /// What it is plugged into.
    pub medium: Option<MediumId>,
}

/// One life of an engine, from its start until it is killed.
pub struct Life {
    /// The engine.
    pub brain: Brain,
    /// When it began.
    pub born: Time,
    /// `Put`s that wait for their outcome.
    pub unanswered: usize,
    /// When the last outcome under way arrives; outcomes keep their order.
    pub answered_by: Time,
    /// All of its recalled past stands again.
    pub begun: bool,
    /// What the last life left has gone.
    pub settled: bool,
    /// Items this life has asked for.
    pub claimed: BTreeSet<Key>,
    /// When it is to be woken.
    pub wake: Option<Time>,
    /// How often it was asked at one moment: a loop that goes nowhere shows here.
    pub busy: (Time, u32),
}

impl Host {
    /// A host without interfaces that is never asked anything.
    pub fn new(name: &str, birth: impl Fn(u32) -> Brain + 'static) -> Host {
        Host {
            name: name.to_owned(),
            interfaces: BTreeMap::new(),
            kernel: Kernel::default(),
            forwards: false,
            strict: false,
            nat: None,
            leases: false,
            clock: HostClock::default(),
            journal: Journal::default(),
            refusals: 0,
            powered: true,
            tells_addresses: false,
            birth: Box::new(birth),
            lives: 0,
            life: None,
        }
    }

    /// Adds an interface, numbered in order; its link-layer address is made of `unit`, unique in the world.
    pub fn add_interface(&mut self, name: &str, unit: u16) -> LinkId {
        let [high, low] = unit.to_be_bytes();
        let number = u32::try_from(self.interfaces.len()).unwrap_or(0);
        let link = LinkId(FIRST_LINK + number);
        let address = LinkAddress([0x02, 0, 0, 0, high, low]);
        self.interfaces.insert(link, Interface { name: name.to_owned(), address, medium: None });
        link
    }

    /// What the engine's clock shows at `now`.
    pub fn time(&self, now: Time) -> Time {
        match &self.life {
            Some(life) => self.clock.count(now.since(life.born)),
            None => Time::ZERO,
        }
    }

    /// What an operator would see at `now`; nothing of a dead engine.
    pub fn view(&self, now: Time) -> View {
        let mut view = View::default();
        if let Some(life) = &self.life {
            life.brain.view(self.time(now), &mut view);
        }
        view
    }

    /// The state of an interface as the engine is told.
    pub fn link_event(&self, link: LinkId, up: bool) -> Option<LinkEvent> {
        let interface = self.interfaces.get(&link)?;
        Some(LinkEvent { link, name: interface.name.clone(), address: Some(interface.address), up, mtu: MTU })
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host {{ {} }}", self.name)
    }
}
