//! What the home agent says: Binding Acknowledgements, each status to its consequence, and its requests and errors
//! (RFC 6275 §11.7.3 and §11.7.4, RFC 3963 §5.4, RFC 5648 §5, RFC 4285 §5.1 and §6, RFC 3776 §4).

use super::MobileRouter;
use super::discovery::HOLD;
use super::packet::drop_malformed;
use super::registration::{CareOf, Place, RefreshAdvice, Sent, Wanted};
use super::update::lifetime;
use super::uplink::Uplink;
use crate::base::time::Time;
use crate::contract::config::nemo::Authentication;
use crate::contract::engine::Outbox;
use crate::contract::report::{DropReason, Report};
use crate::crypto::authenticator::{NTP_TO_UNIX_SECONDS, Timestamp, verify};
use roam6_wire::Bid;
use roam6_wire::ip6::Datagram;
use roam6_wire::mobility::option::AUTHENTICATION_MN_HA;
use roam6_wire::mobility::{
    BindingAcknowledgement, BindingIdentifier, ErrorStatus, Message, MobilityOption, Status, authenticated_part,
};

/// Updates that must be refused, one after the other, before a binding that stands is given up.
const CONFIRMATIONS: u32 = 3;

/// What a status is answered with.
enum Consequence {
    /// The home agent holds what was asked.
    Accepted,
    /// The same update again, with what the answer told.
    Again,
    /// The same update again, while the answers to the former ones still count.
    Repeat,
    /// Without RFC 5648.
    Single,
    /// At home, or away, but not both.
    Apart,
    /// De-register, then register anew.
    Afresh,
    /// This home agent does not serve us.
    Refused,
}

impl MobileRouter {
    /// Takes a Mobility Header; `protected` if it was in ESP and our security association opened it.
    pub(super) fn hear_mobility(&mut self, now: Time, datagram: &Datagram<'_>, protected: bool, out: &mut Outbox) {
        let from = Some(datagram.source);
        let (source, destination) = (datagram.real_source(), datagram.real_destination());
        let home = self.config.home_address.0;
        let ours = |uplink: &Uplink| uplink.formed.as_ref().is_some_and(|formed| formed.address.0 == destination);
        if destination != home && !self.uplinks.iter().any(ours) {
            // For another role of this host, or nobody's.
            return;
        }
        let message = match Message::parse(datagram.payload, source, destination) {
            Ok(message) => message,
            Err(why) => return drop_malformed(from, why, out),
        };
        let drop = |reason, detail: &str, out: &mut Outbox| {
            out.report(Report::Dropped { reason, from, detail: detail.to_owned() });
        };
        if destination != home {
            // A Binding Error goes to the care-of address alone: the home address was not believed (RFC 6275 §9.3.3).
            match message {
                Message::BindingError { status, .. } => self.hear_error(now, datagram, status, out),
                _ => drop(DropReason::NotForUs, "mobility header", out),
            }
            return;
        }
        if !self.agents.contains(datagram.source) {
            return drop(DropReason::NoAssociation, "mobility header not from a home agent of ours", out);
        }
        match message {
            Message::BindingAcknowledgement(acknowledgement) => {
                self.hear_acknowledgement(now, datagram, &acknowledgement, protected, out);
            }
            Message::BindingRefreshRequest { .. } if self.registration.binding().is_some() => {
                if self.hints.take(now) {
                    self.registration.doubt(now);
                } else {
                    drop(DropReason::RateLimited, "binding refresh request", out);
                }
            }
            Message::BindingError { status, .. } => self.hear_error(now, datagram, status, out),
            _ => drop(DropReason::Unsolicited, "mobility header", out),
        }
    }

    /// The home agent has no binding for us, or says so: nothing proves it, so we only ask again.
    fn hear_error(&mut self, now: Time, datagram: &Datagram<'_>, status: ErrorStatus, out: &mut Outbox) {
        let peer = datagram.source;
        if !self.agents.contains(peer) || !self.hints.take(now) {
            let detail = "binding error".to_owned();
            out.report(Report::Dropped { reason: DropReason::Unsolicited, from: Some(peer), detail });
            return;
        }
        out.report(Report::BindingError { peer, status: status.0, sent: false });
        if status == ErrorStatus::UNKNOWN_BINDING {
            self.registration.doubt(now);
        }
    }

