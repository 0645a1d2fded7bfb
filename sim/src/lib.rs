//! A network simulator: hosts, links and faults in virtual time, driving the engines that run on real machines.
//!
//! A world is a graph of hosts and media. Time jumps from event to event, all random choices follow from one seed, and
//! invariants are checked after each event. The same seed gives the same world to the last packet.
#![forbid(unsafe_code)]

pub mod access_router;
pub mod attacker;
pub mod binding_messages;
pub mod campus;
pub mod care_of_prefix;
pub mod clock;
pub mod datagram;
mod engine_host;
pub mod failover;
pub mod failure;
mod forwarding;
pub mod host;
pub mod invariants;
pub mod ipv4;
pub mod journal;
pub mod kernel;
pub mod link;
pub mod medium;
pub mod mptcp;
pub mod multihomed;
pub mod packet_summary;
pub mod radio;
pub mod run;
pub mod scenario;
pub mod shim_datapath;
pub mod topology;
pub mod track;
pub mod traffic;
pub mod vehicles;
pub mod world;

pub use host::{Host, HostId};
pub use link::{LinkModel, LinkSpec};
pub use medium::MediumId;
pub use radio::{Radio, RadioSpec};
pub use track::Track;
pub use world::{Event, Observation, World};
