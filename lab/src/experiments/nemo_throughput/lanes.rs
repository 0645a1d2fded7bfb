//! The measured combinations: forwarding, section of the path, and direction.

use crate::chain::Kind;
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
    pub(super) fn nothing(self) -> Section {
        if matches!(self, Section::NothingBare | Section::WholeBare) { Section::NothingBare } else { Section::Nothing }
    }
}

/// One combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane {
    pub(super) kind: Kind,
    pub(super) section: Section,
    pub(super) upward: bool,
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.upward { "up" } else { "down" };
        write!(f, "{:?}, {:?}, {way}", self.kind, self.section)
    }
}

pub(super) const fn lane(kind: Kind, section: Section, upward: bool) -> Lane {
    Lane { kind, section, upward }
}

pub(super) const LANES: [Lane; 24] = [
    lane(Kind::Plain, Section::Nothing, false),
    lane(Kind::Plain, Section::Whole, false),
    lane(Kind::Roam6, Section::Whole, false),
    lane(Kind::Segments, Section::Whole, false),
    lane(Kind::Ip6tnl, Section::Whole, false),
    lane(Kind::WireGuard, Section::Whole, false),
    lane(Kind::Ceiling, Section::Whole, false),
    lane(Kind::Xdp, Section::Whole, false),
    lane(Kind::Plain, Section::Whole, true),
    lane(Kind::Roam6, Section::Whole, true),
    lane(Kind::Ip6tnl, Section::Whole, true),
    lane(Kind::Xdp, Section::Whole, true),
    lane(Kind::Plain, Section::NothingBare, false),
    lane(Kind::Plain, Section::WholeBare, false),
    lane(Kind::Xdp, Section::WholeBare, false),
    lane(Kind::Ceiling, Section::WholeBare, false),
    lane(Kind::Plain, Section::Entry, false),
    lane(Kind::Roam6, Section::Entry, false),
    lane(Kind::Plain, Section::Exit, false),
    lane(Kind::Roam6, Section::Exit, false),
    lane(Kind::Plain, Section::Entry, true),
    lane(Kind::Roam6, Section::Entry, true),
    lane(Kind::Plain, Section::Exit, true),
    lane(Kind::Roam6, Section::Exit, true),
];
