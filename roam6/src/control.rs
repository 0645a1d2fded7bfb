//! The protocol of the control socket: a request is one line of JSON, and so is each response (docs/control.md).

use roam6_linux::mptcp::diag::Connections;
use roam6_proto::View;
use roam6_proto::base::few;
use roam6_proto::base::ids::AddressPair;
use roam6_proto::contract::config::facilities::DenmRequest;
use roam6_proto::contract::config::geo::{EchoRequest, GeoDestination};
use roam6_proto::contract::report::Report;
use roam6_wire::HomeAddress;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

/// Largest request, octets.
pub(crate) const MAX_REQUEST: usize = 4096;
/// Largest response that a client reads, octets.
pub(crate) const MAX_ANSWER: u64 = 1 << 30;

/// The control socket in a run directory.
pub(crate) fn socket_path(run_dir: &Path) -> PathBuf {
    run_dir.join("control.sock")
}

/// A client's request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// The state of the node, once.
    View,
    /// The state, one line for each row, and then every event as it happens.
    Watch,
    /// The kernel's MPTCP connections.
    Subflows,
    /// Ends the binding of a home address.
    Unbind(HomeAddress),
    /// Switches one Shim6 context, or all that have it, to this locator pair.
    UsePath {
        /// The ULIDs.
        context: Option<AddressPair>,
        /// Only for packets of sockets with this mark (SO_MARK), not 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mark: Option<u32>,
        /// The locator pair.
        path: AddressPair,
    },
    /// Removes a Shim6 context.
    EndContext(AddressPair),
    /// Sends an echo request to a GeoNetworking station, or to all in an area; the replies are events.
    Ask(Box<EchoRequest>),
    /// Maps an IPv6 address to a destination area.
    PutArea(GeoDestination),
    /// Removes the mapping of an IPv6 address.
    DropArea(Ipv6Addr),
    /// Sends, updates or cancels an event notification.
    Denm(Box<DenmRequest>),
}

/// The daemon's response to all requests but [`Request::Watch`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Response {
    /// The state of the node.
    State(Box<NodeState>),
    /// The kernel's MPTCP connections.
    Subflows(Box<Connections>),
    /// The request was executed.
    Done,
    /// The request failed, with the reason.
    Error(String),
}

/// The state of the node.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeState {
    /// Name of the node.
    pub(crate) name: String,
    /// Version of the daemon.
    pub(crate) version: String,
    /// Microseconds since 1970-01-01T00:00Z.
    pub(crate) unix_micros: u64,
    /// Microseconds since the daemon started.
    pub(crate) at: u64,
    /// Packets by their fate in the data plane.
    pub(crate) packets: few::VecMap<String, u64>,
    /// The firewall on the path of tunnelled packets, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) firewall: Option<Firewall>,
    /// The state of the roles.
    #[serde(flatten)]
    pub(crate) view: View,
}

/// A firewall on the path of tunnelled packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Firewall {
    /// Its chains: `nftables FAMILY TABLE CHAIN`, or `ip6tables -t TABLE`.
    pub(crate) chains: Vec<String>,
    /// Whether tunnelled packets traverse its hooks; otherwise the fast path bypasses them.
    pub(crate) obeyed: bool,
}

/// One line of [`Request::Watch`]; `event` names its kind.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WatchLine<'a> {
    /// Microseconds since 1970-01-01T00:00Z.
    pub(crate) unix_micros: u64,
    /// Microseconds since the daemon started.
    pub(crate) at: u64,
    /// Name of the interface whose index is the event's `link`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) link_name: Option<&'a str>,
    /// The event or the row.
    #[serde(flatten)]
    pub(crate) what: WatchContent<'a>,
}

/// Content of a line of [`Request::Watch`].
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum WatchContent<'a> {
    /// An event.
    Event(&'a Report),
    /// A row of the state at the beginning of the stream.
    State(StateRow<'a>),
}

/// One row of the state.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event")]
pub(crate) enum StateRow<'a> {
    #[serde(rename = "state_binding")]
    Binding(&'a roam6_proto::contract::view::BindingView),
    #[serde(rename = "state_link")]
    Link(&'a roam6_proto::contract::view::LinkView),
    #[serde(rename = "state_tunnel")]
    Tunnel(&'a roam6_proto::contract::view::TunnelView),
    #[serde(rename = "state_endpoint")]
    Endpoint(&'a roam6_proto::contract::view::EndpointView),
    #[serde(rename = "state_prefix")]
    Prefix(&'a roam6_proto::contract::view::PrefixView),
    #[serde(rename = "state_address")]
    Address(&'a roam6_proto::contract::view::AddressView),
    #[serde(rename = "state_context")]
    Context(&'a roam6_proto::contract::view::ContextView),
}

impl NodeState {
    /// The rows of the state, as lines of the event stream.
    pub(crate) fn watch_lines(&self) -> impl Iterator<Item = WatchLine<'_>> {
        let bindings = self.view.bindings.iter().map(StateRow::Binding);
        let links = self.view.links.iter().map(StateRow::Link);
        let tunnels = self.view.tunnels.iter().map(StateRow::Tunnel);
        let endpoints = self.view.endpoints.iter().map(StateRow::Endpoint);
        let prefixes = self.view.prefixes.iter().map(StateRow::Prefix);
        let addresses = self.view.addresses.iter().map(StateRow::Address);
        let contexts = self.view.contexts.iter().map(StateRow::Context);
        let parts =
            bindings.chain(links).chain(tunnels).chain(endpoints).chain(prefixes).chain(addresses).chain(contexts);
        parts.map(|part| WatchLine {
            unix_micros: self.unix_micros,
            at: self.at,
            link_name: None,
            what: WatchContent::State(part),
        })
    }
}
