//! REAP, the failure detection and locator pair exploration protocol (RFC 5534 §6).

use super::context::{Context, PeerLocator, Search, Slot};
use super::exploration::{Exploration, Rank};
use super::{ANSWER, Shim, Timer, wish};
use crate::base::few;
use crate::base::ids::AddressPair;
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use crate::contract::input::Activity;
use crate::contract::report::Report;
use core::time::Duration;
use roam6_wire::shim6::{Message, Preference, Probe, ProbeState};

/// The least Send Timeout towards a peer that supports whole seconds only.
const WHOLE_SECOND: Duration = Duration::from_secs(1);
/// A context with traffic in this time explores at once when its path is lost; others explore with the next packet.
pub(super) const RECENT: Duration = Duration::from_secs(30);

impl Shim {
    /// The Send or Keepalive Timer may have expired: requests a sample of the data plane, which decides.
    pub(super) fn question(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let Some(id) = self.contexts.get(slot).filter(|context| context.stands()).map(|context| context.id) else {
            return;
        };
        self.sample(id, out);
        self.agenda.set(Timer::Watch(slot), now + ANSWER);
    }

    /// Ends a context that is no longer in use (RFC 5533 §9).
    pub(super) fn doubt(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        if !context.stands() && context.opening.is_some() {
            return self.agenda.set(Timer::Idle(slot), now + self.config.idle_timeout);
        }
        let id = context.id;
        if core::mem::replace(&mut context.doubted, true) {
            return self.end(slot, "idle", out);
        }
        self.sample(id, out);
        self.agenda.set(Timer::Idle(slot), now + ANSWER);
    }

    pub(super) fn take_activity(&mut self, now: Time, activity: &Activity, out: &mut Outbox) {
        let Some(slot) = self.contexts.find(&activity.context) else { return };
        let idle_timeout = self.config.idle_timeout;
        let works = |path: AddressPair| self.uplinks.works(path.local);
        let Some(context) = self.contexts.get(slot) else { return };
        context.active =
            context.active.max(activity.last_sent.unwrap_or_default()).max(activity.last_received.unwrap_or_default());
        context.carried = (activity.tx, activity.rx);
        if core::mem::take(&mut context.doubted) && context.active + idle_timeout <= now {
            return self.end(slot, "idle", out);
        }
        let idle_at = context.active + idle_timeout;
        context.watch.put(activity);
        let exploring_since =
            context.search.as_ref().filter(|search| !search.hears).map(|search| search.exploration.since);
        let in_use = context.active + RECENT > now;
        let lost = context.search.is_none() && !usable(context, works(context.path));
        self.agenda.set(Timer::Idle(slot), idle_at.max(now + Duration::from_millis(1)));
        if exploring_since.is_some_and(|since| activity.last_received > Some(since)) {
            self.hear_something(now, slot, out);
        } else if lost && in_use {
            self.explore(now, slot, "a locator of the current pair is gone", out);
        }
        self.evaluate(now, slot, out);
    }

    /// Acts on expired Send and Keepalive Timers, and sets the next one.
    fn evaluate(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let send_timeout = self.send_timeout(slot);
        let Some(context) = self.contexts.get(slot) else { return };
        let Some(keepalive) = context.peer.as_ref().map(|peer| peer.keepalive.into()) else { return };
        if context.search.as_ref().is_some_and(|search| !search.hears) {
            return self.agenda.cancel(&Timer::Watch(slot));
        }
        if context.watch.silence_at(send_timeout).is_some_and(|at| at <= now) {
            return self.explore(now, slot, "nothing is heard", out);
        }
        let operational = context.search.is_none();
        if operational && context.watch.keepalive_at(keepalive).is_some_and(|at| at <= now) {
            self.send_keepalive(now, slot, out);
        }
        self.set_watch(now, slot);
    }

    /// Sets the engine's timer to the earlier of Send and Keepalive Timer.
    pub(super) fn set_watch(&mut self, now: Time, slot: Slot) {
        let send_timeout = self.send_timeout(slot);
        let Some(context) = self.contexts.get(slot) else { return };
        let Some(keepalive) = context.peer.as_ref().map(|peer| peer.keepalive.into()) else { return };
        let keepalive_at = context.watch.keepalive_at(keepalive).filter(|_| context.search.is_none());
        let silence_at = context.watch.silence_at(send_timeout);
        match silence_at.into_iter().chain(keepalive_at).min() {
            Some(at) => self.agenda.set(Timer::Watch(slot), at.max(now)),
            None => self.agenda.cancel(&Timer::Watch(slot)),
        }
    }

    fn send_keepalive(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        let Some(peer) = &context.peer else { return };
        let (path, tag) = (context.path, peer.tag);
        context.watch.keep(now);
        self.send(path, &Message::Keepalive { tag, options: Vec::new() }, out);
    }

