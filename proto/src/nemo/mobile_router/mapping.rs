//! Updates of one path each: an update shows the home agent only the NAT mapping of the path that it takes, so every
//! further care-of address over IPv4 or in UDP is registered by an update over its own uplink (RFC 5555 §4.2, RFC 5648 §5.2, §8.1).
//!
//! One is outstanding at a time, since the home agent rejects a sequence number that a later one has overtaken; an
//! update for all care-of addresses replaces it.

use super::MobileRouter;
use super::acknowledgement::{accepts_bid, echoes_timestamp, may_answer};
use super::binding_update::lifetime_of;
use super::probing::{LAST_PRIORITY, Standing};
use super::registration::{CareOf, DesiredRegistration, Location, Transmission};
use super::uplink::Uplink;
use crate::contract::config::nemo::{Authentication, Transport};
use crate::contract::report::NemoReport;
use crate::nemo::dsmip::NATKATIMEOUT;
use crate::{Outbox, Time, Transmit};
use core::time::Duration;
use roam6_wire::ip6::Datagram;
use roam6_wire::mobility::{BindingAcknowledgement, Status};

/// Time for an answer to the first update over an uplink; it doubles with each that is not answered.
const FIRST_TIMEOUT: Duration = Duration::from_millis(600);
const MAX_DOUBLINGS: u32 = 5;
/// How long an unanswered update delays those of other uplinks: two round trips, within bounds.
const MIN_PATIENCE: Duration = Duration::from_millis(300);
const MAX_PATIENCE: Duration = Duration::from_secs(2);
/// Minimum interval of updates because of missed probes.
const DOUBT_INTERVAL: Duration = Duration::from_secs(3);
/// Rate limit of these updates.
pub(super) const PATH_UPDATE_BURST: u32 = 3;
pub(super) const PATH_UPDATE_INTERVAL: Duration = Duration::from_secs(1);
/// A path that has worked for so long starts with the first timeout again.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// The state of a care-of address over IPv4, or in UDP, at the home agent.
#[derive(Debug, Default, Clone)]
pub(super) struct Mapping {
    /// Consecutive updates without an answer.
    pub(super) unanswered: u32,
    /// When the next update may be sent.
    next_at: Time,
    /// The NAT may have another mapping than the home agent: a probe was not answered.
    is_doubted: bool,
    /// When the home agent last acknowledged an update over this path.
    pub(super) confirmed_at: Option<Time>,
}

/// An update of one path without an answer so far.
#[derive(Debug, Clone)]
pub(super) struct PathUpdate {
    /// The care-of address, and the home link if that is registered.
    pub(super) wanted: DesiredRegistration,
    sent: Transmission,
    /// Until when it delays others.
    until: Time,
}

impl Mapping {
    fn timeout(&self) -> Duration {
        FIRST_TIMEOUT * (1 << self.unanswered.min(MAX_DOUBLINGS))
    }

    /// An update was sent over this path.
    fn note_sent(&mut self, now: Time) {
        self.next_at = now + self.timeout();
        self.unanswered = self.unanswered.saturating_add(1);
        self.is_doubted = false;
    }

    /// The home agent has acknowledged an update over this path.
    pub(super) fn confirm(&mut self, now: Time) {
        self.unanswered = 0;
        self.is_doubted = false;
        self.confirmed_at = Some(now);
    }

    /// The path went down: it is asked again after a pause, which grows if it keeps failing.
    pub(super) fn path_failed(&mut self, now: Time) {
        if self.confirmed_at.is_some_and(|at| now.since(at) > STABLE_AFTER) {
            self.unanswered = 0;
        }
        self.note_sent(now);
    }
}

impl MobileRouter {
    /// The next update of one path, if one is due.
    pub(super) fn next_path_update(&mut self, now: Time, out: &mut Outbox) -> Option<Transmit> {
        if self.path_update_blocked_until().is_some_and(|until| until > now) {
            return None;
        }
        let due = self.unmapped().filter(|uplink| self.path_update_at(uplink) <= now);
        let uplink = due.min_by_key(|uplink| (uplink.ipv4.mapping.unanswered, uplink.config.priority))?;
        let (mut care_of, bid) = (uplink.observed_care_of()?, uplink.config.bid);
        if self.standing(bid) != Standing::Good {
            care_of.priority = LAST_PRIORITY;
        }
        let round_trip = self.uplinks.iter().filter_map(|uplink| uplink.prober.round_trip()).max();
        let patience = round_trip.map_or(FIRST_TIMEOUT, |time| (time * 2).clamp(MIN_PATIENCE, MAX_PATIENCE));
        if !self.path_update_limiter.take(now) {
            return None;
        }
        // Without the H flag the update would say that the home link was left (RFC 5648 §5.6.5).
        let held = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
        let home = held.iter().filter(|held| held.on_home_link).copied();
        let location = Location::Away { care_of: home.chain([care_of]).collect(), mcoa: true };
        let wanted = DesiredRegistration { home_agent: self.home_agents.in_use()?, location };
        self.uplinks.iter_mut().filter(|uplink| uplink.config.bid == bid).for_each(|uplink| {
            uplink.ipv4.mapping.note_sent(now);
        });
        let (message, sent) = self.send_path_update(now, &wanted, out)?;
        self.note_update_sent(now, wanted.first_visited()?);
        self.path_update = Some(PathUpdate { wanted, sent, until: now + patience });
        Some(message)
    }

