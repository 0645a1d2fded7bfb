//! Diagnosis for the operator of why the mobile router is not bound or a path does not forward: from rejections,
//! ICMPv6 errors, and answered and unanswered messages (RFC 6275 §6.1.8 and §11.7.3, RFC 4443 §3).

use super::MobileRouter;
use super::registration::CareOf;
use super::uplink::Uplink;
use crate::contract::report::NemoReport;
use crate::contract::view::FaultKind;
use crate::nemo::fault::{Cause, Fault, Faults, RivalSigns};
use crate::nemo::quoted::QuotedPacket;
use crate::{DropReason, LinkId, Outbox, Time};
use core::time::Duration;
use roam6_wire::icmp6::Message;
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::ip6::protocol;
use roam6_wire::mobility::Status;
use roam6_wire::{Bid, Prefix, Sequence};
use std::net::Ipv6Addr;

/// Time after which unanswered updates are a fault.
const UNANSWERED_TIMEOUT: Duration = Duration::from_secs(4);
/// One for the home agent, one for each uplink.
const MAX_FAULTS: usize = 65;
/// Signs of another mobile router with the same key that suffice.
const REQUIRED_RIVAL_SIGNS: u8 = 2;

/// What is wrong if there is another mobile router with this home address and key.
const RIVAL: &str =
    "another mobile router registers this home address with the same key: one key file is on two routers";

/// What is wrong if the home agent refuses a path that is not encrypted.
const UNASKED: &str = "it serves mobile routers that encrypt only: write encrypt = true in [mobile_router], or \
     encrypt = \"esp\" if its [home_agent] has that";

/// Present faults and hints at their causes.
#[derive(Debug, Clone)]
pub(super) struct Diagnosis {
    /// By uplink; `None` for the registration itself.
    faults: Faults<Option<Bid>>,
    /// The home agent has rejected the mobile router.
    pub(super) is_rejected: bool,
    /// The home agent that has not answered, and since when.
    unanswered_since: Option<(Ipv6Addr, Time)>,
    /// Hints from ICMPv6 errors and unauthenticated answers, about signalling and about the tunnel.
    signalling_hint: Option<(FaultKind, String)>,
    tunnel_hint: Option<String>,
    /// Signs of another mobile router with this home address and key.
    rivals: RivalSigns,
    /// When the home agent last accepted an update.
    last_accepted: Time,
    /// Prefixes that were rejected in explicit mode (RFC 3963 §5.4.3).
    pub(super) rejected_prefixes: Vec<Prefix>,
}

impl Default for Diagnosis {
    fn default() -> Diagnosis {
        Diagnosis {
            faults: Faults::new(MAX_FAULTS),
            is_rejected: false,
            unanswered_since: None,
            signalling_hint: None,
            tunnel_hint: None,
            rivals: RivalSigns::default(),
            last_accepted: Time::ZERO,
            rejected_prefixes: Vec::new(),
        }
    }
}

impl Diagnosis {
    /// The fault of the registration, if any.
    pub(super) fn registration_fault(&self) -> Option<&Fault> {
        self.faults.get(None)
    }

    /// The fault of an uplink's path, if any.
    pub(super) fn path_fault(&self, bid: Bid) -> Option<&Fault> {
        self.faults.get(Some(bid))
    }

    /// Records that an update was sent to `home_agent`.
    pub(super) fn note_sent(&mut self, now: Time, home_agent: Ipv6Addr) {
        if self.unanswered_since.is_none_or(|(agent, _)| agent != home_agent) {
            self.unanswered_since = Some((home_agent, now));
            self.signalling_hint = None;
        }
    }

    /// Records an answer: the home agent is reachable, and shares the key.
    pub(super) fn note_answered(&mut self) {
        (self.unanswered_since, self.signalling_hint) = (None, None);
    }

