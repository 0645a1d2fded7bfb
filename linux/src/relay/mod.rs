//! The sockets of the relay (docs/bonding.md): what [`roam6_proto::relay`] decides is done here, on one thread.
//!
//! Octets are moved by `recv` and `send` with one buffer for all connections. `splice` saves hardly any time between TCP and
//! MPTCP, needs four more descriptors a connection, and stops for ever at urgent data.
//!
//! Until a connection has ended in order, closing its sockets resets it (SO_LINGER 0), also when the process is killed: a
//! truncated transfer must not look like a complete one.

mod data_plane;
mod events;
mod link;
mod lost_subflows;
mod messages;
mod options;
mod pump;
mod routing;
mod rules;
mod service;
mod sockets;
mod state;

pub use options::{LOCK_FILE, RelayOptions, RelaySide, STATE_SOCKET};
pub use service::RelayService;
pub use state::{FlowState, RelayState};