    /// When [`MobileRouter::next_path_update`] has something to do.
    pub(super) fn path_update_deadline(&self) -> Option<Time> {
        let due = self.unmapped().map(|uplink| self.path_update_at(uplink)).min()?;
        let blocked = self.path_update_blocked_until().unwrap_or_default();
        Some(due.max(blocked).max(self.path_update_limiter.next_token()))
    }

    /// Another update is outstanding until then.
    fn path_update_blocked_until(&self) -> Option<Time> {
        let own = self.path_update.as_ref().map(|update| update.until);
        let pending = self.registration.pending().map(|_| self.registration.last_sent().unwrap_or(self.now));
        own.max(pending.map(|sent| sent + FIRST_TIMEOUT))
    }

    /// The uplinks whose care-of address over IPv4 or in UDP the home agent does not have, or has with a mapping that may have
    /// ended.
    fn unmapped(&self) -> impl Iterator<Item = &Uplink> {
        let binding = self.registration.binding().filter(|binding| {
            let several = matches!(binding.registration.location, Location::Away { mcoa: true, .. });
            several && Some(binding.registration.home_agent) == self.home_agents.in_use()
        });
        let away = self.home_link.as_ref().is_none_or(|home| home.home_and_away);
        let several = binding.is_some() && self.registers_several() && away;
        let pending = self.registration.pending().and_then(DesiredRegistration::first_visited);
        self.uplinks.iter().filter(move |uplink| {
            let Some(own) = uplink.observed_care_of().filter(|_| several) else { return false };
            if pending.is_some_and(|sender| sender.is_same_address(&own)) {
                return false;
            }
            if !self.is_held(&own) {
                return true;
            }
            !uplink.prober.is_silent() && (uplink.ipv4.mapping.is_doubted || self.keepalive(uplink).is_some())
        })
    }

    /// How often an update refreshes the mapping of a NAT, or the state of a firewall, on the path of `uplink` (RFC 5555
    /// §4.3): where no probes do it more often. Without a NAT nobody asks for it, and the standard's default holds.
    pub(super) fn keepalive(&self, uplink: &Uplink) -> Option<Duration> {
        let ipv4 = Some(uplink.ipv4.encapsulation).filter(|_| uplink.ipv4.in_use().is_some());
        let in_udp = uplink.is_udp() || ipv4.is_some_and(|ipv4| ipv4.is_udp());
        let usual = Some(NATKATIMEOUT).filter(|_| in_udp && uplink.config.transport != Transport::Native);
        let keepalive = ipv4.and_then(|ipv4| ipv4.keepalive).or(usual)?;
        let probed = self.probe_config(uplink).map(|probe| probe.idle.unwrap_or(probe.interval));
        Some(keepalive).filter(|keepalive| probed.is_none_or(|probed| probed > *keepalive))
    }

    fn path_update_at(&self, uplink: &Uplink) -> Time {
        let mapping = &uplink.ipv4.mapping;
        let held = uplink.observed_care_of().is_some_and(|own| self.is_held(&own));
        let refresh = mapping.confirmed_at.zip(self.keepalive(uplink));
        match refresh.filter(|_| held && !mapping.is_doubted) {
            Some((at, keepalive)) => mapping.next_at.max(at + keepalive),
            None => mapping.next_at,
        }
    }

    /// A probe over the IPv4 path `care_of` was not answered: a NAT may have lost its mapping, and the home agent would
    /// not accept another. An update reports it, once for each outage.
    pub(super) fn doubt_mapping(&mut self, now: Time, care_of: &CareOf) {
        let sender = self.registration.binding().and_then(|binding| binding.registration.first_visited());
        if sender.is_none_or(|sender| sender.is_same_address(care_of)) {
            if self.hint_limiter.take(now) {
                self.registration.verify_binding(now);
            }
            return;
        }
        let own = |uplink: &&mut Uplink| uplink.observed_care_of().is_some_and(|own| own.is_same_address(care_of));
        if let Some(uplink) = self.uplinks.iter_mut().find(own) {
            let mapping = &mut uplink.ipv4.mapping;
            if mapping.confirmed_at.is_none_or(|at| at + DOUBT_INTERVAL <= now) {
                mapping.is_doubted = true;
                mapping.next_at = now;
            }
        }
    }

    /// Without any path that is known to work, IPv4 uplinks are tried in turn: one whose update is not answered gives
    /// way to the next.
    pub(super) fn try_next_ipv4_uplink(&mut self, now: Time) {
        if self.ipv4_trial_ends().is_none_or(|end| end > now) {
            return;
        }
        let sender = self.registration.pending().and_then(DesiredRegistration::first_visited).copied();
        let own = |uplink: &&mut Uplink| {
            uplink.observed_care_of().zip(sender).is_some_and(|(own, sender)| own.is_same_address(&sender))
        };
        if let Some(uplink) = self.uplinks.iter_mut().find(own) {
            uplink.ipv4.mapping.unanswered = uplink.ipv4.mapping.unanswered.saturating_add(1);
        }
    }

