//! Failover of the home agent: when every path is silent, an update verifies at once whether the binding still exists,
//! and another home agent that answers replaces the present one if it does not answer (RFC 6275 §11.7.1 and §11.8
//! leave the time to the mobile node).
//!
//! The binding at the former home agent stays until another one has accepted the registration, so that an uplink
//! without coverage costs nothing: without any answer nothing changes.
//!
//! Over IPv4, and in UDP over IPv6, another home agent is also asked by a de-registration, since many networks let nothing
//! but UDP through. It has no binding that would end, and any answer that is authenticated shows that it lives.

use super::MobileRouter;
use super::discovery::NEXT_HOME_AGENT_DELAY;
use super::probe::{Probe, Prober};
use super::registration::{Binding, CareOf, DesiredRegistration, Location};
use super::uplink::Uplink;
use crate::contract::report::NemoReport;
use crate::crypto::authenticator::Timestamp;
use crate::{Outbox, Time, TokenBucket, Transmit, VecMap, Via};
use core::time::Duration;
use roam6_wire::icmp6::{Echo, Message};
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{BindingAcknowledgement, Status};
use roam6_wire::{Bid, Sequence, icmp4, ip4};
use std::net::Ipv6Addr;

/// Consecutive probes that every path has to lose before the binding is verified.
const MAX_MISSED_PROBES: u32 = 2;
/// Minimum interval of such updates.
const VERIFY_INTERVAL: Duration = Duration::from_secs(3);
/// Interval of verification while paths are silent although the home agent has answered.
const REVERIFY_AFTER: Duration = Duration::from_secs(30);
/// Time for an answer, beside two round trips, before another home agent is tried.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(250);
/// The same if the host answers echo requests: the time of a first registration with duplicate address detection (RFC
/// 6275 §12).
const REACHABLE_ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);
/// The assumed round trip while none is measured.
const DEFAULT_ROUND_TRIP: Duration = Duration::from_millis(250);
/// Time for another home agent to accept: its duplicate address detection takes a second (RFC 6275 §10.3.1).
const TRIAL_TIMEOUT: Duration = Duration::from_secs(3);
/// Hold-down of a home agent that did not.
const HOLD_DOWN: Duration = Duration::from_secs(20);
/// Initial and maximum interval of de-registrations at the former home agent; it doubles.
const DEREGISTRATION_INTERVAL: Duration = Duration::from_secs(1);
const MAX_DEREGISTRATION_INTERVAL: Duration = Duration::from_secs(16);
/// Interval of asking all other home agents in this way, at first; it doubles so many times.
const QUESTION_INTERVAL: Duration = Duration::from_secs(1);
const MAX_QUESTION_DOUBLINGS: usize = 4;

/// The failover state.
#[derive(Debug, Clone)]
pub(super) struct Failover {
    limiter: TokenBucket,
    /// Present while every path is silent.
    verification: Option<Verification>,
    trial: Option<Trial>,
    /// Home agents that did not accept in time, and the end of their hold-down.
    held_down: VecMap<Ipv6Addr, Time>,
    former: Option<FormerHomeAgent>,
    /// De-registrations by which other home agents are asked whether they live.
    questions: VecMap<Ipv6Addr, Question>,
}

/// A de-registration sent to a home agent that has no binding.
#[derive(Debug, Clone)]
struct Question {
    wanted: DesiredRegistration,
    sequence: Sequence,
}

/// Every path is silent.
#[derive(Debug, Default, Clone)]
struct Verification {
    /// When verification was last started.
    started_at: Option<Time>,
    /// Echo requests outside the tunnel, by uplink.
    direct: VecMap<Bid, DirectEchoes>,
    /// Another home agent that answered one, and when first.
    alternate: Option<(Ipv6Addr, Time)>,
    /// A path has begun to answer since then, not often enough yet to count as up.
    recovered: bool,
    /// Number of questions to other home agents, and when the next may be sent.
    asked: usize,
    ask_at: Time,
}

/// Echo requests of one uplink outside the tunnel.
#[derive(Debug, Default, Clone, Copy)]
struct DirectEchoes {
    /// Number of requests to all home agents.
    sent: usize,
    /// The present home agent has answered one.
    answered: bool,
    /// Requests to the present home agent since its last answer.
    unanswered: u32,
}

/// Another home agent is tried in place of `former`.
#[derive(Debug, Clone, Copy)]
struct Trial {
    former: Ipv6Addr,
    until: Time,
}

