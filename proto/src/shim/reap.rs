//! REAP, the failure detection and locator pair exploration protocol (RFC 5534 §6).

use super::context::{Context, ContextIndex, PeerLocator, Recovery};
use super::exploration::{Exploration, PairRank};
use super::{SAMPLE_TIMEOUT, Shim, Timer};
use crate::contract::report::ShimReport;
use crate::{Activity, AddressPair, Outbox, Time, VecMap};
use core::time::Duration;
use roam6_wire::shim6::{LocatorPreference, Message, Probe, ProbeState};

/// The least Send Timeout towards a peer that supports whole seconds only.
const MIN_WHOLE_SECOND_TIMEOUT: Duration = Duration::from_secs(1);

impl Shim {
    /// The Send or Keepalive Timer may have expired: requests a sample of the data plane, which decides.
    pub(super) fn poll_activity(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let Some(id) = self.contexts.get(index).filter(|context| context.is_established()).map(|context| context.id)
        else {
            return;
        };
        self.sample(id, out);
        self.timers.set(Timer::Reap(index), now + SAMPLE_TIMEOUT);
    }

    /// Ends a context that is no longer in use (RFC 5533 §9).
    pub(super) fn check_idle(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let Some(context) = self.contexts.get(index) else { return };
        if !context.is_established() && context.handshake.is_some() {
            return self.timers.set(Timer::Idle(index), now + self.config.idle_timeout);
        }
        let id = context.id;
        if core::mem::replace(&mut context.idle_check_pending, true) {
            return self.end_context(index, "idle", out);
        }
        self.sample(id, out);
        self.timers.set(Timer::Idle(index), now + SAMPLE_TIMEOUT);
    }

    pub(super) fn handle_activity(&mut self, now: Time, activity: &Activity, out: &mut Outbox) {
        let Some(index) = self.contexts.find(&activity.context) else { return };
        let idle_timeout = self.config.idle_timeout;
        let works = |path: AddressPair| self.uplinks.is_usable(path.local);
        let Some(context) = self.contexts.get(index) else { return };
        context.last_activity = context
            .last_activity
            .max(activity.last_sent.unwrap_or_default())
            .max(activity.last_received.unwrap_or_default());
        context.traffic = (activity.tx, activity.rx);
        if core::mem::take(&mut context.idle_check_pending) && context.last_activity + idle_timeout <= now {
            return self.end_context(index, "idle", out);
        }
        let idle_at = context.last_activity + idle_timeout;
        context.reap_timers.record_activity(activity);
        let exploring_since = context
            .recovery
            .as_ref()
            .filter(|recovery| !recovery.inbound_ok)
            .map(|recovery| recovery.exploration.since);
        let in_use = context.is_recently_active(now);
        let lost = context.recovery.is_none() && !is_path_usable(context, works(context.path));
        self.timers.set(Timer::Idle(index), idle_at.max(now + Duration::from_millis(1)));
        if exploring_since.is_some_and(|since| activity.last_received > Some(since)) {
            self.enter_inbound_ok(now, index, out);
        } else if lost && in_use {
            self.enter_exploring(now, index, "a locator of the current pair is gone", out);
        }
        self.check_reap_timers(now, index, out);
    }

    /// Acts on expired Send and Keepalive Timers, and sets the next one.
    fn check_reap_timers(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let send_timeout = self.send_timeout(index);
        let Some(context) = self.contexts.get(index) else { return };
        let Some(keepalive) = context.peer.as_ref().map(|peer| peer.keepalive_timeout.into()) else { return };
        if context.recovery.as_ref().is_some_and(|recovery| !recovery.inbound_ok) {
            return self.timers.cancel(&Timer::Reap(index));
        }
        if context.reap_timers.send_timer_expiry(send_timeout).is_some_and(|at| at <= now) {
            return self.enter_exploring(now, index, "nothing is heard", out);
        }
        let operational = context.recovery.is_none();
        if operational && context.reap_timers.keepalive_due(keepalive).is_some_and(|at| at <= now) {
            self.send_keepalive(now, index, out);
        }
        self.set_reap_timer(now, index);
    }

