//! What the packets of an uplink are encapsulated in: natively (protocol 41), or in UDP where a network drops protocol 135 or 41.
//!
//! Native -> trying UDP -> UDP -> trying native: the other encapsulation is tried by an update of the path alone, and used
//! once that is answered, unless the present one answers meanwhile; it stays if probes through the tunnel are answered.
//! Nothing here has effects: [`UplinkTransport::next`] says what to do.

use super::registration::{CareOf, DesiredRegistration, Transmission};
use crate::Time;
use core::time::Duration;

/// After an unanswered update it is repeated, and then UDP tried, without a known round trip.
const REPEAT_AFTER: Duration = Duration::from_millis(400);
const TRY_AFTER: Duration = Duration::from_millis(200);
/// The same of a first registration: duplicate address detection at the home agent takes a second (RFC 6275 §12).
const FIRST_REGISTRATION: Duration = Duration::from_millis(600);
const MIN_REPEAT_AFTER: Duration = Duration::from_millis(300);
/// Time for probes through a new tunnel, beside three round trips.
const TUNNEL_PATIENCE: Duration = Duration::from_millis(400);
/// Unanswered probes before the tunnel is taken for filtered.
const MIN_MISSED: u32 = 2;
/// The present encapsulation may still answer, after the other one has.
const GRACE: Duration = Duration::from_millis(50);
/// Time for probes through the tunnel after a change, beside four round trips; and after the return to native.
const PROOF_TIME: Duration = Duration::from_millis(600);
const NATIVE_PROOF_TIME: Duration = Duration::from_millis(500);
/// Initial and maximum pause after a trial without an answer; it doubles. As long as that of other updates (RFC 6275 §12).
const TRIAL_PAUSE: Duration = Duration::from_secs(2);
const MAX_TRIAL_PAUSE: Duration = Duration::from_secs(32);
/// Time between trials of two uplinks, unless the first is answered: the home agent answers the last of several updates that
/// arrive while it writes its journal.
const TRIAL_SPACING: Duration = Duration::from_millis(200);
/// Pause after a trial whose end was ambiguous.
const AMBIGUOUS_PAUSE: Duration = Duration::from_millis(500);
/// Pause after a refusal.
const REFUSAL_PAUSE: Duration = Duration::from_secs(600);
/// Initial and maximum time until native encapsulation is tried again; it doubles.
const NATIVE_RETRY: Duration = Duration::from_secs(600);
const MAX_NATIVE_RETRY: Duration = Duration::from_secs(24 * 3600);

/// Why the other encapsulation is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Updates are not answered.
    Signalling,
    /// Updates are answered, probes through the tunnel are not.
    Tunnel,
    /// Other paths work, and this one answers nothing.
    Silence,
    /// It was so in this network before.
    Remembered,
    /// It is time to try native encapsulation again.
    Retry,
}

impl Cause {
    /// For the log, after "udp:" or "native:".
    pub(super) fn text(self, to_udp: bool) -> &'static str {
        match (self, to_udp) {
            (Cause::Signalling, true) => "signalling is filtered",
            (Cause::Tunnel, true) => "the tunnel is filtered",
            (Cause::Silence, true) => "nothing else passes",
            (Cause::Remembered, _) => "nothing else passed in this network before",
            (Cause::Retry, _) => "it passes again",
            (_, false) => "UDP does not pass any more",
        }
    }
}

/// The state of an uplink's encapsulation.
#[derive(Debug, Default, Clone)]
pub(super) struct UplinkTransport {
    /// The network for which all this holds.
    pub(super) network: Option<u64>,
    /// UDP is in use.
    pub(super) udp: bool,
    /// Why it was changed last; `None` before the first change.
    pub(super) cause: Option<Cause>,
    /// A probe through the tunnel was answered since then.
    pub(super) is_proven: bool,
    /// When it was changed last.
    since: Time,
    pub(super) trial: Option<Trial>,
    /// When the next trial may begin, and the number of those without success.
    pub(super) next_trial: Time,
    unsuccessful: u32,
    /// When native encapsulation is tried again, and the number of such trials without success.
    pub(super) native_retry: Option<Time>,
    pub(super) failures: u8,
    /// Since when updates in the present encapsulation have not been answered.
    pub(super) unanswered_since: Option<Time>,
    was_repeated: bool,
    /// Since when the path has been registered without an answer to a probe through the tunnel: the other encapsulation is
    /// tried when it may be, also if the path is no longer registered by then.
    tunnel_suspected: Option<Time>,
    /// Since when the home agent has had the path.
    held_since: Option<Time>,
    /// Octets that the interface has carried, and when they were read: whether anything is disturbed by a trial.
    pub(super) carried: Option<(Time, u64)>,
    /// It was reported that updates in UDP are not answered.
    pub(super) is_reported: bool,
    /// When the counters are read again, and until when the path counts as quiet.
    pub(super) quiet_asked: Option<Time>,
    pub(super) quiet_until: Option<Time>,
}

