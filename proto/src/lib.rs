//! Messages to decisions: the protocol engines of roam6.
//!
//! An engine is handed packets, events and the time, and answers with effects ([`Output`]). It owns no socket, clock,
//! thread or source of randomness, so the daemon, the simulator, the tests and the fuzzers drive the same code.
#![forbid(unsafe_code)]

pub mod access;
pub mod agenda;
pub mod case;
pub mod crypto;
pub mod engine;
pub mod entropy;
pub mod facilities;
pub mod few;
pub mod geo;
pub mod input;
pub mod mnpp;
pub mod multipath;
pub mod nemo;
pub mod node;
pub mod output;
pub mod plan;
#[cfg(test)]
mod play;
pub mod report;
pub mod shim;
pub mod time;
pub mod view;

pub use agenda::Agenda;
pub use engine::{Engine, Outbox};
pub use entropy::Entropy;
pub use input::{
    Activity, AddressEvent, Clock, Fix, FlowEvent, Frame, Input, LinkEvent, LinkId, Order, Outcome, Packet,
};
pub use node::Node;
pub use output::{Output, Sample, Transmit, Via};
pub use plan::{Item, Key, Plan};
pub use report::{DropReason, Report};
pub use time::Time;
pub use view::View;