    /// Sets the engine's timer to the earlier of Send and Keepalive Timer.
    pub(super) fn set_reap_timer(&mut self, now: Time, index: ContextIndex) {
        let send_timeout = self.send_timeout(index);
        let Some(context) = self.contexts.get(index) else { return };
        let Some(keepalive) = context.peer.as_ref().map(|peer| peer.keepalive_timeout.into()) else { return };
        let keepalive_at = context.reap_timers.keepalive_due(keepalive).filter(|_| context.recovery.is_none());
        let silence_at = context.reap_timers.send_timer_expiry(send_timeout);
        match silence_at.into_iter().chain(keepalive_at).min() {
            Some(at) => self.timers.set(Timer::Reap(index), at.max(now)),
            None => self.timers.cancel(&Timer::Reap(index)),
        }
    }

    fn send_keepalive(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let Some(context) = self.contexts.get(index) else { return };
        let Some(peer) = &context.peer else { return };
        let (path, tag) = (context.path, peer.tag);
        context.reap_timers.on_keepalive_sent(now);
        self.send(path, &Message::Keepalive { tag, options: Vec::new() }, out);
    }

    pub(super) fn receive_keepalive(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let Some(context) = self.contexts.get(index) else { return };
        let id = context.id;
        context.reap_timers.on_message_received(now);
        if context.recovery.as_ref().is_some_and(|recovery| !recovery.inbound_ok) {
            self.enter_inbound_ok(now, index, out);
        }
        // The next packet sent restarts the Send Timer.
        self.sample(id, out);
        self.set_reap_timer(now, index);
    }

    /// Exploring to InboundOk: a packet of the peer has arrived (RFC 5534 §6.1).
    fn enter_inbound_ok(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let Some(context) = self.contexts.get(index) else { return };
        let Some(recovery) = &mut context.recovery else { return };
        recovery.inbound_ok = true;
        context.reap_timers.restart_send_timer(now);
        self.send_probe(now, index, None, out);
    }

    /// Enters the state Exploring, or stays in it.
    pub(super) fn enter_exploring(&mut self, now: Time, index: ContextIndex, why: &str, out: &mut Outbox) {
        let Some(context) = self.contexts.get(index) else { return };
        let (id, path) = (context.id, context.path);
        context.reap_timers.stop();
        match &mut context.recovery {
            Some(recovery) => {
                recovery.inbound_ok = false;
                recovery.exploration.forget_received(now);
            }
            None => {
                let exploration = Exploration::new(now, Some(path));
                context.recovery = Some(Box::new(Recovery { inbound_ok: false, exploration }));
                out.report(ShimReport::PathLost { context: id, path, why: why.to_owned() });
            }
        }
        self.timers.cancel(&Timer::Reap(index));
        self.sample(id, out);
        self.send_probe(now, index, None, out);
    }

    /// The next probe is due (RFC 5534 §6.5).
    pub(super) fn probe_timer_expired(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let Some(context) = self.contexts.get(index) else { return };
        if context.recovery.is_some() {
            self.send_probe(now, index, None, out);
        }
    }

    /// Sends a probe on the pair `requested`, or else on the next pair of the exploration, and sets the Probe timer.
    fn send_probe(&mut self, now: Time, index: ContextIndex, requested: Option<AddressPair>, out: &mut Outbox) {
        let pairs = self.candidate_pairs(index);
        let Some(context) = self.contexts.get(index) else { return };
        let wanted = context.switch_target();
        let (Some(recovery), Some(peer)) = (&mut context.recovery, &context.peer) else { return };
        let pause = recovery.exploration.next_interval(&mut self.entropy);
        self.timers.set(Timer::Probe(index), now + pause);
        let requested = requested.filter(|requested| pairs.contains_key(requested));
        let Some(pair) = requested.or_else(|| recovery.exploration.next_pair(pairs, wanted, &mut self.entropy)) else {
            return;
        };
        let state = if recovery.inbound_ok { ProbeState::InboundOk } else { ProbeState::Exploring };
        let sent = recovery.exploration.record_sent(now, pair, &mut self.entropy);
        let probe = Probe {
            tag: peer.tag,
            state,
            sent,
            received: recovery.exploration.received_reports(),
            options: Vec::new(),
        };
        if recovery.inbound_ok {
            context.reap_timers.on_message_sent(now);
        }
        self.send(pair, &Message::Probe(probe), out);
        self.set_reap_timer(now, index);
    }