/// An update in the other encapsulation.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) cause: Cause,
    started: Time,
    pub(super) wanted: DesiredRegistration,
    pub(super) sent: Transmission,
    pub(super) answered: Option<Time>,
    /// Until when the home agent has registered the path so: it is part of the binding if the encapsulation changes.
    pub(super) accepted: Option<Time>,
}

/// What is known of the path.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PathState {
    pub(super) round_trip: Option<Duration>,
    /// The home agent has a binding.
    pub(super) is_bound: bool,
    /// It has this path, in the present encapsulation.
    pub(super) is_held: bool,
    /// The path is probed.
    pub(super) is_probed: bool,
    pub(super) missed: u32,
    /// The tunnel is WireGuard's or ESP's, whichever encapsulation updates have.
    pub(super) is_encrypted: bool,
    pub(super) silent_since: Option<Time>,
    /// Probes pass outside the tunnel while the home agent does not have the path.
    pub(super) is_asked_outside: bool,
    /// When a probe through the tunnel was last answered.
    pub(super) last_reply: Option<Time>,
    /// When any probe was last answered.
    pub(super) last_answer: Option<Time>,
    /// Another path works.
    pub(super) has_other: bool,
    /// Whether the home agent serves UDP over IPv6, if known.
    pub(super) is_served: Option<bool>,
    /// Packets of others would be lost if a trial fails.
    pub(super) is_busy: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Repeat the update: one lost packet is no filter.
    Repeat,
    /// Send an update in the other encapsulation.
    Try(Cause),
    /// The encapsulation has changed; what a trial has registered, if it has.
    Changed(Option<(CareOf, Time)>),
    /// The present encapsulation answers after all: the home agent is to return to it.
    Refresh,
    /// Probes through the tunnel are answered, for the first time since the change.
    Proven(Cause),
}

impl UplinkTransport {
    /// The state in a network: nothing known, or as `remembered`.
    pub(super) fn enter(&mut self, now: Time, network: Option<u64>, remembered: Option<(Time, u8)>) {
        *self = UplinkTransport { network, ..UplinkTransport::default() };
        if let Some((retry, failures)) = remembered {
            (self.udp, self.cause, self.since) = (true, Some(Cause::Remembered), now);
            (self.native_retry, self.failures) = (Some(retry), failures);
        }
    }

    /// The path has a new address: what failed before may work.
    pub(super) fn restart(&mut self) {
        (self.trial, self.unanswered_since, self.tunnel_suspected) = (None, None, None);
        (self.next_trial, self.unsuccessful) = (Time::ZERO, 0);
    }

    /// An update was sent in the present encapsulation.
    pub(super) fn note_sent(&mut self, now: Time) {
        if self.unanswered_since.is_none() {
            (self.unanswered_since, self.was_repeated) = (Some(now), false);
        }
    }

    /// An update in the present encapsulation was answered. If none was for a while, trials failed for the same reason.
    pub(super) fn note_answered(&mut self) {
        if self.unanswered_since.take().is_some() && self.was_repeated {
            (self.next_trial, self.unsuccessful) = (Time::ZERO, 0);
        }
    }

    /// No update is outstanding.
    pub(super) fn note_settled(&mut self) {
        self.unanswered_since = None;
    }

    /// Another uplink's trial comes first.
    pub(super) fn wait_for_other_trial(&mut self, now: Time) {
        self.next_trial = now + TRIAL_SPACING;
    }

    /// Whether the update of a trial was just sent and is not answered.
    pub(super) fn has_fresh_trial(&self, now: Time) -> bool {
        self.trial.as_ref().is_some_and(|trial| trial.answered.is_none() && now.since(trial.started) < TRIAL_SPACING)
    }

    /// A trial begins.
    pub(super) fn begin(&mut self, now: Time, cause: Cause, (wanted, sent): (DesiredRegistration, Transmission)) {
        self.trial = Some(Trial { cause, started: now, wanted, sent, answered: None, accepted: None });
        if self.next_trial + MAX_TRIAL_PAUSE < now {
            // What failed long ago says nothing.
            self.unsuccessful = 0;
        }
        let pause = TRIAL_PAUSE.saturating_mul(1 << self.unsuccessful.min(16)).min(MAX_TRIAL_PAUSE);
        self.next_trial = now + pause;
        self.unsuccessful = self.unsuccessful.saturating_add(1);
        self.carried = None;
    }