    /// When the next IPv4 uplink is tried.
    pub(super) fn ipv4_trial_ends(&self) -> Option<Time> {
        let sender = self.registration.pending().and_then(DesiredRegistration::first_visited)?;
        let uplink = self.uplink_of(sender).filter(|_| sender.is_observed() && self.registers_several())?;
        if self.is_held(sender) || self.unproven().nth(1).is_none() {
            return None;
        }
        Some(self.registration.last_sent()? + uplink.ipv4.mapping.timeout())
    }

    /// Processes an answer to the update of one path; returns whether it is one.
    pub(super) fn receive_path_answer(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        message: &BindingAcknowledgement,
        protected: bool,
        out: &mut Outbox,
    ) -> bool {
        let Some(PathUpdate { wanted, sent, .. }) = self.path_update.clone() else { return false };
        if !may_answer(datagram, message, &wanted, &sent)
            || self.verify(datagram, message, &wanted, protected).is_err()
            || !echoes_timestamp(message, &sent)
        {
            return false;
        }
        let (home_agent, status, sequence) = (wanted.home_agent, message.status.0, message.sequence);
        let lifetime = lifetime_of(message.lifetime_units);
        out.report(NemoReport::AcknowledgementReceived { home_agent, status, sequence, lifetime });
        self.path_update = None;
        self.note_update_answered(wanted.first_visited());
        self.note_network_passes(now, wanted.first_visited());
        self.note_capabilities(message);
        let Some(care_of) = wanted.first_visited().copied() else { return true };
        match message.status {
            _ if self.lacks_encryption(message, &wanted) => self.registration.verify_binding(now),
            _ if accepts_bid(message, care_of.bid) => {
                self.note_path_keys(home_agent, message);
                self.accept_path(now, message, (&care_of, &sent), out);
            }
            Status::MCOA_NON_MCOA_BINDING_EXISTS => self.registration.verify_binding(now),
            // It is repeated after its timeout; the other care-of addresses stay.
            Status::SEQUENCE_OUT_OF_WINDOW => {
                self.note_sequence(now, home_agent, sequence, out);
                self.resynchronise(now, message);
            }
            _ => self.resynchronise(now, message),
        }
        true
    }

    /// Takes over the home agent's sequence number or clock, if the update of one path was rejected for its own.
    pub(super) fn resynchronise(&mut self, now: Time, message: &BindingAcknowledgement) {
        match message.status {
            Status::SEQUENCE_OUT_OF_WINDOW if message.sequence.is_newer_than(self.registration.sequence()) => {
                self.registration.resume(message.sequence);
            }
            Status::MESSAGE_ID_MISMATCH => self.resynchronise_clock(now, message),
            _ => {}
        }
    }

    /// The home agent has registered `care_of` beside the others.
    fn accept_path(
        &mut self,
        now: Time,
        message: &BindingAcknowledgement,
        (care_of, sent): (&CareOf, &Transmission),
        out: &mut Outbox,
    ) {
        let before = self.registration.binding().map(|binding| binding.care_of().to_vec()).unwrap_or_default();
        self.registration.add_care_of(*care_of, sent.expires(lifetime_of(message.lifetime_units)));
        self.receive_nat_detection(now, message, care_of, None);
        self.keep_lingering(now, &before);
        let silent = |uplink: &Uplink| uplink.config.bid == care_of.bid && uplink.prober.is_silent();
        if let Some(index) = self.uplinks.iter().position(silent) {
            self.presume_path_up(now, index, out);
        }
        if let Some(binding) = self.registration.binding() {
            let care_of = binding.care_of().iter().map(|care_of| care_of.address.0).collect();
            let (home_agent, lifetime) = (binding.registration.home_agent, binding.expires.since(now));
            out.report(NemoReport::Bound { home_agent, care_of, lifetime });
        }
    }

    /// Whether `care_of` is registered.
    pub(super) fn is_held(&self, care_of: &CareOf) -> bool {
        let held = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
        held.iter().any(|held| held.is_same_address(care_of))
    }

    /// Records the update of one path that is sent now.
    pub(super) fn send_path_update(
        &mut self,
        now: Time,
        wanted: &DesiredRegistration,
        out: &mut Outbox,
    ) -> Option<(Transmit, Transmission)> {
        let units = self.lifetime_units(now, wanted);
        let sequence = self.registration.next_sequence();
        let message = self.build_update(now, (wanted, false), sequence, units, out)?;
        let stamped = matches!(self.config.authentication, Authentication::SharedKey(_));
        let timestamp = self.last_timestamp.filter(|_| stamped);
        let lifetime = lifetime_of(units);
        Some((message, Transmission { sequence, sent_at: now, lifetime, timestamp }))
    }
}
