//! Locator updates: Update Request and Update Acknowledgement (RFC 5533 §10).

use super::context::{ContextIndex, PendingUpdate};
use super::handshake::jitter;
use super::messages::ReceivedMessage;
use super::proof::Announcement;
use super::{Shim, Timer, UPDATE_DELAY};
use crate::{DropReason, Outbox, Time};
use core::time::Duration;
use roam6_wire::shim6::{ErrorCode, Message, Nonce, ShimOption, option};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// UPDATE_TIMEOUT and MAX_UPDATE_TIMEOUT (RFC 5533 §14).
const UPDATE_TIMEOUT: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(120));
/// Spacing of the first Update Requests to many peers.
const UPDATE_SPACING: Duration = Duration::from_millis(1);

impl Shim {
    /// An address or an interface was added or removed.
    pub(super) fn locators_changed(&mut self, now: Time, out: &mut Outbox) {
        self.timers.set(Timer::Announce, now + UPDATE_DELAY);
        let indices: Vec<ContextIndex> = self.contexts.iter().map(|(index, _)| index).collect();
        for index in indices {
            self.recheck_path(now, index, out);
        }
    }

    /// The locator list and its proof for `ulid`. The first list is made on demand, so that no handshake lacks the
    /// proof; later ones after `UPDATE_DELAY`.
    pub(super) fn announcement(&mut self, ulid: Ipv6Addr) -> Arc<Announcement> {
        if !self.identities.has_lists() {
            self.rebuild_locator_lists();
        }
        self.identities.announce(ulid)
    }

    /// Rebuilds the signed lists of our current locators.
    pub(super) fn rebuild_locator_lists(&mut self) {
        let mut locators: Vec<Ipv6Addr> = self.uplinks.locators().collect();
        locators.sort_unstable();
        let preference = |locator| (locator, self.uplinks.preference(locator, &self.config.preferences));
        let locators: Vec<_> = locators.into_iter().map(preference).collect();
        self.identities.build_lists(&locators, &mut self.entropy);
    }

    /// Schedules Update Requests with our current locators to every peer.
    pub(super) fn announce_locators(&mut self, now: Time) {
        self.rebuild_locator_lists();
        let indices: Vec<ContextIndex> = self.contexts.iter().map(|(index, _)| index).collect();
        let mut at = now;
        for index in indices {
            if self.schedule_update(at, index) {
                at = at + UPDATE_SPACING;
            }
        }
    }

    /// Schedules an Update Request if the peer does not know our current locators; returns whether it did.
    pub(super) fn schedule_update(&mut self, at: Time, index: ContextIndex) -> bool {
        let Some(ulid) = self.contexts.get(index).map(|context| context.id.ulids.local) else { return false };
        let new = self.announcement(ulid);
        let Some(context) = self.contexts.get(index).filter(|context| context.is_established()) else { return false };
        let announced = context.pending_update.as_ref().map_or(&context.announced, |update| &update.announcement);
        // A pending update may have arrived, even if the new list equals the one acknowledged before.
        if (&announced.locators, &announced.preferences) == (&new.locators, &new.preferences) {
            return false;
        }
        let nonce = Nonce(self.entropy.next_u64() as u32);
        context.pending_update = Some(Box::new(PendingUpdate { nonce, announcement: new, transmissions: 0 }));
        self.timers.set(Timer::Update(index), at);
        true
    }

    /// Sends or retransmits the pending Update Request (RFC 5533 §10.2).
    pub(super) fn send_update_request(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let keepalive = self.keepalive_timeout_options();
        let chance = self.entropy.below(1000);
        let Some(tries) =
            self.contexts.get(index).and_then(|context| Some(context.pending_update.as_ref()?.transmissions))
        else {
            return;
        };
        let path = self.pair_for_retransmission(index, tries);
        let Some(context) = self.contexts.get(index) else { return };
        let (Some(update), Some(peer)) = (&mut context.pending_update, &context.peer) else { return };
        let pause = (UPDATE_TIMEOUT.0 * 2u32.saturating_pow(update.transmissions.min(8))).min(UPDATE_TIMEOUT.1);
        self.timers.set(Timer::Update(index), now + jitter(pause, chance));
        let Some(path) = path else { return };
        update.transmissions = update.transmissions.saturating_add(1);
        let options = update.announcement.options.iter().cloned().chain(keepalive).collect();
        let message = Message::UpdateRequest { tag: peer.tag, nonce: update.nonce, options };
        context.reap_timers.on_message_sent(now);
        self.send(path, &message, out);
        self.set_reap_timer(now, index);
    }

    pub(super) fn receive_update_request(
        &mut self,
        index: ContextIndex,
        received: ReceivedMessage<'_>,
        nonce: Nonce,
        out: &mut Outbox,
    ) {
        let ReceivedMessage { now, options, .. } = received;
        let Some(context) = self.contexts.get(index) else { return };
        let (Some(former), ulid) = (context.peer.clone(), context.id.ulids.peer) else { return };
        let peer = match self.verified_peer(now, Some(&former), ulid, former.tag, &options) {
            Ok(peer) => peer,
            Err(error) => return self.reject_claim(received, error, out),
        };
        if let Some((generation, elements)) = options.preferences {
            let wrong = match () {
                () if peer.generation != Some(generation) => Some((ErrorCode::GENERATION, 4)),
                () if peer.locators.len() != elements.len() => Some((ErrorCode::LOCATOR_COUNT, 2)),
                () => None,
            };
            if let Some((code, offset)) = wrong {
                out.report_drop(
                    DropReason::Malformed,
                    received.path.peer,
                    "locator preferences for another locator list",
                );
                return self.send_option_error(received, code, (option::kind::PREFERENCES, offset), out);
            }
        }
        if peer.locators.is_empty() {
            return out.report_drop(DropReason::Unverified, received.path.peer, "the update leaves no locator");
        }
        let tag = peer.tag;
        if let Some(context) = self.contexts.get(index) {
            context.reap_timers.on_message_received(now);
        }
        self.send(received.path, &Message::UpdateAck { tag, nonce, options: Vec::<ShimOption>::new() }, out);
        if peer != former {
            let taken = |address| former.has_locator(address) && !peer.has_locator(address);
            let gone = self.contexts.get(index).is_some_and(|context| taken(context.path.peer));
            self.contexts.put_peer(index, peer);
            self.put_context(now, index, out);
            match gone {
                true => self.enter_exploring(now, index, "the peer has removed its locator", out),
                false => self.recheck_path(now, index, out),
            }
        }
    }

    pub(super) fn receive_update_ack(&mut self, now: Time, index: ContextIndex, nonce: Nonce) {
        let Some(context) = self.contexts.get(index) else { return };
        context.reap_timers.on_message_received(now);
        if let Some(update) = context.pending_update.take_if(|update| update.nonce == nonce) {
            context.announced = Arc::clone(&update.announcement);
            self.timers.cancel(&Timer::Update(index));
            if let Some(recovery) = &mut context.recovery {
                recovery.exploration.restart_backoff();
                self.timers.set(Timer::Probe(index), now);
            }
        }
        self.set_reap_timer(now, index);
    }
}