    pub(super) fn hear_keepalive(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        let id = context.id;
        context.watch.hear(now);
        if context.search.as_ref().is_some_and(|search| !search.hears) {
            self.hear_something(now, slot, out);
        }
        // The next packet sent restarts the Send Timer.
        self.sample(id, out);
        self.set_watch(now, slot);
    }

    /// Exploring to InboundOk: a packet of the peer has arrived (RFC 5534 §6.1).
    fn hear_something(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        let Some(search) = &mut context.search else { return };
        search.hears = true;
        context.watch.ask_again(now);
        self.probe(now, slot, None, out);
    }

    /// Enters the state Exploring, or stays in it.
    pub(super) fn explore(&mut self, now: Time, slot: Slot, why: &str, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        let (id, path) = (context.id, context.path);
        context.watch.rest();
        match &mut context.search {
            Some(search) => {
                search.hears = false;
                search.exploration.forget_received(now);
            }
            None => {
                let exploration = Exploration::new(now, Some(path));
                context.search = Some(Box::new(Search { hears: false, exploration }));
                out.report(Report::PathLost { context: id, path, why: why.to_owned() });
            }
        }
        self.agenda.cancel(&Timer::Watch(slot));
        self.sample(id, out);
        self.probe(now, slot, None, out);
    }

    /// The next probe is due (RFC 5534 §6.5).
    pub(super) fn probe_again(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        if context.search.is_some() {
            self.probe(now, slot, None, out);
        }
    }

    /// Sends a probe by `way`, or else by the next pair of the exploration, and sets the Probe timer.
    fn probe(&mut self, now: Time, slot: Slot, way: Option<AddressPair>, out: &mut Outbox) {
        let pairs = self.pairs(slot);
        let Some(context) = self.contexts.get(slot) else { return };
        let wanted = wish::wanted(context);
        let (Some(search), Some(peer)) = (&mut context.search, &context.peer) else { return };
        let pause = search.exploration.pause(&mut self.entropy);
        self.agenda.set(Timer::Probe(slot), now + pause);
        let way = way.filter(|way| pairs.contains_key(way));
        let Some(pair) = way.or_else(|| search.exploration.next(pairs, wanted, &mut self.entropy)) else { return };
        let state = if search.hears { ProbeState::InboundOk } else { ProbeState::Exploring };
        let sent = search.exploration.send(now, pair, &mut self.entropy);
        let probe = Probe { tag: peer.tag, state, sent, received: search.exploration.received(), options: Vec::new() };
        if search.hears {
            context.watch.ask(now);
        }
        self.send(pair, &Message::Probe(probe), out);
        self.set_watch(now, slot);
    }

    pub(super) fn hear_probe(&mut self, now: Time, slot: Slot, path: AddressPair, probe: &Probe, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        // A peer that probes has something to send.
        context.active = now;
        let record = probe.sent.first().copied();
        let (wanted, present) = (wish::wanted(context), context.path);
        let choose = |search: &Search| search.exploration.choose(&probe.received, wanted, present);
        if let Some(search) = &context.search
            && let Some(took) = search.exploration.round_trip(now, &probe.received)
        {
            context.round_trip = took.into();
        }
        match probe.state {
            ProbeState::Exploring => {
                let fresh = || Search { hears: true, exploration: Exploration::new(now, None) };
                let search = context.search.get_or_insert_with(|| Box::new(fresh()));
                search.hears = true;
                record.into_iter().for_each(|record| search.exploration.receive(record));
                context.watch.ask_again(now);
                // The pair on which the probe arrived is the most likely to work in return.
                self.probe(now, slot, Some(path), out);
            }
            ProbeState::InboundOk => {
                let mut search = context.search.take();
                let chosen = search.as_deref().and_then(choose);
                let fresh = || Box::new(Search { hears: true, exploration: Exploration::new(now, None) });
                let mut search = search.take().unwrap_or_else(fresh);
                record.into_iter().for_each(|record| search.exploration.receive(record));
                context.watch.hear(now);
                context.watch.ask_again(now);
                self.settle_path(now, slot, chosen, search.exploration.since, out);
                self.confirm(now, slot, &mut search.exploration, out);
            }
            ProbeState::Operational => {
                let search = context.search.take();
                context.watch.hear(now);
                context.watch.owe(now);
                if let Some(search) = search {
                    self.settle_path(now, slot, choose(&search), search.exploration.since, out);
                }
            }
        }
        self.hear_of_wish(now, slot, &probe.received, out);
        if let Some(id) = self.contexts.get(slot).map(|context| context.id) {
            self.sample(id, out);
        }
        self.set_watch(now, slot);
    }

