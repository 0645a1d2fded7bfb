//! What an upper layer may choose for its packets (EN 302 636-4-1 annex J).

use core::time::Duration;
use roam6_wire::geo::TrafficClass;
use serde::{Deserialize, Serialize};

/// With what a packet is sent (annex J: traffic class, maximum lifetime, maximum hop limit); `None`: with the default of its
/// kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PacketParameters {
    /// The identifier of the traffic class, 0 to 63.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<u8>,
    /// SCF: whether it is buffered while no suitable neighbour exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_carry_forward: Option<bool>,
    /// The lifetime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Duration>,
    /// The hop limit.
    #[serde(default)]
    pub hops: Option<u8>,
}

impl PacketParameters {
    /// The traffic class; `default` for what is not set.
    pub fn traffic_class(&self, default: TrafficClass) -> TrafficClass {
        let store = self.store_carry_forward.unwrap_or(default.store_carry_forward());
        TrafficClass::new(self.class.unwrap_or(default.id()), store)
    }
}
