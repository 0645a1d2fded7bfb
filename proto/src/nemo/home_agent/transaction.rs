//! Transactions from a valid update to its acknowledgement: nothing is acknowledged before the host forwards and the
//! journal is written; after a rejected item everything is rolled back (RFC 3963 §6.2, RFC 6275 §10.3.1).

use super::cache::{Binding, PendingRegistration, Registration, RegistrationState};
use super::types::{HomeAgentTimer, Reply};
use super::{HomeAgent, forwarding, home_link};
use crate::contract::item::{BindingRecord, JournalRecord};
use crate::contract::report::NemoReport;
use crate::{Item, Key, Outbox, Outcome, Time, VecSet};
use core::time::Duration;
use roam6_wire::mobility::Status;
use roam6_wire::{HomeAddress, Prefix};

/// Interval before a rejected item of a binding in force is put again.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The same for items of no binding, which the host may reject as long as it has no address of the prefix.
const OWN_RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// What waits for the outcome of an item.
#[derive(Debug, Clone, Copy)]
pub(super) enum Waiting {
    /// No binding.
    HomeAgent,
    /// A binding in force; no acknowledgement.
    Binding(HomeAddress),
    /// A registration or de-registration, by the number of its transaction.
    Transaction(HomeAddress, u64),
    /// A record of the fleet's store.
    #[cfg(feature = "fleet")]
    Commit(HomeAddress),
}

impl HomeAgent {
    /// Starts a valid registration: duplicate address detection if required, then installation. It supersedes a
    /// pending registration of the same home address.
    pub(super) fn start_registration(
        &mut self,
        now: Time,
        home: HomeAddress,
        mut next: Registration,
        answer: Reply,
        out: &mut Outbox,
    ) {
        let transaction = self.begin_transaction();
        self.deregistrations.remove(&home);
        // A router on the home link has run duplicate address detection itself.
        let must_probe = next.home_link_address.is_none() && self.needs_dad(home);
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        next.date(now, binding.current.as_ref());
        let superseded = binding.pending.take();
        let probing = superseded.as_ref().and_then(|pending| match pending.state {
            RegistrationState::CheckingDuplicates(until) => Some(until).filter(|_| next.home_link_address.is_none()),
            RegistrationState::Installing { .. } => None,
        });
        let ask = superseded.is_none() && must_probe;
        let stage = match probing {
            Some(until) => RegistrationState::CheckingDuplicates(until),
            None if ask => RegistrationState::CheckingDuplicates(now + home_link::RETRANS_TIMER),
            None => RegistrationState::Installing { outstanding: 0, rejected: None },
        };
        let install = matches!(stage, RegistrationState::Installing { .. });
        let abandoned = superseded.map(|pending| pending.registration);
        binding.pending =
            Some(Box::new(PendingRegistration { transaction, registration: next, state: stage, reply: answer }));
        self.update_indexes(home, abandoned.as_ref(), out);
        if ask {
            self.send_dad_solicitations(home, out);
        }
        if install {
            // Items of the binding in force that the host has rejected are missing.
            let lacking = self.timers.deadline_of(&HomeAgentTimer::Reinstall(home)).is_some();
            self.install(home, abandoned.is_some() || lacking, out);
        }
        self.schedule(home);
    }

    /// Puts the items that the pending registration needs and the host lacks; with `all`, every item.
    pub(super) fn install(&mut self, home: HomeAddress, all: bool, out: &mut Outbox) {
        let Some(binding) = self.bindings.get(&home) else { return };
        let Some(pending) = &binding.pending else { return };
        let current = binding.current.as_ref().filter(|_| !all);
        let mut items = Vec::new();
        if current.is_none_or(|current| !current.forwards_same_as(&pending.registration)) {
            let wanted = |registration| {
                [self.home_link_items(home, registration), self.tunnel_items(home, binding, registration)].concat()
            };
            let held = current.map(wanted).unwrap_or_default();
            // Proxies and routes of the registration in force are not put again.
            let is_kept = |item: &Item| matches!(item, Item::ProxyNeighbour(_) | Item::Route(_)) && held.contains(item);
            items = wanted(&pending.registration);
            items.retain(|item| !is_kept(item));
        }
        // A new key is in the journal before the mobile router knows of it.
        items.extend(match pending.reply.key_answer {
            Some(_) => self.keys_item(home),
            None => self.unwritten_keys(home),
        });
        items.extend(self.journal_item(home, binding, &pending.registration));
        let waiting = Waiting::Transaction(home, pending.transaction);
        if let Some(pending) = self.bindings.get_mut(&home).and_then(|binding| binding.pending.as_mut()) {
            pending.state = RegistrationState::Installing { outstanding: items.len(), rejected: None };
        }
        for item in items {
            self.desired_state.put_once(item, waiting, out);
        }
        #[cfg(feature = "fleet")]
        self.begin_commit(home, out);
    }

