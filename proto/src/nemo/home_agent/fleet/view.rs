//! The fleet, for the operator.

use super::super::HomeAgent;
use crate::contract::view::{FleetView, MemberView};
use crate::{Time, View};

impl HomeAgent {
    /// Adds the fleet to `view`.
    pub(in super::super) fn show_fleet(&self, now: Time, view: &mut View) {
        let Some(fleet) = &self.fleet else { return };
        let membership = &fleet.membership;
        let members = membership.others().map(|(name, other)| MemberView {
            name: name.clone(),
            addresses: other.record.addresses.clone(),
            version: other.record.version.clone(),
            state: other.record.state,
            applied: other.record.applied,
            skew_micros: other.skew(),
            seen: now.since(other.seen),
        });
        let bound = || self.bindings.values().filter_map(|binding| binding.current.as_ref()?.expires());
        view.fleet = Some(FleetView {
            name: fleet.config.name.clone(),
            member: fleet.config.member.clone(),
            state: membership.state(),
            why: membership.why().to_owned(),
            changed: now.since(membership.since()),
            applied: fleet.applied,
            store_fault: membership.fault().map(str::to_owned),
            first_end: (!membership.serves()).then(|| bound().min().map(|end| end.since(now))).flatten(),
            kept: fleet.counters.kept,
            conflicts: fleet.counters.conflicts,
            unknown: fleet.counters.unknown,
            unavailable: fleet.counters.unavailable,
            members: members.collect(),
        });
    }
}
