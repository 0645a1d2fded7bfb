//! What a client and the daemon say to one another over the control socket: one line asks, lines of JSON answer.
//! docs/control.md tells it to those who write clients.

use roam6_linux::mptcp::diag::Connections;
use roam6_proto::View;
use roam6_proto::base::few;
use roam6_proto::base::ids::Pair;
use roam6_proto::contract::config::facilities::DenmOrder;
use roam6_proto::contract::config::geo::{GeoDestination, Question};
use roam6_proto::contract::report::Report;
use roam6_wire::HomeAddress;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

/// Longest request, octets.
pub(crate) const MAX_REQUEST: usize = 4096;
/// Longest answer a client reads, octets.
pub(crate) const MAX_ANSWER: u64 = 1 << 30;

/// The control socket in a run directory.
pub(crate) fn socket_path(run_dir: &Path) -> PathBuf {
    run_dir.join("control.sock")
}

/// What a client may ask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// The state of the node, once.
    View,
    /// The state, a line for each part, and then every event as it happens.
    Watch,
    /// The kernel's MPTCP connections.
    Subflows,
    /// Ends the binding of a home address.
    Unbind(HomeAddress),
    /// Sends by this path of the shim: of one context, or of all that have it.
    UsePath {
        /// The ULIDs.
        context: Option<Pair>,
        /// Only for packets of sockets with this mark, not 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mark: Option<u32>,
        /// The locators.
        path: Pair,
    },
    /// Ends a context of the shim.
    EndContext(Pair),
    /// Asks a GeoNetworking station, or all in an area; the answers are events.
    Ask(Box<Question>),
    /// Sends packets for an IPv6 address to an area.
    PutArea(GeoDestination),
    /// No longer.
    DropArea(Ipv6Addr),
    /// Tells other stations of an event.
    Denm(Box<DenmOrder>),
}

/// What the daemon answers, but to [`Request::Watch`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The state of the node.
    State(Box<State>),
    /// The kernel's MPTCP connections.
    Subflows(Box<Connections>),
    /// Done.
    Done,
    /// Not done, and why.
    Error(String),
}

/// The state of the node.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// What the node calls itself.
    pub(crate) name: String,
    /// Version of the daemon.
    pub(crate) version: String,
    /// Microseconds since 1970-01-01T00:00Z.
    pub(crate) unix_micros: u64,
    /// Microseconds since the daemon began.
    pub(crate) at: u64,
    /// Packets by what became of them in the data plane.
    pub(crate) packets: few::Map<String, u64>,
    /// The firewall that tunnelled packets meet, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) firewall: Option<Firewall>,
    /// Everything else.
    #[serde(flatten)]
    pub(crate) view: View,
}

/// A firewall on the path of tunnelled packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Firewall {
    /// Where it hooks in: `nftables FAMILY TABLE CHAIN`, or `ip6tables -t TABLE`.
    pub(crate) chains: Vec<String>,
    /// Whether tunnelled packets pass its hooks; else the fast path takes them past it.
    pub(crate) obeyed: bool,
}

/// One line of [`Request::Watch`]; `event` tells which kind.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Line<'a> {
    /// Microseconds since 1970-01-01T00:00Z.
    pub(crate) unix_micros: u64,
    /// Microseconds since the daemon began.
    pub(crate) at: u64,
    /// The name of the interface whose number an event has as `link`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) link_name: Option<&'a str>,
    /// What happened, or is so.
    #[serde(flatten)]
    pub(crate) what: What<'a>,
}

/// What a line of [`Request::Watch`] tells.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum What<'a> {
    /// Something happened.
    Event(&'a Report),
    /// Something was so when the client began to watch.
    State(Part<'a>),
}

/// One part of the state.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event")]
pub(crate) enum Part<'a> {
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

impl State {
    /// The state as lines of the event stream.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let bindings = self.view.bindings.iter().map(Part::Binding);
        let links = self.view.links.iter().map(Part::Link);
        let tunnels = self.view.tunnels.iter().map(Part::Tunnel);
        let endpoints = self.view.endpoints.iter().map(Part::Endpoint);
        let prefixes = self.view.prefixes.iter().map(Part::Prefix);
        let addresses = self.view.addresses.iter().map(Part::Address);
        let contexts = self.view.contexts.iter().map(Part::Context);
        let parts =
            bindings.chain(links).chain(tunnels).chain(endpoints).chain(prefixes).chain(addresses).chain(contexts);
        parts.map(|part| Line { unix_micros: self.unix_micros, at: self.at, link_name: None, what: What::State(part) })
    }
}
