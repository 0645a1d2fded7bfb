//! De-registration and the end of bindings. It is in the journal before it is acknowledged, and remembered as long as
//! a replayed older update could be accepted (RFC 6275 §10.3.2, RFC 3963 §6.7, RFC 4285 §6).

use super::HomeAgent;
use super::cache::{Binding, MAX_DELETE_BCE_TIMEOUT, Registration};
use super::request::UpdateRequest;
use super::transaction::{RETRY_INTERVAL, Waiting};
use super::types::{HomeAgentTimer, Reply};
use crate::contract::config::nemo::Authentication;
use crate::contract::item::{BindingRecord, JournalKey, JournalRecord};
use crate::contract::report::NemoReport;
use crate::crypto::authenticator::{TIMESTAMP_WINDOW, Timestamp};
use crate::nemo::OLD_PATH_LIFETIME;
use crate::{Item, Key, Outbox, Time};
use core::time::Duration;
use roam6_wire::HomeAddress;
use roam6_wire::mobility::Status;

/// How long a timestamp can be within the window: sent early by the window, received late by the window.
pub(super) const REPLAY_WINDOW: Duration = Duration::from_secs(2 * TIMESTAMP_WINDOW.as_secs() + 1);

/// A de-registration that is not in the journal yet.
#[derive(Debug)]
pub(super) struct Deregistration {
    /// Distinguishes the outcome of its record from others.
    transaction: u64,
    /// The acknowledgement to send; `None` if it was rejected.
    reply: Option<Reply>,
}

impl HomeAgent {
    /// RFC 3963 §6.7 and RFC 6275 §10.3.2: forwarding to care-of addresses ends at once; packets in transit from them are
    /// still received. Acknowledged once it is in the journal.
    pub(super) fn deregister(&mut self, now: Time, request: &UpdateRequest, answer: Reply, out: &mut Outbox) {
        let home = request.home;
        let old = self.stop_forwarding(home, out);
        let forget = now + self.tombstone_lifetime(home);
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        binding.forget_at = Some(forget);
        if let Some(old) = old {
            self.linger_after_end(now, home, &old, out);
            out.report(NemoReport::Deregistered { home_address: home, why: "de-registered".into() });
        }
        self.deregistrations.insert(home, Deregistration { transaction: 0, reply: Some(answer) });
        self.write_deregistration(now, home, out);
        self.schedule(home);
    }

    /// Packets in transit from the care-of addresses of an ended registration are still received.
    pub(super) fn linger_after_end(&mut self, now: Time, home: HomeAddress, ended: &Registration, out: &mut Outbox) {
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        let until = now + OLD_PATH_LIFETIME;
        binding.lingering = ended.away().map(|care_of| (care_of.clone(), until)).collect();
        let tunnel = binding.tunnel;
        if binding.lingering.is_empty() {
            out.drop(Key::Tunnel(tunnel));
        } else {
            self.put(home, self.receive_only_tunnel(tunnel, home, ended), out);
        }
    }

    /// Whether a de-registration of `home` is not in the journal yet.
    pub(super) fn is_deregistering(&self, home: HomeAddress) -> bool {
        self.deregistrations.contains_key(&home)
    }

    /// Replaces the journal record of a binding by its tombstone; a pending de-registration waits for the outcome.
    pub(super) fn write_deregistration(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        #[cfg(feature = "fleet")]
        if self.fleet.is_some() {
            return self.put_tombstone(now, home, out);
        }
        let Some(record) = self.tombstone_record(now, home) else { return };
        let record = Item::JournalRecord(JournalRecord::Binding(record));
        let transaction = self.begin_transaction();
        let Some(pending) = self.deregistrations.get_mut(&home) else { return self.put(home, record, out) };
        pending.transaction = transaction;
        self.desired_state.put_once(record, Waiting::Transaction(home, transaction), out);
    }

    /// Processes the outcome of a tombstone, if `transaction` is that of a de-registration.
    pub(super) fn deregistration_outcome(
        &mut self,
        now: Time,
        (home, transaction): (HomeAddress, u64),
        refused: bool,
        out: &mut Outbox,
    ) {
        let Some(pending) = self.deregistrations.get_mut(&home).filter(|one| one.transaction == transaction) else {
            return;
        };
        let answer = pending.reply.take();
        if refused {
            // Forwarding has ended, but what a restart would undo is not acknowledged.
            self.timers.set(HomeAgentTimer::Reinstall(home), now + RETRY_INTERVAL);
            if let Some(answer) = answer {
                self.reject(&answer, Status::INSUFFICIENT_RESOURCES, out);
            }
            return;
        }
        self.deregistrations.remove(&home);
        if let Some(answer) = answer {
            self.send_acknowledgement(&answer, Status::ACCEPTED, out);
        }
    }

