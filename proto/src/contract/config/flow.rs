//! Flow bindings and their traffic selectors: the subset of RFC 6088 and RFC 6089 with five-tuples and DSCP.

use roam6_wire::{Bid, Prefix};
use serde::{Deserialize, Serialize};

/// The binding identifier of a rule for all uplinks at once, which no binding has (RFC 5648 §4.1): the relay carries the TCP
/// connections that it selects. The home agent is told by the relay, as RFC 6089 means copies where it names several.
pub const ALL_UPLINKS: Bid = Bid(0);

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
    /// Ingress interface by which packets of the flow enter; `None` for any. It is not sent to the home agent, which is
    /// asked for the prefix of the interface instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<String>,
    /// Binding identifier of the path; 0 for the best one, where packets are replicated, else for
    /// all of them ([`FlowRule::is_bonded`]).
    pub bid: Bid,
    /// Packets are sent by two paths, if the home agent eliminates the second copies; `None`: by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication: Option<Replication>,
}

impl FlowRule {
    /// Whether the flow uses all uplinks at once.
    #[must_use]
    pub fn is_bonded(&self) -> bool {
        self.bid == ALL_UPLINKS && self.replication.is_none()
    }

    /// Whether it names the path with this binding identifier.
    #[must_use]
    pub fn names(&self, bid: Bid) -> bool {
        self.bid == bid || self.replication.is_some_and(|replication| replication.second == Some(bid))
    }
}

/// Packet replication over two paths (RFC 8655 §3.2.2.2).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replication {
    /// Binding identifier of the second path; `None` for the best other one that carries packets without a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<Bid>,
}

/// A traffic selector (RFC 6088 §3.1, §3.2), as seen from the correspondent: the source is the correspondent, the destination is
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
    /// Differentiated services code point, 0 to 63 (RFC 2474 §3); `None` for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
}

/// Whether some of these rules have TCP connections use all uplinks at once.
pub fn has_bonding(flows: &[FlowRule]) -> bool {
    flows.iter().any(FlowRule::is_bonded)
}

impl FlowSelector {
    /// The selector of the packets in the opposite direction.
    pub fn reversed(&self) -> FlowSelector {
        FlowSelector {
            source: self.destination,
            destination: self.source,
            protocol: self.protocol,
            source_ports: self.destination_ports,
            destination_ports: self.source_ports,
            dscp: self.dscp,
        }
    }
}
