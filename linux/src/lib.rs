//! Everything of roam6 that touches the Linux kernel.

mod backend;
#[cfg(feature = "bpf")]
mod bpf;
mod link_watch;
pub mod clock;
mod cpu_latency;
mod io;
pub mod error;
pub mod firewall;
pub mod host;
pub mod journal;
pub mod resident_text;
pub mod mptcp;
mod nft;
mod netlink;
mod apply;
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
pub use host::{Host, HostOptions, Interest, FdReady, HostEvent};
