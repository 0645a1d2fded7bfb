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

/// Forwardings by section and direction.
const MEASURED: [(Section, bool, &[Forwarding]); 9] = {
    use Forwarding::{Ip6tnl, Plain, Redirect, Roam6, Seg6, Udp4, Udp6, WireGuard, Xdp};
    [
        (Section::Nothing, false, &[Plain]),
        (Section::Whole, false, &[Plain, Roam6, Seg6, Ip6tnl, WireGuard, Redirect, Xdp, Udp4, Udp6]),
        (Section::Whole, true, &[Plain, Roam6, Ip6tnl, Xdp, Udp4, Udp6]),
        (Section::NothingBare, false, &[Plain]),
        (Section::WholeBare, false, &[Plain, Xdp, Redirect]),
        (Section::Entry, false, &[Plain, Roam6]),
        (Section::Exit, false, &[Plain, Roam6]),
        (Section::Entry, true, &[Plain, Roam6]),
        (Section::Exit, true, &[Plain, Roam6]),
    ]
};

/// All combinations, in the order in which they are measured.
pub(super) fn lanes() -> Vec<PacketLane> {
    let section = |(section, upward, kinds): (Section, bool, &'static [Forwarding])| {
        kinds.iter().map(move |kind| lane(*kind, section, upward))
    };
    MEASURED.into_iter().flat_map(section).collect()
}