    /// Records an acknowledgement that fails verification: the keys differ, or it is forged.
    pub(super) fn note_unauthenticated(&mut self, status: Status, reason: DropReason) {
        let why = match reason {
            DropReason::NoAssociation => "its SPI is not ours",
            DropReason::NotAuthenticated => "it is not authenticated",
            _ => "it does not verify with our key",
        };
        let remedy = "compare key_file here with the row of this home address in the home agent's prefix table";
        let hint = format!("an answer with status {status} came, but {why}: {remedy}");
        self.signalling_hint = Some((FaultKind::NotVerified, hint));
    }
}

impl MobileRouter {
    /// The home agent, which holds a binding of ours, has accepted a sequence number that we have not sent: another mobile
    /// router has this home address and key. The acknowledgement is authentic, and answers our update.
    pub(super) fn note_sequence(&mut self, now: Time, home_agent: Ipv6Addr, accepted: Sequence, out: &mut Outbox) {
        let held = self.registration.binding().is_some_and(|binding| binding.registration.home_agent == home_agent);
        if !held || !accepted.is_newer_than(self.registration.sequence()) {
            return;
        }
        if self.diagnosis.rivals.record(now, REQUIRED_RIVAL_SIGNS) {
            out.notice(format!("{}: {RIVAL}", self.config.home_address));
        }
    }

    /// The fault of the registration: its kind, the status of a refusal, its text, its age.
    pub(super) fn show_registration_fault(
        &self,
        now: Time,
    ) -> (Option<FaultKind>, Option<u8>, Option<String>, Option<Duration>) {
        if let Some(since) = self.diagnosis.rivals.since(now) {
            return (Some(FaultKind::Stolen), None, Some(RIVAL.to_owned()), Some(now.since(since)));
        }
        let Some(fault) = self.diagnosis.registration_fault() else { return (None, None, None, None) };
        (Some(fault.kind.clone()), fault.status, Some(fault.cause.clone()), Some(now.since(fault.since)))
    }

    /// Records a rejection. Statuses that lead to another update are no fault.
    pub(super) fn note_rejected(&mut self, now: Time, home_agent: Ipv6Addr, status: Status, out: &mut Outbox) {
        let prefixes = matches!(status, Status::INVALID_PREFIX | Status::NOT_AUTHORISED_FOR_PREFIX);
        if prefixes && self.prefix_mode.is_explicit() {
            self.diagnosis.rejected_prefixes = self.config.prefixes.clone();
        }
        let networks = || self.config.prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let remedy = match status {
            Status::AUTHENTICATION_FAILED if self.has_invited_key() => {
                "the invitation was used before, has expired or was revoked; ask for another one".to_owned()
            }
            Status::AUTHENTICATION_FAILED => "compare key_file here with the row in its prefix table".to_owned(),
            Status::INVALID_PREFIX | Status::NOT_AUTHORISED_FOR_PREFIX => {
                format!("not all of {} are in the row of this router in its prefix table", networks())
            }
            Status::NOT_HOME_SUBNET => {
                format!("home address {} is in none of its home_prefixes", self.config.home_address)
            }
            Status::MOBILE_ROUTER_NOT_PERMITTED => "it does not serve mobile routers".to_owned(),
            Status::DUPLICATE_ADDRESS => {
                format!("another node on the home link has {}", self.config.home_address)
            }
            Status::INSUFFICIENT_RESOURCES => "it is out of disk space or table entries; see its log".to_owned(),
            Status::FORWARDING_SETUP_FAILED => "it could not set up forwarding; see its log".to_owned(),
            Status::INVALID_CARE_OF => "it does not accept the care-of address".to_owned(),
            Status::ADMINISTRATIVELY_PROHIBITED => self.encryption_remedy(UNASKED).to_owned(),
            _ => "see its log".to_owned(),
        };
        self.diagnosis.is_rejected = true;
        let invited = status == Status::AUTHENTICATION_FAILED && self.has_invited_key();
        let kind = if invited { FaultKind::FormerKey } else { FaultKind::Refused };
        let is_unencrypted = status == Status::ADMINISTRATIVELY_PROHIBITED;
        let kind = if is_unencrypted { FaultKind::NotEncrypted } else { kind };
        let cause = match status.is_accepted() && self.encrypts() {
            true => Cause::new(FaultKind::NotEncrypted, self.unencrypted()),
            false => Cause::refused(status, format!("refuses: {status}: {remedy}")).of_kind(kind),
        };
        self.put_fault(now, (home_agent, None), cause, out);
    }

