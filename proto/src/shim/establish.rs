//! The context establishment handshake, context recovery and context confusion (RFC 5533 §7).

use super::context::{Context, Opening, Peer, PeerLocator, Slot, Step};
use super::hear::{Heard, Said, drop_packet};
use super::proof::{Claim, Disbelief};
use super::validator::Subject;
use super::{NO_ANSWER_HOLD, Shim, Timer};
use crate::base::ids::{ContextId, AddressPair};
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use crate::contract::report::{DropReason, Report};
use core::time::Duration;
use roam6_wire::shim6::{Message, Method, Nonce, Preference, ShimOption, Tag};
use std::net::Ipv6Addr;

/// I1_TIMEOUT, I2_TIMEOUT, I2bis_TIMEOUT (RFC 5533 §14).
const TIMEOUT: Duration = Duration::from_secs(4);
/// I1_RETRIES_MAX.
const I1_RETRIES: u32 = 4;
/// I2_RETRIES_MAX, I2bis_RETRIES_MAX.
const I2_RETRIES: u32 = 2;
/// Restarts with a new I1 after I2 went unanswered.
const ROUNDS: u32 = 1;
/// Keepalive Timeout of a peer that sent no such option (RFC 5534 §7).
const KEEPALIVE: Duration = Duration::from_secs(15);

/// An I2 or I2bis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Second {
    /// The initiator's context tag.
    pub(super) tag: Tag,
    /// Initiator nonce and responder nonce.
    pub(super) nonces: (Nonce, Nonce),
    /// Packet Context Tag of an I2bis: the tag of the lost context.
    pub(super) lost: Option<Tag>,
}

impl Shim {
    /// Starts a handshake: sends I1 (RFC 5533 §7.7).
    pub(super) fn open(&mut self, now: Time, slot: Slot, rounds: u32, out: &mut Outbox) {
        let nonce = self.contexts.new_nonce(&mut self.entropy);
        let Some(context) = self.contexts.get(slot) else { return };
        let opening = Opening { step: Step::I1, nonce, locators: context.path, tries: 0, rounds };
        self.contexts.put_opening(slot, opening);
        self.say(now, slot, out);
    }

    /// Retransmits the handshake message, restarts with I1, or ends the handshake (RFC 5533 §7.8, §7.12, §7.19).
    pub(super) fn retransmit(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        let Some(opening) = &context.opening else { return };
        let (peer, rounds) = (context.id.ulids.peer, opening.rounds);
        match opening.step {
            Step::I1 if opening.tries <= I1_RETRIES => self.say(now, slot, out),
            Step::I2 { .. } | Step::I2bis { .. } if opening.tries <= I2_RETRIES => self.say(now, slot, out),
            Step::I2 { .. } | Step::I2bis { .. } if rounds < ROUNDS => self.open(now, slot, rounds + 1, out),
            _ => {
                self.refuse(now, peer, NO_ANSWER_HOLD, "no answer", out);
                self.end(slot, "no answer", out);
            }
        }
    }

    /// Sends the message of the current handshake step.
    fn say(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let keepalive = self.keepalive_options();
        let Some(ulid) = self.contexts.get(slot).map(|context| context.id.ulids.local) else { return };
        let known = self.announcement(ulid);
        let chance = self.entropy.below(1000);
        let Some(context) = self.contexts.get(slot) else { return };
        context.known = known;
        let Some(message) = message(context, keepalive) else { return };
        let Some(opening) = &mut context.opening else { return };
        let pause = TIMEOUT * 2u32.saturating_pow(opening.tries.min(8));
        opening.tries = opening.tries.saturating_add(1);
        let locators = opening.locators;
        self.send(locators, &message, out);
        self.agenda.set(Timer::Retransmit(slot), now + spread(pause, chance));
    }

