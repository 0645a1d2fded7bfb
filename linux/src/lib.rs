//! Everything of roam6 that touches the Linux kernel.

mod backend;
#[cfg(feature = "bpf")]
mod bpf;
mod carrier;
pub mod clock;
mod cores;
mod door;
pub mod error;
pub mod firewall;
pub mod host;
pub mod journal;
pub mod memory;
pub mod mptcp;
mod netfilter;
mod netlink;
mod plan;
pub mod search;
#[cfg(feature = "bpf")]
mod shim;
#[cfg(not(feature = "bpf"))]
#[path = "shim/absent.rs"]
mod shim;
mod sys;
pub mod tunnel;

pub use backend::Backend;
pub use error::Error;
pub use host::{Host, HostOptions, Interest, Ready, Wake};
