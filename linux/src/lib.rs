//! Everything of roam6 that touches the Linux kernel.

mod apply;
mod backend;
#[cfg(feature = "bpf")]
mod bpf;
#[cfg(feature = "dcc")]
mod channel_meter;
pub mod clock;
pub mod error;
#[cfg(feature = "bpf")]
pub mod esp;
pub mod firewall;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod host;
mod io;
pub mod journal;
mod link_watch;
pub mod mptcp;
mod nesting;
mod netlink;
mod nft;
mod options;
pub mod probe;
#[cfg(feature = "relay")]
pub mod relay;
#[cfg(feature = "bpf")]
mod shim;
#[cfg(not(feature = "bpf"))]
#[path = "shim/absent.rs"]
mod shim;
#[cfg(feature = "geo-security")]
pub mod signature;
mod state_file;
pub mod survey;
mod sys;
pub mod tuning;
pub mod tunnel;
#[cfg(feature = "bpf")]
pub mod wireguard;

pub use error::Error;
pub use host::{FdReady, Host, HostEvent, Interest};
pub use options::{Backend, HostOptions};