    pub(super) fn hear_i1(
        &mut self,
        now: Time,
        heard: Heard<'_>,
        (tag, nonce): (Tag, Nonce),
        said: &Said<'_>,
        out: &mut Outbox,
    ) {
        let (path, id) = (heard.path, said.id(heard.path));
        if !self.is_ours(id.ulids.local) {
            return drop_packet(DropReason::NotForUs, path.peer, format!("I1 for {}", id.ulids.local), out);
        }
        let slot = self.contexts.find(&id);
        let context = slot.and_then(|slot| Some((slot, self.contexts.get(slot)?)));
        match context {
            // I1 messages crossed; only the peer may learn our tag (RFC 5533 §7.9).
            Some((slot, context)) if context.opening.is_some() && may_speak(context, path.peer) => {
                self.grant(slot, path, nonce, out);
            }
            // The R2 was lost.
            Some((slot, context))
                if context.opening.is_none()
                    && context.knows(path.peer)
                    && context.peer.as_ref().is_some_and(|peer| peer.tag == tag) =>
            {
                self.grant(slot, path, nonce, out);
            }
            _ => {
                let subject = Subject::First { tag, ulids: id.ulids, locators: path, fork: id.fork };
                let (responder_nonce, validator) = self.validators.issue(now, subject, &mut self.entropy);
                let options = vec![ShimOption::Validator(validator)];
                self.send(path, &Message::R1 { initiator_nonce: nonce, responder_nonce, options }, out);
            }
        }
    }

    pub(super) fn hear_r1(
        &mut self,
        now: Time,
        heard: Heard<'_>,
        (nonce, responder_nonce): (Nonce, Nonce),
        said: &Said<'_>,
        out: &mut Outbox,
    ) {
        let unsolicited = |out: &mut Outbox| drop_packet(DropReason::Unsolicited, heard.path.peer, "R1", out);
        let Some(slot) = self.contexts.find_nonce(nonce) else { return unsolicited(out) };
        let opening = self.contexts.get(slot).and_then(|context| context.opening.as_mut());
        let (Some(opening), Some(validator)) = (opening, said.validator) else { return unsolicited(out) };
        if opening.step != Step::I1 || opening.locators != heard.path {
            return unsolicited(out);
        }
        opening.step = Step::I2 { responder_nonce, validator: validator.to_vec() };
        opening.tries = 0;
        self.say(now, slot, out);
    }

    /// Receives I2 and I2bis (RFC 5533 §7.13, §7.20): checks the validator first and signatures last.
    pub(super) fn hear_i2(&mut self, now: Time, heard: Heard<'_>, second: Second, said: &Said<'_>, out: &mut Outbox) {
        let (path, id) = (heard.path, said.id(heard.path));
        let subject = match second.lost {
            None => Subject::First { tag: second.tag, ulids: id.ulids, locators: path, fork: id.fork },
            Some(tag) => Subject::Lost { tag, locators: path },
        };
        let (initiator_nonce, responder_nonce) = second.nonces;
        if !self.validators.check(now, responder_nonce, subject, said.validator.unwrap_or_default()) {
            return drop_packet(DropReason::BadValidator, path.peer, "I2", out);
        }
        if !self.is_ours(id.ulids.local) {
            return drop_packet(DropReason::NotForUs, path.peer, format!("I2 for {}", id.ulids.local), out);
        }
        let slot = self.contexts.find(&id);
        let former = slot.and_then(|slot| self.contexts.get(slot)?.peer.clone());
        if let (Some(slot), Some(former)) = (slot, &former)
            && let Some((known_responder, known_initiator)) = former.responder_nonce
        {
            if (known_responder, known_initiator, former.tag) == (responder_nonce, initiator_nonce, second.tag) {
                return self.grant(slot, path, initiator_nonce, out);
            }
            if (known_responder.0.wrapping_sub(responder_nonce.0) as i32) > 0 {
                return drop_packet(
                    DropReason::Replayed,
                    path.peer,
                    "replayed I2: older than the last one accepted",
                    out,
                );
            }
        }
        let mut peer = match self.learn(now, former.as_ref(), id.ulids.peer, second.tag, said) {
            Ok(peer) => peer,
            Err(disbelief) => return self.disbelieve(now, heard, disbelief, out),
        };
        if !peer.knows(path.peer) {
            return drop_packet(DropReason::Unverified, path.peer, format!("I2 for {}", id.ulids.peer), out);
        }
        if slot.is_none() && !self.make_room(now, path.peer, out) {
            return;
        }
        peer.responder_nonce = Some((responder_nonce, initiator_nonce));
        let slot = slot.unwrap_or_else(|| self.create(now, id, heard.link, path));
        if self.contexts.get(slot).is_some_and(|context| {
            context.opening.as_ref().is_some_and(|opening| opening.step == Step::I1 && context.peer.is_none())
        }) {
            self.contexts.settle(slot);
            self.agenda.cancel(&Timer::Retransmit(slot));
        }
        self.accept(now, slot, peer, path, out);
        if let Some(context) = self.contexts.get(slot) {
            context.owed = Some(Box::new((path, initiator_nonce)));
        }
    }

