//! Switch to another locator pair although the current one works: by order of the operator, or back to a preferred pair
//! that works again (failback). The same probes check on the current pair whether the peer still has the context.
//! A switch is independent of the exploration of RFC 5534 §6: an InboundOk probe on the pair makes the peer answer with
//! a probe that reports it. This proves one direction and changes no REAP state.

use super::context::{Context, Slot};
use super::reach::RECENT;
use super::{Shim, Timer};
use crate::base::ids::{ContextId, AddressPair};
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use crate::contract::report::Report;
use core::time::Duration;
use roam6_wire::shim6::{Fork, Message, Nonce, Probe, ProbeRecord, ProbeState};

/// Probes of one attempt, and the time between two (RFC 5534 §7: Number of Initial Probes, Initial Probe Timeout).
const PROBES: usize = 4;
const INTERVAL: Duration = Duration::from_millis(500);
/// Time to wait for the answer to the last probe.
const LAST: Duration = Duration::from_secs(2);
/// Probes that the peer must report before an automatic failback, because a path may be lossy.
const SURE: usize = 3;
/// Interval of context checks if failback is disabled.
const CHECK: Duration = Duration::from_secs(60);
/// Failback backs off by doubling after each early failure, so many times at most.
const MOST_DOUBLINGS: u32 = 6;

/// An attempt to switch to a pair.
#[derive(Debug)]
pub(super) struct Wish {
    /// The target pair.
    pub(super) path: AddressPair,
    why: Why,
    since: Time,
    sent: Vec<Nonce>,
    /// Nonces of our probes that the peer has reported.
    came: Vec<Nonce>,
}

/// Why a switch is attempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// By the operator: a failure is reported, and success disables failback.
    ByHand,
    /// The pair is the preferred one.
    Home,
    /// The pair is the current one. Packets with the ULIDs have no payload header and tell nothing of the context: a
    /// peer that has lost it sends such packets, and its R1bis may be lost.
    Check,
}

/// State of the failback to the preferred pair.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Homing {
    /// The operator has chosen the current pair.
    by_hand: bool,
    /// The current pair differs from the ULIDs.
    away: bool,
    /// Time of the last return to the ULIDs.
    returned: Option<Time>,
    /// Consecutive early failures after a return.
    lost: u32,
}

impl Wish {
    fn new(now: Time, path: AddressPair, why: Why) -> Wish {
        Wish { path, why, since: now, sent: Vec::new(), came: Vec::new() }
    }

    /// Records the peer's reports; returns whether they suffice for the switch.
    fn hear(&mut self, received: &[ProbeRecord]) -> bool {
        for nonce in received.iter().map(|record| record.nonce) {
            if self.sent.contains(&nonce) && !self.came.contains(&nonce) {
                self.came.push(nonce);
            }
        }
        self.came.len() >= if self.why == Why::Home { SURE } else { 1 }
    }
}

impl Shim {
    /// Starts a switch to `path` by order of the operator: of the contexts of these ULIDs, or of all that have the
    /// pair. With a fork only packets of sockets with its mark are switched; the fork is created if need be
    /// (RFC 5533 §5.15.7).
    pub(super) fn use_path(&mut self, now: Time, ulids: Option<AddressPair>, fork: Fork, path: AddressPair, out: &mut Outbox) {
        // An order does not wait for the update delay.
        if self.agenda.deadline_of(&Timer::Announce).is_some() {
            self.list_locators();
        }
        let meant = |id: &ContextId| id.fork == Fork::NONE && ulids.is_none_or(|ulids| ulids == id.ulids);
        let slots: Vec<Slot> =
            self.contexts.iter().filter(|(_, context)| meant(&context.id)).map(|(slot, _)| slot).collect();
        let able: Vec<Slot> = slots.into_iter().filter(|slot| self.pairs(*slot).contains_key(&path)).collect();
        if able.is_empty() {
            let text = format!("no context can use {path}: both addresses must be locators of one context");
            out.report(Report::Notice { text });
        }
        for slot in able {
            match fork {
                Fork::NONE => self.take_by_hand(now, slot, path, out),
                fork => self.take_by_fork(now, slot, fork, path, out),
            }
        }
    }

    fn take_by_hand(&mut self, now: Time, slot: Slot, path: AddressPair, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        if context.path == path {
            context.homing.by_hand = true;
        } else {
            self.want(now, slot, Wish::new(now, path, Why::ByHand), out);
        }
    }

