//! What follows when every path to the home agent falls silent: the home agent is asked at once whether it still holds the
//! binding, and another one that answers takes its place if it does not (RFC 6275 §11.7.1 and §11.8 leave to the mobile
//! node when to ask and when to turn to another home agent).
//!
//! The binding with the former home agent stands until another one has accepted us, so that an uplink without coverage
//! costs nothing: then nobody answers, and nothing is changed.

use super::MobileRouter;
use super::discovery::NEXT_HOME_AGENT_DELAY;
use super::probe::{PathChange, Probe, Prober};
use super::registration::{DesiredRegistration, Location};
use crate::base::few;
use crate::base::time::Time;
use crate::base::token_bucket::TokenBucket;
use crate::contract::engine::Outbox;
use crate::contract::output::Transmit;
use crate::contract::report::Report;
use crate::crypto::authenticator::Timestamp;
use core::time::Duration;
use roam6_wire::Sequence;
use roam6_wire::icmp6::{Echo, Message};
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::BindingAcknowledgement;
use std::net::Ipv6Addr;

/// Probes in a row that every path has to lose before the home agent is asked.
const MAX_MISSED_PROBES: u32 = 2;
/// One such question in so long.
const VERIFY_INTERVAL: Duration = Duration::from_secs(3);
/// While the paths stay silent though the home agent has answered, it is asked again after this.
const REVERIFY_AFTER: Duration = Duration::from_secs(30);
/// A home agent has two round trips and this long for its answer before another one is asked.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(250);
/// One whose host is reached has as long as for a first registration, with duplicate address detection (RFC 6275 §12).
const REACHABLE_ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);
/// The round trip while none has been measured.
const DEFAULT_ROUND_TRIP: Duration = Duration::from_millis(250);
/// Another home agent has so long to accept us: duplicate address detection takes it a second (RFC 6275 §10.3.1).
const TRIAL_TIMEOUT: Duration = Duration::from_secs(3);
/// One that did not is left alone for so long.
const HOLD_DOWN: Duration = Duration::from_secs(20);
/// A home agent that was left is told so after this, then after twice as long each time.
const DEREGISTRATION_INTERVAL: Duration = Duration::from_secs(1);
const MAX_DEREGISTRATION_INTERVAL: Duration = Duration::from_secs(16);

/// The watch over the home agent in use.
#[derive(Debug, Clone)]
pub(super) struct Failover {
    limiter: TokenBucket,
    /// While every path is without answers.
    verification: Option<Verification>,
    trial: Option<Trial>,
    /// Home agents that did not accept us in time, and until when they are left alone.
    held_down: few::VecMap<Ipv6Addr, Time>,
    former: Option<FormerHomeAgent>,
}

/// Every path is without answers.
#[derive(Debug, Default, Clone)]
struct Verification {
    /// When the home agent was asked whether it holds the binding.
    asked_at: Option<Time>,
    /// How many echo requests have left outside the tunnel.
    echo_requests: usize,
    /// Another home agent that answered one, and when it did first.
    alternate: Option<(Ipv6Addr, Time)>,
    /// The host of the home agent in use has answered one.
    reached: bool,
    /// A path has begun to answer since the home agent was asked, not often enough yet to be trusted.
    recovered: bool,
}

/// Another home agent is asked to take the place of `former`.
#[derive(Debug, Clone, Copy)]
struct Trial {
    former: Ipv6Addr,
    until: Time,
}

/// A home agent that may still hold a binding of ours.
#[derive(Debug, Clone)]
struct FormerHomeAgent {
    home_agent: Ipv6Addr,
    /// When it forgets by itself.
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
            held_down: few::VecMap::new(),
            former: None,
        }
    }
}

impl Failover {
    /// Forgets whom it watched: another home agent is asked, or the configured ones changed.
    pub(super) fn reset(&mut self) {
        (self.verification, self.trial) = (None, None);
    }
}

impl MobileRouter {
    /// Asks, waits and turns to another home agent as the probes have it.
    pub(super) fn watch_home_agent(&mut self, now: Time) {
        if self.failover.trial.is_some_and(|trial| trial.until <= now) {
            self.abandon_trial(now);
        }
        self.failover.held_down.retain(|_, until| *until > now);
        if self.failover.trial.is_some() {
            return;
        }
        if !self.are_all_paths(|prober| prober.is_silent() || prober.missed() > MAX_MISSED_PROBES) {
            self.failover.verification = None;
            return;
        }
        let recovering = self.uplinks.iter().any(|uplink| self.is_probed(uplink) && uplink.prober.is_recovering());
        let lost = self.are_all_paths(|prober| prober.is_silent() && !prober.is_recovering());
        let doubt = self.failover.verification.get_or_insert_default();
        if lost && doubt.recovered {
            // Silent anew, which is a reason to ask anew.
            *doubt = Verification::default();
        }
        doubt.recovered |= recovering;
        let again =
            doubt.asked_at.is_some_and(|asked| asked + REVERIFY_AFTER <= now) && self.registration.pending().is_none();
        if (doubt.asked_at.is_none() || again) && self.failover.limiter.take(now) {
            doubt.asked_at = Some(now);
            self.registration.verify_binding(now);
        }
        let Some((other, _)) = doubt.alternate else { return };
        let dead = lost && self.answer_due().is_some_and(|due| due <= now);
        if let Some(former) = self.home_agents.in_use().filter(|former| dead && *former != other) {
            self.start_trial(now, former, other);
        }
    }

