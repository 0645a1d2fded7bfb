//! Going over to a pair although the present one works: an operator wants it, or it is liked better and has come back;
//! and asking by the present pair whether the peer still knows the context.
//! That is asked beside the search of RFC 5534 §6, which neither begins nor ends by it: an Inbound OK probe by the pair is
//! answered by a probe that reports it, so one direction is proved and nothing else disturbed.

use super::context::{Context, Slot};
use super::reach::RECENT;
use super::{Shim, Timer};
use crate::base::ids::{ContextId, Pair};
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use crate::contract::report::Report;
use core::time::Duration;
use roam6_wire::shim6::{Fork, Message, Nonce, Probe, ProbeRecord, ProbeState};

/// Probes of one attempt, and the time between two (RFC 5534 §7: Number of Initial Probes, Initial Probe Timeout).
const PROBES: usize = 4;
const INTERVAL: Duration = Duration::from_millis(500);
/// How long the answer to the last one may take.
const LAST: Duration = Duration::from_secs(2);
/// Probes that have to come through before a context goes back of its own accord: a path may be half dead.
const SURE: usize = 3;
/// How often a context that may not return asks whether the peer still knows it.
const CHECK: Duration = Duration::from_secs(60);
/// Each time the favourite is soon lost again the next return waits twice as long, so often at most.
const MOST_DOUBLINGS: u32 = 6;

/// A pair that is wanted.
#[derive(Debug)]
pub(super) struct Wish {
    /// The pair.
    pub(super) path: Pair,
    why: Why,
    since: Time,
    sent: Vec<Nonce>,
    /// Which of them the peer says it has received.
    came: Vec<Nonce>,
}

/// Why a pair is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// An operator says so: it may fail aloud, and stays when it is fulfilled.
    ByHand,
    /// It is liked best.
    Home,
    /// It is the present one. Packets of the ULIDs that come without a header say nothing of the context: a peer that has
    /// lost it sends such, and its R1bis may find no way back.
    Check,
}

/// How a context comes home to the pair it likes best.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Homing {
    /// An operator has chosen the present pair.
    by_hand: bool,
    /// It has left its ULIDs.
    away: bool,
    /// When it came back to them.
    returned: Option<Time>,
    /// Times in a row that it has lost it soon afterwards.
    lost: u32,
}

impl Wish {
    fn new(now: Time, path: Pair, why: Why) -> Wish {
        Wish { path, why, since: now, sent: Vec::new(), came: Vec::new() }
    }

    /// Takes what the peer says it has received; whether that is enough.
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
    /// Goes over to a path an operator wants, once it has proved to work: contexts of these ULIDs, or all that have it.
    /// With a fork only packets of sockets that bear its mark go over; it is made if need be (RFC 5533 §5.15.7).
    pub(super) fn use_path(&mut self, now: Time, ulids: Option<Pair>, fork: Fork, path: Pair, out: &mut Outbox) {
        // What is wanted now does not wait until all changes of our locators have settled.
        if self.agenda.find(&Timer::Announce).is_some() {
            self.list_locators();
        }
        let meant = |id: &ContextId| id.fork == Fork::NONE && ulids.is_none_or(|ulids| ulids == id.ulids);
        let slots: Vec<Slot> =
            self.contexts.iter().filter(|(_, context)| meant(&context.id)).map(|(slot, _)| slot).collect();
        let able: Vec<Slot> = slots.into_iter().filter(|slot| self.pairs(*slot).contains_key(&path)).collect();
        if able.is_empty() {
            let text = format!("no context can go by {path}: its ends have to be locators of one");
            out.report(Report::Notice { text });
        }
        for slot in able {
            match fork {
                Fork::NONE => self.take_by_hand(now, slot, path, out),
                fork => self.take_by_fork(now, slot, fork, path, out),
            }
        }
    }

    fn take_by_hand(&mut self, now: Time, slot: Slot, path: Pair, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        if context.path == path {
            context.homing.by_hand = true;
        } else {
            self.want(now, slot, Wish::new(now, path, Why::ByHand), out);
        }
    }

