//! Commits to the store, by compare-and-set: one at a time for each home address. What the store refuses is judged again
//! against what it has.

use super::super::HomeAgent;
use super::super::cache::RegistrationState;
use super::super::request::UpdateRequest;
use super::super::transaction::Waiting;
use super::{Known, RETRY_INTERVAL};
use crate::contract::fleet::{Commit, Stored};
use crate::contract::item::{BindingRecord, FleetRecord, Revision};
use crate::crypto::authenticator::Timestamp;
use crate::{DropReason, Item, Key, Outbox, Outcome, Time};
use roam6_wire::{HomeAddress, Prefix};

/// How often an update is judged again after another member was first.
pub(super) const MAX_ATTEMPTS: u8 = 3;
/// How often an update is judged again after another home address had claimed its prefix of the pool.
const MAX_POOL_ATTEMPTS: u8 = 8;

/// A change of a record that the store has not answered.
#[derive(Debug)]
pub(super) struct Change {
    purpose: Purpose,
    /// The record, `None` for a deletion.
    pub(super) record: Option<Box<BindingRecord>>,
    /// The store has it at this revision: it came before the answer.
    pub(super) seen: Option<Revision>,
}

/// What a change is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A registration, by the number of its transaction.
    Register(u64),
    /// The end of a binding.
    Tombstone,
    /// Nobody needs the record any more.
    Tidy,
}

/// A valid update whose record is not committed.
#[derive(Debug)]
pub(super) struct KeptRequest {
    request: Box<UpdateRequest>,
    /// The number of its transaction.
    transaction: u64,
    /// How often it was judged again.
    attempts: u8,
}

impl HomeAgent {
    /// Keeps a valid update, to judge it again if another member was first.
    pub(in super::super) fn keep_request(&mut self, request: UpdateRequest) {
        let transaction = self.last_transaction;
        let is_over = self.bindings.get(&request.home).is_none_or(|binding| binding.pending.is_none())
            && !self.is_deregistering(request.home);
        let Some(fleet) = &mut self.fleet else { return };
        if is_over {
            return;
        }
        let home = request.home;
        if !self.deregistrations.contains_key(&home) {
            fleet.tombstones.remove(&home);
        }
        fleet.requests.insert(home, KeptRequest { request: Box::new(request), transaction, attempts: 0 });
    }

    /// Commits the pending registration of `home`, once it is installed and no other change is under way.
    pub(in super::super) fn begin_commit(&mut self, home: HomeAddress, out: &mut Outbox) {
        if self.fleet.as_ref().is_none_or(|fleet| fleet.changes.contains_key(&home)) {
            return;
        }
        let Some(binding) = self.bindings.get(&home) else { return };
        let installed = RegistrationState::Installing { outstanding: 0, rejected: None };
        let Some(pending) = binding.pending.as_ref().filter(|pending| pending.state == installed) else { return };
        let record = self.binding_record(home, binding, &pending.registration);
        self.put_change(home, Purpose::Register(pending.transaction), Some(record), out);
    }

    /// Commits the tombstone of `home` if one is due and no other change is under way.
    fn commit_tombstone(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        let Some(fleet) = &mut self.fleet else { return };
        if fleet.changes.contains_key(&home) || !fleet.tombstones.contains(&home) {
            return;
        }
        if self.bindings.get(&home).is_none_or(|binding| binding.latest().is_some()) {
            fleet.tombstones.remove(&home);
            return;
        }
        let Some(record) = self.tombstone_record(now, home) else { return };
        if let Some(binding) = self.bindings.get_mut(&home) {
            binding.has_tombstone = false;
        }
        self.put_change(home, Purpose::Tombstone, Some(record), out);
    }

    /// Deletes the record of `home` from the store.
    pub(super) fn delete_tidied(&mut self, home: HomeAddress, out: &mut Outbox) {
        self.put_change(home, Purpose::Tidy, None, out);
    }