    /// The trial could not begin.
    pub(super) fn postpone_trial(&mut self, now: Time) {
        self.next_trial = now + TRIAL_PAUSE;
    }

    /// The other encapsulation is refused: no further trial for a while.
    pub(super) fn give_up_trials(&mut self, now: Time) {
        if self.trial.take().is_some() {
            self.next_trial = now + REFUSAL_PAUSE;
        }
    }

    /// When native encapsulation is to be tried again after `failures` trials.
    pub(super) fn retry_after(failures: u8) -> Duration {
        NATIVE_RETRY.saturating_mul(1 << failures.min(16)).min(MAX_NATIVE_RETRY)
    }

    /// Native encapsulation is not tried before then.
    pub(super) fn postpone_native(&mut self, until: Time) {
        (self.native_retry, self.carried) = (Some(until), None);
    }

    fn fail_native(&mut self, now: Time) {
        self.failures = self.failures.saturating_add(1);
        self.native_retry = Some(now + UplinkTransport::retry_after(self.failures));
    }

    fn change(&mut self, now: Time, cause: Cause) {
        (self.udp, self.cause, self.is_proven, self.since) = (!self.udp, Some(cause), false, now);
        (self.trial, self.unanswered_since, self.held_since) = (None, None, None);
        self.tunnel_suspected = None;
        if cause == Cause::Signalling {
            // Whether the tunnel passes too is another question.
            (self.next_trial, self.unsuccessful) = (now, 0);
        }
    }

    /// The change has not helped.
    fn change_back(&mut self, now: Time) {
        let retried = self.cause == Some(Cause::Retry);
        self.change(now, Cause::Retry);
        self.cause = None;
        if retried {
            self.is_proven = true;
            self.fail_native(now);
        }
    }

    /// What to do now; to be asked again until there is nothing.
    pub(super) fn next(&mut self, now: Time, path: &PathState) -> Option<Step> {
        self.held_since = self.held_since.or(Some(now)).filter(|_| path.is_held);
        self.tunnel_suspected = match self.has_worked(path) {
            Some(true) => None,
            Some(false) if path.is_probed && path.missed >= MIN_MISSED => self.tunnel_suspected.or(Some(now)),
            _ => self.tunnel_suspected,
        };
        if let Some(cause) = self.notice_proof(path) {
            return Some(Step::Proven(cause));
        }
        if let Some(step) = self.follow_trial(now, path) {
            return Some(step);
        }
        if self.proof_ends(path).is_some_and(|end| end <= now) {
            self.change_back(now);
            return Some(Step::Changed(None));
        }
        if self.repeat_at(path).is_some_and(|at| at <= now) {
            self.was_repeated = true;
            return Some(Step::Repeat);
        }
        let (due, cause) = self.trial_due(path)?;
        (due <= now).then_some(Step::Try(cause))
    }

    /// When [`UplinkTransport::next`] has something to do; it may already have.
    pub(super) fn deadline(&self, path: &PathState) -> Option<Time> {
        let answered = self.trial.as_ref().and_then(|trial| trial.answered).map(|at| at + GRACE);
        let unanswered = self.trial.as_ref().map(|_| self.next_trial);
        let trial = self.trial_due(path).map(|(due, _)| due);
        [answered.or(unanswered), self.proof_ends(path), self.repeat_at(path), trial].into_iter().flatten().min()
    }

    /// The cause of the change that is now proven to work.
    fn notice_proof(&mut self, path: &PathState) -> Option<Cause> {
        let since = self.held_since.filter(|_| !self.is_proven)?;
        let replied = path.last_reply.is_some_and(|at| at >= since.max(self.since));
        if !replied && path.is_probed {
            return None;
        }
        (self.is_proven, self.unsuccessful, self.unanswered_since) = (true, 0, None);
        self.cause
    }

    /// Whether a reply at this time may have come in the encapsulation under trial: the home agent uses that of the last
    /// update, and a network may drop the present one in one direction only. The first time it is taken for the end of an
    /// outage.
    fn is_ambiguous(&self, trial: &Trial, reply: Time) -> bool {
        self.unsuccessful > 1 && trial.answered.is_some_and(|answered| reply > answered)
    }