    /// The home agent has not answered for as long as RFC 6275 §11.8 gives it. As long as it may still hold a binding another
    /// one is only tried: paths that are silent to everybody say nothing of the home agent.
    pub(super) fn leave_unanswering_home_agent(&mut self, now: Time, out: &mut Outbox) {
        let bound = self.registration.binding().is_some_and(|binding| binding.is_away());
        if !bound || self.config.probe.is_none() {
            return self.next_home_agent(now, "no answer", NEXT_HOME_AGENT_DELAY, out);
        }
        if self.failover.trial.is_some() || self.registration.was_just_sent(now) {
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

    /// When the home agent has had its time for an answer, if it owes one and another home agent is alive: not before it
    /// was asked by a path that another one's answer has proven to work.
    fn answer_due(&self) -> Option<Time> {
        let doubt = self.failover.verification.as_ref().filter(|_| self.registration.is_waiting())?;
        let asked = doubt.asked_at?.max(doubt.alternate?.1);
        let round_trip = self.uplinks.iter().filter_map(|uplink| uplink.prober.round_trip()).max();
        let patience = if doubt.reached { REACHABLE_ANSWER_TIMEOUT } else { ANSWER_TIMEOUT };
        Some(asked + patience + round_trip.unwrap_or(DEFAULT_ROUND_TRIP) * 2)
    }

    /// Whether `lost` holds of every path that is probed, and there is one.
    fn are_all_paths(&self, lost: impl Fn(&Prober) -> bool) -> bool {
        if self.config.probe.is_none() || !self.is_probing() {
            return false;
        }
        let mut probed = self.uplinks.iter().filter(|uplink| self.is_probed(uplink)).peekable();
        probed.peek().is_some() && probed.all(|uplink| lost(&uplink.prober))
    }

    fn try_home_agent(&mut self, now: Time, home_agent: Ipv6Addr) {
        self.registration.drop_pending();
        (self.ha_lacks_mcoa, self.ha_rejects_home_and_away) = (false, false);
        self.home_agents.switch_to(now, home_agent);
    }

    /// Gives up the home agent on trial and returns to the former one; whether there was one on trial.
    pub(super) fn abandon_trial(&mut self, now: Time) -> bool {
        let Some(trial) = self.failover.trial.take() else { return false };
        if let Some(home_agent) = self.home_agents.in_use() {
            self.failover.held_down.insert(home_agent, now + HOLD_DOWN);
        }
        self.try_home_agent(now, trial.former);
        self.registration.verify_binding(now);
        true
    }

    /// `home_agent` has accepted us: whoever served us before is told that it no longer does.
    pub(super) fn finish_trial(&mut self, now: Time, home_agent: Ipv6Addr, out: &mut Outbox) {
        self.failover.trial = None;
        if self.failover.former.as_ref().is_some_and(|farewell| farewell.home_agent == home_agent) {
            self.failover.former = None;
        }
        let before = self.registration.binding().filter(|binding| binding.is_away());
        let Some((former, until)) = before.map(|binding| (binding.registration.home_agent, binding.expires)) else {
            return;
        };
        if former == home_agent {
            return;
        }
        out.report(Report::Unbound { home_agent: former, why: "no answer".to_owned() });
        let (next, interval) = (now, DEREGISTRATION_INTERVAL);
        self.failover.former = Some(FormerHomeAgent { home_agent: former, until, next, interval, sent: None });
        for index in 0..self.uplinks.len() {
            let Some(uplink) = self.uplinks.get_mut(index).filter(|uplink| uplink.prober.is_silent()) else { continue };
            uplink.prober.restart(now);
            uplink.prober.take_was_silent();
            let bid = uplink.config.bid;
            self.report_path(bid, PathChange::Up, out);
        }
    }

    /// The next de-registration with a home agent that was left, if it is due.
    pub(super) fn next_deregistration(&mut self, now: Time, out: &mut Outbox) -> Option<Transmit> {
        self.failover.former.take_if(|farewell| farewell.until <= now);
        let binding = self.registration.binding().filter(|binding| binding.is_away());
        let place = binding.map(|binding| binding.registration.location.clone())?;
        let farewell = self.failover.former.as_mut().filter(|farewell| farewell.next <= now)?;
        farewell.next = now + farewell.interval;
        farewell.interval = (farewell.interval * 2).min(MAX_DEREGISTRATION_INTERVAL);
        let wanted = DesiredRegistration { home_agent: farewell.home_agent, location: place };
        let message = self.deregistration(now, &wanted, out);
        let sent = (self.registration.sequence(), self.last_timestamp);
        if let Some(farewell) = &mut self.failover.former {
            farewell.sent = Some(sent);
        }
        message
    }

    /// Takes an answer to a de-registration with a home agent that was left; whether it is one.
    pub(super) fn receive_deregistration_answer(
        &mut self,
        datagram: &Datagram<'_>,
        message: &BindingAcknowledgement,
        protected: bool,
    ) -> bool {
        let Some(farewell) = &self.failover.former else { return false };
        let Some((sequence, _)) = farewell.sent else { return false };
        let Some(binding) = self.registration.binding() else { return false };
        if farewell.home_agent != datagram.source || sequence != message.sequence {
            return false;
        }
        let wanted =
            DesiredRegistration { home_agent: farewell.home_agent, location: binding.registration.location.clone() };
        let answers = self.verify(datagram, message, &wanted, protected).is_ok();
        if answers {
            self.failover.former = None;
        }
        answers
    }

    /// With each probe, while every path is silent: an echo request outside the tunnel to one home agent after the other.
    /// An answer of another one says that the present one is at fault, and not the path; an answer of the present one, that
    /// it has lost the binding.
    pub(super) fn probe_alternates(&mut self, due: &[Probe], out: &mut Outbox) {
        let Some(doubt) = &mut self.failover.verification else { return };
        let Some(probe) = due.first() else { return };
        let turn = doubt.echo_requests;
        doubt.echo_requests = turn.wrapping_add(1);
        let shunned = &self.failover.held_down;
        let agents: Vec<Ipv6Addr> = self.home_agents.from_next().filter(|agent| !shunned.contains_key(agent)).collect();
        let Some(home_agent) = agents.get(turn % agents.len().max(1)).copied() else { return };
        let uplink = self.uplinks.iter().find(|uplink| uplink.config.bid == probe.bid);
        let care_of = uplink.and_then(|uplink| self.care_of_on(uplink));
        let Some(care_of) = care_of.filter(|care_of| !care_of.on_home_link && care_of.ipv4().is_none()) else { return };
        let data = self.untunnelled_cookie().to_vec();
        let request = Message::EchoRequest(Echo { identifier: probe.bid.0, sequence: probe.sequence, data });
        let source = care_of.address.0;
        let bytes = ip6::emit(&Header::new(source, home_agent), protocol::ICMPV6, &request.emit(source, home_agent));
        if let Some(message) = self.transmit_via(&care_of, home_agent, bytes) {
            out.transmit(message);
        }
    }

    /// What an echo request outside the tunnel carries, so that its answer is no answer to a probe.
    fn untunnelled_cookie(&self) -> [u8; 8] {
        (!self.probe_cookie).to_be_bytes()
    }

    /// Takes an echo reply that came outside the tunnel; whether it answers one of ours.
    pub(super) fn receive_alternate_echo(&mut self, now: Time, home_agent: Ipv6Addr, echo: &Echo) -> bool {
        if echo.data != self.untunnelled_cookie() {
            return false;
        }
        let in_use = self.home_agents.in_use() == Some(home_agent);
        let Some(doubt) = &mut self.failover.verification else { return true };
        doubt.reached |= in_use;
        let news = in_use || doubt.alternate.is_none();
        if !in_use && news {
            doubt.alternate = Some((home_agent, now));
        }
        // The path works: the present home agent is to have its chance by it.
        if news && self.registration.is_waiting_long(now) && (!in_use || self.failover.limiter.take(now)) {
            self.registration.retransmit_now(now);
        }
        true
    }

    /// When [`MobileRouter::watch_home_agent`] has something to do.
    pub(super) fn failover_deadline(&self) -> Option<Time> {
        let trial = self.failover.trial.map(|trial| trial.until);
        let doubt = self.failover.verification.as_ref();
        let ask = doubt.filter(|doubt| doubt.asked_at.is_none()).map(|_| self.failover.limiter.next_token());
        let due = self.answer_due();
        let away = self
            .registration
            .binding()
            .is_some_and(|binding| matches!(binding.registration.location, Location::Away { .. }));
        let farewell = self.failover.former.as_ref().map(|farewell| farewell.next.min(farewell.until));
        let later = [ask, due, farewell.filter(|_| away)].into_iter().flatten().filter(|at| *at > self.now);
        later.chain(trial).min()
    }
}