    fn put_change(&mut self, home: HomeAddress, purpose: Purpose, record: Option<BindingRecord>, out: &mut Outbox) {
        let pool = self.config.ipv4_pool;
        let Some(fleet) = &mut self.fleet else { return };
        let prefixes = record.iter().flat_map(|record| record.prefixes.iter().copied());
        let wanted: Vec<Prefix> = prefixes.filter(|prefix| pool.is_some_and(|pool| pool.contains(*prefix))).collect();
        let held = fleet.pool.held(home);
        let record = record.map(Box::new);
        let change = FleetRecord {
            home_address: home,
            record: record.clone(),
            expected: fleet.records.get(&home).map_or(Revision::default(), |known| known.revision),
            claims: wanted.iter().copied().filter(|prefix| !held.contains(prefix)).collect(),
            releases: held.iter().copied().filter(|prefix| !wanted.contains(prefix)).collect(),
        };
        fleet.changes.insert(home, Change { purpose, record, seen: None });
        self.desired_state.put_once(Item::FleetRecord(change), Waiting::Commit(home), out);
    }

    /// Ends a binding in the store too. Tried again until the store has taken it, or a newer record.
    pub(in super::super) fn put_tombstone(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        let Some(fleet) = &mut self.fleet else { return };
        fleet.tombstones.insert(home);
        fleet.retry_at.get_or_insert(now + RETRY_INTERVAL);
        self.commit_tombstone(now, home, out);
    }

    /// The operator deletes a binding: in the store too, whatever is known here.
    pub(in super::super) fn delete_record(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        let known = self.fleet.as_ref().and_then(|fleet| fleet.records.get(&home));
        if known.is_some_and(|known| !known.is_tombstone) {
            self.put_tombstone(now, home, out);
        }
    }

    /// The rest of the end of a binding for a local reason. One that `was_in_force` ends in the store too: by one member, or all
    /// would write the same.
    pub(in super::super) fn end_in_fleet(
        &mut self,
        now: Time,
        home: HomeAddress,
        was_in_force: bool,
        out: &mut Outbox,
    ) {
        let is_tidier = self.is_tidier(home);
        let Some(fleet) = &mut self.fleet else { return };
        let known = fleet.records.get(&home).copied();
        if let Some(binding) = self.bindings.get_mut(&home) {
            out.drop(Key::Tunnel(binding.tunnel));
            binding.lingering.clear();
            match known {
                Some(known) if !was_in_force => {
                    (binding.sequence, binding.timestamp) = (known.sequence, known.timestamp);
                }
                Some(_) => {}
                // The store knows nothing of it: it was never acknowledged.
                None => {
                    self.tunnels.remove(&binding.tunnel);
                    self.bindings.remove(&home);
                }
            }
        }
        if was_in_force && is_tidier && known.is_some_and(|known| !known.is_tombstone) {
            self.put_tombstone(now, home, out);
        }
        self.schedule(home);
    }

    /// Tries tombstones again that the store has not taken.
    pub(super) fn retry_tombstones(&mut self, now: Time, out: &mut Outbox) {
        let Some(fleet) = self.fleet.as_mut().filter(|fleet| fleet.retry_at.is_some_and(|at| at <= now)) else {
            return;
        };
        fleet.retry_at = (!fleet.tombstones.is_empty()).then(|| now + RETRY_INTERVAL);
        if fleet.membership.serves() {
            for home in fleet.tombstones.iter().copied().collect::<Vec<_>>() {
                self.commit_tombstone(now, home, out);
            }
        }
    }

