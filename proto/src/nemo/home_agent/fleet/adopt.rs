//! Records of the store, which other members have written, or this one in an earlier life: they are adopted as they are, if
//! the prefix table allows it.

use super::super::HomeAgent;
use super::super::cache::Binding;
use super::super::types::CareOf;
use super::commit::MAX_ATTEMPTS;
use crate::contract::fleet::Stored;
use crate::contract::item::{BindingRecord, Revision};
use crate::contract::report::{FleetReport, NemoReport};
use crate::crypto::authenticator::Timestamp;
use crate::{Key, Outbox, Time};
use roam6_wire::{HomeAddress, Ipv4Endpoint};
use std::collections::BTreeSet;

impl HomeAgent {
    /// A snapshot begins: what it does not name has no record.
    pub(super) fn begin_snapshot(&mut self) {
        let Some(fleet) = &mut self.fleet else { return };
        fleet.snapshot = Some(BTreeSet::new());
        fleet.membership.set_complete(false);
        fleet.rows.begin_snapshot();
    }

    /// The snapshot is complete as of `head`.
    pub(super) fn end_snapshot(&mut self, now: Time, head: Revision, out: &mut Outbox) {
        let Some(fleet) = &mut self.fleet else { return };
        let named = fleet.snapshot.take().unwrap_or_default();
        fleet.rows.end_snapshot(now);
        let is_gone = |home: &HomeAddress, revision: Revision| revision <= head && !named.contains(home);
        let known = fleet.records.iter().map(|(home, known)| (*home, known.revision));
        let gone: Vec<HomeAddress> = known.filter(|(home, at)| is_gone(home, *at)).map(|(home, _)| home).collect();
        fleet.applied = fleet.applied.max(head);
        self.merge_rows(now, out);
        for home_address in gone {
            self.take_over(now, &Stored { home_address, revision: head, record: None }, out);
        }
    }

    /// Takes over the state of a home address, unless it is known or older.
    pub(super) fn adopt(&mut self, now: Time, stored: &Stored, out: &mut Outbox) {
        let home = stored.home_address;
        let Some(fleet) = &mut self.fleet else { return };
        if let Some(named) = &mut fleet.snapshot {
            named.insert(home);
        }
        if stored.revision <= fleet.revision_of(home) {
            return;
        }
        if let Some(change) = fleet.changes.get_mut(&home).filter(|change| change.record == stored.record) {
            // It is the change of this member, whose answer follows.
            change.seen = Some(stored.revision);
            return;
        }
        if !fleet.records.contains_key(&home) && fleet.records.len() >= self.config.max_bindings.saturating_mul(2) {
            return out.report_full_table("records", self.config.max_bindings.saturating_mul(2));
        }
        self.take_over(now, stored, out);
    }

    /// Takes over the state of a home address; an update whose change is not under way is judged against it.
    fn take_over(&mut self, now: Time, stored: &Stored, out: &mut Outbox) {
        let home = stored.home_address;
        self.adopt_record(now, stored, out);
        if self.fleet.as_ref().is_some_and(|fleet| !fleet.changes.contains_key(&home)) {
            self.judge_again(now, home, MAX_ATTEMPTS, out);
        }
    }

    /// Takes over the state of a home address. A registration under way gives way; the caller has its update judged again.
    pub(super) fn adopt_record(&mut self, now: Time, stored: &Stored, out: &mut Outbox) {
        let home = stored.home_address;
        self.note_record(now, home, stored.revision, stored.record.as_deref());
        self.deregistrations.remove(&home);
        let Some(fleet) = &mut self.fleet else { return };
        fleet.unserved.remove(&home);
        fleet.tombstones.remove(&home);
        let Some(record) = &stored.record else { return self.forget(now, home, out) };
        if self.prefix_table_row(home).is_none() {
            self.merge_rows(now, out);
        }
        let unix_now = self.clock.unix_micros(now).unwrap_or_default();
        let care_of = self.unexpired_care_of(now, unix_now, record);
        let refusal = self.refusal(record, &care_of);
        if let Some(why) = refusal {
            out.report(FleetReport::RecordNotServed { home_address: home, why: why.to_owned() });
            if let Some(fleet) = &mut self.fleet {
                fleet.unserved.insert(home, stored.clone());
            }
        }
        if care_of.is_empty() || refusal.is_some() {
            return self.adopt_end(now, record, out);
        }
        self.adopt_registration(now, record, care_of, out);
    }