    /// Records an accepted update.
    pub(super) fn note_accepted(&mut self, now: Time, home_agent: Ipv6Addr, out: &mut Outbox) {
        self.diagnosis.last_accepted = now;
        self.diagnosis.is_rejected = false;
        if self.prefix_mode.is_explicit() || self.diagnosis.rejected_prefixes.is_empty() {
            self.diagnosis.rejected_prefixes.clear();
            self.clear_fault(now, (home_agent, None), out);
        }
    }

    /// Processes an ICMPv6 error about a packet to a home agent. It is unauthenticated, so only a hint.
    pub(super) fn receive_icmp_error(&mut self, now: Time, from: Ipv6Addr, message: &Message) {
        let (Message::DestinationUnreachable { invoking, .. }
        | Message::TimeExceeded { invoking, .. }
        | Message::ParameterProblem { invoking, .. }) = message
        else {
            return;
        };
        let Some(QuotedPacket { source, destination, next_header, .. }) = QuotedPacket::parse(invoking) else { return };
        let ours = |uplink: &Uplink| uplink.care_of().is_some_and(|care_of| care_of.address.0 == source);
        if !self.home_agents.contains(destination) || !self.uplinks.iter().any(ours) {
            return;
        }
        if next_header == protocol::UDP && matches!(message, Message::DestinationUnreachable { code: 4, .. }) {
            let sender = self.uplinks.iter_mut().find(|uplink| ours(uplink));
            return sender
                .into_iter()
                .filter(|up| !up.is_udp())
                .for_each(|uplink| uplink.transport.give_up_trials(now));
        }
        let link = self.uplinks.iter().find(|uplink| ours(uplink)).and_then(Uplink::link);
        if let Some(link) = link.filter(|_| self.home_agents.in_use() == Some(destination)) {
            self.receive_hint(now, link);
        }
        let (kind, meaning) = match message {
            Message::DestinationUnreachable { code: 0, .. } => (FaultKind::Unreachable, "no route to the home agent"),
            Message::DestinationUnreachable { code: 1, .. } => (FaultKind::Prohibited, "administratively prohibited"),
            Message::DestinationUnreachable { code: 3, .. } => {
                (FaultKind::Unreachable, "home agent address unreachable")
            }
            Message::DestinationUnreachable { code: 5 | 6, .. } => {
                (FaultKind::Prohibited, "rejected by a policy or route")
            }
            Message::ParameterProblem { code: 1 | 2, .. } if from == destination => {
                (FaultKind::NoHomeAgent, "no home agent runs there")
            }
            _ => return,
        };
        let hint = format!("{from} says: {meaning}");
        match next_header {
            protocol::IPV6 => self.diagnosis.tunnel_hint = Some(hint),
            protocol::MOBILITY | protocol::DESTINATION | protocol::ESP => {
                self.diagnosis.signalling_hint = Some((kind, hint))
            }
            _ => {}
        }
    }

    /// Something in the network says that packets by `link` do not reach the home agent. Anybody can say so: the binding and
    /// the path are asked sooner, and only their answers count.
    pub(super) fn receive_hint(&mut self, now: Time, link: LinkId) {
        if self.registration.binding().is_none() || !self.hint_limiter.take(now) {
            return;
        }
        self.registration.verify_binding(now);
        if let Some(uplink) = self.uplink_on(link) {
            uplink.prober.hurry(now);
        }
        self.test_path(now, link);
    }

    /// Detects faults that show by missing answers.
    pub(super) fn diagnose(&mut self, now: Time, out: &mut Outbox) {
        self.diagnose_registration(now, out);
        for index in 0..self.uplinks.len() {
            self.diagnose_path(now, index, out);
        }
    }