    pub(super) fn hear_r2(
        &mut self,
        now: Time,
        heard: Heard<'_>,
        (tag, nonce): (Tag, Nonce),
        said: &Said<'_>,
        out: &mut Outbox,
    ) {
        let unsolicited = |out: &mut Outbox| drop_packet(DropReason::Unsolicited, heard.path.peer, "R2", out);
        let Some(slot) = self.contexts.find_nonce(nonce) else { return unsolicited(out) };
        let Some(context) = self.contexts.get(slot) else { return unsolicited(out) };
        if context.opening.as_ref().is_none_or(|opening| opening.locators != heard.path) {
            return unsolicited(out);
        }
        let (former, ulid) = (context.peer.clone(), context.id.ulids.peer);
        let mut peer = match self.learn(now, former.as_ref(), ulid, tag, said) {
            Ok(peer) => peer,
            Err(disbelief) => return self.disbelieve(now, heard, disbelief, out),
        };
        if !peer.knows(heard.path.peer) {
            return drop_packet(DropReason::Unverified, heard.path.peer, "R2", out);
        }
        peer.responder_nonce = former.and_then(|former| former.responder_nonce);
        self.contexts.settle(slot);
        self.agenda.cancel(&Timer::Retransmit(slot));
        self.accept(now, slot, peer, heard.path, out);
    }

    /// Receives R1bis: the peer has lost the context (RFC 5533 §7.18).
    pub(super) fn hear_r1bis(
        &mut self,
        now: Time,
        heard: Heard<'_>,
        (packet_tag, responder_nonce): (Tag, Nonce),
        said: &Said<'_>,
        out: &mut Outbox,
    ) {
        let path = heard.path;
        let of = |(_, context): &(Slot, &Context)| context.opening.is_none() && context.knows(path.peer);
        let slot = self.contexts.with_peer_tag(packet_tag).find(of).map(|(slot, _)| slot);
        let (Some(slot), Some(validator)) = (slot, said.validator) else {
            return drop_packet(DropReason::Unsolicited, path.peer, "R1bis", out);
        };
        let nonce = self.contexts.new_nonce(&mut self.entropy);
        let step = Step::I2bis { responder_nonce, validator: validator.to_vec(), packet_tag };
        self.contexts.put_opening(slot, Opening { step, nonce, locators: path, tries: 0, rounds: 0 });
        self.say(now, slot, out);
    }

    /// Answers a message with an unknown context tag by R1bis (RFC 5533 §7.17).
    pub(super) fn miss(&mut self, now: Time, path: AddressPair, tag: Tag, out: &mut Outbox) {
        if !self.complaints.take(now) {
            return drop_packet(DropReason::RateLimited, path.peer, "no context", out);
        }
        let subject = Subject::Lost { tag, locators: path };
        let (responder_nonce, validator) = self.validators.issue(now, subject, &mut self.entropy);
        let options = vec![ShimOption::Validator(validator)];
        self.send(path, &Message::R1bis { packet_tag: tag, responder_nonce, options }, out);
    }

