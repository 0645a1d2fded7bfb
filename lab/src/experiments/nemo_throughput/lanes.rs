//! The measured combinations: forwarding, section of the path, and direction.

use crate::topology::chain::Forwarding;
use std::fmt;

/// The measured section of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    /// The generator alone: its frames are dropped at once.
    Nothing,
    /// The encapsulating router.
    Entry,
    /// The decapsulating router.
    Exit,
    /// Both routers.
    Whole,
    /// As `Nothing`, with a receiver at the driver: no socket buffers.
    NothingBare,
    /// As `Whole`, with a receiver at the driver.
    WholeBare,
}

impl Section {
    /// The generator alone with the same receiver.
    pub(super) fn generator_only(self) -> Section {
        if matches!(self, Section::NothingBare | Section::WholeBare) { Section::NothingBare } else { Section::Nothing }
    }
}

/// One combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PacketLane {
    pub(super) forwarding: Forwarding,
    pub(super) section: Section,
    pub(super) upward: bool,
}

impl fmt::Display for PacketLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.upward { "up" } else { "down" };
        write!(f, "{:?}, {:?}, {way}", self.forwarding, self.section)
    }
}

pub(super) const fn lane(kind: Forwarding, section: Section, upward: bool) -> PacketLane {
    PacketLane { forwarding: kind, section, upward }
}

pub(super) const LANES: [PacketLane; 24] = [
    lane(Forwarding::Plain, Section::Nothing, false),
    lane(Forwarding::Plain, Section::Whole, false),
    lane(Forwarding::Roam6, Section::Whole, false),
    lane(Forwarding::Seg6, Section::Whole, false),
    lane(Forwarding::Ip6tnl, Section::Whole, false),
    lane(Forwarding::WireGuard, Section::Whole, false),
    lane(Forwarding::Redirect, Section::Whole, false),
    lane(Forwarding::Xdp, Section::Whole, false),
    lane(Forwarding::Plain, Section::Whole, true),
    lane(Forwarding::Roam6, Section::Whole, true),
    lane(Forwarding::Ip6tnl, Section::Whole, true),
    lane(Forwarding::Xdp, Section::Whole, true),
    lane(Forwarding::Plain, Section::NothingBare, false),
    lane(Forwarding::Plain, Section::WholeBare, false),
    lane(Forwarding::Xdp, Section::WholeBare, false),
    lane(Forwarding::Redirect, Section::WholeBare, false),
    lane(Forwarding::Plain, Section::Entry, false),
    lane(Forwarding::Roam6, Section::Entry, false),
    lane(Forwarding::Plain, Section::Exit, false),
    lane(Forwarding::Roam6, Section::Exit, false),
    lane(Forwarding::Plain, Section::Entry, true),
    lane(Forwarding::Roam6, Section::Entry, true),
    lane(Forwarding::Plain, Section::Exit, true),
    lane(Forwarding::Roam6, Section::Exit, true),
];