    /// Processes the answer of the store.
    pub(in super::super) fn receive_commit(
        &mut self,
        now: Time,
        home: HomeAddress,
        outcome: &Outcome,
        out: &mut Outbox,
    ) {
        let Some(fleet) = &mut self.fleet else { return };
        let Some(change) = fleet.changes.remove(&home) else { return };
        let kept = match (&outcome.commit, change.seen) {
            (Some(Commit::Kept(revision)), _) => Some(*revision),
            (Some(Commit::Conflict(stored)), Some(seen)) => Some(seen).filter(|seen| stored.revision == *seen),
            (_, seen) => seen,
        };
        match (&outcome.commit, kept) {
            (_, Some(revision)) => {
                fleet.counters.kept += 1;
                self.kept(now, home, revision, change, out);
            }
            (Some(Commit::Conflict(stored)), None) => {
                fleet.counters.conflicts += 1;
                self.conflict(now, stored, change.purpose, out);
            }
            (Some(Commit::PrefixTaken(prefix)), None) => {
                fleet.counters.conflicts += 1;
                fleet.pool.exclude(now, *prefix);
                self.judge_again(now, home, MAX_POOL_ATTEMPTS, out);
            }
            (Some(Commit::Unknown), None) => {
                fleet.counters.unknown += 1;
                self.not_committed(now, home, change.purpose, out);
            }
            (Some(Commit::Unavailable(_) | Commit::Kept(_)) | None, None) => {
                fleet.counters.unavailable += 1;
                self.not_committed(now, home, change.purpose, out);
            }
        }
        self.begin_commit(home, out);
        let kept_or_conflict = !matches!(outcome.commit, Some(Commit::Unknown | Commit::Unavailable(_)) | None);
        if kept.is_some() || kept_or_conflict {
            self.commit_tombstone(now, home, out);
        }
    }

    /// A quorum of the store has the change.
    fn kept(&mut self, now: Time, home: HomeAddress, revision: Revision, change: Change, out: &mut Outbox) {
        let Some(fleet) = &mut self.fleet else { return };
        let superseded = fleet.records.get(&home).is_some_and(|known| known.revision > revision);
        let pending = self.bindings.get(&home).and_then(|binding| binding.pending.as_ref());
        let is_pending = pending.map(|pending| Purpose::Register(pending.transaction)) == Some(change.purpose);
        match change.purpose {
            // Another member has committed a newer one, which is adopted already.
            _ if superseded => self.forget_request(home, change.purpose),
            Purpose::Register(_) if is_pending => {
                self.note_record(now, home, revision, change.record.as_deref());
                self.forget_request(home, change.purpose);
                self.commit(now, home, out);
            }
            Purpose::Tombstone if self.fleet.as_ref().is_some_and(|fleet| fleet.tombstones.contains(&home)) => {
                self.note_record(now, home, revision, change.record.as_deref());
                let latest = self.bindings.get(&home).map(|binding| binding.sequence);
                if latest != change.record.as_ref().map(|record| record.sequence) {
                    // The mobile router has de-registered again meanwhile: that follows.
                    return;
                }
                if let Some(fleet) = &mut self.fleet {
                    fleet.tombstones.remove(&home);
                    fleet.requests.remove(&home);
                }
                // Its transaction is the one that no outcome of an item has.
                self.deregistration_outcome(now, (home, 0), false, out);
            }
            // A later update has superseded it here, which is judged against this record.
            _ => {
                self.adopt_record(now, &Stored { home_address: home, revision, record: change.record }, out);
                self.judge_again(now, home, MAX_ATTEMPTS, out);
            }
        }
    }

    /// The store has another record than the expected one.
    fn conflict(&mut self, now: Time, stored: &Stored, purpose: Purpose, out: &mut Outbox) {
        let home = stored.home_address;
        let is_new = self.fleet.as_ref().is_some_and(|fleet| stored.revision > fleet.revision_of(home));
        if is_new {
            self.adopt_record(now, stored, out);
        }
        if purpose != Purpose::Tidy {
            self.judge_again(now, home, MAX_ATTEMPTS, out);
        }
    }

    /// The store has not taken a change, or it is not known whether it has: no answer, and the mobile router sends another
    /// update. If the store has taken it, it is adopted when it comes.
    fn not_committed(&mut self, now: Time, home: HomeAddress, purpose: Purpose, out: &mut Outbox) {
        let pending = self.bindings.get(&home).and_then(|binding| binding.pending.as_ref());
        match purpose {
            Purpose::Register(_) => {
                if pending.map(|pending| Purpose::Register(pending.transaction)) == Some(purpose) {
                    self.abandon(now, home, out);
                }
                self.forget_request(home, purpose);
            }
            // It is tried again, unless a newer record came.
            Purpose::Tombstone => {
                let Some(fleet) = &mut self.fleet else { return };
                if !fleet.tombstones.contains(&home) && pending.is_none() {
                    fleet.requests.remove(&home);
                }
            }
            Purpose::Tidy => {}
        }
    }

