//! Messages of the home agent: Binding Acknowledgements, with the action for each status, Binding Refresh Requests and
//! Binding Errors (RFC 6275 §11.7.3 and §11.7.4, RFC 3963 §5.4, RFC 5648 §5, RFC 4285 §5.1 and §6, RFC 3776 §4).

use super::MobileRouter;
use super::binding_update::lifetime_of;
use super::discovery::RETRY_DELAY;
use super::registration::{CareOf, DesiredRegistration, Location, RefreshAdvice, Transmission};
use super::uplink::Uplink;
use crate::contract::config::nemo::Authentication;
use crate::contract::report::NemoReport;
use crate::crypto::authenticator::{NTP_TO_UNIX_SECONDS, Timestamp, verify};
use crate::{DropReason, LinkId, Outbox, Time};
use roam6_wire::Bid;
use roam6_wire::ip6::Datagram;
use roam6_wire::mobility::option::AUTHENTICATION_MN_HA;
use roam6_wire::mobility::{
    BindingAcknowledgement, BindingIdentifier, ErrorStatus, Message, MobilityOption, Status, authenticated_part,
};

/// Consecutive rejections that end an existing binding.
const MAX_REJECTIONS: u32 = 3;

/// The action for a status.
enum AckAction {
    /// The registration is accepted.
    Accepted,
    /// Send the update again, with the values of the acknowledgement.
    RetryUpdated,
    /// Retransmit the update; acknowledgements of former transmissions still count.
    Retransmit,
    /// Send it again without RFC 5648.
    RetryWithoutMcoa,
    /// Send it again for home or away, not both.
    RetryWithoutHomeAndAway,
    /// De-register, then register again.
    Reregister,
    /// This home agent rejects the mobile router.
    Rejected,
}

impl MobileRouter {
    /// Processes a Mobility Header; `protected` if it was in valid ESP.
    pub(super) fn receive_mobility(&mut self, now: Time, datagram: &Datagram<'_>, protected: bool, out: &mut Outbox) {
        let from = Some(datagram.source);
        let (source, destination) = (datagram.real_source(), datagram.real_destination());
        let home = self.config.home_address.0;
        let ours =
            |uplink: &Uplink| uplink.care_of_address.as_ref().is_some_and(|formed| formed.address.0 == destination);
        if destination != home && !self.uplinks.iter().any(ours) {
            // For another role of this host, or for none.
            return;
        }
        let message = match Message::parse(datagram.payload, source, destination) {
            Ok(message) => message,
            Err(why) => return out.report_malformed(from, &why),
        };
        let drop = |reason, detail: &str, out: &mut Outbox| {
            out.report_drop(reason, from, detail.to_owned());
        };
        if destination != home {
            // A Binding Error goes to the care-of address, because the home address is unverified (RFC 6275 §9.3.3).
            match message {
                Message::BindingError { status, .. } => self.receive_binding_error(now, datagram, status, out),
                _ => drop(DropReason::NotForUs, "mobility header", out),
            }
            return;
        }
        if !self.home_agents.contains(datagram.source) {
            return drop(DropReason::NoAssociation, "mobility header, not from a configured home agent", out);
        }
        match message {
            Message::BindingAcknowledgement(acknowledgement) => {
                self.receive_acknowledgement(now, datagram, &acknowledgement, protected, out);
            }
            Message::BindingRefreshRequest { .. } if self.registration.binding().is_some() => {
                if self.hint_limiter.take(now) {
                    self.renew_esp_offers();
                    self.registration.verify_binding(now);
                } else {
                    drop(DropReason::RateLimited, "binding refresh request", out);
                }
            }
            Message::BindingError { status, .. } => self.receive_binding_error(now, datagram, status, out),
            _ => drop(DropReason::Unsolicited, "mobility header", out),
        }
    }

    /// The home agent reports that it has no binding. This is unauthenticated, so the binding is only verified by an
    /// update. Any other status (RFC 6275 §6.1.9) has no consequence, and forged ones must not use up the hints.
    fn receive_binding_error(&mut self, now: Time, datagram: &Datagram<'_>, status: ErrorStatus, out: &mut Outbox) {
        let peer = datagram.source;
        let is_hint = status == ErrorStatus::UNKNOWN_BINDING;
        let limiter = if is_hint { &mut self.hint_limiter } else { &mut self.error_limiter };
        if !self.home_agents.contains(peer) || !limiter.take(now) {
            out.report_drop(DropReason::Unsolicited, peer, "binding error");
            return;
        }
        out.report(NemoReport::BindingError { peer, status: status.0, sent: false });
        if is_hint {
            self.registration.verify_binding(now);
        }
    }

