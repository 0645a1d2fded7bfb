//! What is known of a host and its daemon: plain values.

use crate::config::Config;
use crate::control::NodeState;
use roam6_linux::probe::{Answer, Hairpin};
use roam6_linux::survey::{Address, BaseChain, ClockState, Interface, Neighbour, Route};
use roam6_proto::contract::view::{BindingRole, BindingState, BindingView, LinkState, LinkView};
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

/// The facts of one examination.
pub(crate) struct Facts {
    /// The configuration file.
    pub(crate) file: String,
    /// The configuration, or its problems: what and where, and the remedy.
    pub(crate) config: Result<Config, Vec<(String, String)>>,
    /// When the configuration file was changed last, seconds since 1970.
    pub(crate) file_changed_unix: Option<u64>,
    /// The state of the daemon, or why there is none.
    pub(crate) daemon: Result<NodeState, DaemonAbsence>,
    /// What the host has.
    pub(crate) host: HostFacts,
    /// What probes found; `None`: none were sent.
    pub(crate) probes: Option<Probes>,
}

/// Why the daemon's state is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DaemonAbsence {
    /// The error of its control socket.
    pub(crate) why: String,
    /// The caller may not use it.
    pub(crate) is_denied: bool,
    /// What systemd says of the service.
    pub(crate) service: Option<String>,
    /// The process that runs with this configuration, and does not answer yet.
    pub(crate) starting: Option<u32>,
    /// Processes of roam6 with another configuration, in this network namespace.
    pub(crate) others: Vec<u32>,
    /// The kernel has no IPv6.
    pub(crate) lacks_ipv6: bool,
}

/// What the host has.
#[derive(Default)]
pub(crate) struct HostFacts {
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) routes: Vec<Route>,
    /// On the ingress interfaces.
    pub(crate) neighbours: Vec<Neighbour>,
    pub(crate) chains: Vec<BaseChain>,
    /// `net.ipv6.conf.all.forwarding`.
    pub(crate) forwards: bool,
    pub(crate) radio_blocked: bool,
    pub(crate) has_ip6_tunnel: bool,
    /// Programs that manage the interface of this name.
    pub(crate) managers: Vec<(String, String)>,
    pub(crate) clock: Option<ClockState>,
    /// Free octets where the journal is, or why it cannot be written.
    pub(crate) state_space: Option<Result<u64, String>>,
}

/// What probes found.
#[derive(Default)]
pub(crate) struct Probes {
    /// Home agents, by uplinks: pings.
    pub(crate) echoes: Vec<(String, Ipv6Addr, Answer)>,
    /// Home agents, by uplinks: mobility headers.
    pub(crate) mobility: Vec<(String, Ipv6Addr, Answer)>,
    /// Uplinks whose network accepted a connection to an address that no host has, and the URL that it refers to.
    pub(crate) portals: Vec<(String, Option<String>)>,
    /// The home agent, through the tunnel.
    pub(crate) inner: Option<Answer>,
    /// The same with a packet of the tunnel's MTU, octets.
    pub(crate) inner_full: Option<(u32, Answer)>,
    /// What a packet through the tunnel with one hop was answered with, if the ping was not.
    pub(crate) inner_one_hop: Option<Answer>,
    /// An address beyond the home agent, from the mobile network.
    pub(crate) beyond: Option<(Ipv6Addr, Answer)>,
    /// Advertised resolvers, asked from the mobile network.
    pub(crate) resolvers: Vec<(Ipv6Addr, Answer)>,
    /// Where the router of a home agent sends packets for prefixes.
    pub(crate) hairpins: Vec<(Prefix, Hairpin)>,
    /// A mobility header of the home agent to its router.
    pub(crate) own_mobility: Option<Answer>,
}

impl HostFacts {
    pub(crate) fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// The interface with the name that resembles `name` most, if any does.
    pub(crate) fn similar_interface(&self, name: &str) -> Option<&str> {
        let names = self.interfaces.iter().map(|interface| interface.name.as_str());
        let near = names.min_by_key(|other| strsim::levenshtein(other, name))?;
        (strsim::levenshtein(near, name) <= 2).then_some(near)
    }

    /// The names of all interfaces but loopback and tunnels.
    pub(crate) fn names(&self) -> String {
        use roam6_linux::survey::InterfaceKind::{Loopback, Tunnel};
        let real = self.interfaces.iter().filter(|interface| !matches!(interface.kind, Loopback | Tunnel));
        real.map(|interface| interface.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// The rows of the mobile router.
pub(crate) fn own_bindings(state: &NodeState) -> impl Iterator<Item = &BindingView> {
    state.view.bindings.iter().filter(|binding| binding.role == BindingRole::MobileRouter)
}

/// Whether the mobile router is bound, or at home.
pub(crate) fn is_bound(state: &NodeState) -> bool {
    own_bindings(state).any(|binding| matches!(binding.state, BindingState::Bound | BindingState::Home))
}

/// Whether an uplink carries traffic, or would: registered, and no fault of its path is known.
pub(crate) fn carries(link: &LinkView) -> bool {
    use LinkState::{Degraded, Home, Ipv4, Ipv4BehindNat, Standby, Visited};
    matches!(link.state, Visited | Ipv4 | Ipv4BehindNat | Home | Degraded | Standby) && link.fault.is_none()
}
