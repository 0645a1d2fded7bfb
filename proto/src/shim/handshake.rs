//! The context establishment handshake, context recovery and context confusion (RFC 5533 §7).

use super::context::{Context, ContextIndex, Handshake, HandshakeStep, Peer, PeerLocator};
use super::messages::{I2Message, MessageOptions, ReceivedMessage};
use super::proof::{Claim, ClaimError};
use super::validator::Subject;
use super::{NO_R1_HOLDDOWN_TIME, Shim, Timer};
use crate::contract::report::ShimReport;
use crate::{AddressPair, ContextId, DropReason, Outbox, Time};
use core::time::Duration;
use roam6_wire::shim6::{LocatorPreference, Message, Nonce, ShimOption, Tag, VerificationMethod};
use std::net::Ipv6Addr;

/// I1_TIMEOUT, I2_TIMEOUT, I2bis_TIMEOUT (RFC 5533 §14).
const RETRANSMIT_TIMEOUT: Duration = Duration::from_secs(4);
/// I1_RETRIES_MAX.
const I1_RETRIES_MAX: u32 = 4;
/// I2_RETRIES_MAX, I2bis_RETRIES_MAX.
const I2_RETRIES_MAX: u32 = 2;
/// Restarts with a new I1 after I2 went unanswered.
const MAX_RESTARTS: u32 = 1;
/// Keepalive Timeout of a peer that sent no such option (RFC 5534 §7).
const DEFAULT_KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(15);

impl Shim {
    /// Starts a handshake: sends I1 (RFC 5533 §7.7).
    pub(super) fn start_handshake(&mut self, now: Time, index: ContextIndex, rounds: u32, out: &mut Outbox) {
        let nonce = self.contexts.new_nonce(&mut self.entropy);
        let Some(context) = self.contexts.get(index) else { return };
        let handshake =
            Handshake { step: HandshakeStep::I1, nonce, locators: context.path, transmissions: 0, restarts: rounds };
        self.contexts.put_handshake(index, handshake);
        self.send_handshake_message(now, index, out);
    }

    /// Retransmits the handshake message, restarts with I1, or ends the handshake (RFC 5533 §7.8, §7.12, §7.19).
    pub(super) fn retransmit(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let Some(context) = self.contexts.get(index) else { return };
        let Some(handshake) = &context.handshake else { return };
        let (peer, rounds) = (context.id.ulids.peer, handshake.restarts);
        match handshake.step {
            HandshakeStep::I1 if handshake.transmissions <= I1_RETRIES_MAX => {
                self.send_handshake_message(now, index, out)
            }
            HandshakeStep::I2 { .. } | HandshakeStep::I2bis { .. } if handshake.transmissions <= I2_RETRIES_MAX => {
                self.send_handshake_message(now, index, out)
            }
            HandshakeStep::I2 { .. } | HandshakeStep::I2bis { .. } if rounds < MAX_RESTARTS => {
                self.start_handshake(now, index, rounds + 1, out)
            }
            _ => {
                self.hold_down(now, peer, NO_R1_HOLDDOWN_TIME, "no answer", out);
                self.end_context(index, "no answer", out);
            }
        }
    }

    /// Sends the message of the current handshake step.
    fn send_handshake_message(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let keepalive = self.keepalive_timeout_options();
        let Some(ulid) = self.contexts.get(index).map(|context| context.id.ulids.local) else { return };
        let known = self.announcement(ulid);
        let chance = self.entropy.below(1000);
        let Some(context) = self.contexts.get(index) else { return };
        context.announced = known;
        let Some(message) = handshake_message(context, keepalive) else { return };
        let Some(handshake) = &mut context.handshake else { return };
        let pause = RETRANSMIT_TIMEOUT * 2u32.saturating_pow(handshake.transmissions.min(8));
        handshake.transmissions = handshake.transmissions.saturating_add(1);
        let locators = handshake.locators;
        self.send(locators, &message, out);
        self.timers.set(Timer::Retransmit(index), now + jitter(pause, chance));
    }