    fn hear_acknowledgement(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        message: &BindingAcknowledgement,
        protected: bool,
        out: &mut Outbox,
    ) {
        let drop = |reason, out: &mut Outbox| {
            let detail = format!("binding acknowledgement {}, sequence {}", message.status, message.sequence);
            out.report(Report::Dropped { reason, from: Some(datagram.source), detail });
        };
        let answered = match message.status {
            // This one carries the home agent's number, not ours (RFC 6275 §11.7.3). If our last number is newer than
            // that, it answers an older update or a copy of one, and our last will be accepted.
            Status::SEQUENCE_OUT_OF_WINDOW => {
                let stale = self.registration.sequence().is_newer_than(message.sequence);
                self.registration.find_stamped(echoed_timestamp(message)).filter(|_| !stale)
            }
            _ => self.registration.find_sent(message.sequence),
        };
        let Some((wanted, sent)) = answered.filter(|(wanted, _)| wanted.home_agent == datagram.source) else {
            if self.hear_farewell(datagram, message, protected) {
                return;
            }
            return drop(DropReason::Unsolicited, out);
        };
        let (wanted, sent) = (wanted.clone(), sent);
        if let Err(reason) = self.verify(datagram, message, &wanted, protected) {
            self.diagnosis.note_unproven(message.status, reason);
            return drop(reason, out);
        }
        if !is_echo(message, &sent) {
            return drop(DropReason::Replayed, out);
        }
        let (home_agent, status, sequence) = (wanted.home_agent, message.status.0, message.sequence);
        let granted = lifetime(message.lifetime_units);
        self.diagnosis.note_answered();
        out.report(Report::AcknowledgementReceived { home_agent, status, sequence, lifetime: granted });
        let consequence = self.consequence(now, message, &wanted);
        if matches!(consequence, Consequence::Refused | Consequence::Afresh)
            && self.is_doubted(now, message, &wanted, out)
        {
            return;
        }
        match consequence {
            Consequence::Accepted => self.accept(now, message, wanted, sent, out),
            Consequence::Again => self.registration.retry(now),
            Consequence::Repeat => self.registration.hasten(now),
            Consequence::Single => {
                self.single = true;
                self.registration.retry(now);
            }
            Consequence::Apart => {
                self.apart = true;
                self.registration.retry(now);
            }
            Consequence::Afresh => {
                if let Some(message) = self.goodbye(now, &wanted, out) {
                    out.transmit(message);
                }
                self.registration.drop_binding();
                self.registration.retry(now);
            }
            // It has let go already: nobody has defended the home address since (RFC 6275 §11.5.5).
            Consequence::Refused if wanted.care_of().is_empty() => {
                self.accept(now, message, wanted, sent, out);
                self.check_home_address(now, true, out);
            }
            Consequence::Refused => {
                self.begun = true;
                self.note_refused(now, home_agent, message.status, out);
                if message.status.is_accepted()
                    && let Some(message) = self.goodbye(now, &wanted, out)
                {
                    out.transmit(message);
                }
                self.refused_by(now, message.status, out);
            }
        }
    }

    /// Whether a refusal is not to be believed yet: the update is repeated in its time, and the binding stays.
    ///
    /// A home agent signs 146 for whoever sends an update in our name that proves nothing, and who sees ours can give that
    /// number and timestamp: such an answer says nothing of our update. A binding that stands is given up only when several
    /// updates were refused; not at all for want of resources when it was merely to be refreshed, since the home agent
    /// holds what it has (RFC 6275 §9.5.1).
    fn is_doubted(&mut self, now: Time, message: &BindingAcknowledgement, wanted: &Wanted, out: &mut Outbox) -> bool {
        let (status, home_agent) = (message.status, wanted.home_agent);
        if status.is_accepted() || wanted.care_of().is_empty() {
            return false;
        }
        let proven = status != Status::AUTHENTICATION_FAILED;
        let refusals = self.registration.count_refusal(message.sequence, proven);
        let held = self.registration.binding().is_some_and(|binding| binding.wanted.home_agent == home_agent);
        let transient = matches!(status, Status::UNSPECIFIED | Status::INSUFFICIENT_RESOURCES);
        let kept = refusals < CONFIRMATIONS || transient && self.registration.is_refreshing(home_agent);
        let doubted = !proven || held && kept;
        if doubted && (!held || refusals >= CONFIRMATIONS) {
            self.note_refused(now, home_agent, status, out);
        }
        doubted
    }