    /// The journal record of a binding with this registration; none in a fleet, whose store has it.
    pub(super) fn journal_item(
        &self,
        home: HomeAddress,
        binding: &Binding,
        registration: &Registration,
    ) -> Option<Item> {
        #[cfg(feature = "fleet")]
        if self.fleet.is_some() {
            return None;
        }
        Some(Item::JournalRecord(JournalRecord::Binding(self.binding_record(home, binding, registration))))
    }

    /// The record of a binding with this registration.
    pub(super) fn binding_record(
        &self,
        home: HomeAddress,
        binding: &Binding,
        registration: &Registration,
    ) -> BindingRecord {
        let path_mtus = self.path_mtu.reported_to(registration);
        BindingRecord { path_mtus, ..binding.journal_record(home, registration, &self.clock) }
    }

    /// A new number of a transaction.
    pub(super) fn begin_transaction(&mut self) -> u64 {
        self.last_transaction += 1;
        self.last_transaction
    }

    /// Puts an item of a binding in force; no acknowledgement waits for it.
    pub(super) fn put(&mut self, home: HomeAddress, item: Item, out: &mut Outbox) {
        self.desired_state.put_once(item, Waiting::Binding(home), out);
    }

    /// Puts an item of no binding.
    pub(super) fn put_own(&mut self, item: Item, out: &mut Outbox) {
        self.desired_state.put_once(item, Waiting::HomeAgent, out);
    }

    /// Processes the outcome of a `Put`.
    pub(super) fn receive_outcome(&mut self, now: Time, outcome: &Outcome, out: &mut Outbox) {
        let refused = outcome.error.is_some();
        match self.desired_state.receive_outcome(outcome, now + RETRY_INTERVAL, out) {
            Some(Waiting::HomeAgent) if refused && matches!(outcome.key, Key::Anycast(..) | Key::Route(..)) => {
                self.timers.set(HomeAgentTimer::ReinstallHomeLink, now + OWN_RETRY_INTERVAL);
            }
            Some(Waiting::Binding(home)) if refused => {
                self.timers.set(HomeAgentTimer::Reinstall(home), now + RETRY_INTERVAL);
            }
            Some(Waiting::Transaction(home, transaction)) => {
                self.deregistration_outcome(now, (home, transaction), refused, out);
                self.registration_outcome(now, (home, transaction), outcome, out);
            }
            #[cfg(feature = "fleet")]
            Some(Waiting::Commit(home)) => self.receive_commit(now, home, outcome, out),
            _ => {}
        }
    }

    /// Processes the outcome of an item of a registration, if `transaction` is that of the pending one.
    fn registration_outcome(
        &mut self,
        now: Time,
        (home, transaction): (HomeAddress, u64),
        outcome: &Outcome,
        out: &mut Outbox,
    ) {
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        let Some(pending) = binding.pending.as_mut().filter(|pending| pending.transaction == transaction) else {
            return;
        };
        let RegistrationState::Installing { outstanding: missing, rejected: refused } = &mut pending.state else {
            return;
        };
        *missing = missing.saturating_sub(1);
        if outcome.error.is_some() {
            refused.get_or_insert_with(|| outcome.key.clone());
        }
        if *missing == 0 {
            match refused.take() {
                Some(key) => {
                    #[cfg(feature = "fleet")]
                    self.forget_transaction(home, transaction);
                    self.roll_back(now, home, &key, out)
                }
                #[cfg(feature = "fleet")]
                None if self.fleet.is_some() => self.begin_commit(home, out),
                None => self.commit(now, home, out),
            }
        }
    }