    fn receive_acknowledgement(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        message: &BindingAcknowledgement,
        protected: bool,
        out: &mut Outbox,
    ) {
        let drop = |reason, out: &mut Outbox| {
            out.report_drop(
                reason,
                datagram.source,
                format!("binding acknowledgement {}, sequence {}", message.status, message.sequence),
            );
        };
        let answered = match message.status {
            // It has the home agent's last sequence number, not that of the update (RFC 6275 §11.7.3). If our last
            // number is newer, it answers an older update or a replay, and our last update will be accepted.
            Status::SEQUENCE_OUT_OF_WINDOW => {
                let stale = self.registration.sequence().is_newer_than(message.sequence);
                self.registration.find_by_timestamp(echoed_timestamp(message)).filter(|_| !stale)
            }
            _ => self.registration.find_by_sequence(message.sequence),
        };
        let answered = answered.filter(|(wanted, _)| wanted.home_agent == datagram.source);
        let answered = answered.map(|(wanted, sent)| (wanted.clone(), sent));
        // A status 135 may answer any update; one in the other encapsulation is that of a trial.
        if answered.as_ref().is_none_or(|(wanted, _)| !came_by_path_of(datagram, wanted))
            && self.receive_other_answer(now, datagram, message, protected, out)
        {
            return;
        }
        let Some((wanted, sent)) = answered else { return drop(DropReason::Unsolicited, out) };
        if let Err(reason) = self.verify(datagram, message, &wanted, protected) {
            self.diagnosis.note_unauthenticated(message.status, reason);
            return drop(reason, out);
        }
        if !echoes_timestamp(message, &sent) {
            return drop(DropReason::Replayed, out);
        }
        let (home_agent, status, sequence) = (wanted.home_agent, message.status.0, message.sequence);
        let granted = lifetime_of(message.lifetime_units);
        self.diagnosis.note_answered();
        self.note_update_answered(wanted.first_visited());
        self.note_network_passes(now, wanted.first_visited());
        self.note_capabilities(message);
        self.note_elimination(home_agent, message, out);
        out.report(NemoReport::AcknowledgementReceived { home_agent, status, sequence, lifetime: granted });
        if message.status == Status::SEQUENCE_OUT_OF_WINDOW {
            self.note_sequence(now, home_agent, sequence, out);
        }
        if message.status.is_accepted() {
            self.note_path_keys(home_agent, message);
            self.receive_key_answer(message, out);
        }
        let consequence = self.action_for(now, message, &wanted);
        if matches!(consequence, AckAction::Rejected | AckAction::Reregister)
            && self.is_rejection_in_doubt(now, message, &wanted, out)
        {
            return;
        }
        match consequence {
            AckAction::Accepted => self.accept_acknowledgement(now, message, wanted, sent, out),
            AckAction::RetryUpdated => self.registration.retry(now),
            AckAction::Retransmit => self.registration.retransmit_now(now),
            AckAction::RetryWithoutMcoa => {
                self.ha_lacks_mcoa = true;
                self.registration.retry(now);
            }
            AckAction::RetryWithoutHomeAndAway => {
                self.ha_rejects_home_and_away = true;
                self.registration.retry(now);
            }
            AckAction::Reregister => {
                if let Some(message) = self.deregistration(now, &wanted, out) {
                    out.transmit(message);
                }
                self.registration.drop_binding();
                self.registration.retry(now);
            }
            // It has no binding: the home address has not been defended since (RFC 6275 §11.5.5).
            AckAction::Rejected if wanted.care_of().is_empty() => {
                self.accept_acknowledgement(now, message, wanted, sent, out);
                self.start_home_address_dad(now, true, out);
            }
            AckAction::Rejected => {
                self.manages_tunnel = true;
                self.note_rejected(now, home_agent, message.status, out);
                if message.status.is_accepted()
                    && let Some(message) = self.deregistration(now, &wanted, out)
                {
                    out.transmit(message);
                }
                self.rejected_by_home_agent(now, message.status, out);
            }
        }
    }

    /// Processes an answer to a de-registration elsewhere or to an update of one path; returns whether it is one.
    fn receive_other_answer(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        message: &BindingAcknowledgement,
        protected: bool,
        out: &mut Outbox,
    ) -> bool {
        self.receive_deregistration_answer(datagram, message, protected)
            || self.receive_question_answer(now, datagram, message, protected)
            || self.receive_path_answer(now, datagram, message, protected, out)
            || self.receive_trial_answer(now, datagram, message, protected)
    }

