//! The parts of the daemon's state, as `roam6 show` and the requests of the control socket name them.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Parts of the daemon's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Home addresses with their care-of addresses
    Bindings,
    /// Invitations that are used up; shown by `roam6 invitations`
    #[value(skip)]
    Invitations,
    /// Interfaces in use
    Links,
    /// Tunnels and their paths
    Tunnels,
    /// MPTCP endpoints: the addresses that connections may use
    Endpoints,
    /// MPTCP connections and their subflows; works without a daemon
    Subflows,
    /// Encrypted paths: public keys or security associations, their ages and use; works without a daemon
    #[cfg(feature = "bpf")]
    Keys,
    /// TCP connections that are relayed over all uplinks, with the uplinks, round trips and octets of each
    #[cfg(feature = "relay")]
    Flows,
    /// Prefixes advertised into the mobile network, with their uplinks
    Prefixes,
    /// CGA and HBA addresses that the daemon has configured
    Addresses,
    /// Shim6 contexts
    Contexts,
    /// GeoNetworking location table
    Stations,
    /// Position of this station
    Position,
    /// Destination areas of IPv6 addresses; shown by `roam6 geo area show`
    #[value(skip)]
    Areas,
    /// Multicast groups on virtual links; shown by `roam6 geo groups`
    #[value(skip)]
    Groups,
    /// Channels of GeoNetworking radios, with their congestion control (DCC)
    #[cfg(feature = "dcc")]
    Channels,
    /// Mobile networks of neighbouring routers, reached directly (MNPP)
    Networks,
    /// Local dynamic map: stations and events; GeoJSON with --json
    Ldm,
    /// Services announced by this station and others, and routes to the Internet
    Services,
    /// Members of the fleet, and their states
    #[cfg(feature = "fleet")]
    Fleet,
    /// Pending timers
    Timers,
    /// Event and packet counters
    Counters,
}

impl Part {
    /// Whether a home agent has a row for each binding, or counts them: such a part is collected in pieces.
    pub(crate) fn is_paged(self) -> bool {
        matches!(self, Part::Bindings | Part::Tunnels | Part::Counters)
    }
}
