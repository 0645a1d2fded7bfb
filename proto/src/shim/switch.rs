//! Switch to another locator pair although the current one works: by order of the operator, or back to a preferred pair
//! that works again (failback). The same probes check on the current pair whether the peer still has the context.
//! A switch is independent of the exploration of RFC 5534 §6: an InboundOk probe on the pair makes the peer answer with
//! a probe that reports it. This proves one direction and changes no REAP state.

use super::context::{Context, ContextIndex};
use super::switch_attempt::{SwitchAttempt, SwitchReason};
use super::{Shim, Timer};
use crate::{AddressPair, ContextId, Outbox, Time};
use core::time::Duration;
use roam6_wire::shim6::{Fork, Message, Nonce, Probe, ProbeRecord, ProbeState};

/// Probes of one attempt, and the time between two (RFC 5534 §7: Number of Initial Probes, Initial Probe Timeout).
const MAX_PROBES: usize = 4;
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// Time to wait for the answer to the last probe.
const LAST_PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of context checks if failback is disabled.
const CONTEXT_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Failback backs off by doubling after each early failure, so many times at most.
const MAX_BACKOFF_DOUBLINGS: u32 = 6;

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
        if self.timers.deadline_of(&Timer::Announce).is_some() {
            self.rebuild_locator_lists();
        }
        let meant = |id: &ContextId| id.fork == Fork::NONE && ulids.is_none_or(|ulids| ulids == id.ulids);
        let indices: Vec<ContextIndex> =
            self.contexts.iter().filter(|(_, context)| meant(&context.id)).map(|(index, _)| index).collect();
        let able: Vec<ContextIndex> =
            indices.into_iter().filter(|index| self.candidate_pairs(*index).contains_key(&path)).collect();
        if able.is_empty() {
            let text = format!("no context can use {path}: both addresses must be locators of one context");
            out.notice(text);
        }
        for index in able {
            match fork {
                Fork::NONE => self.switch_context(now, index, path, out),
                fork => self.switch_fork(now, index, fork, path, out),
            }
        }
    }

    fn switch_context(&mut self, now: Time, index: ContextIndex, path: AddressPair, out: &mut Outbox) {
        let Some(context) = self.contexts.get(index) else { return };
        if context.path == path {
            context.failback.chosen_by_operator = true;
        } else {
            self.start_switch(now, index, SwitchAttempt::new(now, path, SwitchReason::Operator), out);
        }
    }

    /// Switches the fork of a context; a new fork starts with the current pair of its parent.
    fn switch_fork(&mut self, now: Time, index: ContextIndex, fork: Fork, path: AddressPair, out: &mut Outbox) {
        let Some(context) = self.contexts.get(index).filter(|context| context.is_established()) else { return };
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
    fn start_switch(&mut self, now: Time, index: ContextIndex, attempt: SwitchAttempt, out: &mut Outbox) {
        let Some(context) = self.contexts.get(index) else { return };
        context.switch_attempt = Some(Box::new(attempt));
        match &mut context.recovery {
            Some(recovery) => {
                recovery.exploration.restart_backoff();
                self.timers.set(Timer::Probe(index), now);
            }
            None => self.send_switch_probe(now, index, out),
        }
    }

    /// Sends the next probe on the target pair, or abandons the switch.
    pub(super) fn send_switch_probe(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let pairs = self.candidate_pairs(index);
        let Some(context) = self.contexts.get(index).filter(|context| context.recovery.is_none()) else { return };
        let (Some(attempt), Some(peer)) = (&mut context.switch_attempt, &context.peer) else { return };
        if attempt.sent_nonces.len() >= MAX_PROBES || !pairs.contains_key(&attempt.path) {
            return self.abandon_switch(now, index, out);
        }
        let (path, nonce) = (attempt.path, Nonce(self.entropy.next_u64() as u32));
        attempt.sent_nonces.push(nonce);
        let pause = if attempt.sent_nonces.len() < MAX_PROBES { PROBE_INTERVAL } else { LAST_PROBE_TIMEOUT };
        let record = ProbeRecord { source: path.local, destination: path.peer, nonce, data: 0 };
        let (state, sent) = (ProbeState::InboundOk, vec![record]);
        let probe = Probe { tag: peer.tag, state, sent, received: Vec::new(), options: Vec::new() };
        self.timers.set(Timer::Switch(index), now + pause);
        self.send(path, &Message::Probe(probe), out);
    }

    fn abandon_switch(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let Some(context) = self.contexts.get(index) else { return };
        let (id, path, in_use) = (context.id, context.path, context.is_recently_active(now));
        let Some(attempt) = context.switch_attempt.take() else { return };
        let unheard = attempt.reported_nonces.is_empty();
        match attempt.reason {
            SwitchReason::Operator => {
                let text = format!("{id}: no probe on {} was answered; the context stays on {path}", attempt.path);
                out.notice(text);
            }
            SwitchReason::Failback if unheard => {
                self.start_switch(now, index, SwitchAttempt::new(now, path, SwitchReason::ContextCheck), out)
            }
            SwitchReason::ContextCheck if unheard && in_use => {
                self.enter_exploring(now, index, "the peer does not answer", out)
            }
            SwitchReason::Failback | SwitchReason::ContextCheck => {}
        }
    }

    /// The peer has reported probes: the target pair may have proved to work.
    pub(super) fn receive_probe_reports(
        &mut self,
        now: Time,
        index: ContextIndex,
        received: &[ProbeRecord],
        out: &mut Outbox,
    ) {
        let Some(context) = self.contexts.get(index).filter(|context| context.recovery.is_none()) else { return };
        let Some(attempt) = &mut context.switch_attempt else { return };
        if !attempt.record_reports(received) {
            return;
        }
        let (path, since) = (attempt.path, attempt.since);
        if attempt.reason == SwitchReason::ContextCheck {
            context.switch_attempt = None;
            self.timers.cancel(&Timer::Switch(index));
        } else {
            self.enter_operational(now, index, Some(path), since, out);
        }
    }

    /// An exploration or a switch has ended.
    pub(super) fn finish_switch(&mut self, now: Time, index: ContextIndex, former: AddressPair) {
        let Some(context) = self.contexts.get(index).filter(|context| context.is_established()) else { return };
        let path = context.path;
        let fulfilled = context.switch_attempt.take_if(|attempt| attempt.path == path);
        if path != former || fulfilled.is_some() {
            context.failback.chosen_by_operator =
                fulfilled.is_some_and(|attempt| attempt.reason == SwitchReason::Operator);
        }
        match &mut context.switch_attempt {
            // The switch waited for the exploration; one with a running timer continues.
            Some(attempt) if self.timers.deadline_of(&Timer::Switch(index)).is_none() => {
                attempt.sent_nonces.clear();
                self.timers.set(Timer::Switch(index), now);
            }
            Some(_) => {}
            None => self.timers.cancel(&Timer::Switch(index)),
        }
    }

    /// Records when a context leaves its ULIDs or returns to them, and sets the failback timer.
    pub(super) fn schedule_failback(&mut self, now: Time, index: ContextIndex) {
        let pause = self.config.return_after.unwrap_or(CONTEXT_CHECK_INTERVAL);
        let Some(context) = self.contexts.get(index) else { return };
        if context.path == context.id.ulids {
            if core::mem::take(&mut context.failback.failed_over) {
                context.failback.returned_at = Some(now);
            }
            return self.timers.cancel(&Timer::Failback(index));
        }
        if !core::mem::replace(&mut context.failback.failed_over, true) {
            let returned = context.failback.returned_at.take();
            let soon =
                returned.is_some_and(|at| now.since(at) < 2 * pause * 2u32.pow(context.failback.consecutive_failures));
            context.failback.consecutive_failures =
                if soon { (context.failback.consecutive_failures + 1).min(MAX_BACKOFF_DOUBLINGS) } else { 0 };
        }
        if self.timers.deadline_of(&Timer::Failback(index)).is_none() {
            self.timers.set(Timer::Failback(index), now + pause * 2u32.pow(context.failback.consecutive_failures));
        }
    }

    /// Attempts the failback to the preferred pair, or checks the context if the current pair is preferred.
    pub(super) fn try_failback(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let favourite = self.preferred_pair(index);
        let returns = self.config.return_after.is_some();
        self.schedule_failback(now, index);
        let idle = |context: &&mut Context| context.recovery.is_none() && context.switch_attempt.is_none();
        let Some(context) = self.contexts.get(index).filter(idle) else { return };
        let present = context.path;
        let better = favourite.filter(|path| *path != present && returns && !context.failback.chosen_by_operator);
        let attempt = better.map_or(SwitchAttempt::new(now, present, SwitchReason::ContextCheck), |path| {
            SwitchAttempt::new(now, path, SwitchReason::Failback)
        });
        self.start_switch(now, index, attempt, out);
    }

    /// The pair of least cost; among equals the ULIDs, which need no payload header, then the current pair.
    fn preferred_pair(&mut self, index: ContextIndex) -> Option<AddressPair> {
        let pairs = self.candidate_pairs(index);
        let context = self.contexts.get(index)?;
        let liked = |(pair, rank): &(AddressPair, super::exploration::PairRank)| {
            (rank.cost, *pair != context.id.ulids, *pair != context.path, *pair)
        };
        pairs.into_iter().filter(|(_, rank)| !rank.last_resort).min_by_key(liked).map(|(pair, _)| pair)
    }
}