/// A home agent that may still have a binding of this router.
#[derive(Debug, Clone)]
struct FormerHomeAgent {
    home_agent: Ipv6Addr,
    /// When that binding expires.
    until: Time,
    next: Time,
    interval: Duration,
    /// The last de-registration sent.
    sent: Option<(Sequence, Option<Timestamp>)>,
}

impl Default for Failover {
    fn default() -> Failover {
        Failover {
            limiter: TokenBucket::new(1, VERIFY_INTERVAL),
            verification: None,
            trial: None,
            held_down: VecMap::new(),
            former: None,
            questions: VecMap::new(),
        }
    }
}

impl Failover {
    /// Resets the state: another home agent is in use, or the configuration changed.
    pub(super) fn reset(&mut self) {
        (self.verification, self.trial) = (None, None);
        self.questions.clear();
    }

    /// The home agent of `binding` may have care-of addresses, and would defend the home address: it is de-registered
    /// once another one has accepted.
    pub(super) fn remember_former(&mut self, now: Time, binding: &Binding) {
        let (home_agent, until) = (binding.registration.home_agent, binding.held_until);
        if until > now {
            let (next, interval) = (now, DEREGISTRATION_INTERVAL);
            self.former = Some(FormerHomeAgent { home_agent, until, next, interval, sent: None });
        }
    }
}

impl MobileRouter {
    /// Verifies the binding, waits, and switches to another home agent, by the state of the probes.
    pub(super) fn watch_home_agent(&mut self, now: Time) {
        if self.failover.trial.is_some_and(|trial| trial.until <= now) {
            self.abandon_trial(now);
        }
        self.failover.held_down.retain(|_, until| *until > now);
        if self.failover.trial.is_some() {
            return;
        }
        let unanswered = self.is_first_update_unanswered();
        if !unanswered && !self.are_all_paths(|prober| prober.is_silent() || prober.missed() > MAX_MISSED_PROBES) {
            self.failover.verification = None;
            return;
        }
        let recovering = self.uplinks.iter().any(|uplink| self.is_probed(uplink) && uplink.prober.is_recovering());
        let lost = self.are_all_paths(|prober| prober.is_silent() && !prober.is_recovering());
        let check = self.failover.verification.get_or_insert_default();
        if lost && check.recovered {
            // Silent again, which requires a new verification.
            *check = Verification::default();
        }
        check.recovered |= recovering;
        let again = check.started_at.is_some_and(|since| since + REVERIFY_AFTER <= now)
            && self.registration.pending().is_none();
        if (check.started_at.is_none() || again) && self.failover.limiter.take(now) {
            check.started_at = Some(now);
            self.registration.verify_binding(now);
        }
        let Some((other, _)) = check.alternate else { return };
        let dead = (lost || unanswered) && self.answer_due().is_some_and(|due| due <= now);
        if let Some(former) = self.home_agents.in_use().filter(|former| dead && *former != other) {
            self.start_trial(now, former, other);
        }
    }

    /// The home agent has not answered for the time of RFC 6275 §11.8. While it may still have a binding, another one
    /// is only tried: if no home agent answers, the paths may be at fault.
    pub(super) fn leave_unanswering_home_agent(&mut self, now: Time, out: &mut Outbox) {
        let bound = self.registration.binding().is_some_and(|binding| binding.is_away());
        if !bound || self.config.probe.is_none() {
            return self.next_home_agent(now, "no answer", NEXT_HOME_AGENT_DELAY, out);
        }
        if self.failover.trial.is_some() {
            return;
        }
        let other = self.home_agents.from_next().find(|agent| !self.failover.held_down.contains_key(agent));
        if let Some((former, other)) = self.home_agents.in_use().zip(other).filter(|(former, other)| former != other) {
            self.start_trial(now, former, other);
        }
    }

    fn start_trial(&mut self, now: Time, former: Ipv6Addr, other: Ipv6Addr) {
        self.failover.verification = None;
        self.failover.trial = Some(Trial { former, until: now + TRIAL_TIMEOUT });
        self.try_home_agent(now, other);
    }

    /// When the time for an answer is over, if one is outstanding and another home agent is alive: counted from an
    /// update on a path that another one's answer has proven.
    fn answer_due(&self) -> Option<Time> {
        let check = self.failover.verification.as_ref().filter(|_| self.registration.is_waiting())?;
        let since = check.started_at?.max(check.alternate?.1);
        let round_trip = self.uplinks.iter().filter_map(|uplink| uplink.prober.round_trip()).max();
        let patience =
            if check.direct.values().any(|echoes| echoes.answered) { REACHABLE_ANSWER_TIMEOUT } else { ANSWER_TIMEOUT };
        Some(since + patience + round_trip.unwrap_or(DEFAULT_ROUND_TRIP) * 2)
    }

