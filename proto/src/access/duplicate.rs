//! Duplicate address detection of an address we formed, run beside its use or before it (RFC 4862 §5.4, RFC 4429 §3).

use crate::access::neighbour;
use crate::base::ids::LinkId;
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use core::time::Duration;
use roam6_wire::LinkAddress;
use std::net::Ipv6Addr;

/// RFC 4861 §10: RETRANS_TIMER; one solicitation is sent (RFC 4862 §5.1).
const WAIT: Duration = Duration::from_secs(1);

/// A check that runs.
#[derive(Debug, Clone)]
pub struct DuplicateCheck {
    /// When silence means that nobody else has the address.
    pub until: Time,
}

impl DuplicateCheck {
    /// Asks on `link` whether anybody has `address`.
    pub fn begin(
        now: Time,
        (link, own): (LinkId, Option<LinkAddress>),
        address: Ipv6Addr,
        out: &mut Outbox,
    ) -> DuplicateCheck {
        out.transmit(neighbour::anonymous_solicitation(link, own, address));
        DuplicateCheck { until: now + WAIT }
    }
}