    /// An update was refused by the host, and that was answered.
    pub(in super::super) fn forget_transaction(&mut self, home: HomeAddress, transaction: u64) {
        self.forget_request(home, Purpose::Register(transaction));
    }

    fn forget_request(&mut self, home: HomeAddress, purpose: Purpose) {
        let Some(fleet) = &mut self.fleet else { return };
        if fleet.requests.get(&home).is_some_and(|kept| Purpose::Register(kept.transaction) == purpose) {
            fleet.requests.remove(&home);
        }
    }

    /// Returns to the registration in force, without an answer.
    fn abandon(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        let Some(pending) = binding.pending.take() else { return };
        let known = self.fleet.as_ref().and_then(|fleet| fleet.records.get(&home));
        if let Some(known) = known {
            (binding.sequence, binding.timestamp) = (known.sequence, known.timestamp);
        }
        if binding.current.is_none() {
            binding.current = Some(pending.registration);
            self.end_binding(now, home, false, out);
            return self.resume_tombstone(now, home);
        }
        self.put_forwarding(home, out);
        self.update_indexes(home, Some(&pending.registration), out);
        self.schedule(home);
    }

    /// A registration that followed an uncommitted de-registration was given up: the store has the binding still, which has ended
    /// here. So the tombstone is due again, or this member would differ from the others.
    fn resume_tombstone(&mut self, now: Time, home: HomeAddress) {
        let Some(fleet) = &mut self.fleet else { return };
        let is_bound = fleet.records.get(&home).is_some_and(|known| !known.is_tombstone);
        if is_bound && !fleet.unserved.contains_key(&home) {
            fleet.tombstones.insert(home);
            fleet.retry_at.get_or_insert(now + RETRY_INTERVAL);
        }
    }

    /// Judges the kept update of `home` from the beginning, against what the store has.
    pub(super) fn judge_again(&mut self, now: Time, home: HomeAddress, most: u8, out: &mut Outbox) {
        self.abandon(now, home, out);
        self.deregistrations.remove(&home);
        let Some(fleet) = &mut self.fleet else { return };
        fleet.tombstones.remove(&home);
        let Some(kept) = fleet.requests.remove(&home) else { return };
        let KeptRequest { request, attempts, .. } = kept;
        if attempts >= most {
            // The mobile router sends another one.
            let detail = format!("Binding Update of {home}: other updates were first");
            return out.report_drop(DropReason::RateLimited, request.source, detail);
        }
        self.receive_update(now, *request, out);
        if let Some(kept) = self.fleet.as_mut().and_then(|fleet| fleet.requests.get_mut(&home)) {
            kept.attempts = attempts + 1;
        }
    }

    /// Records the state of the store, at a later revision than what is known.
    pub(super) fn note_record(
        &mut self,
        now: Time,
        home: HomeAddress,
        revision: Revision,
        record: Option<&BindingRecord>,
    ) {
        let tidy_at = record.and_then(|record| self.tidy_time(now, record));
        let pool = self.config.ipv4_pool;
        let Some(fleet) = &mut self.fleet else { return };
        if let Some(at) = fleet.records.remove(&home).and_then(|former| former.tidy_at) {
            fleet.tidy.remove(&(at, home));
        }
        let prefixes = record.iter().flat_map(|record| record.prefixes.iter().copied());
        fleet.pool.set(home, prefixes.filter(|prefix| pool.is_some_and(|pool| pool.contains(*prefix))).collect());
        let Some(record) = record else { return };
        let known = Known {
            revision,
            sequence: record.sequence,
            timestamp: Timestamp(record.timestamp),
            is_tombstone: record.care_of.is_empty(),
            tidy_at,
        };
        fleet.records.insert(home, known);
        fleet.tidy.extend(tidy_at.map(|at| (at, home)));
    }
}