    /// Enters the state Operational, with another pair if one was chosen.
    pub(super) fn settle_path(&mut self, now: Time, slot: Slot, chosen: Option<AddressPair>, since: Time, out: &mut Outbox) {
        self.agenda.cancel(&Timer::Probe(slot));
        let Some(context) = self.contexts.get(slot) else { return };
        let (id, former) = (context.id, context.path);
        let path = chosen.unwrap_or(former);
        if path != former {
            context.path = path;
            self.put_context(now, slot, out);
            if self.contexts.get(slot).is_some_and(|context| context.update.is_some()) {
                self.agenda.set(Timer::Update(slot), now);
            }
            out.report(Report::PathChanged { context: id, path, after: now.since(since) });
        } else if chosen.is_some() {
            out.report(Report::PathRecovered { context: id, path });
        }
        self.settle_wish(now, slot, former);
    }

    /// Sends a probe with state Operational that reports the peer's probes (RFC 5534 §6.8).
    fn confirm(&mut self, now: Time, slot: Slot, exploration: &mut Exploration, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        let Some(peer) = &context.peer else { return };
        let sent = exploration.send(now, context.path, &mut self.entropy);
        let received = exploration.received();
        let state = ProbeState::Operational;
        let probe = Probe { tag: peer.tag, state, sent, received, options: Vec::new() };
        let path = context.path;
        self.send(path, &Message::Probe(probe), out);
    }

    /// Our locators or the peer's have changed: explores if the current pair is no longer valid.
    pub(super) fn reconsider(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let works = |path: AddressPair| self.uplinks.works(path.local);
        let Some(context) = self.contexts.get(slot).filter(|context| context.stands()) else { return };
        let works = works(context.path);
        if let Some(search) = &mut context.search {
            search.exploration.hurry();
            self.agenda.set(Timer::Probe(slot), now);
        } else if !usable(context, works) {
            // The data plane knows whether the context is in use.
            let id = context.id;
            self.sample(id, out);
        }
    }

    /// All candidate pairs with their ranks. A pair is a last resort if the peer has flagged its locator as broken, if
    /// the peer does not know our locator yet, or for a ULID that the peer does not list: there a peer that has lost
    /// the context answers with R1bis (RFC 5533 §7.17).
    pub(super) fn pairs(&mut self, slot: Slot) -> few::VecMap<AddressPair, Rank> {
        let mut pairs = few::VecMap::new();
        let Some(ulid) = self.contexts.get(slot).map(|context| context.id.ulids.local) else { return pairs };
        let new = self.announcement(ulid);
        let Some(context) = self.contexts.get(slot) else { return pairs };
        let Some(peer) = &context.peer else { return pairs };
        let told = context.known.locators.iter().copied().chain([ulid]).map(|local| (local, false));
        let untold = new.locators.iter().filter(|local| !context.known.locators.contains(local) && **local != ulid);
        for (local, last) in told.chain(untold.map(|local| (*local, true))) {
            if self.uplinks.works(local) {
                let ours = self.uplinks.preference(local, &self.config.preferences);
                let unlisted = Rank { last: true, ..Rank::of(ours, Preference::default()) };
                let pair = |remote: &PeerLocator| {
                    let rank = Rank { last: last || remote.is_broken(), ..Rank::of(ours, remote.preference) };
                    (AddressPair { local, peer: remote.address }, rank)
                };
                pairs.insert(AddressPair { local, peer: context.id.ulids.peer }, unlisted);
                pairs.extend(peer.locators.iter().map(pair));
            }
        }
        pairs
    }

    /// The pair for transmission number `tries` of a message: the current one first, then all others in turn.
    pub(super) fn way_to(&mut self, slot: Slot, tries: u32) -> Option<AddressPair> {
        let pairs = self.pairs(slot);
        let path = self.contexts.get(slot)?.path;
        let others = pairs.keys().filter(|pair| **pair != path);
        let all: Vec<AddressPair> = pairs.contains_key(&path).then_some(path).into_iter().chain(others.copied()).collect();
        all.get(usize::try_from(tries).ok()?.checked_rem(all.len())?).copied()
    }

    /// The Send Timeout of a context.
    fn send_timeout(&mut self, slot: Slot) -> Duration {
        let timeout = self.config.send_timeout.max(crate::contract::config::shim::SHORTEST_SEND_TIMEOUT);
        let Some(context) = self.contexts.get(slot) else { return timeout };
        let quick = context.peer.as_ref().is_some_and(|peer| peer.quick);
        // The peer sends keepalives at a third of the timeout; these need a round trip.
        let least = Duration::from(context.round_trip) * 2 + timeout / 3;
        if quick { timeout.max(least) } else { timeout.max(least).max(WHOLE_SECOND) }
    }
}

/// Whether the current pair is valid; `local_works` tells whether our locator is usable.
fn usable(context: &Context, local_works: bool) -> bool {
    let Some(peer) = &context.peer else { return false };
    let broken = |address| peer.locators.iter().any(|locator| locator.address == address && locator.is_broken());
    local_works && context.knows(context.path.peer) && !broken(context.path.peer)
}
