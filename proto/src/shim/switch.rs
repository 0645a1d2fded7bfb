//! Switch to another locator pair although the current one works: by order of the operator, or back to a preferred pair
//! that works again (failback). The same probes check on the current pair whether the peer still has the context.
//! A switch is independent of the exploration of RFC 5534 §6: an InboundOk probe on the pair makes the peer answer with
//! a probe that reports it. This proves one direction and changes no REAP state.

use super::context::{Context, ContextIndex};
use super::reap::RECENTLY_ACTIVE;
use super::{Shim, Timer};
use crate::base::ids::{AddressPair, ContextId};
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use crate::contract::report::{HostReport, Report};
use core::time::Duration;
use roam6_wire::shim6::{Fork, Message, Nonce, Probe, ProbeRecord, ProbeState};

/// Probes of one attempt, and the time between two (RFC 5534 §7: Number of Initial Probes, Initial Probe Timeout).
const MAX_PROBES: usize = 4;
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// Time to wait for the answer to the last probe.
const LAST_PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Probes that the peer must report before an automatic failback, because a path may be lossy.
const MIN_REPORTED_PROBES: usize = 3;
/// Interval of context checks if failback is disabled.
const CONTEXT_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Failback backs off by doubling after each early failure, so many times at most.
const MAX_BACKOFF_DOUBLINGS: u32 = 6;

/// An attempt to switch to a pair.
#[derive(Debug)]
pub(super) struct SwitchAttempt {
    /// The target pair.
    pub(super) path: AddressPair,
    reason: SwitchReason,
    since: Time,
    sent_nonces: Vec<Nonce>,
    /// Nonces of our probes that the peer has reported.
    reported_nonces: Vec<Nonce>,
}

/// Why a switch is attempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SwitchReason {
    /// By the operator: a failure is reported, and success disables failback.
    Operator,
    /// The pair is the preferred one.
    Failback,
    /// The pair is the current one. Packets with the ULIDs have no payload header and tell nothing of the context: a
    /// peer that has lost it sends such packets, and its R1bis may be lost.
    ContextCheck,
}

/// State of the failback to the preferred pair.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Failback {
    /// The operator has chosen the current pair.
    chosen_by_operator: bool,
    /// The current pair differs from the ULIDs.
    failed_over: bool,
    /// Time of the last return to the ULIDs.
    returned_at: Option<Time>,
    /// Consecutive early failures after a return.
    consecutive_failures: u32,
}

impl SwitchAttempt {
    fn new(now: Time, path: AddressPair, why: SwitchReason) -> SwitchAttempt {
        SwitchAttempt { path, reason: why, since: now, sent_nonces: Vec::new(), reported_nonces: Vec::new() }
    }

    /// Records the peer's reports; returns whether they suffice for the switch.
    fn record_reports(&mut self, received: &[ProbeRecord]) -> bool {
        for nonce in received.iter().map(|record| record.nonce) {
            if self.sent_nonces.contains(&nonce) && !self.reported_nonces.contains(&nonce) {
                self.reported_nonces.push(nonce);
            }
        }
        self.reported_nonces.len() >= if self.reason == SwitchReason::Failback { MIN_REPORTED_PROBES } else { 1 }
    }
}

impl Shim {
    /// Starts a switch to `path` by order of the operator: of the contexts of these ULIDs, or of all that have the
    /// pair. With a fork only packets of sockets with its mark are switched; the fork is created if need be
    /// (RFC 5533 §5.15.7).
    pub(super) fn use_path(
        &mut self,
        now: Time,
        ulids: Option<AddressPair>,
        fork: Fork,
        path: AddressPair,
        out: &mut Outbox,
    ) {
        // An order does not wait for the update delay.
        if self.agenda.deadline_of(&Timer::Announce).is_some() {
            self.rebuild_locator_lists();
        }
        let meant = |id: &ContextId| id.fork == Fork::NONE && ulids.is_none_or(|ulids| ulids == id.ulids);
        let slots: Vec<ContextIndex> =
            self.contexts.iter().filter(|(_, context)| meant(&context.id)).map(|(slot, _)| slot).collect();
        let able: Vec<ContextIndex> =
            slots.into_iter().filter(|slot| self.candidate_pairs(*slot).contains_key(&path)).collect();
        if able.is_empty() {
            let text = format!("no context can use {path}: both addresses must be locators of one context");
            out.report(Report::Host(HostReport::Notice { text }));
        }
        for slot in able {
            match fork {
                Fork::NONE => self.switch_context(now, slot, path, out),
                fork => self.switch_fork(now, slot, fork, path, out),
            }
        }
    }

