//! State of the home agent and of the mobile router.

use super::link::QualityView;
use super::state::{BindingRole, BindingState, FaultKind, PathState, PrefixRole, PrefixState};
use core::time::Duration;
use roam6_wire::{Bid, HomeAddress, Ipv4Endpoint, Prefix, Sequence};
use serde::Serialize;
use std::net::Ipv6Addr;

/// One binding: a home address and one of its care-of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BindingView {
    /// The role it belongs to.
    pub role: BindingRole,
    /// Home address.
    pub home_address: HomeAddress,
    /// Name of the mobile router in the prefix table, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Binding identifier, 0 for none.
    pub bid: Bid,
    /// Care-of address; `None` at home. An IPv4 care-of address is IPv4-mapped.
    pub care_of: Option<Ipv6Addr>,
    /// UDP port of an IPv4 care-of address as seen by the home agent; `None` without UDP encapsulation (RFC 5555 §4.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_port: Option<u16>,
    /// The home agent.
    pub home_agent: Ipv6Addr,
    /// Mobile network prefixes.
    pub prefixes: Vec<Prefix>,
    /// Last sequence number.
    pub sequence: Sequence,
    /// Remaining lifetime.
    pub remaining: Duration,
    /// Its state.
    pub state: BindingState,
    /// Time since the care-of address was registered, or the path to it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Duration>,
    /// Prefixes rejected by the home agent; not among `prefixes`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused_prefixes: Vec<Prefix>,
    /// What the present fault is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultKind>,
    /// The status of the acknowledgements, where updates are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault_status: Option<u8>,
    /// Description of the present fault; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Age of the present fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "since")]
    pub error_age: Option<Duration>,
    /// Fingerprint of the key in force, if it was exchanged: the same at both ends, unless somebody between them has taken part
    /// in the exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

crate::read_fields!(BindingView {
    role,
    home_address,
    name,
    bid,
    care_of,
    udp_port,
    home_agent,
    prefixes,
    sequence,
    remaining,
    state,
    changed,
    refused_prefixes = Vec::new(),
    fault,
    fault_status,
    last_error,
    error_age as "since",
    key,
});

impl BindingView {
    /// With this care-of address.
    pub fn with_care_of(self, care_of: Option<Ipv6Addr>) -> BindingView {
        match care_of.and_then(Ipv4Endpoint::from_ipv6) {
            Some(Ipv4Endpoint { address, port }) => {
                let udp_port = Some(port).filter(|port| *port != 0);
                BindingView { care_of: Some(address.to_ipv6_mapped()), udp_port, ..self }
            }
            None => BindingView { care_of, udp_port: None, ..self },
        }
    }
}

/// An invitation that is used up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InvitationView {
    /// Its identifier.
    pub id: String,
    /// The mobile router.
    pub home_address: HomeAddress,
    /// When its key was first used, seconds since 1970-01-01T00:00Z.
    pub used_unix: u64,
    /// From which address.
    pub used_by: Ipv6Addr,
    /// Whether its key was exchanged; else that is under way.
    pub exchanged: bool,
}

crate::read_fields!(InvitationView { id, home_address, used_unix, used_by, exchanged });

/// One path of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TunnelView {
    /// The tunnel identifier.
    pub tunnel: u32,
    /// Binding identifier.
    pub bid: Bid,
    /// Local outer address.
    pub local: Ipv6Addr,
    /// Remote outer address.
    pub remote: Ipv6Addr,
    /// Tunnel MTU, octets.
    pub mtu: u32,
    /// Weight in the distribution of flows.
    pub weight: u16,
    /// Prefixes of the remote side.
    pub far: Vec<Prefix>,
    /// Its state.
    pub state: PathState,
    /// Age of the last change of its state, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Duration>,
    /// The uplink that it crosses, at the mobile router.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Its quality, where it is probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<QualityView>,
    /// What its uplink carries, if that is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficView>,
}

crate::read_fields!(TunnelView {
    tunnel,
    bid,
    local,
    remote,
    mtu,
    weight,
    far,
    state,
    changed,
    link,
    quality,
    traffic,
});

/// Octets of the link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TrafficView {
    /// Sent since they were first counted.
    pub tx: u64,
    /// Received since they were first counted.
    pub rx: u64,
}

crate::read_fields!(TrafficView { tx, rx });

/// One prefix advertised on one ingress interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrefixView {
    /// The prefix, as advertised.
    pub prefix: Prefix,
    /// The ingress interface.
    pub ingress: String,
    /// Its origin.
    pub role: PrefixRole,
    /// The uplink of its packets; `None` for the tunnel.
    pub uplink: Option<String>,
    /// The delegated prefix that it is part of.
    #[serde(rename = "of")]
    pub part_of: Option<Prefix>,
    /// Remaining valid lifetime; `None` if infinite.
    pub valid: Option<Duration>,
    /// Its state.
    pub state: PrefixState,
}

crate::read_fields!(PrefixView { prefix, ingress, role, uplink, part_of as "of", valid, state });