    /// Whether a rejection is not accepted yet: the update is retransmitted in its time, and the binding stays.
    ///
    /// A home agent authenticates status 146 for any unauthenticated update in our name, and an on-path attacker can
    /// copy sequence number and timestamp: such an answer says nothing about our update. An existing binding is given
    /// up only after several rejected updates; not at all for want of resources if it was only to be refreshed, since
    /// the home agent keeps it (RFC 6275 §9.5.1).
    fn is_rejection_in_doubt(
        &mut self,
        now: Time,
        message: &BindingAcknowledgement,
        wanted: &DesiredRegistration,
        out: &mut Outbox,
    ) -> bool {
        let (status, home_agent) = (message.status, wanted.home_agent);
        if status.is_accepted() || wanted.care_of().is_empty() {
            return false;
        }
        let proven = status != Status::AUTHENTICATION_FAILED;
        let refusals = self.registration.count_rejection(message.sequence, proven);
        let held = self.registration.binding().is_some_and(|binding| binding.registration.home_agent == home_agent);
        let transient = matches!(status, Status::UNSPECIFIED | Status::INSUFFICIENT_RESOURCES);
        let kept = refusals < MAX_REJECTIONS || transient && self.registration.is_refreshing(home_agent);
        let doubted = !proven || held && kept;
        if doubted && (!held || refusals >= MAX_REJECTIONS) {
            self.note_rejected(now, home_agent, status, out);
        }
        doubted
    }

    /// Verifies that the acknowledgement comes from the home agent (RFC 4285 §5.1).
    pub(super) fn verify(
        &self,
        datagram: &Datagram<'_>,
        message: &BindingAcknowledgement,
        wanted: &DesiredRegistration,
        protected: bool,
    ) -> Result<(), DropReason> {
        if !came_by_path_of(datagram, wanted) {
            return Err(DropReason::NotForUs);
        }
        match &self.config.authentication {
            Authentication::None => return Ok(()),
            Authentication::Ipsec(_) if protected => return Ok(()),
            Authentication::Ipsec(_) => return Err(DropReason::NotAuthenticated),
            Authentication::SharedKey(_) => {}
        }
        let last = message.options.iter().rev().find_map(|option| match option {
            MobilityOption::Authentication { subtype: AUTHENTICATION_MN_HA, spi, data } => Some((*spi, data)),
            _ => None,
        });
        let (spi, data) = last.ok_or(DropReason::NotAuthenticated)?;
        let (part, _) = authenticated_part(datagram.payload).ok_or(DropReason::NotAuthenticated)?;
        let mut named = self.acknowledgement_keys().filter(|key| key.spi == spi).peekable();
        if named.peek().is_none() {
            return Err(DropReason::NoAssociation);
        }
        let (source, home) = (self.update_source(wanted), self.config.home_address);
        if !named.any(|key| verify(&key.secret, source, home, &part, data)) {
            return Err(DropReason::BadAuthenticator);
        }
        Ok(())
    }

    fn action_for(&mut self, now: Time, message: &BindingAcknowledgement, wanted: &DesiredRegistration) -> AckAction {
        let multiple = matches!(wanted.location, Location::Away { mcoa: true, .. });
        let both = wanted.care_of().iter().any(|care_of| care_of.on_home_link);
        match message.status {
            // It may answer a copy of our update, and overtake the answer to the update itself.
            Status::SEQUENCE_OUT_OF_WINDOW if message.sequence == self.registration.sequence() => AckAction::Retransmit,
            Status::SEQUENCE_OUT_OF_WINDOW => {
                self.registration.resume(message.sequence);
                AckAction::RetryUpdated
            }
            Status::MESSAGE_ID_MISMATCH => {
                self.resynchronise_clock(now, message);
                AckAction::RetryUpdated
            }
            Status::REGISTRATION_TYPE_CHANGE => AckAction::Reregister,
            Status::MCOA_SIMULTANEOUS_PROHIBITED if both => AckAction::RetryWithoutHomeAndAway,
            // It may have taken the update for a de-registration (RFC 5648 §6.3).
            status if both && status.is_accepted() && !has_bid_options(message) => AckAction::RetryWithoutHomeAndAway,
            Status::MCOA_MALFORMED
            | Status::MCOA_NON_MCOA_BINDING_EXISTS
            | Status::MCOA_PROHIBITED
            | Status::MCOA_UNKNOWN_CARE_OF
            | Status::MCOA_BULK_PROHIBITED
            | Status::MCOA_SIMULTANEOUS_PROHIBITED
                if multiple =>
            {
                AckAction::RetryWithoutMcoa
            }
            // Without the R flag it does not forward for mobile networks (RFC 3963 §5.3).
            status if status.is_accepted() && self.lacks_encryption(message, wanted) => AckAction::Rejected,
            status if status.is_accepted() && (message.flags.router() || wanted.care_of().is_empty()) => {
                AckAction::Accepted
            }
            _ => AckAction::Rejected,
        }
    }