    /// Whether `lost` is true of every probed path, and there is one.
    pub(super) fn are_all_paths(&self, lost: impl Fn(&Prober) -> bool) -> bool {
        if self.config.probe.is_none() || !self.is_probing() {
            return false;
        }
        let mut probed = self.uplinks.iter().filter(|uplink| self.is_probed(uplink)).peekable();
        probed.peek().is_some() && probed.all(|uplink| lost(&uplink.prober))
    }

    fn try_home_agent(&mut self, now: Time, home_agent: Ipv6Addr) {
        self.registration.drop_pending();
        self.forget_home_agent();
        self.home_agents.switch_to(now, home_agent);
    }

    /// Abandons the trial and returns to the former home agent; returns whether there was a trial.
    pub(super) fn abandon_trial(&mut self, now: Time) -> bool {
        let Some(trial) = self.failover.trial.take() else { return false };
        if let Some(home_agent) = self.home_agents.in_use() {
            self.failover.held_down.insert(home_agent, now + HOLD_DOWN);
        }
        self.try_home_agent(now, trial.former);
        self.registration.verify_binding(now);
        true
    }

    /// `home_agent` has accepted: a former one is de-registered.
    pub(super) fn finish_trial(&mut self, now: Time, home_agent: Ipv6Addr, out: &mut Outbox) {
        self.failover.trial = None;
        if self.failover.former.as_ref().is_some_and(|former| former.home_agent == home_agent) {
            self.failover.former = None;
        }
        let Some(before) = self.registration.binding().filter(|binding| binding.is_away()) else { return };
        let former = before.registration.home_agent;
        if former == home_agent {
            return;
        }
        out.report(NemoReport::Unbound { home_agent: former, why: "no answer".to_owned() });
        self.failover.remember_former(now, before);
        for index in 0..self.uplinks.len() {
            if self.uplinks.get(index).is_some_and(|uplink| uplink.prober.is_silent()) {
                self.presume_path_up(now, index, out);
            }
        }
    }

    /// The next de-registration at a former home agent, if due.
    pub(super) fn next_deregistration(&mut self, now: Time, out: &mut Outbox) -> Option<Transmit> {
        self.failover.former.take_if(|former| former.until <= now);
        let binding = self.registration.binding().filter(|binding| binding.is_away());
        let place = binding.map(|binding| binding.registration.location.clone())?;
        let former = self.failover.former.as_mut().filter(|former| former.next <= now)?;
        former.next = now + former.interval;
        former.interval = (former.interval * 2).min(MAX_DEREGISTRATION_INTERVAL);
        let wanted = DesiredRegistration { home_agent: former.home_agent, location: place };
        let message = self.deregistration(now, &wanted, out);
        let sent = (self.registration.sequence(), self.last_timestamp);
        if let Some(former) = &mut self.failover.former {
            former.sent = Some(sent);
        }
        message
    }

    /// Processes an answer to a de-registration at a former home agent; returns whether it is one.
    pub(super) fn receive_deregistration_answer(
        &mut self,
        datagram: &Datagram<'_>,
        message: &BindingAcknowledgement,
        protected: bool,
    ) -> bool {
        let Some(former) = &self.failover.former else { return false };
        let Some((sequence, _)) = former.sent else { return false };
        let Some(binding) = self.registration.binding() else { return false };
        if former.home_agent != datagram.source || sequence != message.sequence {
            return false;
        }
        let wanted =
            DesiredRegistration { home_agent: former.home_agent, location: binding.registration.location.clone() };
        let answers = self.verify(datagram, message, &wanted, protected).is_ok();
        if answers {
            self.failover.former = None;
        }
        answers
    }

    /// Sends, with each probe while every path is silent, an echo request outside the tunnel to one home agent after
    /// another. An answer of another one shows that the present one is at fault, and not the path; an answer of the
    /// present one, that it has lost the binding, or that the tunnel is at fault on other uplinks only.
    pub(super) fn probe_alternates(&mut self, due: &[Probe], out: &mut Outbox) {
        for probe in due.iter().filter(|probe| !probe.in_burst) {
            if let Some(question) = self.next_question(*probe, out) {
                out.transmit(question);
            }
            if let Some(request) = self.direct_echo_request(*probe) {
                out.transmit(request);
            }
        }
    }