    pub(super) fn receive_i1(&mut self, received: ReceivedMessage<'_>, (tag, nonce): (Tag, Nonce), out: &mut Outbox) {
        let (ReceivedMessage { now, path, .. }, id) = (received, received.context_id());
        if !self.is_local_ulid(id.ulids.local) {
            return out.report_drop(DropReason::NotForUs, path.peer, format!("I1 for {}", id.ulids.local));
        }
        let index = self.contexts.find(&id);
        let context = index.and_then(|index| Some((index, self.contexts.get(index)?)));
        match context {
            // I1 messages crossed; only the peer may learn our tag (RFC 5533 §7.9).
            Some((index, context)) if context.handshake.is_some() && is_known_source(context, path.peer) => {
                self.send_r2(index, path, nonce, out);
            }
            // The R2 was lost.
            Some((index, context))
                if context.handshake.is_none()
                    && context.accepts_source(path.peer)
                    && context.peer.as_ref().is_some_and(|peer| peer.tag == tag) =>
            {
                self.send_r2(index, path, nonce, out);
            }
            _ => {
                let subject = Subject::R1 { tag, ulids: id.ulids, locators: path, fork: id.fork };
                let (responder_nonce, validator) = self.validators.issue(now, subject, &mut self.entropy);
                let options = vec![ShimOption::Validator(validator)];
                self.send(path, &Message::R1 { initiator_nonce: nonce, responder_nonce, options }, out);
            }
        }
    }

    pub(super) fn receive_r1(
        &mut self,
        received: ReceivedMessage<'_>,
        (nonce, responder_nonce): (Nonce, Nonce),
        out: &mut Outbox,
    ) {
        let ReceivedMessage { now, path, options, .. } = received;
        let unsolicited = |out: &mut Outbox| out.report_drop(DropReason::Unsolicited, path.peer, "R1");
        let Some(index) = self.contexts.find_nonce(nonce) else { return unsolicited(out) };
        let handshake = self.contexts.get(index).and_then(|context| context.handshake.as_mut());
        let (Some(handshake), Some(validator)) = (handshake, options.validator) else { return unsolicited(out) };
        if handshake.step != HandshakeStep::I1 || handshake.locators != path {
            return unsolicited(out);
        }
        handshake.step = HandshakeStep::I2 { responder_nonce, validator: validator.to_vec() };
        handshake.transmissions = 0;
        self.send_handshake_message(now, index, out);
    }

    /// Receives I2 and I2bis (RFC 5533 §7.13, §7.20): checks the validator first and signatures last.
    pub(super) fn receive_i2(&mut self, received: ReceivedMessage<'_>, second: I2Message, out: &mut Outbox) {
        let (ReceivedMessage { now, path, options, .. }, id) = (received, received.context_id());
        let subject = match second.lost_tag {
            None => Subject::R1 { tag: second.tag, ulids: id.ulids, locators: path, fork: id.fork },
            Some(tag) => Subject::R1bis { tag, locators: path },
        };
        let (initiator_nonce, responder_nonce) = second.nonces;
        if !self.validators.check(now, responder_nonce, subject, options.validator.unwrap_or_default()) {
            return out.report_drop(DropReason::BadValidator, path.peer, "I2");
        }
        if !self.is_local_ulid(id.ulids.local) {
            return out.report_drop(DropReason::NotForUs, path.peer, format!("I2 for {}", id.ulids.local));
        }
        let index = self.contexts.find(&id);
        let former = index.and_then(|index| self.contexts.get(index)?.peer.clone());
        if let (Some(index), Some(former)) = (index, &former)
            && let Some((known_responder, known_initiator)) = former.responder_nonce
        {
            if (known_responder, known_initiator, former.tag) == (responder_nonce, initiator_nonce, second.tag) {
                return self.send_r2(index, path, initiator_nonce, out);
            }
            if (known_responder.0.wrapping_sub(responder_nonce.0) as i32) > 0 {
                return out.report_drop(
                    DropReason::Replayed,
                    path.peer,
                    "replayed I2: older than the last one accepted",
                );
            }
        }
        let mut peer = match self.verified_peer(now, former.as_ref(), id.ulids.peer, second.tag, &options) {
            Ok(peer) => peer,
            Err(error) => return self.reject_claim(received, error, out),
        };
        if !peer.has_locator(path.peer) {
            return out.report_drop(DropReason::Unverified, path.peer, format!("I2 for {}", id.ulids.peer));
        }
        if index.is_none() && !self.make_room(now, path.peer, out) {
            return;
        }
        peer.responder_nonce = Some((responder_nonce, initiator_nonce));
        let index = index.unwrap_or_else(|| self.create_context(now, id, received.link, path));
        if self.contexts.get(index).is_some_and(|context| {
            context
                .handshake
                .as_ref()
                .is_some_and(|handshake| handshake.step == HandshakeStep::I1 && context.peer.is_none())
        }) {
            self.contexts.end_handshake(index);
            self.timers.cancel(&Timer::Retransmit(index));
        }
        self.accept_peer(now, index, peer, path, out);
        if let Some(context) = self.contexts.get(index) {
            context.pending_r2 = Some(Box::new((path, initiator_nonce)));
        }
    }