    /// Whether the acknowledgement comes from the home agent and belongs to our latest words (RFC 4285 §5.1).
    pub(super) fn verify(
        &self,
        datagram: &Datagram<'_>,
        message: &BindingAcknowledgement,
        wanted: &Wanted,
        protected: bool,
    ) -> Result<(), DropReason> {
        let routed = wanted.first_away().is_some_and(|care_of| care_of.ipv4().is_none());
        if routed != datagram.routing_home.is_some() {
            return Err(DropReason::NotForUs);
        }
        let key = match &self.config.authentication {
            Authentication::None => return Ok(()),
            Authentication::Ipsec(_) if protected => return Ok(()),
            Authentication::Ipsec(_) => return Err(DropReason::NotAuthenticated),
            Authentication::SharedKey(key) => key,
        };
        let last = message.options.iter().rev().find_map(|option| match option {
            MobilityOption::Authentication { subtype: AUTHENTICATION_MN_HA, spi, data } => Some((*spi, data)),
            _ => None,
        });
        let (spi, data) = last.ok_or(DropReason::NotAuthenticated)?;
        let (part, _) = authenticated_part(datagram.payload).ok_or(DropReason::NotAuthenticated)?;
        if spi != key.spi {
            return Err(DropReason::NoAssociation);
        }
        if !verify(&key.secret, self.source(wanted), self.config.home_address, &part, data) {
            return Err(DropReason::BadAuthenticator);
        }
        Ok(())
    }

    fn consequence(&mut self, now: Time, message: &BindingAcknowledgement, wanted: &Wanted) -> Consequence {
        let multiple = matches!(wanted.place, Place::Away { multiple: true, .. });
        let both = wanted.care_of().iter().any(|care_of| care_of.home);
        match message.status {
            // Perhaps the answer to a copy of our update, which overtakes that to the update itself.
            Status::SEQUENCE_OUT_OF_WINDOW if message.sequence == self.registration.sequence() => Consequence::Repeat,
            Status::SEQUENCE_OUT_OF_WINDOW => {
                self.registration.resume(message.sequence);
                Consequence::Again
            }
            Status::MESSAGE_ID_MISMATCH => {
                self.resynchronise(now, message);
                Consequence::Again
            }
            Status::REGISTRATION_TYPE_CHANGE => Consequence::Afresh,
            Status::MCOA_SIMULTANEOUS_PROHIBITED if both => Consequence::Apart,
            // It may have taken the update for a farewell (RFC 5648 §6.3).
            status if both && status.is_accepted() && !mentions_identifiers(message) => Consequence::Apart,
            Status::MCOA_MALFORMED
            | Status::MCOA_NON_MCOA_BINDING_EXISTS
            | Status::MCOA_PROHIBITED
            | Status::MCOA_UNKNOWN_CARE_OF
            | Status::MCOA_BULK_PROHIBITED
            | Status::MCOA_SIMULTANEOUS_PROHIBITED
                if multiple =>
            {
                Consequence::Single
            }
            // Without R it does not forward for networks (RFC 3963 §5.3).
            status if status.is_accepted() && (message.flags.router() || wanted.care_of().is_empty()) => {
                Consequence::Accepted
            }
            _ => Consequence::Refused,
        }
    }

    /// Sets our clock by the home agent's (RFC 4285 §6): its seconds are in the high half.
    fn resynchronise(&mut self, now: Time, message: &BindingAcknowledgement) {
        let told = echoed_timestamp(message);
        if let Some(unix) = told.and_then(|Timestamp(told)| (told >> 32).checked_sub(NTP_TO_UNIX_SECONDS)) {
            self.clock.put(now, unix.saturating_mul(1_000_000));
            self.stamped = None;
        }
    }