    pub(super) fn receive_probe(
        &mut self,
        now: Time,
        index: ContextIndex,
        path: AddressPair,
        probe: &Probe,
        out: &mut Outbox,
    ) {
        let Some(context) = self.contexts.get(index) else { return };
        // A peer that probes has something to send.
        context.last_activity = now;
        let record = probe.sent.first().copied();
        let (wanted, present) = (context.switch_target(), context.path);
        let choose = |recovery: &Recovery| recovery.exploration.select_pair(&probe.received, wanted, present);
        if let Some(recovery) = &context.recovery
            && let Some(took) = recovery.exploration.round_trip(now, &probe.received)
        {
            context.round_trip = took.into();
        }
        match probe.state {
            ProbeState::Exploring => {
                let fresh = || Recovery { inbound_ok: true, exploration: Exploration::new(now, None) };
                let recovery = context.recovery.get_or_insert_with(|| Box::new(fresh()));
                recovery.inbound_ok = true;
                record.into_iter().for_each(|record| recovery.exploration.record_received(record));
                context.reap_timers.restart_send_timer(now);
                // The pair on which the probe arrived is the most likely to work in return.
                self.send_probe(now, index, Some(path), out);
            }
            ProbeState::InboundOk => {
                let mut recovery = context.recovery.take();
                let chosen = recovery.as_deref().and_then(choose);
                let fresh = || Box::new(Recovery { inbound_ok: true, exploration: Exploration::new(now, None) });
                let mut recovery = recovery.take().unwrap_or_else(fresh);
                record.into_iter().for_each(|record| recovery.exploration.record_received(record));
                context.reap_timers.on_message_received(now);
                context.reap_timers.restart_send_timer(now);
                self.enter_operational(now, index, chosen, recovery.exploration.since, out);
                self.send_operational_probe(now, index, &mut recovery.exploration, out);
            }
            ProbeState::Operational => {
                let recovery = context.recovery.take();
                context.reap_timers.on_message_received(now);
                context.reap_timers.start_keepalive_timer(now);
                if let Some(recovery) = recovery {
                    self.enter_operational(now, index, choose(&recovery), recovery.exploration.since, out);
                }
            }
        }
        self.receive_probe_reports(now, index, &probe.received, out);
        if let Some(id) = self.contexts.get(index).map(|context| context.id) {
            self.sample(id, out);
        }
        self.set_reap_timer(now, index);
    }

    /// Enters the state Operational, with another pair if one was chosen.
    pub(super) fn enter_operational(
        &mut self,
        now: Time,
        index: ContextIndex,
        chosen: Option<AddressPair>,
        since: Time,
        out: &mut Outbox,
    ) {
        self.timers.cancel(&Timer::Probe(index));
        let Some(context) = self.contexts.get(index) else { return };
        let (id, former) = (context.id, context.path);
        let path = chosen.unwrap_or(former);
        if path != former {
            context.path = path;
            self.put_context(now, index, out);
            if self.contexts.get(index).is_some_and(|context| context.pending_update.is_some()) {
                self.timers.set(Timer::Update(index), now);
            }
            out.report(ShimReport::PathChanged { context: id, path, after: now.since(since) });
        } else if chosen.is_some() {
            out.report(ShimReport::PathRecovered { context: id, path });
        }
        self.finish_switch(now, index, former);
    }

    /// Sends a probe with state Operational that reports the peer's probes (RFC 5534 §6.8).
    fn send_operational_probe(
        &mut self,
        now: Time,
        index: ContextIndex,
        exploration: &mut Exploration,
        out: &mut Outbox,
    ) {
        let Some(context) = self.contexts.get(index) else { return };
        let Some(peer) = &context.peer else { return };
        let sent = exploration.record_sent(now, context.path, &mut self.entropy);
        let received = exploration.received_reports();
        let state = ProbeState::Operational;
        let probe = Probe { tag: peer.tag, state, sent, received, options: Vec::new() };
        let path = context.path;
        self.send(path, &Message::Probe(probe), out);
    }

