//! Flow bindings and their traffic selectors: the five-tuple subset of RFC 6088 and RFC 6089.

use roam6_wire::{Bid, Prefix};
use serde::{Deserialize, Serialize};

/// Binds a flow to an uplink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowRule {
    /// Flow identifier, not 0 (RFC 6089 §4.2).
    pub id: u16,
    /// Priority: lower is matched first; unique, not 0.
    pub priority: u16,
    /// The packets of the flow.
    pub selector: FlowSelector,
    /// Binding identifier of the path.
    pub bid: Bid,
}

/// A traffic selector (RFC 6088 §3.2), as seen from the correspondent: the source is the correspondent, the destination is
/// in the mobile network.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowSelector {
    /// Correspondent's prefix; `None` for any.
    pub source: Option<Prefix>,
    /// Prefix in the mobile network; `None` for any.
    pub destination: Option<Prefix>,
    /// Upper-layer protocol number; `None` for any.
    pub protocol: Option<u8>,
    /// Correspondent's ports, first and last; `None` for any.
    pub source_ports: Option<(u16, u16)>,
    /// Ports in the mobile network, first and last; `None` for any.
    pub destination_ports: Option<(u16, u16)>,
}
