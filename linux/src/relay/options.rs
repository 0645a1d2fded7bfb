//! Settings of a relay process.

use roam6_proto::contract::config::flow::FlowRule;
use roam6_proto::contract::item::subflow::subflow_prefix;
use roam6_wire::Prefix;
use std::net::Ipv6Addr;
use std::path::PathBuf;

/// The file, in the directory of the daemon, that is locked while a relay process runs; it contains its number.
pub const LOCK_FILE: &str = "relay.pid";
/// The Unix socket there at which the process reports its state.
pub const STATE_SOCKET: &str = "relay.sock";

/// Settings of a relay process.
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// The directory of the daemon: its BPF objects are pinned there, and the socket of this process is in it.
    pub run_dir: PathBuf,
    /// The end of the bearers at which it is.
    pub side: RelaySide,
    /// Connections are accepted before the other relay has connected.
    pub early: bool,
}

/// The end of the bearers at which a relay is.
#[derive(Debug, Clone)]
pub enum RelaySide {
    /// A mobile router.
    MobileRouter {
        /// Its home address, from which it opens bearers.
        home_address: Ipv6Addr,
        /// Its home agents, in order of preference.
        home_agents: Vec<Ipv6Addr>,
        /// The prefixes of the mobile network.
        prefixes: Vec<Prefix>,
        /// All flow rules, in their order.
        flows: Vec<FlowRule>,
        /// Bearers leave by encrypted paths only.
        encrypted: bool,
    },
    /// A home agent.
    HomeAgent {
        /// Its address.
        address: Ipv6Addr,
    },
}

impl RelayOptions {
    /// The Unix socket at which the process reports its state.
    pub fn state_socket(&self) -> PathBuf {
        self.run_dir.join(STATE_SOCKET)
    }

    /// The sources of packets that leave by encrypted paths only: those of bearers and their subflows.
    pub(super) fn encrypted_sources(&self) -> Vec<Prefix> {
        match self.side {
            RelaySide::MobileRouter { home_address, encrypted: true, .. } => {
                vec![Prefix::host(home_address), subflow_prefix(home_address)]
            }
            RelaySide::MobileRouter { .. } | RelaySide::HomeAgent { .. } => Vec::new(),
        }
    }
}