    /// Our locators or the peer's have changed: explores if the current pair is no longer valid.
    pub(super) fn recheck_path(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let works = |path: AddressPair| self.uplinks.is_usable(path.local);
        let Some(context) = self.contexts.get(index).filter(|context| context.is_established()) else { return };
        let works = works(context.path);
        if let Some(recovery) = &mut context.recovery {
            recovery.exploration.restart_backoff();
            self.timers.set(Timer::Probe(index), now);
        } else if !is_path_usable(context, works) {
            // The data plane knows whether the context is in use.
            let id = context.id;
            self.sample(id, out);
        }
    }

    /// All candidate pairs with their ranks. A pair is a last resort if the peer has flagged its locator as broken, if
    /// the peer does not know our locator yet, or for a ULID that the peer does not list: there a peer that has lost
    /// the context answers with R1bis (RFC 5533 §7.17).
    pub(super) fn candidate_pairs(&mut self, index: ContextIndex) -> VecMap<AddressPair, PairRank> {
        let mut pairs = VecMap::new();
        let Some(ulid) = self.contexts.get(index).map(|context| context.id.ulids.local) else { return pairs };
        let new = self.announcement(ulid);
        let Some(context) = self.contexts.get(index) else { return pairs };
        let Some(peer) = &context.peer else { return pairs };
        let announced = context.announced.locators.iter().copied().chain([ulid]).map(|local| (local, false));
        let added = new.locators.iter().filter(|local| !context.announced.locators.contains(local) && **local != ulid);
        for (local, last) in announced.chain(added.map(|local| (*local, true))) {
            if self.uplinks.is_usable(local) {
                let ours = self.uplinks.preference(local, &self.config.preferences);
                let unlisted = PairRank { last_resort: true, ..PairRank::of(ours, LocatorPreference::default()) };
                let pair = |remote: &PeerLocator| {
                    let rank =
                        PairRank { last_resort: last || remote.is_broken(), ..PairRank::of(ours, remote.preference) };
                    (AddressPair { local, peer: remote.address }, rank)
                };
                pairs.insert(AddressPair { local, peer: context.id.ulids.peer }, unlisted);
                pairs.extend(peer.locators.iter().map(pair));
            }
        }
        pairs
    }

    /// The pair for transmission number `tries` of a message: the current one first, then all others in turn.
    pub(super) fn pair_for_retransmission(&mut self, index: ContextIndex, tries: u32) -> Option<AddressPair> {
        let pairs = self.candidate_pairs(index);
        let path = self.contexts.get(index)?.path;
        let others = pairs.keys().filter(|pair| **pair != path);
        let all: Vec<AddressPair> =
            pairs.contains_key(&path).then_some(path).into_iter().chain(others.copied()).collect();
        all.get(usize::try_from(tries).ok()?.checked_rem(all.len())?).copied()
    }

    /// The Send Timeout of a context.
    fn send_timeout(&mut self, index: ContextIndex) -> Duration {
        let timeout = self.config.send_timeout.max(crate::contract::config::shim::MIN_SEND_TIMEOUT);
        let Some(context) = self.contexts.get(index) else { return timeout };
        let quick = context.peer.as_ref().is_some_and(|peer| peer.subsecond_timeouts);
        // The peer sends keepalives at a third of the timeout; these need a round trip.
        let least = Duration::from(context.round_trip) * 2 + timeout / 3;
        if quick { timeout.max(least) } else { timeout.max(least).max(MIN_WHOLE_SECOND_TIMEOUT) }
    }
}

/// Whether the current pair is valid; `local_works`: our locator is usable.
fn is_path_usable(context: &Context, local_works: bool) -> bool {
    let Some(peer) = &context.peer else { return false };
    let broken = |address| peer.locators.iter().any(|locator| locator.address == address && locator.is_broken());
    local_works && context.accepts_source(context.path.peer) && !broken(context.path.peer)
}
