//! Duplicate address detection for an address formed here, optimistic or not (RFC 4862 §5.4, RFC 4429 §3).

use crate::link::nd_messages;
use crate::{LinkId, Outbox, Time};
use core::time::Duration;
use std::net::Ipv6Addr;

/// RFC 4861 §10: RETRANS_TIMER; one solicitation is sent (RFC 4862 §5.1).
const RETRANS_TIMER: Duration = Duration::from_secs(1);

/// Duplicate address detection in progress.
#[derive(Debug, Clone)]
pub struct DadProbe {
    /// When the address counts as unique without an answer.
    pub ends_at: Time,
}

impl DadProbe {
    /// Sends the solicitation for `address` on `link`.
    pub fn start(now: Time, link: LinkId, address: Ipv6Addr, out: &mut Outbox) -> DadProbe {
        out.transmit(nd_messages::dad_solicitation(link, address));
        DadProbe { ends_at: now + RETRANS_TIMER }
    }
}
