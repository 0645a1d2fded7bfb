//! Counters of the relay.

use roam6_wire::relay::Answer;
use serde::{Deserialize, Serialize};

/// What has happened since the relay started.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Connections that were relayed, open ones included.
    pub relayed: u64,
    /// Connections of which one end was reset, or a relay.
    pub reset: u64,
    /// SYNs that were refused as their destination refused them.
    pub refused_by_destination: u64,
    /// Connections left to the tunnel for want of a bearer.
    pub left_alone: u64,
    /// Bearers refused because they do not come from a home address with a binding.
    pub refused_no_binding: u64,
    /// Requests whose source is not of the binding.
    pub refused_source: u64,
    /// Requests whose destination is this host, a link, a group, or the network that asks.
    pub refused_destination: u64,
    /// Bearers and requests beyond a limit.
    pub refused_limit: u64,
    /// Messages that are none.
    pub malformed: u64,
}

/// Why a request, or a bearer, is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// See [`Counters::refused_no_binding`].
    NoBinding,
    /// See [`Counters::refused_source`].
    Source,
    /// See [`Counters::refused_destination`].
    Destination,
    /// See [`Counters::refused_limit`].
    Limit,
}

impl Refused {
    /// What the other relay is answered.
    pub fn answer(self) -> Answer {
        match self {
            Refused::Limit => Answer::ResourceExceeded,
            Refused::NoBinding | Refused::Source | Refused::Destination => Answer::NotAuthorized,
        }
    }
}

impl Counters {
    /// Counts a refusal.
    pub(super) fn refuse(&mut self, why: Refused) {
        *match why {
            Refused::NoBinding => &mut self.refused_no_binding,
            Refused::Source => &mut self.refused_source,
            Refused::Destination => &mut self.refused_destination,
            Refused::Limit => &mut self.refused_limit,
        } += 1;
    }
}