    pub(super) fn receive_r2(&mut self, received: ReceivedMessage<'_>, (tag, nonce): (Tag, Nonce), out: &mut Outbox) {
        let ReceivedMessage { now, path, options, .. } = received;
        let unsolicited = |out: &mut Outbox| out.report_drop(DropReason::Unsolicited, path.peer, "R2");
        let Some(index) = self.contexts.find_nonce(nonce) else { return unsolicited(out) };
        let Some(context) = self.contexts.get(index) else { return unsolicited(out) };
        if context.handshake.as_ref().is_none_or(|handshake| handshake.locators != path) {
            return unsolicited(out);
        }
        let (former, ulid) = (context.peer.clone(), context.id.ulids.peer);
        let mut peer = match self.verified_peer(now, former.as_ref(), ulid, tag, &options) {
            Ok(peer) => peer,
            Err(error) => return self.reject_claim(received, error, out),
        };
        if !peer.has_locator(path.peer) {
            return out.report_drop(DropReason::Unverified, path.peer, "R2");
        }
        peer.responder_nonce = former.and_then(|former| former.responder_nonce);
        self.contexts.end_handshake(index);
        self.timers.cancel(&Timer::Retransmit(index));
        self.accept_peer(now, index, peer, path, out);
    }

    /// Receives R1bis: the peer has lost the context (RFC 5533 §7.18).
    pub(super) fn receive_r1bis(
        &mut self,
        received: ReceivedMessage<'_>,
        (packet_tag, responder_nonce): (Tag, Nonce),
        out: &mut Outbox,
    ) {
        let ReceivedMessage { now, path, options, .. } = received;
        let of =
            |(_, context): &(ContextIndex, &Context)| context.handshake.is_none() && context.accepts_source(path.peer);
        let index = self.contexts.with_peer_tag(packet_tag).find(of).map(|(index, _)| index);
        let (Some(index), Some(validator)) = (index, options.validator) else {
            return out.report_drop(DropReason::Unsolicited, path.peer, "R1bis");
        };
        let nonce = self.contexts.new_nonce(&mut self.entropy);
        let step = HandshakeStep::I2bis { responder_nonce, validator: validator.to_vec(), packet_tag };
        self.contexts.put_handshake(index, Handshake { step, nonce, locators: path, transmissions: 0, restarts: 0 });
        self.send_handshake_message(now, index, out);
    }

    /// Answers a message with an unknown context tag by R1bis (RFC 5533 §7.17).
    pub(super) fn send_r1bis(&mut self, now: Time, path: AddressPair, tag: Tag, out: &mut Outbox) {
        if !self.error_limiter.take(now) {
            return out.report_drop(DropReason::RateLimited, path.peer, "no context");
        }
        let subject = Subject::R1bis { tag, locators: path };
        let (responder_nonce, validator) = self.validators.issue(now, subject, &mut self.entropy);
        let options = vec![ShimOption::Validator(validator)];
        self.send(path, &Message::R1bis { packet_tag: tag, responder_nonce, options }, out);
    }

    /// The data plane has installed the context: sends the pending R2 and requests activity reports.
    pub(super) fn context_installed(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let Some(context) = self.contexts.get(index).filter(|context| context.is_established()) else { return };
        let id = context.id;
        if let Some((path, nonce)) = context.pending_r2.take().map(|owed| *owed) {
            self.send_r2(index, path, nonce, out);
        }
        self.sample(id, out);
        self.schedule_update(now, index);
    }