    fn switch_context(&mut self, now: Time, slot: ContextIndex, path: AddressPair, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        if context.path == path {
            context.failback.chosen_by_operator = true;
        } else {
            self.start_switch(now, slot, SwitchAttempt::new(now, path, SwitchReason::Operator), out);
        }
    }

    /// Switches the fork of a context; a new fork starts with the current pair of its parent.
    fn switch_fork(&mut self, now: Time, slot: ContextIndex, fork: Fork, path: AddressPair, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot).filter(|context| context.is_established()) else { return };
        let (id, link, present) = (ContextId { fork, ..context.id }, context.link, context.path);
        if let Some(forked) = self.contexts.find(&id) {
            return self.switch_context(now, forked, path, out);
        }
        if !self.make_room(now, id.ulids.peer, out) {
            return;
        }
        let forked = self.create_context(now, id, link, present);
        if let Some(context) = self.contexts.get(forked) {
            context.switch_attempt = Some(Box::new(SwitchAttempt::new(now, path, SwitchReason::Operator)));
        }
        self.start_handshake(now, forked, 0, out);
    }

    /// Starts a switch. An exploration in progress probes the pair first, and decides when it ends.
    fn start_switch(&mut self, now: Time, slot: ContextIndex, wish: SwitchAttempt, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        context.switch_attempt = Some(Box::new(wish));
        match &mut context.recovery {
            Some(search) => {
                search.exploration.restart_backoff();
                self.agenda.set(Timer::Probe(slot), now);
            }
            None => self.send_switch_probe(now, slot, out),
        }
    }

    /// Sends the next probe on the target pair, or abandons the switch.
    pub(super) fn send_switch_probe(&mut self, now: Time, slot: ContextIndex, out: &mut Outbox) {
        let pairs = self.candidate_pairs(slot);
        let Some(context) = self.contexts.get(slot).filter(|context| context.recovery.is_none()) else { return };
        let (Some(wish), Some(peer)) = (&mut context.switch_attempt, &context.peer) else { return };
        if wish.sent_nonces.len() >= MAX_PROBES || !pairs.contains_key(&wish.path) {
            return self.abandon_switch(now, slot, out);
        }
        let (path, nonce) = (wish.path, Nonce(self.entropy.next_u64() as u32));
        wish.sent_nonces.push(nonce);
        let pause = if wish.sent_nonces.len() < MAX_PROBES { PROBE_INTERVAL } else { LAST_PROBE_TIMEOUT };
        let record = ProbeRecord { source: path.local, destination: path.peer, nonce, data: 0 };
        let (state, sent) = (ProbeState::InboundOk, vec![record]);
        let probe = Probe { tag: peer.tag, state, sent, received: Vec::new(), options: Vec::new() };
        self.agenda.set(Timer::Wish(slot), now + pause);
        self.send(path, &Message::Probe(probe), out);
    }

    fn abandon_switch(&mut self, now: Time, slot: ContextIndex, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        let (id, path, in_use) = (context.id, context.path, context.last_activity + RECENTLY_ACTIVE > now);
        let Some(wish) = context.switch_attempt.take() else { return };
        let unheard = wish.reported_nonces.is_empty();
        match wish.reason {
            SwitchReason::Operator => {
                let text = format!("{id}: no probe on {} was answered; the context stays on {path}", wish.path);
                out.report(Report::Host(HostReport::Notice { text }));
            }
            SwitchReason::Failback if unheard => {
                self.start_switch(now, slot, SwitchAttempt::new(now, path, SwitchReason::ContextCheck), out)
            }
            SwitchReason::ContextCheck if unheard && in_use => {
                self.enter_exploring(now, slot, "the peer does not answer", out)
            }
            SwitchReason::Failback | SwitchReason::ContextCheck => {}
        }
    }

    /// The peer has reported probes: the target pair may have proved to work.
    pub(super) fn receive_probe_reports(
        &mut self,
        now: Time,
        slot: ContextIndex,
        received: &[ProbeRecord],
        out: &mut Outbox,
    ) {
        let Some(context) = self.contexts.get(slot).filter(|context| context.recovery.is_none()) else { return };
        let Some(wish) = &mut context.switch_attempt else { return };
        if !wish.record_reports(received) {
            return;
        }
        let (path, since) = (wish.path, wish.since);
        if wish.reason == SwitchReason::ContextCheck {
            context.switch_attempt = None;
            self.agenda.cancel(&Timer::Wish(slot));
        } else {
            self.enter_operational(now, slot, Some(path), since, out);
        }
    }

    /// An exploration or a switch has ended.
    pub(super) fn finish_switch(&mut self, now: Time, slot: ContextIndex, former: AddressPair) {
        let Some(context) = self.contexts.get(slot).filter(|context| context.is_established()) else { return };
        let path = context.path;
        let fulfilled = context.switch_attempt.take_if(|wish| wish.path == path);
        if path != former || fulfilled.is_some() {
            context.failback.chosen_by_operator = fulfilled.is_some_and(|wish| wish.reason == SwitchReason::Operator);
        }
        match &mut context.switch_attempt {
            // The switch waited for the exploration; one with a running timer continues.
            Some(wish) if self.agenda.deadline_of(&Timer::Wish(slot)).is_none() => {
                wish.sent_nonces.clear();
                self.agenda.set(Timer::Wish(slot), now);
            }
            Some(_) => {}
            None => self.agenda.cancel(&Timer::Wish(slot)),
        }
    }

    /// Records when a context leaves its ULIDs or returns to them, and sets the failback timer.
    pub(super) fn schedule_failback(&mut self, now: Time, slot: ContextIndex) {
        let pause = self.config.return_after.unwrap_or(CONTEXT_CHECK_INTERVAL);
        let Some(context) = self.contexts.get(slot) else { return };
        if context.path == context.id.ulids {
            if core::mem::take(&mut context.failback.failed_over) {
                context.failback.returned_at = Some(now);
            }
            return self.agenda.cancel(&Timer::Return(slot));
        }
        if !core::mem::replace(&mut context.failback.failed_over, true) {
            let returned = context.failback.returned_at.take();
            let soon =
                returned.is_some_and(|at| now.since(at) < 2 * pause * 2u32.pow(context.failback.consecutive_failures));
            context.failback.consecutive_failures =
                if soon { (context.failback.consecutive_failures + 1).min(MAX_BACKOFF_DOUBLINGS) } else { 0 };
        }
        if self.agenda.deadline_of(&Timer::Return(slot)).is_none() {
            self.agenda.set(Timer::Return(slot), now + pause * 2u32.pow(context.failback.consecutive_failures));
        }
    }

    /// Attempts the failback to the preferred pair, or checks the context if the current pair is preferred.
    pub(super) fn try_failback(&mut self, now: Time, slot: ContextIndex, out: &mut Outbox) {
        let favourite = self.preferred_pair(slot);
        let returns = self.config.return_after.is_some();
        self.schedule_failback(now, slot);
        let idle = |context: &&mut Context| context.recovery.is_none() && context.switch_attempt.is_none();
        let Some(context) = self.contexts.get(slot).filter(idle) else { return };
        let present = context.path;
        let better = favourite.filter(|path| *path != present && returns && !context.failback.chosen_by_operator);
        let wish = better.map_or(SwitchAttempt::new(now, present, SwitchReason::ContextCheck), |path| {
            SwitchAttempt::new(now, path, SwitchReason::Failback)
        });
        self.start_switch(now, slot, wish, out);
    }

    /// The pair of least cost; among equals the ULIDs, which need no payload header, then the current pair.
    fn preferred_pair(&mut self, slot: ContextIndex) -> Option<AddressPair> {
        let pairs = self.candidate_pairs(slot);
        let context = self.contexts.get(slot)?;
        let liked = |(pair, rank): &(AddressPair, super::exploration::PairRank)| {
            (rank.cost, *pair != context.id.ulids, *pair != context.path, *pair)
        };
        pairs.into_iter().filter(|(_, rank)| !rank.last_resort).min_by_key(liked).map(|(pair, _)| pair)
    }
}

/// The pair that an exploration is to probe first.
pub(super) fn switch_target(context: &Context) -> Option<AddressPair> {
    context.switch_attempt.as_ref().map(|wish| wish.path)
}