    /// The data plane has installed the context: sends the pending R2 and requests activity reports.
    pub(super) fn pay(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot).filter(|context| context.stands()) else { return };
        let id = context.id;
        if let Some((path, nonce)) = context.owed.take().map(|owed| *owed) {
            self.grant(slot, path, nonce, out);
        }
        self.sample(id, out);
        self.tell_changes(now, slot);
    }

    /// The peer's state as of this message, once its locators are verified.
    pub(super) fn learn(
        &mut self,
        now: Time,
        former: Option<&Peer>,
        ulid: Ipv6Addr,
        tag: Tag,
        said: &Said<'_>,
    ) -> Result<Peer, Disbelief> {
        let fresh = || Peer {
            tag,
            locators: Box::new([PeerLocator { address: ulid, method: Method(0), preference: Preference::default() }]),
            generation: None,
            parameters: Box::default(),
            keepalive: KEEPALIVE.into(),
            quick: false,
            responder_nonce: None,
        };
        let mut peer = former.cloned().unwrap_or_else(fresh);
        peer.tag = tag;
        let known = (!peer.parameters.is_empty()).then_some(&*peer.parameters);
        let claim = Claim { ulid, parameters: said.parameters.or(known), list: said.list, signature: said.signature };
        let same = said.list.is_some_and(|list| {
            let known = peer.locators.iter().map(|locator| (locator.method, locator.address));
            peer.generation == Some(list.generation) && known.eq(list.locators.iter().copied())
        });
        if !(same && said.parameters.is_none_or(|parameters| Some(parameters) == known)) {
            claim.check(now, &mut self.verifications)?;
        }
        if let Some(parameters) = said.parameters {
            peer.parameters = parameters.into();
        }
        if let Some(list) = said.list {
            let locator = |(method, address): &(Method, Ipv6Addr)| PeerLocator {
                address: *address,
                method: *method,
                preference: Preference::default(),
            };
            peer.generation = Some(list.generation);
            peer.locators =
                list.locators.iter().filter(|(_, address)| super::uplinks::is_global(*address)).map(locator).collect();
        }
        if let Some((generation, elements)) = said.preferences
            && peer.generation == Some(generation)
            && elements.len() == peer.locators.len()
        {
            for (locator, element) in peer.locators.iter_mut().zip(elements) {
                locator.preference = *element;
            }
        }
        if let Some(keepalive) = said.keepalive {
            (peer.keepalive, peer.quick) = (keepalive.into(), said.quick);
        }
        Ok(peer)
    }

    /// The Keepalive Timeout options that go with our locators (RFC 5534 §5.3).
    pub(super) fn keepalive_options(&self) -> Vec<ShimOption> {
        let timeout = self.config.send_timeout;
        let seconds = timeout.as_millis().div_ceil(1000);
        let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        vec![
            ShimOption::KeepaliveTimeout(u16::try_from(seconds).unwrap_or(u16::MAX)),
            ShimOption::KeepaliveMilliseconds(milliseconds),
        ]
    }

    /// The context is established; `proven` is a pair on which both directions have just worked.
    fn accept(&mut self, now: Time, slot: Slot, peer: Peer, proven: AddressPair, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        let news = context.peer.is_none();
        context.active = context.active.max(now);
        if !peer.knows(context.path.peer) {
            context.path = proven;
        }
        // The handshake has carried our current locators.
        context.update = None;
        self.agenda.cancel(&Timer::Update(slot));
        if let Some(search) = &mut context.search {
            search.exploration.hurry();
            self.agenda.set(Timer::Probe(slot), now);
        }
        let (id, path, count) = (context.id, context.path, peer.locators.len());
        self.contexts.put_peer(slot, peer);
        self.part(slot, out);
        self.put_context(now, slot, out);
        if news {
            self.settle_wish(now, slot, path);
        }
        out.report(match news {
            true => Report::ContextUp { context: id, path, locators: count },
            false => Report::ContextRenewed { context: id, path, locators: count },
        });
    }

    /// Ends other contexts with the same CT(peer): the peer has lost them (context confusion, RFC 5533 §7.15).
    fn part(&mut self, slot: Slot, out: &mut Outbox) {
        let Some(peer) = self.contexts.get(slot).and_then(|context| context.peer.clone()) else { return };
        let shares = |context: &Context| peer.locators.iter().any(|locator| context.knows(locator.address));
        let others = self.contexts.with_peer_tag(peer.tag);
        let confused: Vec<Slot> =
            others.filter(|(other, context)| *other != slot && shares(context)).map(|(other, _)| other).collect();
        for other in confused {
            self.end(other, "the peer has lost the context", out);
        }
    }

    /// Sends an R2 (RFC 5533 §7.14).
    fn grant(&mut self, slot: Slot, path: AddressPair, nonce: Nonce, out: &mut Outbox) {
        let keepalive = self.keepalive_options();
        let Some(ulid) = self.contexts.get(slot).map(|context| context.id.ulids.local) else { return };
        let known = self.announcement(ulid);
        let Some(context) = self.contexts.get(slot) else { return };
        let options = known.options.iter().cloned().chain(keepalive).collect();
        context.known = known;
        context.update = None;
        self.agenda.cancel(&Timer::Update(slot));
        let tag = context.tag;
        self.send(path, &Message::R2 { tag, nonce, options }, out);
    }

    /// Reports locators that failed verification to the operator, and to the peer by an Error message (RFC 5533 §7.2).
    pub(super) fn disbelieve(&mut self, now: Time, heard: Heard<'_>, disbelief: Disbelief, out: &mut Outbox) {
        let from = heard.path.peer;
        match disbelief {
            Disbelief::Busy => drop_packet(DropReason::RateLimited, from, "signatures", out),
            Disbelief::Parameters => {
                drop_packet(DropReason::Unverified, from, "CGA parameters do not match the ULID", out)
            }
            Disbelief::TooMany => drop_packet(DropReason::Unverified, from, "too many locators", out),
            Disbelief::Locator(index) => {
                drop_packet(
                    DropReason::Unverified,
                    from,
                    format!("locator {index} of the list failed verification"),
                    out,
                );
                self.complain_of_locator(now, heard, index, out);
            }
        }
    }

    fn is_ours(&mut self, ulid: Ipv6Addr) -> bool {
        // A ULID whose interface is gone is still ours if we can prove it.
        self.uplinks.find(ulid).is_some() || !self.announcement(ulid).options.is_empty()
    }
}