    /// The peer's state as of this message, once its locators are verified.
    pub(super) fn verified_peer(
        &mut self,
        now: Time,
        former: Option<&Peer>,
        ulid: Ipv6Addr,
        tag: Tag,
        options: &MessageOptions<'_>,
    ) -> Result<Peer, ClaimError> {
        let fresh = || Peer {
            tag,
            locators: Box::new([PeerLocator {
                address: ulid,
                method: VerificationMethod(0),
                preference: LocatorPreference::default(),
            }]),
            generation: None,
            parameters: Box::default(),
            keepalive_timeout: DEFAULT_KEEPALIVE_TIMEOUT.into(),
            subsecond_timeouts: false,
            responder_nonce: None,
        };
        let mut peer = former.cloned().unwrap_or_else(fresh);
        peer.tag = tag;
        let known = (!peer.parameters.is_empty()).then_some(&*peer.parameters);
        let claim = Claim {
            ulid,
            parameters: options.parameters.or(known),
            list: options.locator_list,
            signature: options.signature,
        };
        let same = options.locator_list.is_some_and(|list| {
            let known = peer.locators.iter().map(|locator| (locator.method, locator.address));
            peer.generation == Some(list.generation) && known.eq(list.locators.iter().copied())
        });
        if !(same && options.parameters.is_none_or(|parameters| Some(parameters) == known)) {
            claim.verify(now, &mut self.verification_limiter)?;
        }
        if let Some(parameters) = options.parameters {
            peer.parameters = parameters.into();
        }
        if let Some(list) = options.locator_list {
            let locator = |(method, address): &(VerificationMethod, Ipv6Addr)| PeerLocator {
                address: *address,
                method: *method,
                preference: LocatorPreference::default(),
            };
            peer.generation = Some(list.generation);
            peer.locators =
                list.locators.iter().filter(|(_, address)| super::uplinks::is_global(*address)).map(locator).collect();
        }
        if let Some((generation, elements)) = options.preferences
            && peer.generation == Some(generation)
            && elements.len() == peer.locators.len()
        {
            for (locator, element) in peer.locators.iter_mut().zip(elements) {
                locator.preference = *element;
            }
        }
        if let Some(keepalive) = options.keepalive_timeout {
            (peer.keepalive_timeout, peer.subsecond_timeouts) = (keepalive.into(), options.subsecond_timeouts);
        }
        Ok(peer)
    }

    /// The Keepalive Timeout options that go with our locators (RFC 5534 §5.3).
    pub(super) fn keepalive_timeout_options(&self) -> Vec<ShimOption> {
        let timeout = self.config.send_timeout;
        let seconds = timeout.as_millis().div_ceil(1000);
        let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        vec![
            ShimOption::KeepaliveTimeout(u16::try_from(seconds).unwrap_or(u16::MAX)),
            ShimOption::KeepaliveMilliseconds(milliseconds),
        ]
    }

    /// The context is established; `proven` is a pair on which both directions have just worked.
    fn accept_peer(&mut self, now: Time, index: ContextIndex, peer: Peer, proven: AddressPair, out: &mut Outbox) {
        let Some(context) = self.contexts.get(index) else { return };
        let news = context.peer.is_none();
        context.last_activity = context.last_activity.max(now);
        if !peer.has_locator(context.path.peer) {
            context.path = proven;
        }
        // The handshake has carried our current locators.
        context.pending_update = None;
        self.timers.cancel(&Timer::Update(index));
        if let Some(recovery) = &mut context.recovery {
            recovery.exploration.restart_backoff();
            self.timers.set(Timer::Probe(index), now);
        }
        let (id, path, count) = (context.id, context.path, peer.locators.len());
        self.contexts.put_peer(index, peer);
        self.end_confused_contexts(index, out);
        self.put_context(now, index, out);
        if news {
            self.finish_switch(now, index, path);
        }
        out.report(match news {
            true => ShimReport::ContextUp { context: id, path, locators: count },
            false => ShimReport::ContextRenewed { context: id, path, locators: count },
        });
    }

    /// Ends other contexts with the same CT(peer): the peer has lost them (context confusion, RFC 5533 §7.15).
    fn end_confused_contexts(&mut self, index: ContextIndex, out: &mut Outbox) {
        let Some(peer) = self.contexts.get(index).and_then(|context| context.peer.clone()) else { return };
        let shares = |context: &Context| peer.locators.iter().any(|locator| context.accepts_source(locator.address));
        let others = self.contexts.with_peer_tag(peer.tag);
        let confused: Vec<ContextIndex> =
            others.filter(|(other, context)| *other != index && shares(context)).map(|(other, _)| other).collect();
        for other in confused {
            self.end_context(other, "the peer has lost the context", out);
        }
    }

