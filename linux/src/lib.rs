//! Everything of roam6 that touches the Linux kernel.

mod apply;
mod backend;
#[cfg(feature = "bpf")]
mod bpf;
pub mod clock;
mod cpu_latency;
pub mod error;
pub mod firewall;
pub mod host;
mod io;
pub mod journal;
mod link_watch;
pub mod mptcp;
mod nesting;
mod netlink;
mod nft;
pub mod resident_text;
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
pub use host::{FdReady, Host, HostEvent, HostOptions, Interest};