    /// Why a record is not served here; `None` if it is.
    fn refusal(&self, record: &BindingRecord, care_of: &[CareOf]) -> Option<&'static str> {
        let is_usable = |care_of: &CareOf| match Ipv4Endpoint::from_ipv6(care_of.address) {
            Some(end) => self.is_valid_ipv4_care_of(end),
            None => self.is_valid_care_of(care_of.address),
        };
        let home = record.home_address;
        if self.prefix_table_row(home).is_none() {
            return Some("the prefix table has no such row");
        }
        if care_of.is_empty() {
            return None;
        }
        if !self.bindings.contains_key(&home) && self.bindings.len() >= self.config.max_bindings {
            return Some("max_bindings is reached");
        }
        if !care_of.iter().all(is_usable) || !self.may_serve(record, care_of) {
            return Some("the prefix table does not allow it, or its care-of address leads back here");
        }
        None
    }

    /// Ends what is under way of `home`, and what is in force if there is nothing that follows it.
    fn end_former(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        let had_latest = self.bindings.get(&home).is_some_and(|binding| binding.current.is_some());
        if let Some(ended) = self.stop_forwarding(home, out) {
            self.linger_after_end(now, home, &ended, out);
        }
        if had_latest {
            out.report(NemoReport::Deregistered { home_address: home, why: "ended by the fleet".into() });
        }
    }

    /// The store has no record of `home`.
    fn forget(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        self.end_former(now, home, out);
        if let Some(binding) = self.bindings.get_mut(&home) {
            out.drop(Key::Tunnel(binding.tunnel));
            binding.lingering.clear();
            binding.forget_at = Some(now);
        }
        self.schedule(home);
    }

    /// A binding has ended: its last sequence number and timestamp are kept.
    fn adopt_end(&mut self, now: Time, record: &BindingRecord, out: &mut Outbox) {
        let home = record.home_address;
        self.end_former(now, home, out);
        self.put_in_cache(home, record);
        self.schedule(home);
    }

    fn put_in_cache(&mut self, home: HomeAddress, record: &BindingRecord) -> &mut Binding {
        let tunnel = self.tunnel_id(home);
        self.tunnels.insert(tunnel, home);
        let binding = self.bindings.entry(home).or_insert_with(|| Box::new(Binding { tunnel, ..Default::default() }));
        (binding.sequence, binding.timestamp) = (record.sequence, Timestamp(record.timestamp));
        (binding.forget_at, binding.refresh_requested) = (None, false);
        binding
    }

    /// A registration at another member is in force here too, without an acknowledgement.
    fn adopt_registration(&mut self, now: Time, record: &BindingRecord, care_of: Vec<CareOf>, out: &mut Outbox) {
        let home = record.home_address;
        let mut next = self.restored_registration(now, record.clone(), care_of);
        self.receive_path_mtus(now, &record.path_mtus, &next, out);
        let binding = self.put_in_cache(home, record);
        let abandoned = binding.pending.take().map(|pending| pending.registration);
        next.date(now, binding.current.as_ref());
        let is_installed =
            abandoned.is_none() && binding.current.as_ref().is_some_and(|current| current.forwards_same_as(&next));
        let is_move = binding.current.as_ref().is_none_or(|current| current.addresses() != next.addresses());
        binding.linger(now, &next);
        let (care_of, lifetime) = (next.addresses(), next.lifetime);
        let former = binding.current.replace(next);
        let moved = is_move && former.is_some();
        self.update_indexes(home, abandoned.as_ref(), out);
        self.update_indexes(home, former.as_ref(), out);
        if !is_installed {
            self.reinstall(now, home, out);
        }
        if is_move {
            let sequence = record.sequence;
            out.report(NemoReport::Registered { home_address: home, care_of, sequence, lifetime, moved });
        }
        self.schedule(home);
    }

    /// Adopts the records again that the former prefix table did not allow.
    pub(super) fn adopt_unserved(&mut self, now: Time, out: &mut Outbox) {
        let Some(fleet) = &mut self.fleet else { return };
        for (_, stored) in core::mem::take(&mut fleet.unserved) {
            self.take_over(now, &stored, out);
        }
    }
}