    /// The fork of a context goes over; a new one begins with the path of the one it is of.
    fn take_by_fork(&mut self, now: Time, slot: Slot, fork: Fork, path: Pair, out: &mut Outbox) {
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

    /// Begins to ask for a pair. A search that is under way tries it first; what becomes of it is seen when that ends.
    fn want(&mut self, now: Time, slot: Slot, wish: Wish, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        context.wish = Some(Box::new(wish));
        match &mut context.search {
            Some(search) => {
                search.exploration.hurry();
                self.agenda.put(Timer::Probe(slot), now);
            }
            None => self.ask_for(now, slot, out),
        }
    }

    /// Sends the next probe by the pair that is wanted, or gives it up.
    pub(super) fn ask_for(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let pairs = self.pairs(slot);
        let Some(context) = self.contexts.get(slot).filter(|context| context.search.is_none()) else { return };
        let (Some(wish), Some(peer)) = (&mut context.wish, &context.peer) else { return };
        if wish.sent.len() >= PROBES || !pairs.contains_key(&wish.path) {
            return self.give_up(now, slot, out);
        }
        let (path, nonce) = (wish.path, Nonce(self.entropy.bits() as u32));
        wish.sent.push(nonce);
        let pause = if wish.sent.len() < PROBES { INTERVAL } else { LAST };
        let record = ProbeRecord { source: path.local, destination: path.peer, nonce, data: 0 };
        let (state, sent) = (ProbeState::InboundOk, vec![record]);
        let probe = Probe { tag: peer.tag, state, sent, received: Vec::new(), options: Vec::new() };
        self.agenda.put(Timer::Wish(slot), now + pause);
        self.send(path, &Message::Probe(probe), out);
    }

    fn give_up(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        let (id, path, in_use) = (context.id, context.path, context.active + RECENT > now);
        let Some(wish) = context.wish.take() else { return };
        let unheard = wish.came.is_empty();
        match wish.why {
            Why::ByHand => {
                let text = format!("{id}: {} does not answer; stays with {path}", wish.path);
                out.report(Report::Notice { text });
            }
            Why::Home if unheard => self.want(now, slot, Wish::new(now, path, Why::Check), out),
            Why::Check if unheard && in_use => self.explore(now, slot, "the peer does not answer", out),
            Why::Home | Why::Check => {}
        }
    }

    /// The peer reports probes: the pair that is wanted may have proved to work.
    pub(super) fn hear_of_wish(&mut self, now: Time, slot: Slot, received: &[ProbeRecord], out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot).filter(|context| context.search.is_none()) else { return };
        let Some(wish) = &mut context.wish else { return };
        if !wish.hear(received) {
            return;
        }
        let (path, since) = (wish.path, wish.since);
        if wish.why == Why::Check {
            context.wish = None;
            self.agenda.drop(&Timer::Wish(slot));
        } else {
            self.settle_path(now, slot, Some(path), since, out);
        }
    }

    /// A search has ended, or a wish come true.
    pub(super) fn settle_wish(&mut self, now: Time, slot: Slot, former: Pair) {
        let Some(context) = self.contexts.get(slot).filter(|context| context.stands()) else { return };
        let path = context.path;
        let fulfilled = context.wish.take_if(|wish| wish.path == path);
        if path != former || fulfilled.is_some() {
            context.homing.by_hand = fulfilled.is_some_and(|wish| wish.why == Why::ByHand);
        }
        match &mut context.wish {
            // It waited for the search; one that is being asked for goes on as it is.
            Some(wish) if self.agenda.find(&Timer::Wish(slot)).is_none() => {
                wish.sent.clear();
                self.agenda.put(Timer::Wish(slot), now);
            }
            Some(_) => {}
            None => self.agenda.drop(&Timer::Wish(slot)),
        }
    }

    /// Remembers when a context leaves its ULIDs or comes back to them, and sets the time to ask next.
    pub(super) fn plan_return(&mut self, now: Time, slot: Slot) {
        let pause = self.config.return_after.unwrap_or(CHECK);
        let Some(context) = self.contexts.get(slot) else { return };
        if context.path == context.id.ulids {
            if core::mem::take(&mut context.homing.away) {
                context.homing.returned = Some(now);
            }
            return self.agenda.drop(&Timer::Return(slot));
        }
        if !core::mem::replace(&mut context.homing.away, true) {
            let returned = context.homing.returned.take();
            let soon = returned.is_some_and(|at| now.since(at) < 2 * pause * 2u32.pow(context.homing.lost));
            context.homing.lost = if soon { (context.homing.lost + 1).min(MOST_DOUBLINGS) } else { 0 };
        }
        if self.agenda.find(&Timer::Return(slot)).is_none() {
            self.agenda.put(Timer::Return(slot), now + pause * 2u32.pow(context.homing.lost));
        }
    }

    /// Asks for the pair that is liked best, or by the present one if that is it.
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

    /// The pair both ends like best; of those liked alike the ULIDs, which cost nothing, then the present one.
    fn favourite(&mut self, slot: Slot) -> Option<Pair> {
        let pairs = self.pairs(slot);
        let context = self.contexts.get(slot)?;
        let liked = |(pair, rank): &(Pair, super::exploration::Rank)| {
            (rank.dislike, *pair != context.id.ulids, *pair != context.path, *pair)
        };
        pairs.into_iter().filter(|(_, rank)| !rank.last).min_by_key(liked).map(|(pair, _)| pair)
    }
}

/// The pair a search is to try first.
pub(super) fn wanted(context: &Context) -> Option<Pair> {
    context.wish.as_ref().map(|wish| wish.path)
}
