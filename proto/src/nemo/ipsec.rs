//! IPsec between mobile router and home agent: what both roles share.

use crate::contract::report::DropReason;
use crate::crypto::esp;
use roam6_wire::{Malformed, Why};

/// Why a packet that [`esp::SecurityAssociation::open`] refused is dropped.
pub(super) fn drop_reason(malformed: &Malformed) -> DropReason {
    match malformed {
        Malformed { what: esp::SPI_FIELD, .. } => DropReason::NoAssociation,
        Malformed { why: Why::Checksum, .. } => DropReason::BadAuthenticator,
        _ => DropReason::Malformed,
    }
}