    /// Sends an R2 (RFC 5533 §7.14).
    fn send_r2(&mut self, index: ContextIndex, path: AddressPair, nonce: Nonce, out: &mut Outbox) {
        let keepalive = self.keepalive_timeout_options();
        let Some(ulid) = self.contexts.get(index).map(|context| context.id.ulids.local) else { return };
        let known = self.announcement(ulid);
        let Some(context) = self.contexts.get(index) else { return };
        let options = known.options.iter().cloned().chain(keepalive).collect();
        context.announced = known;
        context.pending_update = None;
        self.timers.cancel(&Timer::Update(index));
        let tag = context.tag;
        self.send(path, &Message::R2 { tag, nonce, options }, out);
    }

    /// Reports locators that failed verification to the operator, and to the peer by an Error message (RFC 5533 §7.2).
    pub(super) fn reject_claim(&mut self, received: ReceivedMessage<'_>, error: ClaimError, out: &mut Outbox) {
        let from = received.path.peer;
        match error {
            ClaimError::RateLimited => out.report_drop(DropReason::RateLimited, from, "signatures"),
            ClaimError::Parameters => {
                out.report_drop(DropReason::Unverified, from, "CGA parameters do not match the ULID")
            }
            ClaimError::TooMany => out.report_drop(DropReason::Unverified, from, "too many locators"),
            ClaimError::Locator(index) => {
                out.report_drop(
                    DropReason::Unverified,
                    from,
                    format!("locator {index} of the list failed verification"),
                );
                self.send_locator_error(received, index, out);
            }
        }
    }

    fn is_local_ulid(&mut self, ulid: Ipv6Addr) -> bool {
        // A ULID whose interface is absent is still ours if we can prove it.
        self.uplinks.link_of(ulid).is_some() || !self.announcement(ulid).options.is_empty()
    }
}

/// Whether `source` is a valid source address of the peer during a handshake.
fn is_known_source(context: &Context, source: Ipv6Addr) -> bool {
    source == context.id.ulids.peer || context.accepts_source(source)
}

/// The message of the current handshake step.
fn handshake_message(context: &Context, keepalive: Vec<ShimOption>) -> Option<Message> {
    let handshake = context.handshake.as_deref()?;
    let (tag, nonce) = (context.tag, handshake.nonce);
    let mut options = Vec::new();
    if let HandshakeStep::I2 { validator, .. } | HandshakeStep::I2bis { validator, .. } = &handshake.step {
        options.push(ShimOption::Validator(validator.clone()));
    }
    options.extend(context_options(&context.id, handshake.locators));
    let initiator_nonce = nonce;
    Some(match &handshake.step {
        HandshakeStep::I1 => Message::I1 { tag, nonce, options },
        HandshakeStep::I2 { responder_nonce, .. } => {
            options.extend(context.announced.options.iter().cloned().chain(keepalive));
            Message::I2 { tag, initiator_nonce, responder_nonce: *responder_nonce, options }
        }
        HandshakeStep::I2bis { responder_nonce, packet_tag, .. } => {
            options.extend(context.announced.options.iter().cloned().chain(keepalive));
            let (responder_nonce, packet_tag) = (*responder_nonce, *packet_tag);
            Message::I2bis { tag, initiator_nonce, responder_nonce, packet_tag, options }
        }
    })
}

/// ULID-pair and Forked Instance options, where the packet's addresses do not identify the context.
fn context_options(id: &ContextId, locators: AddressPair) -> Vec<ShimOption> {
    let AddressPair { local: sender, peer: receiver } = id.ulids;
    let ulids = (id.ulids != locators).then_some(ShimOption::Ulids { sender, receiver });
    let fork = (id.fork.0 != 0).then_some(ShimOption::Fork(id.fork));
    ulids.into_iter().chain(fork).collect()
}

/// `span` times 0.5 to 1.5, as `chance` (0 to 999) decides (RFC 5533 §14).
pub(super) fn jitter(span: Duration, chance: u64) -> Duration {
    span / 2 + span * u32::try_from(chance).unwrap_or(500) / 1000
}
