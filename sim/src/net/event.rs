//! Events of a world: what is scheduled, what a script does, and what can be observed.

use crate::net::shim_datapath::DatapathEvent;
use crate::net::{HostId, LinkSpec, MediumId, RadioSpec};
use core::time::Duration;
use roam6_proto::contract::item::TunnelId;
use roam6_proto::{Input, LinkId, Outcome, Report};
use roam6_wire::LinkAddress;
use std::net::Ipv6Addr;
use std::rc::Rc;

/// An entry of the event queue.
#[derive(Debug)]
pub(crate) enum Scheduled {
    /// A frame arrives at an interface.
    Arrive { host: HostId, link: LinkId, medium: MediumId, frame: Frame },
    /// The deadline of an engine.
    Wake { host: HostId },
    /// The outcome of an item that the engine of this instance has requested.
    Outcome { host: HostId, instance: u32, outcome: Outcome },
    /// An event of the data plane for the engine of this instance.
    Datapath { host: HostId, instance: u32, event: DatapathEvent },
    /// Address resolution has timed out.
    ResolutionTimeout { host: HostId, link: LinkId, address: Ipv6Addr },
    /// An event of a radio channel.
    Radio { medium: MediumId },
    /// A position fix is due.
    Fix { host: HostId, instance: u32 },
    /// The engine of this instance has created a virtual interface, or changed it.
    VirtualInterface { host: HostId, instance: u32, link: LinkId },
    /// The DHCP client of an interface has its result.
    Lease { host: HostId, link: LinkId },
    /// An event of the script.
    Event(Event),
}

/// A frame on a medium.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) sender: LinkAddress,
    /// `None` for all members.
    pub(crate) destination: Option<LinkAddress>,
    pub(crate) ethertype: u16,
    pub(crate) bytes: Rc<Vec<u8>>,
}

/// An event of the script: a fault, or an act of the operator or an attacker.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Attaches an interface to a medium, or detaches it.
    Attach(HostId, LinkId, Option<MediumId>),
    /// Moves an interface to another medium without loss of carrier, as a radio that roams.
    Roam(HostId, LinkId, MediumId),
    /// Carrier of a medium is gained or lost.
    Carrier(MediumId, bool),
    /// A medium begins or ceases to drop every frame.
    BlackHole(MediumId, bool),
    /// Changes the properties of a medium.
    SetLink(MediumId, LinkSpec),
    /// Changes the properties of a radio channel.
    SetRadio(MediumId, RadioSpec),
    /// Kills the engine; the kernel keeps its state.
    Kill(HostId),
    /// The host loses power.
    PowerOff(HostId),
    /// The host is powered on, and its engine started if it does not run.
    Start(HostId),
    /// The host's journal is lost.
    EraseJournal(HostId),
    /// Steps the host's wall clock by so many microseconds.
    StepClock(HostId, i64),
    /// An address of an interface is added or removed.
    SetAddress(HostId, LinkId, Ipv6Addr, bool),
    /// The network begins or ceases to drop packets from the one address to the other.
    BlockPath(Ipv6Addr, Ipv6Addr, bool),
    /// A NAT loses its mappings.
    ForgetMappings(HostId),
    /// The host renews the keys of its encrypted paths.
    RenewKeys(HostId),
    /// From now on so many items of a thousand are refused.
    RefuseItems(HostId, u16),
    /// Hands an input to the engine.
    Deliver(HostId, Input),
    /// Injects a packet into a medium.
    Inject(MediumId, Vec<u8>),
}

/// An observation during one event.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// An engine has sent a packet.
    Sent(HostId, Rc<Vec<u8>>),
    /// A packet was encapsulated towards this outer destination.
    Tunnelled(HostId, TunnelId, Ipv6Addr),
    /// An engine has handled an input.
    Handled(HostId),
    /// An engine was started.
    Started(HostId),
    /// An engine was killed.
    Killed(HostId),
    /// An engine has reported.
    Reported(HostId, Report),
    /// An engine is in an endless loop: it has input again and again while time does not advance.
    Looping(HostId),
    /// A wall clock was stepped, forwards or backwards.
    ClockStepped(Duration),
    /// A packet with this global source was sent by an observed interface.
    PacketLeft((HostId, LinkId), MediumId, Ipv6Addr),
    /// An interface has moved without notice to its host.
    Roamed(HostId, LinkId),
}