    /// The other home agents that can be asked from `care_of`, in turn. Whether one serves UDP over IPv6 is not known
    /// before it answers.
    fn others_to_ask(&self, care_of: &CareOf) -> Vec<Ipv6Addr> {
        let is_other = |agent: &Ipv6Addr| {
            let has_address = care_of.ipv4().is_none() || self.ipv4_of(*agent).is_some();
            Some(*agent) != self.home_agents.in_use() && !self.failover.held_down.contains_key(agent) && has_address
        };
        self.home_agents.from_next().filter(is_other).collect()
    }

    /// The de-registration that asks `home_agent` from `care_of` whether it lives.
    fn ask(&mut self, home_agent: Ipv6Addr, care_of: CareOf, out: &mut Outbox) -> Option<Transmit> {
        let mcoa = self.registers_several();
        let wanted = DesiredRegistration { home_agent, location: Location::Away { care_of: vec![care_of], mcoa } };
        let message = self.deregistration(self.now, &wanted, out);
        let sequence = self.registration.sequence();
        self.failover.questions.insert(home_agent, Question { wanted, sequence });
        message
    }

    /// The questions that go with a repetition of the first update over IPv4 or in UDP: such a path is not probed before
    /// it is registered. While the state of a previous instance forwards, another home agent may have its binding.
    pub(super) fn ask_before_binding(&mut self, out: &mut Outbox) -> Vec<Transmit> {
        let sender = self.registration.pending().and_then(DesiredRegistration::first_visited).copied();
        let asks = self.is_first_update_unanswered() && self.is_takeover_complete();
        let Some(sender) = sender.filter(|_| asks) else { return Vec::new() };
        let others = self.others_to_ask(&sender);
        others.into_iter().filter_map(|home_agent| self.ask(home_agent, sender, out)).collect()
    }

    /// Whether the first update over IPv4 or in UDP had to be repeated.
    fn is_first_update_unanswered(&self) -> bool {
        let sender = self.registration.pending().and_then(DesiredRegistration::first_visited);
        let is_bound = self.registration.binding().is_some_and(Binding::is_away);
        let idle = self.failover.trial.is_none() && !is_bound;
        let watches = idle && self.config.probe.is_some() && self.home_agents.has_other();
        watches && sender.is_some_and(CareOf::is_observed) && self.registration.is_repeated()
    }

    /// The question to another home agent over the path of `probe`, if that is IPv4 or UDP, and no echo request was answered.
    fn next_question(&mut self, probe: Probe, out: &mut Outbox) -> Option<Transmit> {
        let uplink = self.uplinks.iter().find(|uplink| uplink.config.bid == probe.bid)?;
        let care_of = self.care_of_on(uplink).filter(CareOf::is_observed)?;
        let (now, others) = (self.now, self.others_to_ask(&care_of));
        let check = self.failover.verification.as_mut()?;
        let had_time = check.direct.get(&probe.bid).is_some_and(|echoes| echoes.sent > 0);
        if check.alternate.is_some() || !had_time || check.ask_at > now {
            return None;
        }
        let home_agent = *others.get(check.asked.checked_rem(others.len())?)?;
        check.asked = check.asked.saturating_add(1);
        if check.asked.is_multiple_of(others.len()) {
            let rounds = check.asked / others.len() - 1;
            check.ask_at = now + QUESTION_INTERVAL * (1 << rounds.min(MAX_QUESTION_DOUBLINGS));
        }
        self.ask(home_agent, care_of, out)
    }

    /// Processes an answer to a question; returns whether it is one.
    pub(super) fn receive_question_answer(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        message: &BindingAcknowledgement,
        protected: bool,
    ) -> bool {
        let home_agent = datagram.source;
        let asked = self.failover.questions.get(&home_agent).filter(|asked| asked.sequence == message.sequence);
        let Some(Question { wanted, .. }) = asked.cloned() else { return false };
        if self.verify(datagram, message, &wanted, protected).is_err() {
            return false;
        }
        self.failover.questions.remove(&home_agent);
        let serves = matches!(message.status, Status::NOT_HOME_AGENT | Status::MESSAGE_ID_MISMATCH);
        if serves || message.status.is_accepted() {
            self.note_answer(now, home_agent);
        }
        true
    }