    /// Sets the clock to the home agent's (RFC 4285 §6): its seconds are in the high half.
    pub(super) fn resynchronise_clock(&mut self, now: Time, message: &BindingAcknowledgement) {
        let echoed = echoed_timestamp(message);
        if let Some(unix) = echoed.and_then(|Timestamp(echoed)| (echoed >> 32).checked_sub(NTP_TO_UNIX_SECONDS)) {
            self.clock.put(now, unix.saturating_mul(1_000_000));
            self.last_timestamp = None;
        }
    }

    fn accept_acknowledgement(
        &mut self,
        now: Time,
        message: &BindingAcknowledgement,
        wanted: DesiredRegistration,
        sent: Transmission,
        out: &mut Outbox,
    ) {
        self.manages_tunnel = true;
        let home_agent = wanted.home_agent;
        let before = self.registration.binding().map(|binding| binding.care_of().to_vec()).unwrap_or_default();
        if message.status == Status::PREFIX_DISCOVERY_NEEDED {
            self.home_prefixes.solicit_soon(now);
        }
        let advice = message.options.iter().find_map(|option| match option {
            MobilityOption::BindingRefreshAdvice(units) => Some(RefreshAdvice(lifetime_of(*units))),
            _ => None,
        });
        let requested = wanted.clone();
        let held = accepted_registration(wanted, message);
        if !requested.care_of().is_empty() && held.care_of().is_empty() {
            self.next_home_agent(now, "no care-of address accepted", RETRY_DELAY, out);
            return;
        }
        let granted = lifetime_of(message.lifetime_units).min(sent.lifetime);
        self.finish_trial(now, home_agent, out);
        self.ha_lacks_mcoa |= matches!(requested.location, Location::Away { mcoa: true, .. })
            && matches!(held.location, Location::Away { mcoa: false, .. });
        self.receive_home_status(message, &requested, &held);
        let care_of: Vec<_> = held.care_of().iter().map(|care_of| care_of.address.0).collect();
        let sender = held.first_visited().copied().filter(CareOf::is_observed);
        let advice = sender.and_then(|sender| self.receive_nat_detection(now, message, &sender, advice)).or(advice);
        self.ha_registers_source_only |= refuses_bare_bids(message, &requested);
        self.receive_flow_statuses(message, &held, out);
        let new: Vec<LinkId> = held.care_of().iter().filter(|own| !self.is_held(own)).map(|own| own.link).collect();
        self.registration.accept(held, sent, granted, advice);
        self.keep_lingering(now, &before);
        self.await_sessions(now, &new);
        self.prefixes_rejected = false;
        self.note_accepted(now, home_agent, out);
        if requested.care_of().is_empty() {
            self.finish_return_home(out);
            if message.status.is_accepted() {
                self.send_neighbour_advertisements(out);
            }
            return;
        }
        self.receive_ipv4_home(message, home_agent, out);
        out.report(NemoReport::Bound { home_agent, care_of, lifetime: granted });
    }

    /// Evaluates whether the home agent accepted the home binding, and which end defends the home address (RFC 5648
    /// §5.6.3, §6.3).
    fn receive_home_status(
        &mut self,
        message: &BindingAcknowledgement,
        requested: &DesiredRegistration,
        held: &DesiredRegistration,
    ) {
        let home = |wanted: &DesiredRegistration| {
            wanted.care_of().iter().find(|care_of| care_of.on_home_link).map(|care_of| care_of.bid)
        };
        self.ha_rejects_home_and_away |= home(requested).is_some() && home(held).is_none();
        let without = |option: &MobilityOption| match option {
            MobilityOption::BindingIdentifier(answer) => {
                Some(answer.bid) == home(held) && answer.status == Status::MCOA_RETURN_HOME_WITHOUT_NDP
            }
            _ => false,
        };
        let theirs = message.status == Status::MCOA_RETURN_HOME_WITHOUT_NDP || message.options.iter().any(without);
        if let Some(place) = &mut self.home_link {
            place.defends_home_address = home(held).is_some() && !theirs;
        }
    }
}