    fn follow_trial(&mut self, now: Time, path: &PathState) -> Option<Step> {
        let trial = self.trial.as_ref()?;
        let present_answers = match trial.cause {
            Cause::Signalling => self.unanswered_since.is_none() || self.udp && path.last_reply > Some(trial.started),
            Cause::Tunnel => path.last_reply.is_some_and(|at| at > trial.started && !self.is_ambiguous(trial, at)),
            Cause::Silence | Cause::Remembered => path.last_answer.is_some_and(|at| at > trial.started),
            Cause::Retry => false,
        };
        if present_answers {
            if trial.answered.is_some() {
                self.next_trial = now + AMBIGUOUS_PAUSE;
            }
            self.trial = None;
            return Some(Step::Refresh);
        }
        let (cause, accepted) = (trial.cause, trial.wanted.first_visited().copied().zip(trial.accepted));
        if trial.answered.is_some_and(|at| at + GRACE <= now) {
            self.change(now, cause);
            return Some(Step::Changed(accepted));
        }
        if trial.answered.is_none() && self.next_trial <= now {
            self.trial = None;
            if cause == Cause::Retry {
                self.fail_native(now);
            }
        }
        None
    }

    /// Until when probes through the tunnel have to be answered after a change. Where updates were not answered either, or
    /// were not at an earlier visit, the change stays until a trial is answered.
    fn proof_ends(&self, path: &PathState) -> Option<Time> {
        let cause = self.cause.filter(|_| !self.is_proven && path.is_probed && self.trial.is_none())?;
        let time = match (cause, self.udp) {
            (Cause::Signalling | Cause::Remembered, _) => return None,
            (Cause::Retry, _) => NATIVE_PROOF_TIME,
            _ => PROOF_TIME.max(path.round_trip.unwrap_or_default() * 4),
        };
        (path.missed >= MIN_MISSED).then_some(self.held_since? + time)
    }

    fn repeat_after(path: &PathState) -> Duration {
        let known = path.round_trip.map(|time| (time * 2).max(MIN_REPEAT_AFTER));
        known.unwrap_or(REPEAT_AFTER) + if path.is_bound { Duration::ZERO } else { FIRST_REGISTRATION }
    }

    fn may_try(&self, path: &PathState) -> bool {
        self.trial.is_none() && (self.udp || path.is_served != Some(false))
    }

    fn repeat_at(&self, path: &PathState) -> Option<Time> {
        let since = self.unanswered_since.filter(|_| !self.was_repeated && self.may_try(path))?;
        Some((since + UplinkTransport::repeat_after(path)).max(self.next_trial))
    }

    /// Whether a probe through the tunnel was answered since the home agent has had the path; `None` if it has not.
    fn has_worked(&self, path: &PathState) -> Option<bool> {
        let since = self.held_since?;
        Some(path.last_reply.is_some_and(|last| last >= since))
    }

    /// When a trial begins, and why.
    fn trial_due(&self, path: &PathState) -> Option<(Time, Cause)> {
        if !self.may_try(path) {
            return None;
        }
        let patience = TRY_AFTER.max(path.round_trip.unwrap_or_default() * 3 / 2);
        // Where a tunnel in UDP passes, so does signalling: the home agent does not answer.
        let passes = |since: &Time| self.udp && path.last_reply > Some(*since);
        let signalling = self.unanswered_since.filter(|since| self.was_repeated && !passes(since));
        let signalling = signalling.map(|since| since + UplinkTransport::repeat_after(path) + patience);
        let served = path.is_served == Some(true);
        let tunnel = match self.has_worked(path) {
            Some(true) => path.silent_since,
            Some(false) => {
                let wait = TUNNEL_PATIENCE.max(path.round_trip.unwrap_or_default() * 3);
                self.held_since.map(|since| since + wait)
            }
            None => self.tunnel_suspected.filter(|since| !path.is_asked_outside || path.last_answer > Some(*since)),
        };
        let missed = path.is_probed && path.missed >= MIN_MISSED;
        let tunnel = tunnel.filter(|_| served && !path.is_encrypted && (missed || !path.is_held));
        let silence = path.silent_since.filter(|_| served && !path.is_held && path.has_other);
        let silence = silence.filter(|_| !self.udp);
        let retry = self.native_retry.filter(|_| self.udp && self.is_proven && !path.is_busy);
        let causes = [
            (signalling, Cause::Signalling),
            (tunnel, Cause::Tunnel),
            (silence, Cause::Silence),
            (retry, Cause::Retry),
        ];
        let due = causes.into_iter().filter_map(|(due, cause)| Some((due?.max(self.next_trial), cause)));
        due.min_by_key(|(due, _)| *due)
    }
}
