//! The testbed: hosts, the air between them, and the programs that run on them.

pub mod air;
pub mod cage;
pub mod capture;
pub mod daemon;
pub mod host;
pub mod router;

pub use air::{Air, Port, Segment};
pub use daemon::{Daemon, Events};
pub use host::Host;
pub use router::Advertiser;