/// Whether `source` is a valid source address of the peer during a handshake.
fn may_speak(context: &Context, source: Ipv6Addr) -> bool {
    source == context.id.ulids.peer || context.knows(source)
}

/// The message of the current handshake step.
fn message(context: &Context, keepalive: Vec<ShimOption>) -> Option<Message> {
    let opening = context.opening.as_deref()?;
    let (tag, nonce) = (context.tag, opening.nonce);
    let mut options = Vec::new();
    if let Step::I2 { validator, .. } | Step::I2bis { validator, .. } = &opening.step {
        options.push(ShimOption::Validator(validator.clone()));
    }
    options.extend(naming(&context.id, opening.locators));
    let initiator_nonce = nonce;
    Some(match &opening.step {
        Step::I1 => Message::I1 { tag, nonce, options },
        Step::I2 { responder_nonce, .. } => {
            options.extend(context.known.options.iter().cloned().chain(keepalive));
            Message::I2 { tag, initiator_nonce, responder_nonce: *responder_nonce, options }
        }
        Step::I2bis { responder_nonce, packet_tag, .. } => {
            options.extend(context.known.options.iter().cloned().chain(keepalive));
            let (responder_nonce, packet_tag) = (*responder_nonce, *packet_tag);
            Message::I2bis { tag, initiator_nonce, responder_nonce, packet_tag, options }
        }
    })
}

/// ULID-pair and Forked Instance options, where the packet's addresses do not identify the context.
fn naming(id: &ContextId, locators: AddressPair) -> Vec<ShimOption> {
    let AddressPair { local: sender, peer: receiver } = id.ulids;
    let ulids = (id.ulids != locators).then_some(ShimOption::Ulids { sender, receiver });
    let fork = (id.fork.0 != 0).then_some(ShimOption::Fork(id.fork));
    ulids.into_iter().chain(fork).collect()
}

/// `span` times 0.5 to 1.5, as `chance` (0 to 999) decides (RFC 5533 §14).
pub(super) fn spread(span: Duration, chance: u64) -> Duration {
    span / 2 + span * u32::try_from(chance).unwrap_or(500) / 1000
}
