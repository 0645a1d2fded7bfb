//! This home agent as a member of a fleet: home agents with one address that share their bindings by a store.
//!
//! A registration is installed first, and then committed to the store by compare-and-set: only the member whose record the
//! store takes acknowledges it. So no acknowledged binding is lost with a member, and a replay to another member is judged
//! against the record of the store (RFC 6275 §9.5.1, RFC 4285 §6), whatever that member knew. Records of other members
//! are adopted as they come. A member that has lost the store forwards what it knows, and acknowledges nothing.

mod adopt;
mod commit;
mod member;
mod path_mtu;
mod pool;
mod rows;
#[cfg(test)]
mod tests;
mod tidy;
mod view;

use self::commit::{Change, KeptRequest};
use self::member::Membership;
use self::pool::Pool;
use self::rows::SharedRows;
use super::HomeAgent;
use super::request::UpdateRequest;
use super::types::HomeAgentTimer;
use crate::contract::command::FleetCommand;
use crate::contract::config::fleet::FleetConfig;
use crate::contract::config::nemo::HomeAgentConfig;
use crate::contract::fleet::{FleetEvent, MemberRecord, MemberState, StoreFault, Stored};
use crate::contract::item::{Announcement, Revision};
use crate::contract::report::FleetReport;
use crate::crypto::authenticator::Timestamp;
use crate::{DropReason, Item, Key, Outbox, Time};
use core::time::Duration;
use roam6_wire::{HomeAddress, Prefix, Sequence};
use std::collections::{BTreeMap, BTreeSet};

/// Interval before something that the store did not take is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What a member knows beside its bindings.
#[derive(Debug)]
pub(super) struct Fleet {
    config: FleetConfig,
    membership: Membership,
    /// The state of the store, by home address.
    records: BTreeMap<HomeAddress, Known>,
    /// Changes of records under way, at most one for each home address.
    changes: BTreeMap<HomeAddress, Change>,
    /// Updates whose records are not committed.
    requests: BTreeMap<HomeAddress, KeptRequest>,
    /// Home addresses whose tombstone is to be committed.
    tombstones: BTreeSet<HomeAddress>,
    /// Records that the prefix table does not allow to serve.
    unserved: BTreeMap<HomeAddress, Stored>,
    /// Bindings whose timers wait for the store.
    postponed: BTreeSet<HomeAddress>,
    /// Home addresses by the time when their record is tidied.
    tidy: BTreeSet<(Time, HomeAddress)>,
    /// When what the store did not take is tried again.
    retry_at: Option<Time>,
    /// All changes up to this revision are known.
    applied: Revision,
    /// The home addresses that a snapshot has named so far.
    snapshot: Option<BTreeSet<HomeAddress>>,
    rows: SharedRows,
    pool: Pool,
    counters: CommitCounters,
}

/// What is known of the record of a home address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    revision: Revision,
    sequence: Sequence,
    timestamp: Timestamp,
    /// It has no care-of address.
    is_tombstone: bool,
    /// When it is tidied next; `None`: never.
    tidy_at: Option<Time>,
}

/// Commits by their results.
#[derive(Debug, Default, Clone, Copy)]
struct CommitCounters {
    kept: u64,
    conflicts: u64,
    unknown: u64,
    unavailable: u64,
}

impl Fleet {
    /// The fleet of a home agent, if it is a member of one. Keys are not exchanged: their records are in the journal of one
    /// member only.
    pub(super) fn of(config: &mut HomeAgentConfig) -> Option<Box<Fleet>> {
        let fleet = config.fleet.as_deref()?.clone();
        config.key_exchange = false;
        Some(Box::new(Fleet {
            membership: Membership::new(fleet.drain, fleet.max_skew),
            config: fleet,
            records: BTreeMap::new(),
            changes: BTreeMap::new(),
            requests: BTreeMap::new(),
            tombstones: BTreeSet::new(),
            unserved: BTreeMap::new(),
            postponed: BTreeSet::new(),
            tidy: BTreeSet::new(),
            retry_at: None,
            applied: Revision::default(),
            snapshot: None,
            rows: SharedRows::default(),
            pool: Pool::default(),
            counters: CommitCounters::default(),
        }))
    }