    /// Switches the fork of a context; a new fork starts with the current pair of its parent.
    fn take_by_fork(&mut self, now: Time, slot: Slot, fork: Fork, path: AddressPair, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot).filter(|context| context.stands()) else { return };
        let (id, link, present) = (ContextId { fork, ..context.id }, context.link, context.path);
        if let Some(forked) = self.contexts.find(&id) {
            return self.take_by_hand(now, forked, path, out);
        }
        if !self.make_room(now, id.ulids.peer, out) {
            return;
        }
        let forked = self.create(now, id, link, present);
        if let Some(context) = self.contexts.get(forked) {
            context.wish = Some(Box::new(Wish::new(now, path, Why::ByHand)));
        }
        self.open(now, forked, 0, out);
    }

    /// Starts a switch. An exploration in progress probes the pair first, and decides when it ends.
    fn want(&mut self, now: Time, slot: Slot, wish: Wish, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        context.wish = Some(Box::new(wish));
        match &mut context.search {
            Some(search) => {
                search.exploration.hurry();
                self.agenda.set(Timer::Probe(slot), now);
            }
            None => self.ask_for(now, slot, out),
        }
    }

    /// Sends the next probe on the target pair, or abandons the switch.
    pub(super) fn ask_for(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let pairs = self.pairs(slot);
        let Some(context) = self.contexts.get(slot).filter(|context| context.search.is_none()) else { return };
        let (Some(wish), Some(peer)) = (&mut context.wish, &context.peer) else { return };
        if wish.sent.len() >= PROBES || !pairs.contains_key(&wish.path) {
            return self.give_up(now, slot, out);
        }
        let (path, nonce) = (wish.path, Nonce(self.entropy.next_u64() as u32));
        wish.sent.push(nonce);
        let pause = if wish.sent.len() < PROBES { INTERVAL } else { LAST };
        let record = ProbeRecord { source: path.local, destination: path.peer, nonce, data: 0 };
        let (state, sent) = (ProbeState::InboundOk, vec![record]);
        let probe = Probe { tag: peer.tag, state, sent, received: Vec::new(), options: Vec::new() };
        self.agenda.set(Timer::Wish(slot), now + pause);
        self.send(path, &Message::Probe(probe), out);
    }

    fn give_up(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        let (id, path, in_use) = (context.id, context.path, context.active + RECENT > now);
        let Some(wish) = context.wish.take() else { return };
        let unheard = wish.came.is_empty();
        match wish.why {
            Why::ByHand => {
                let text = format!("{id}: no probe on {} was answered; the context stays on {path}", wish.path);
                out.report(Report::Notice { text });
            }
            Why::Home if unheard => self.want(now, slot, Wish::new(now, path, Why::Check), out),
            Why::Check if unheard && in_use => self.explore(now, slot, "the peer does not answer", out),
            Why::Home | Why::Check => {}
        }
    }

    /// The peer has reported probes: the target pair may have proved to work.
    pub(super) fn hear_of_wish(&mut self, now: Time, slot: Slot, received: &[ProbeRecord], out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot).filter(|context| context.search.is_none()) else { return };
        let Some(wish) = &mut context.wish else { return };
        if !wish.hear(received) {
            return;
        }
        let (path, since) = (wish.path, wish.since);
        if wish.why == Why::Check {
            context.wish = None;
            self.agenda.cancel(&Timer::Wish(slot));
        } else {
            self.settle_path(now, slot, Some(path), since, out);
        }
    }

    /// An exploration or a switch has ended.
    pub(super) fn settle_wish(&mut self, now: Time, slot: Slot, former: AddressPair) {
        let Some(context) = self.contexts.get(slot).filter(|context| context.stands()) else { return };
        let path = context.path;
        let fulfilled = context.wish.take_if(|wish| wish.path == path);
        if path != former || fulfilled.is_some() {
            context.homing.by_hand = fulfilled.is_some_and(|wish| wish.why == Why::ByHand);
        }
        match &mut context.wish {
            // The switch waited for the exploration; one with a running timer continues.
            Some(wish) if self.agenda.deadline_of(&Timer::Wish(slot)).is_none() => {
                wish.sent.clear();
                self.agenda.set(Timer::Wish(slot), now);
            }
            Some(_) => {}
            None => self.agenda.cancel(&Timer::Wish(slot)),
        }
    }

    /// Records when a context leaves its ULIDs or returns to them, and sets the failback timer.
    pub(super) fn plan_return(&mut self, now: Time, slot: Slot) {
        let pause = self.config.return_after.unwrap_or(CHECK);
        let Some(context) = self.contexts.get(slot) else { return };
        if context.path == context.id.ulids {
            if core::mem::take(&mut context.homing.away) {
                context.homing.returned = Some(now);
            }
            return self.agenda.cancel(&Timer::Return(slot));
        }
        if !core::mem::replace(&mut context.homing.away, true) {
            let returned = context.homing.returned.take();
            let soon = returned.is_some_and(|at| now.since(at) < 2 * pause * 2u32.pow(context.homing.lost));
            context.homing.lost = if soon { (context.homing.lost + 1).min(MOST_DOUBLINGS) } else { 0 };
        }
        if self.agenda.deadline_of(&Timer::Return(slot)).is_none() {
            self.agenda.set(Timer::Return(slot), now + pause * 2u32.pow(context.homing.lost));
        }
    }

    /// Attempts the failback to the preferred pair, or checks the context if the current pair is preferred.
    pub(super) fn come_home(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let favourite = self.favourite(slot);
        let returns = self.config.return_after.is_some();
        self.plan_return(now, slot);
        let idle = |context: &&mut Context| context.search.is_none() && context.wish.is_none();
        let Some(context) = self.contexts.get(slot).filter(idle) else { return };
        let present = context.path;
        let better = favourite.filter(|path| *path != present && returns && !context.homing.by_hand);
        let wish = better.map_or(Wish::new(now, present, Why::Check), |path| Wish::new(now, path, Why::Home));
        self.want(now, slot, wish, out);
    }

    /// The pair of least cost; among equals the ULIDs, which need no payload header, then the current pair.
    fn favourite(&mut self, slot: Slot) -> Option<AddressPair> {
        let pairs = self.pairs(slot);
        let context = self.contexts.get(slot)?;
        let liked = |(pair, rank): &(AddressPair, super::exploration::Rank)| {
            (rank.dislike, *pair != context.id.ulids, *pair != context.path, *pair)
        };
        pairs.into_iter().filter(|(_, rank)| !rank.last).min_by_key(liked).map(|(pair, _)| pair)
    }
}

/// The pair that an exploration is to probe first.
pub(super) fn wanted(context: &Context) -> Option<AddressPair> {
    context.wish.as_ref().map(|wish| wish.path)
}
