//! Duplicate address detection of an address we formed, run beside its use or before it (RFC 4862 §5.4, RFC 4429 §3).

use crate::base::ids::LinkId;
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use crate::link::nd_messages;
use core::time::Duration;
use roam6_wire::LinkAddress;
use std::net::Ipv6Addr;

/// RFC 4861 §10: RETRANS_TIMER; one solicitation is sent (RFC 4862 §5.1).
const RETRANS_TIMER: Duration = Duration::from_secs(1);

/// A check that runs.
#[derive(Debug, Clone)]
pub struct DadProbe {
    /// When silence means that nobody else has the address.
    pub ends_at: Time,
}

impl DadProbe {
    /// Asks on `link` whether anybody has `address`.
    pub fn start(
        now: Time,
        (link, own): (LinkId, Option<LinkAddress>),
        address: Ipv6Addr,
        out: &mut Outbox,
    ) -> DadProbe {
        out.transmit(nd_messages::dad_solicitation(link, own, address));
        DadProbe { ends_at: now + RETRANS_TIMER }
    }
}