    /// The revision of the record of `home`. Without a record everything up to the head is known to be over.
    fn revision_of(&self, home: HomeAddress) -> Revision {
        let absent = if self.snapshot.is_some() { Revision::default() } else { self.applied };
        self.records.get(&home).map_or(absent, |known| known.revision)
    }
}

impl HomeAgent {
    /// Processes an event of the store.
    pub(super) fn receive_fleet_event(&mut self, now: Time, event: &FleetEvent, out: &mut Outbox) {
        let Some(fleet) = &mut self.fleet else { return };
        match event {
            FleetEvent::Connected => {
                if let Some(after) = fleet.membership.connected(now) {
                    out.report(FleetReport::StoreBack { after });
                }
            }
            FleetEvent::Disconnected(why) => self.lose_store(now, FleetReport::StoreLost { why: why.clone() }, out),
            FleetEvent::Fault(fault) => {
                let report = FleetReport::StoreFault { fault: fault.clone() };
                match fault {
                    StoreFault::Damaged { .. } | StoreFault::Copy { .. } => out.report(report),
                    _ => self.lose_store(now, report, out),
                }
            }
            FleetEvent::Copied => fleet.membership.copied(now),
            FleetEvent::Stored(stored) => self.adopt(now, stored, out),
            FleetEvent::SnapshotBegins(_) => self.begin_snapshot(),
            FleetEvent::SnapshotEnds(head) => self.end_snapshot(now, *head, out),
            FleetEvent::Head { revision, own_heartbeat } => {
                fleet.applied = fleet.applied.max(*revision);
                if let Some(age) = own_heartbeat {
                    // A heartbeat comes behind all that was there when it was written.
                    fleet.membership.set_complete(fleet.snapshot.is_none());
                    fleet.membership.heartbeat(now, *age);
                }
            }
            FleetEvent::Member(record) => self.hear_member(now, record, out),
            FleetEvent::MemberGone(name) => {
                if fleet.membership.remove(name) {
                    out.report(FleetReport::MemberLost { member: name.clone() });
                }
            }
            FleetEvent::Row(row) => fleet.rows.put(now, row),
            FleetEvent::RowGone(home) => fleet.rows.remove(now, *home),
            FleetEvent::PathMtu { remote, mtu } => self.learn_shared_path_mtu(now, *remote, *mtu, out),
        }
    }

    fn lose_store(&mut self, now: Time, report: FleetReport, out: &mut Outbox) {
        let Some(fleet) = &mut self.fleet else { return };
        let why = report.to_string();
        if fleet.membership.fault() != Some(&why) {
            out.report(report);
        }
        fleet.membership.lose(now, why);
    }

    fn hear_member(&mut self, now: Time, record: &MemberRecord, out: &mut Outbox) {
        let unix_now = self.clock.unix_micros(now).unwrap_or(record.unix_micros);
        let Some(fleet) = self.fleet.as_mut().filter(|fleet| fleet.config.member != record.name) else { return };
        let Some(heard) = fleet.membership.hear(now, unix_now, record) else {
            return out.report_full_table("members", member::MAX_MEMBERS);
        };
        if heard.joined {
            out.report(FleetReport::MemberJoined { member: record.name.clone() });
        }
        if let Some(by_micros) = heard.skewed {
            out.report(FleetReport::ClockSkewed { member: record.name.clone(), by_micros });
        }
    }

    /// A command of the operator to this member.
    pub(super) fn execute_fleet(&mut self, now: Time, command: FleetCommand, out: &mut Outbox) {
        let Some(fleet) = &mut self.fleet else { return };
        let changed = match command {
            FleetCommand::Drain => fleet.membership.drain(now),
            FleetCommand::Restore => fleet.membership.restore(now),
        };
        self.report_state(changed, out);
    }

    fn report_state(&self, changed: Option<(MemberState, MemberState)>, out: &mut Outbox) {
        let Some((fleet, (from, to))) = self.fleet.as_ref().zip(changed) else { return };
        out.report(FleetReport::StateChanged { from, to, why: fleet.membership.why().to_owned() });
    }