/// Whether an acknowledgement came as one of `wanted` does: with a type 2 routing header, unless that was sent over IPv4 or
/// in UDP.
fn came_by_path_of(datagram: &Datagram<'_>, wanted: &DesiredRegistration) -> bool {
    let routed = wanted.first_visited().is_some_and(|care_of| !care_of.is_observed());
    routed == datagram.routing_home.is_some()
}

/// The timestamp of an acknowledgement (RFC 4285 §6).
pub(super) fn echoed_timestamp(message: &BindingAcknowledgement) -> Option<Timestamp> {
    message.options.iter().find_map(|option| match option {
        MobilityOption::ReplayProtection(timestamp) => Some(Timestamp(*timestamp)),
        _ => None,
    })
}

/// Whether the acknowledgement in `datagram` may answer the update `sent` of one path. A rejection for its sequence number
/// has the home agent's last one, not that of the update (RFC 6275 §11.7.3).
pub(super) fn may_answer(
    datagram: &Datagram<'_>,
    message: &BindingAcknowledgement,
    wanted: &DesiredRegistration,
    sent: &Transmission,
) -> bool {
    let overtaken = message.status == Status::SEQUENCE_OUT_OF_WINDOW
        && (sent.timestamp.is_none() || echoed_timestamp(message) == sent.timestamp);
    wanted.home_agent == datagram.source && (overtaken || message.sequence == sent.sequence)
}

/// Whether the acknowledgement accepts the care-of address with this BID (RFC 5648 §5.6.2).
pub(super) fn accepts_bid(message: &BindingAcknowledgement, bid: Bid) -> bool {
    let accepts = |option: &MobilityOption| match option {
        MobilityOption::BindingIdentifier(answer) => answer.bid == bid && answer.status.is_accepted(),
        _ => false,
    };
    message.status.is_accepted() && message.options.iter().any(accepts)
}

/// Whether the acknowledgement echoes the timestamp of `sent`: with status 144 only the low half, since the high half
/// is the home agent's clock (RFC 4285 §6). Only an acceptance may lack it: rejections are authenticated also for
/// updates of others.
pub(super) fn echoes_timestamp(message: &BindingAcknowledgement, sent: &Transmission) -> bool {
    const LOW_HALF: u64 = 0xffff_ffff;
    let Some(Timestamp(ours)) = sent.timestamp else { return true };
    match echoed_timestamp(message) {
        Some(Timestamp(echo)) if message.status == Status::MESSAGE_ID_MISMATCH => echo & LOW_HALF == ours & LOW_HALF,
        Some(Timestamp(echo)) => echo == ours,
        None => message.status.is_accepted(),
    }
}

/// Whether the home agent refuses IPv4 care-of addresses that are not the source of the update, as our former versions
/// do, although it has them.
fn refuses_bare_bids(message: &BindingAcknowledgement, requested: &DesiredRegistration) -> bool {
    let sender = requested.first_visited();
    let bare = |care_of: &&CareOf| care_of.is_observed() && Some(*care_of) != sender;
    let refused = |care_of: &CareOf| {
        message.options.iter().any(|option| match option {
            MobilityOption::BindingIdentifier(answer) => {
                answer.bid == care_of.bid && answer.status == Status::MCOA_MALFORMED
            }
            _ => false,
        })
    };
    requested.care_of().iter().filter(bare).any(refused)
}

fn has_bid_options(message: &BindingAcknowledgement) -> bool {
    message.options.iter().any(|option| matches!(option, MobilityOption::BindingIdentifier(_)))
}

/// The part of the registration that the home agent accepted: the care-of addresses whose BIDs it accepted; only the
/// first if it has no Binding Identifier option, because then it does not support RFC 5648 (§5.1).
fn accepted_registration(mut wanted: DesiredRegistration, message: &BindingAcknowledgement) -> DesiredRegistration {
    let Location::Away { care_of, mcoa: multiple } = &mut wanted.location else {
        return wanted;
    };
    if !*multiple {
        return wanted;
    }
    let answers: Vec<&BindingIdentifier> = message
        .options
        .iter()
        .filter_map(|option| match option {
            MobilityOption::BindingIdentifier(answer) => Some(answer),
            _ => None,
        })
        .collect();
    if answers.is_empty() {
        *multiple = false;
        care_of.truncate(1);
        care_of.iter_mut().for_each(|care_of| care_of.bid = Bid(0));
        return wanted;
    }
    let accepted =
        |care_of: &CareOf| answers.iter().any(|answer| answer.bid == care_of.bid && answer.status.is_accepted());
    care_of.retain(accepted);
    wanted
}
