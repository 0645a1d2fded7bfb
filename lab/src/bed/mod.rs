//! The testbed: hosts, emulated links between them, and the programs that run on them.

pub(crate) mod access_router;
pub(crate) mod capture;
mod congestion;
pub(crate) mod daemon;
pub(crate) mod dissector;
pub(crate) mod gpsd;
pub(crate) mod host;
pub(crate) mod link_emulator;
pub(crate) mod sandbox;
pub(crate) mod tap;

pub(crate) use daemon::{Daemon, Events, anonymous_memory_of, binary};
pub(crate) use host::{Host, Process, cpu_time_of, relay_of, run_command};
pub(crate) use link_emulator::{LinkEmulator, ObservedFrame, Port, Positions, Segment};