    fn diagnose_registration(&mut self, now: Time, out: &mut Outbox) {
        let Some((home_agent, since)) = self.diagnosis.unanswered_since else { return };
        let Some(wanted) = self.registration.pending() else {
            // No update is outstanding: there is no care-of address, or another home agent is in use.
            self.diagnosis.note_answered();
            return;
        };
        if now.since(since) < UNANSWERED_TIMEOUT && self.diagnosis.signalling_hint.is_none() {
            return;
        }
        let over_ipv4 = wanted.first_visited().and_then(CareOf::ipv4).is_some();
        let pinged = wanted.care_of().iter().filter_map(|care_of| self.uplink_of(care_of));
        let pinged = pinged.map(|uplink| uplink.prober.is_answered()).max();
        let why = match (&self.diagnosis.signalling_hint, over_ipv4, pinged.filter(|_| self.config.probe.is_some())) {
            (Some((kind, hint)), ..) => Cause::new(kind.clone(), format!("updates are not answered; {hint}")),
            (None, true, _) => Cause::new(
                FaultKind::Ipv4Unanswered,
                format!(
                    "updates over IPv4 are not answered: is [home_agent.ipv4] configured there, and is UDP port \
                     {DSMIP_PORT} let through?"
                ),
            ),
            (None, _, Some(true)) => Cause::new(
                FaultKind::UnansweredPinged,
                format!(
                    "updates are not answered, pings are: no home agent runs there, {} is not in its prefix table, or \
                     mobility headers (IPv6 protocol 135) are filtered on the way",
                    self.config.home_address
                ),
            ),
            (None, _, Some(false)) => {
                let text = "neither updates nor pings are answered: it is down, or unreachable";
                Cause::new(FaultKind::Unreachable, text)
            }
            (None, _, None) => Cause::new(FaultKind::Unanswered, "updates are not answered"),
        };
        self.put_fault(now, (home_agent, None), why, out);
    }

    /// Detects a path that carries updates but not the tunnel.
    fn diagnose_path(&mut self, now: Time, index: usize, out: &mut Outbox) {
        let Some(uplink) = self.uplinks.get(index) else { return };
        let bid = uplink.config.bid;
        let (Some(home_agent), Some(probe)) = (self.home_agents.in_use(), self.config.probe) else { return };
        if let Some(fault) = self.diagnosis.path_fault(bid) {
            let over =
                uplink.care_of_address.is_none() || uplink.last_tunnelled_reply.is_some_and(|at| at > fault.since);
            if over {
                self.clear_fault(now, (home_agent, Some(bid)), out);
            }
            return;
        }
        let Some(care_of) = self.care_of_on(uplink).filter(|care_of| !care_of.on_home_link && !care_of.is_observed())
        else {
            return;
        };
        let held = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
        let accepted = self.diagnosis.last_accepted;
        let unanswered = uplink.last_tunnelled_reply.is_none_or(|at| at < accepted);
        let waited = now.since(accepted) >= probe.interval * probe.down_after;
        if !(uplink.prober.is_silent()
            && unanswered
            && waited
            && held.iter().any(|held| held.is_same_address(&care_of)))
        {
            return;
        }
        let hint = self.diagnosis.tunnel_hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        let tunnel = match self.encrypts() {
            true => self.encrypted_tunnel_of(bid),
            false => "IPv6-in-IPv6 (protocol 41)".to_owned(),
        };
        let why = format!(
            "updates are answered, probes through the tunnel are not: is {tunnel} let through in both directions?{hint}"
        );
        self.put_fault(now, (home_agent, Some(bid)), Cause::new(FaultKind::TunnelSilent, why), out);
    }

    fn put_fault(&mut self, now: Time, (peer, bid): (Ipv6Addr, Option<Bid>), cause: Cause, out: &mut Outbox) {
        let why = cause.text().to_owned();
        if self.diagnosis.faults.record(now, bid, cause) {
            out.report(NemoReport::Fault { home_address: self.config.home_address, peer, bid, why });
        }
    }

    fn clear_fault(&mut self, now: Time, (peer, bid): (Ipv6Addr, Option<Bid>), out: &mut Outbox) {
        if let Some(after) = self.diagnosis.faults.clear(now, bid) {
            out.report(NemoReport::FaultCleared { home_address: self.config.home_address, peer, bid, after });
        }
    }
}
