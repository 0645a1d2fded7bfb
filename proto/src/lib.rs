//! Messages to decisions: the protocol engines of roam6.
//!
//! An engine is handed packets, events and the time, and answers with effects ([`Output`]). It owns no socket, clock,
//! thread or source of randomness, so the daemon, the simulator, the tests and the fuzzers drive the same code.
#![forbid(unsafe_code)]

pub mod base;
pub mod case;
pub mod contract;
pub mod crypto;
pub mod facilities;
#[cfg(test)]
mod fuzz_inputs;
pub mod geo;
pub mod link;
pub mod mptcp;
pub mod nemo;
pub mod node;
pub mod relay;
pub mod role;
pub mod shim;

pub use base::ids::{AddressPair, ContextId, LinkId};
pub use base::rng::Entropy;
pub use base::time::Time;
pub use base::timers::TimerQueue;
pub use base::token_bucket::TokenBucket;
pub use base::vec_map::VecMap;
pub use base::vec_set::VecSet;
pub use contract::command::Command;
pub use contract::desired_state::DesiredState;
pub use contract::engine::{Engine, Outbox};
pub use contract::input::{
    Activity, AddressEvent, Clock, Fix, FlowEvent, Frame, Input, LinkEvent, LinkTraffic, Outcome, Packet, PathTraffic,
};
pub use contract::item::{Item, Key, Plan};
pub use contract::output::{ActivityQuery, Output, PathTrafficQuery, Put, Transmit, Via};
pub use contract::report::{DropReason, Report};
pub use contract::view::View;
pub use node::Node;