    /// The tombstone of an ended binding: sequence and timestamp to reject older updates, and no care-of address.
    pub(super) fn tombstone_record(&mut self, now: Time, home: HomeAddress) -> Option<BindingRecord> {
        let until = self.clock.unix_micros(now + self.tombstone_lifetime(home)).unwrap_or_default();
        let binding = self.bindings.get_mut(&home)?;
        binding.has_tombstone = true;
        let record = binding.journal_record(home, &Registration::default(), &self.clock);
        Some(BindingRecord { expires_unix_micros: until, ..record })
    }

    /// Removes all items of a binding at once. Its last timestamp is remembered while replays could be accepted, in
    /// the journal too if the binding was `acknowledged`.
    pub(super) fn end_binding(&mut self, now: Time, home: HomeAddress, acknowledged: bool, out: &mut Outbox) {
        let ended = self.stop_forwarding(home, out);
        #[cfg(feature = "fleet")]
        if self.fleet.is_some() {
            let unexpired = ended.is_some_and(|ended| !ended.care_of.is_empty());
            return self.end_in_fleet(now, home, acknowledged && unexpired, out);
        }
        drop(ended);
        let memory = self.tombstone_lifetime(home);
        let Some(binding) = self.bindings.get(&home) else { return };
        let recent = self.is_replayable(now, home, binding.timestamp);
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        out.drop(Key::Tunnel(binding.tunnel));
        binding.lingering.clear();
        binding.forget_at = Some(if recent { now + memory } else { now });
        if recent && (acknowledged || binding.has_tombstone) {
            self.write_deregistration(now, home, out);
        } else {
            binding.has_tombstone = false;
            self.deregistrations.remove(&home);
            out.drop(Key::JournalRecord(JournalKey::Binding(home)));
        }
        self.schedule(home);
    }

    /// Restores the last sequence number and timestamp of a binding that is not restored itself, if replays of its
    /// updates could be accepted.
    pub(super) fn restore_ended(&mut self, now: Time, record: &BindingRecord, out: &mut Outbox) {
        let home = record.home_address;
        self.record_sequence(home, record.sequence, out);
        if !record.care_of.is_empty() {
            out.report(NemoReport::Deregistered { home_address: home, why: "not restored from the journal".into() });
        }
        if self.bindings.contains_key(&home) {
            return;
        }
        let timestamp = self.clamp_timestamp(now, Timestamp(record.timestamp));
        if !self.is_replayable(now, home, timestamp) || self.bindings.len() >= self.config.max_bindings {
            return out.drop(Key::JournalRecord(JournalKey::Binding(home)));
        }
        let (tunnel, sequence) = (self.tunnel_id(home), record.sequence);
        let forget_at = Some(now + self.tombstone_lifetime(home));
        let binding = Binding { tunnel, sequence, timestamp, forget_at, has_tombstone: true, ..Default::default() };
        self.tunnels.insert(binding.tunnel, home);
        self.bindings.insert(home, Box::new(binding));
        self.write_deregistration(now, home, out);
        self.schedule(home);
    }

    /// Limits a restored timestamp to the window around the clock. One beyond was made before the clock was set back,
    /// and would have every update rejected until the clock has passed it.
    pub(super) fn clamp_timestamp(&self, now: Time, timestamp: Timestamp) -> Timestamp {
        let Some(unix) = self.clock.unix_micros(now) else { return timestamp };
        let window = u64::try_from(TIMESTAMP_WINDOW.as_micros()).unwrap_or(0);
        let latest = Timestamp::from_unix_micros(unix.saturating_add(window));
        if timestamp.is_after(latest) { Timestamp::from_unix_micros(unix) } else { timestamp }
    }

    /// How long an ended binding is remembered.
    pub(super) fn tombstone_lifetime(&self, home: HomeAddress) -> Duration {
        if self.uses_timestamps(home) { REPLAY_WINDOW.max(MAX_DELETE_BCE_TIMEOUT) } else { MAX_DELETE_BCE_TIMEOUT }
    }

    /// Whether a replay of an update with this or an older timestamp could be accepted without a tombstone.
    fn is_replayable(&self, now: Time, home: HomeAddress, timestamp: Timestamp) -> bool {
        let span = u64::try_from(REPLAY_WINDOW.as_micros()).unwrap_or(0);
        let edge = self.clock.timestamp(now).map(|clock| clock.moved_back(span));
        self.uses_timestamps(home) && edge.is_some_and(|edge| timestamp.is_after(edge))
    }

    fn uses_timestamps(&self, home: HomeAddress) -> bool {
        self.prefix_table_row(home).is_some_and(|row| matches!(row.authentication, Authentication::SharedKey(_)))
    }
}
