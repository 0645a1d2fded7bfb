//! The testbed: hosts, emulated links between them, and the programs that run on them.

pub(crate) mod air;
pub(crate) mod cage;
pub(crate) mod capture;
pub(crate) mod daemon;
pub(crate) mod fabric;
pub(crate) mod gps;
pub(crate) mod host;
pub(crate) mod router;
pub(crate) mod tap;

pub(crate) use air::{Air, Port, Segment, Whereabouts};
pub(crate) use daemon::{Daemon, Events, Usage};
pub(crate) use gps::Gps;
pub(crate) use host::Host;
pub(crate) use router::{Advertiser, Delegator};