    /// Puts the pending registration in force, and acknowledges it.
    pub(super) fn commit(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        let Some(pending) = binding.pending.take() else { return };
        let PendingRegistration { registration: next, reply: answer, .. } = *pending;
        let first = binding.current.is_none();
        let moved = binding.current.as_ref().is_some_and(|old| old.addresses() != next.addresses());
        binding.linger(now, &next);
        binding.refresh_requested = false;
        binding.forget_at = None;
        binding.has_tombstone = false;
        let report = NemoReport::Registered {
            home_address: home,
            care_of: next.addresses(),
            sequence: binding.sequence,
            lifetime: next.lifetime,
            moved,
        };
        let old = binding.current.replace(next);
        self.update_indexes(home, old.as_ref(), out);
        if first {
            self.send_neighbour_advertisements(now, home, home_link::MAX_NEIGHBOR_ADVERTISEMENT, out);
        }
        self.note_keys_written(home);
        self.acknowledge(&answer, out);
        out.report(report);
        self.schedule(home);
    }

    /// Rolls back a registration after the host rejected `key`.
    fn roll_back(&mut self, now: Time, home: HomeAddress, key: &Key, out: &mut Outbox) {
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        let Some(pending) = binding.pending.take() else { return };
        let PendingRegistration { registration: next, reply: answer, .. } = *pending;
        let status = match key {
            // A prefix of explicit mode that cannot be forwarded (RFC 3963 §6.2).
            Key::Route(_, prefix, ..) if next.explicit && !prefix.is_ipv4() && *prefix != Prefix::host(home.0) => {
                Status::INVALID_PREFIX
            }
            _ => Status::INSUFFICIENT_RESOURCES,
        };
        if binding.current.is_none() {
            binding.current = Some(next);
            self.end_binding(now, home, false, out);
        } else {
            self.put_forwarding(home, out);
            self.update_indexes(home, Some(&next), out);
            self.schedule(home);
        }
        self.reject(&answer, status, out);
    }

    /// Puts the tunnel, the routes and the journal record of a binding in force again.
    pub(super) fn put_forwarding(&mut self, home: HomeAddress, out: &mut Outbox) {
        let Some(binding) = self.bindings.get(&home) else { return };
        let Some(current) = &binding.current else { return };
        let mut items = self.tunnel_items(home, binding, current);
        items.extend(self.journal_item(home, binding, current));
        for item in items {
            self.put(home, item, out);
        }
    }

    /// Drops the routes and proxies of a binding; the tunnel and the journal record remain.
    pub(super) fn stop_forwarding(&mut self, home: HomeAddress, out: &mut Outbox) -> Option<Registration> {
        let sequence = self.bindings.get(&home)?.sequence;
        self.record_sequence(home, sequence, out);
        let binding = self.bindings.get_mut(&home)?;
        let abandoned = binding.pending.take().map(|pending| pending.registration);
        let current = binding.current.take();
        (binding.refresh_requested, binding.duplicate_reported) = (false, false);
        if current.is_some() || abandoned.is_some() {
            out.drop(forwarding::tunnel_route(binding.tunnel, Prefix::host(home.0)).key());
        }
        self.update_indexes(home, abandoned.as_ref(), out);
        self.update_indexes(home, current.as_ref(), out);
        current.or(abandoned)
    }

    /// Updates the indexes by care-of address and prefix after `old` was superseded: prefixes that are neither in
    /// force nor pending lose their routes, and addresses their proxies.
    pub(super) fn update_indexes(&mut self, home: HomeAddress, old: Option<&Registration>, out: &mut Outbox) {
        let Some(binding) = self.bindings.get(&home) else { return };
        let live: Vec<&Registration> = binding.live().collect();
        let all = |one| self.tunnelled_prefixes(binding.tunnel, home, one);
        let prefixes: VecSet<Prefix> = live.iter().copied().flat_map(all).collect();
        let lost: Vec<Prefix> = old.into_iter().flat_map(all).filter(|prefix| !prefixes.contains(prefix)).collect();
        let addresses: VecSet<_> = live.iter().flat_map(|live| live.addresses()).collect();
        if let Some(old) = old {
            for prefix in lost {
                self.prefixes.remove(prefix);
                out.drop(forwarding::tunnel_route(binding.tunnel, prefix).key());
            }
            let standing: Vec<Item> = live.iter().flat_map(|live| self.home_link_items(home, live)).collect();
            let gone = self.home_link_items(home, old).into_iter().map(|item| item.key());
            gone.filter(|key| standing.iter().all(|item| item.key() != *key)).for_each(|key| out.drop(key));
            for address in old.addresses().into_iter().filter(|address| !addresses.contains(address)) {
                self.care_of_index.remove(&(address, binding.tunnel));
            }
        }
        prefixes.iter().for_each(|prefix| self.prefixes.insert(*prefix, binding.tunnel));
        self.care_of_index.extend(addresses.into_iter().map(|address| (address, binding.tunnel)));
    }
}
