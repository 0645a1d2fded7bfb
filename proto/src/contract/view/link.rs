//! State of interfaces.

use super::state::{FaultKind, LinkRole, LinkState};
use core::time::Duration;
use roam6_wire::Bid;
use serde::Serialize;
use std::net::Ipv6Addr;

/// One interface in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkView {
    /// Its name.
    pub name: String,
    /// Its use.
    pub role: LinkRole,
    /// Up and with carrier.
    pub up: bool,
    /// MTU, octets.
    pub mtu: u32,
    /// Default router, if any.
    pub router: Option<Ipv6Addr>,
    /// Addresses that the node configured on it.
    pub addresses: Vec<Ipv6Addr>,
    /// Binding identifier of its path, if it is an uplink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bid: Option<Bid>,
    /// Its state.
    pub state: LinkState,
    /// Age of the last change of its state, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Duration>,
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
    /// The quality of the path to the home agent, where it is probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<QualityView>,
    /// Its traffic, if it is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageView>,
    /// What packets to the home agent are encapsulated in, where it may change: `native` or `udp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// What is in its way: other programs of this host, or the network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
}

crate::read_fields!(LinkView {
    name,
    role,
    up,
    mtu,
    router,
    addresses,
    bid,
    state,
    changed,
    fault,
    fault_status,
    last_error,
    error_age as "since",
    quality,
    usage,
    transport,
    hints = Vec::new(),
});

/// The quality of a path, from the last probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct QualityView {
    /// Round-trip time, smoothed (SRTT of RFC 6298).
    pub rtt: Duration,
    /// Variation of the round-trip time (RTTVAR of RFC 6298).
    pub jitter: Duration,
    /// Lost probes, thousandths.
    pub loss_permille: u16,
    /// Number of probes that the loss is computed of.
    pub samples: u32,
    /// Time since the path was last found to be degraded, or to be good again.
    pub changed: Duration,
    /// A path that was left is good again: the time until it is used as before, if it stays so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Duration>,
}

crate::read_fields!(QualityView { rtt, jitter, loss_permille, samples, changed, held });

/// The traffic of an uplink, octets of its link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct UsageView {
    /// Sent in the present period of its data plan.
    pub tx: u64,
    /// Received in the present period.
    pub rx: u64,
    /// Begin of the period, seconds since 1970-01-01T00:00Z; 0 while the time is unknown.
    pub since_unix: u64,
    /// Cap of the period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<u64>,
    /// Whether the cap is reached.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub exhausted: bool,
    /// Sent since it was first counted.
    pub total_tx: u64,
    /// Received since it was first counted.
    pub total_rx: u64,
}

crate::read_fields!(UsageView { tx, rx, since_unix, cap, exhausted = false, total_tx, total_rx });
