//! Reports of dropped packets, common to home agent and mobile router.

use crate::contract::engine::Outbox;
use crate::contract::report::{DropReason, HostReport, Report};
use roam6_wire::Malformed;
use std::net::Ipv6Addr;

/// Reports a malformed packet.
pub(super) fn report_malformed(from: Option<Ipv6Addr>, why: Malformed, out: &mut Outbox) {
    out.report(Report::Host(HostReport::Dropped { reason: DropReason::Malformed, from, detail: why.to_string() }));
}