    fn accept(&mut self, now: Time, message: &BindingAcknowledgement, wanted: Wanted, sent: Sent, out: &mut Outbox) {
        self.begun = true;
        let home_agent = wanted.home_agent;
        let before = self.registration.binding().map(|binding| binding.care_of().to_vec()).unwrap_or_default();
        if message.status == Status::PREFIX_DISCOVERY_NEEDED {
            self.home_prefixes.hint(now);
        }
        let advice = message.options.iter().find_map(|option| match option {
            MobilityOption::BindingRefreshAdvice(units) => Some(RefreshAdvice(lifetime(*units))),
            _ => None,
        });
        let asked = wanted.clone();
        let held = held(wanted, message);
        if !asked.care_of().is_empty() && held.care_of().is_empty() {
            self.next_home_agent(now, "no care-of address accepted", HOLD, out);
            return;
        }
        let granted = lifetime(message.lifetime_units).min(sent.lifetime);
        self.settle_trial(now, home_agent, out);
        self.single |= matches!(asked.place, Place::Away { multiple: true, .. })
            && matches!(held.place, Place::Away { multiple: false, .. });
        self.hear_of_home(message, &asked, &held);
        let care_of: Vec<_> = held.care_of().iter().map(|care_of| care_of.address.0).collect();
        let advice = self.hear_carriage(message, &held, advice);
        self.hear_flows(message, &held, out);
        self.registration.accept(held, sent, granted, advice);
        self.linger(now, &before);
        self.refused = false;
        self.note_accepted(now, home_agent, out);
        if asked.care_of().is_empty() {
            self.arrive_home(out);
            if message.status.is_accepted() {
                self.announce_at_home(out);
            }
            return;
        }
        self.hear_ipv4_home(message, home_agent, out);
        out.report(Report::Bound { home_agent, care_of, lifetime: granted });
    }
}

impl MobileRouter {
    /// What the home agent says of our being at home too: whether it holds that, and who answers for the home address
    /// (RFC 5648 §5.6.3, §6.3).
    fn hear_of_home(&mut self, message: &BindingAcknowledgement, asked: &Wanted, held: &Wanted) {
        let home = |wanted: &Wanted| wanted.care_of().iter().find(|care_of| care_of.home).map(|care_of| care_of.bid);
        self.apart |= home(asked).is_some() && home(held).is_none();
        let without = |option: &MobilityOption| match option {
            MobilityOption::BindingIdentifier(answer) => {
                Some(answer.bid) == home(held) && answer.status == Status::MCOA_RETURN_HOME_WITHOUT_NDP
            }
            _ => false,
        };
        let theirs = message.status == Status::MCOA_RETURN_HOME_WITHOUT_NDP || message.options.iter().any(without);
        if let Some(place) = &mut self.home {
            place.ours = home(held).is_some() && !theirs;
        }
    }
}

/// The timestamp of an acknowledgement (RFC 4285 §6).
fn echoed_timestamp(message: &BindingAcknowledgement) -> Option<Timestamp> {
    message.options.iter().find_map(|option| match option {
        MobilityOption::ReplayProtection(timestamp) => Some(Timestamp(*timestamp)),
        _ => None,
    })
}

/// Whether the acknowledgement echoes the timestamp of `sent`: with status 144 the low half alone, since the high half is
/// the home agent's clock (RFC 4285 §6). Only an acceptance may lack it: a refusal is signed also for updates of others.
fn is_echo(message: &BindingAcknowledgement, sent: &Sent) -> bool {
    const LOW_HALF: u64 = 0xffff_ffff;
    let Some(Timestamp(ours)) = sent.stamp else { return true };
    match echoed_timestamp(message) {
        Some(Timestamp(told)) if message.status == Status::MESSAGE_ID_MISMATCH => told & LOW_HALF == ours & LOW_HALF,
        Some(Timestamp(told)) => told == ours,
        None => message.status.is_accepted(),
    }
}

fn mentions_identifiers(message: &BindingAcknowledgement) -> bool {
    message.options.iter().any(|option| matches!(option, MobilityOption::BindingIdentifier(_)))
}

/// What the home agent holds of what it was asked to: the care-of addresses whose identifiers it accepted; the first
/// alone if it mentions none, since then it does not know RFC 5648 (§5.1).
fn held(mut wanted: Wanted, message: &BindingAcknowledgement) -> Wanted {
    let Place::Away { care_of, multiple } = &mut wanted.place else {
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
