//! IPsec between mobile router and home agent: what both roles share.

use crate::crypto::esp::{self, EspPayload, SecurityAssociation};
use crate::{DropReason, Outbox};
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::{Malformed, Why};

/// Why a packet that [`esp::SecurityAssociation::open`] refused is dropped.
pub(super) fn drop_reason(malformed: &Malformed) -> DropReason {
    match malformed {
        Malformed { what: esp::SPI_FIELD, .. } => DropReason::NoAssociation,
        Malformed { why: Why::Checksum, .. } => DropReason::BadAuthenticator,
        _ => DropReason::Malformed,
    }
}

/// The mobility or ICMPv6 message in an ESP packet of this security association; any other packet is dropped.
pub(super) fn open_esp<'a>(
    association: &SecurityAssociation,
    datagram: &Datagram<'a>,
    out: &mut Outbox,
) -> Option<Datagram<'a>> {
    match association.open(datagram.payload) {
        Ok(EspPayload { protocol: protocol @ (protocol::MOBILITY | protocol::ICMPV6), payload, .. }) => {
            let payload_at = datagram.payload_at + esp::PAYLOAD_OFFSET;
            return Some(Datagram { protocol, payload, payload_at, ..datagram.clone() });
        }
        Ok(opened) => {
            out.report_drop(DropReason::NotForUs, datagram.source, format!("ESP with protocol {}", opened.protocol));
        }
        Err(malformed) => out.report_drop(drop_reason(&malformed), datagram.source, malformed.to_string()),
    }
    None
}
