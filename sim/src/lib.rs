//! A network simulator: hosts, links and faults in virtual time, driving the engines that run on real machines.
//!
//! A world is a graph of hosts and media. Time jumps from event to event, all random choices follow from one seed, and
//! invariants are checked after each event. The same seed gives the same world to the last packet.
#![forbid(unsafe_code)]

pub mod campus;
pub mod failure;
mod kinds;
pub mod literal;
pub mod mptcp;
pub mod multihomed;
pub mod nemo;
pub mod net;
pub mod run;
pub mod vehicles;

pub use net::{
    ChannelAccess, Event, Host, HostId, LinkModel, LinkSpec, MediumId, Observation, Radio, RadioSpec, Track, World,
};
