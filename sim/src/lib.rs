//! A network simulator: hosts, links and faults in virtual time, driving the engines that run on real machines.
//!
//! A world is a graph of hosts and media. Time jumps from event to event, all random choices follow from one seed, and
//! invariants are checked after each event. The same seed gives the same world to the last packet.
#![forbid(unsafe_code)]

pub mod attacker;
pub mod campus;
pub mod care_of;
pub mod check;
pub mod clock;
pub mod datagram;
pub mod failover;
pub mod failure;
pub mod host;
pub mod ipv4;
pub mod journal;
pub mod kernel;
pub mod link;
mod living;
pub mod map;
pub mod medium;
pub mod multihomed;
mod passage;
pub mod paths;
pub mod plane;
pub mod play;
pub mod radio;
pub mod remark;
pub mod router;
pub mod scenario;
pub mod signal;
pub mod talker;
pub mod track;
pub mod vehicles;
pub mod world;

pub use host::{Host, HostId};
pub use link::{LinkModel, LinkSpec};
pub use medium::MediumId;
pub use radio::{Radio, RadioSpec};
pub use track::Track;
pub use world::{Fact, Happening, World};