    /// Changes the state of this member if that is due, and what depends on it. After each input.
    pub(super) fn update_membership(&mut self, now: Time, out: &mut Outbox) {
        let settled = self.desired_state.waiting() == 0;
        let Some(fleet) = &mut self.fleet else { return };
        let changed = fleet.membership.step(now, settled);
        if fleet.membership.knows_ends(now, self.config.max_lifetime) && !fleet.postponed.is_empty() {
            for home in core::mem::take(&mut fleet.postponed) {
                self.schedule(home);
            }
        }
        self.report_state(changed, out);
        self.announce(now, out);
        self.schedule_fleet(now);
    }

    /// Tells the routing daemon and the other members the state of this one.
    fn announce(&mut self, now: Time, out: &mut Outbox) {
        let Some(fleet) = &self.fleet else { return };
        self.desired_state.put(now, &Item::FleetMember(fleet.membership.state()), out);
        let Some(announce) = fleet.config.announce else { return };
        let announced = fleet.membership.announces(now);
        let ipv4 = self.config.ipv4.map(|service| Prefix::host(service.address.to_ipv6_mapped()));
        let prefixes = [Prefix::host(self.config.address)].into_iter().chain(ipv4);
        let more = self.config.home_prefixes.iter().chain(&fleet.config.aggregates).copied();
        for prefix in prefixes.chain(more) {
            match announced {
                Some(better) => {
                    let metric = if better { announce.healthy } else { announce.degraded };
                    let item = Item::Announcement(Announcement { prefix, table: announce.table, metric });
                    self.desired_state.put(now, &item, out);
                }
                None => self.desired_state.drop(&Key::Announcement(prefix), out),
            }
        }
    }

    fn schedule_fleet(&mut self, now: Time) {
        let Some(fleet) = &self.fleet else { return };
        let tidy = fleet.tidy.first().map(|(at, _)| *at);
        let lost = fleet.membership.deadline(now);
        // A member that has lost the store lets bindings end after a time.
        let thaw = (!fleet.postponed.is_empty()).then(|| now + RETRY_INTERVAL);
        let refused = self.desired_state.deadline();
        let next = [tidy, lost, thaw, refused, fleet.rows.deadline(), fleet.retry_at].into_iter().flatten().min();
        match next {
            Some(at) => self.timers.set(HomeAgentTimer::Fleet, at.max(now)),
            None => self.timers.cancel(&HomeAgentTimer::Fleet),
        }
    }

    /// Does what is due.
    pub(super) fn run_fleet_timer(&mut self, now: Time, out: &mut Outbox) {
        self.desired_state.retry_refused(now, out);
        self.merge_rows_if_due(now, out);
        self.retry_tombstones(now, out);
        self.tidy_records(now, out);
    }

    /// Whether an update is dropped, because this member may not answer it.
    pub(super) fn stays_silent(&self, request: &UpdateRequest, out: &mut Outbox) -> bool {
        let Some(fleet) = self.fleet.as_ref().filter(|fleet| !fleet.membership.serves()) else { return false };
        let detail = format!("Binding Update of {}: this member is {}", request.home, fleet.membership.state());
        out.report_drop(DropReason::FleetNotReady, request.source, detail);
        true
    }

    /// Whether what a previous instance has installed is not needed any more.
    pub(super) fn has_joined(&self) -> bool {
        self.fleet.as_ref().is_none_or(|fleet| fleet.membership.state() != MemberState::Joining)
    }

    /// Whether the timers of a binding wait for the store, by which others may have extended it.
    pub(super) fn postpones_expiry(&mut self, now: Time, home: HomeAddress) -> bool {
        let max_lifetime = self.config.max_lifetime;
        let Some(fleet) = &mut self.fleet else { return false };
        let postponed = !fleet.membership.knows_ends(now, max_lifetime);
        if postponed {
            fleet.postponed.insert(home);
        } else if let Some(binding) = self.bindings.get_mut(&home).filter(|_| fleet.records.contains_key(&home)) {
            // It is forgotten with the record of the store.
            binding.forget_at = None;
        }
        postponed
    }
}