    fn direct_echo_request(&mut self, probe: Probe) -> Option<Transmit> {
        let check = self.failover.verification.as_mut()?;
        let shunned = &self.failover.held_down;
        let agents: Vec<Ipv6Addr> = self.home_agents.from_next().filter(|agent| !shunned.contains_key(agent)).collect();
        let echoes = check.direct.entry(probe.bid).or_default();
        let home_agent = *agents.get(echoes.sent.checked_rem(agents.len())?)?;
        echoes.sent = echoes.sent.wrapping_add(1);
        if self.home_agents.in_use() == Some(home_agent) {
            echoes.unanswered = echoes.unanswered.saturating_add(1);
        }
        let uplink = self.uplinks.iter().find(|uplink| uplink.config.bid == probe.bid)?;
        let care_of = self.care_of_on(uplink)?;
        let data = self.untunnelled_cookie().to_vec();
        let echo = Echo { identifier: probe.bid.0, sequence: probe.sequence, data };
        if let Some(own) = care_of.ipv4() {
            let (source, destination) = (own.address, self.ipv4_of(home_agent)?);
            let header = ip4::Header { source, destination, tos: 0, protocol: icmp4::PROTOCOL };
            let bytes = header.emit(&icmp4::Message::EchoRequest(echo).emit());
            return Some(Transmit { via: Via::Link(care_of.link), bytes });
        }
        if care_of.on_home_link || care_of.is_observed() {
            return None;
        }
        let source = care_of.address.0;
        let message = Message::EchoRequest(echo).emit(source, home_agent);
        let bytes = ip6::emit(&Header::new(source, home_agent), protocol::ICMPV6, &message);
        self.transmit_via(&care_of, home_agent, bytes)
    }

    /// Removes the uplinks on which the home agent answers nothing, not even outside the tunnel, while it answers on
    /// others. A home agent that sends all packets of a tunnel by the preferred path answers no probe when that path
    /// fails, so that no other path shows that it works.
    pub(super) fn retain_reaching(&self, uplinks: &mut Vec<&Uplink>) {
        let Some(check) = &self.failover.verification else { return };
        let echoes = |uplink: &&Uplink| check.direct.get(&uplink.config.bid).copied().unwrap_or_default();
        let lost = |uplink: &&Uplink| echoes(uplink).unanswered > MAX_MISSED_PROBES;
        if uplinks.iter().any(|uplink| echoes(uplink).answered && !lost(uplink)) {
            uplinks.retain(|uplink| !lost(uplink));
        }
    }

    /// The payload of an echo request outside the tunnel, which distinguishes its answer from that to a probe.
    fn untunnelled_cookie(&self) -> [u8; 8] {
        (!self.probe_cookie).to_be_bytes()
    }

    /// Processes an echo reply from outside the tunnel; returns whether it answers one of these requests.
    pub(super) fn receive_alternate_echo(&mut self, now: Time, home_agent: Ipv6Addr, echo: &Echo) -> bool {
        if echo.data != self.untunnelled_cookie() {
            return false;
        }
        let in_use = self.home_agents.in_use() == Some(home_agent);
        let Some(check) = &mut self.failover.verification else { return true };
        let bid = Bid(echo.identifier);
        if in_use && self.uplinks.iter().any(|uplink| uplink.config.bid == bid) {
            let echoes = check.direct.entry(bid).or_default();
            (echoes.answered, echoes.unanswered) = (true, 0);
        }
        self.note_answer(now, home_agent);
        true
    }

    /// While all paths are silent, this home agent has answered outside the tunnel.
    fn note_answer(&mut self, now: Time, home_agent: Ipv6Addr) {
        let in_use = self.home_agents.in_use() == Some(home_agent);
        let Some(check) = &mut self.failover.verification else { return };
        let is_new = in_use || check.alternate.is_none();
        if !in_use && is_new {
            check.alternate = Some((home_agent, now));
        }
        // The path works, so the present home agent gets an update over it.
        if is_new && self.registration.is_waiting_long(now) && (!in_use || self.failover.limiter.take(now)) {
            self.registration.retransmit_now(now);
        }
    }

    /// When [`MobileRouter::watch_home_agent`] has something to do.
    pub(super) fn failover_deadline(&self) -> Option<Time> {
        let trial = self.failover.trial.map(|trial| trial.until);
        let check = self.failover.verification.as_ref();
        let verify_at = check.filter(|check| check.started_at.is_none()).map(|_| self.failover.limiter.next_token());
        let due = self.answer_due();
        let gives_up = self.registration.gives_up_at().filter(|_| self.home_agents.has_other());
        let away = self.registration.binding().is_some_and(|binding| binding.is_away());
        let former = self.failover.former.as_ref().map(|former| former.next.min(former.until));
        let later =
            [verify_at, due, gives_up, former.filter(|_| away)].into_iter().flatten().filter(|at| *at > self.now);
        later.chain(trial).min()
    }
}
