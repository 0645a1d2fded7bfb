//! The state of this member: from its own heartbeats, which prove that the store takes writes and that its changes arrive,
//! and from the clocks of the others. Pure: every change of the state is returned, with its reason.

use crate::Time;
use crate::contract::fleet::{MemberRecord, MemberState};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

/// How long a heartbeat proves that the store works: two may be late.
const FRESH: Duration = Duration::from_millis(1000);
/// Heartbeats in a row that make a member healthy.
const STREAK: u8 = 3;
/// Time without announcements at the end of draining, in which packets on their way arrive.
const LAST_PACKETS: Duration = Duration::from_secs(1);
/// Heartbeats of another member that its clock is judged by: the one with the least delay counts.
const CLOCK_SAMPLES: usize = 10;
/// Time that a member which starts waits for the store, before it serves by its copy.
const COPY_PATIENCE: Duration = Duration::from_secs(3);
/// Maximum other members.
pub(super) const MAX_MEMBERS: usize = 64;

/// The state of this member, and what it depends on.
#[derive(Debug)]
pub(super) struct Membership {
    drain: Duration,
    max_skew: Duration,
    state: MemberState,
    since: Time,
    why: String,
    /// Heartbeats in a row.
    streak: u8,
    /// Until when the last heartbeat proves that the store works.
    fresh_until: Time,
    /// What is known of the store is complete as of some revision.
    complete: bool,
    /// Since when the store does not work.
    lost: Option<Time>,
    /// When the copy on disk was given in place of the store.
    copied: Option<Time>,
    /// The present fault of the store.
    fault: Option<String>,
    others: BTreeMap<String, Other>,
}

/// Another member.
#[derive(Debug)]
pub(super) struct Other {
    /// Its last heartbeat.
    pub record: MemberRecord,
    /// When that came.
    pub seen: Time,
    /// By how much the clock here was ahead at each heartbeat, microseconds, delays included.
    ahead: VecDeque<i64>,
    /// Its clock differs by more than is allowed, and that was reported.
    is_skewed: bool,
}

impl Other {
    /// By how much the clock here is ahead, microseconds.
    pub(super) fn skew(&self) -> i64 {
        self.ahead.iter().copied().min().unwrap_or_default()
    }
}

/// What the heartbeat of another member changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// The member was not known.
    pub joined: bool,
    /// Its clock began to differ by more than is allowed, by so many microseconds.
    pub skewed: Option<i64>,
}

impl Membership {
    pub(super) fn new(drain: Duration, max_skew: Duration) -> Membership {
        Membership {
            drain,
            max_skew,
            state: MemberState::Joining,
            since: Time::ZERO,
            why: "started".to_owned(),
            streak: 0,
            fresh_until: Time::ZERO,
            complete: false,
            lost: None,
            copied: None,
            fault: None,
            others: BTreeMap::new(),
        }
    }

    pub(super) fn state(&self) -> MemberState {
        self.state
    }

    pub(super) fn why(&self) -> &str {
        &self.why
    }

    pub(super) fn since(&self) -> Time {
        self.since
    }

    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    pub(super) fn others(&self) -> impl Iterator<Item = (&String, &Other)> {
        self.others.iter()
    }

    /// Whether updates are processed.
    pub(super) fn serves(&self) -> bool {
        matches!(self.state, MemberState::Healthy | MemberState::Draining)
    }

    /// Whether bindings may end here: others may have extended them, unless the store works.
    pub(super) fn knows_ends(&self, now: Time, max_lifetime: Duration) -> bool {
        self.serves() || now.since(self.lost.unwrap_or(self.since)) >= max_lifetime
    }

    /// Whether prefixes are announced, and if so, whether with the better metric.
    pub(super) fn announces(&self, now: Time) -> Option<bool> {
        match self.state {
            MemberState::Healthy => Some(true),
            MemberState::Degraded => Some(false),
            MemberState::Draining => Some(false).filter(|_| now < self.since + self.drain),
            MemberState::Joining | MemberState::Gone => None,
        }
    }

    /// The member that tidies a home address: the one with the highest hash among those that serve.
    pub(super) fn tidier<'a>(&'a self, own: &'a str, home: &[u8]) -> Option<&'a str> {
        let serving = |state| matches!(state, MemberState::Healthy | MemberState::Draining);
        let others = self.others.iter().filter(|(_, other)| serving(other.record.state)).map(|(name, _)| name.as_str());
        let own = Some(own).filter(|_| self.state == MemberState::Healthy);
        others.chain(own).max_by_key(|name| (hash(home, name.as_bytes()), *name))
    }

    /// A heartbeat of this member came back, so long after it was written.
    pub(super) fn heartbeat(&mut self, now: Time, age: Duration) {
        if age >= FRESH {
            self.streak = 0;
            return;
        }
        self.streak = self.streak.saturating_add(1);
        self.fresh_until = self.fresh_until.max(now + FRESH - age);
    }

    /// What is known of the store is complete, or not.
    pub(super) fn set_complete(&mut self, complete: bool) {
        self.complete = complete;
    }

    /// The store answers; returns for how long it did not.
    pub(super) fn connected(&mut self, now: Time) -> Option<Duration> {
        (self.fault, self.copied) = (None, None);
        self.lost.map(|lost| now.since(lost))
    }

    /// The copy on disk was given, because the store does not answer.
    pub(super) fn copied(&mut self, now: Time) {
        self.copied = Some(now);
    }

    /// When this member serves by its copy, if the store does not answer before.
    fn copy_serves_at(&self) -> Option<Time> {
        self.copied.map(|copied| copied + COPY_PATIENCE)
    }

    /// The store cannot be used.
    pub(super) fn lose(&mut self, now: Time, why: String) {
        self.fault = Some(why);
        self.streak = 0;
        self.fresh_until = now;
        self.lost.get_or_insert(now);
    }

    /// A heartbeat of another member; `None` if there are too many.
    pub(super) fn hear(&mut self, now: Time, unix_now: u64, record: &MemberRecord) -> Option<Heard> {
        let joined = !self.others.contains_key(&record.name);
        if joined && self.others.len() >= MAX_MEMBERS {
            return None;
        }
        let other = self.others.entry(record.name.clone()).or_insert_with(|| Other {
            record: record.clone(),
            seen: now,
            ahead: VecDeque::new(),
            is_skewed: false,
        });
        (other.record, other.seen) = (record.clone(), now);
        if other.ahead.len() >= CLOCK_SAMPLES {
            other.ahead.pop_front();
        }
        other.ahead.push_back(unix_now.wrapping_sub(record.unix_micros).cast_signed());
        let skew = other.skew();
        let is_skewed = exceeds(skew, self.max_skew);
        let skewed = Some(skew).filter(|_| is_skewed && !other.is_skewed);
        other.is_skewed = is_skewed;
        Some(Heard { joined, skewed })
    }

    /// Another member is gone; returns whether it was known.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.others.remove(name).is_some()
    }

    /// Whether the clock here is the wrong one: the median member is right. Of two, nobody can tell.
    fn is_skewed(&self) -> bool {
        let mut clocks: Vec<i64> = self.others.values().map(Other::skew).chain([0]).collect();
        clocks.sort_unstable();
        let high = clocks.get(clocks.len() / 2).copied().unwrap_or_default();
        let low = clocks.get(clocks.len().saturating_sub(1) / 2).copied().unwrap_or_default();
        exceeds(high, self.max_skew) && exceeds(low, self.max_skew)
    }

    /// Hands over to the others.
    pub(super) fn drain(&mut self, now: Time) -> Option<(MemberState, MemberState)> {
        match self.state {
            MemberState::Healthy | MemberState::Degraded => {
                Some(self.change(now, MemberState::Draining, "hands over to the others"))
            }
            MemberState::Joining => Some(self.change(now, MemberState::Gone, "was not announced")),
            MemberState::Draining | MemberState::Gone => None,
        }
    }

    /// Joins again.
    pub(super) fn restore(&mut self, now: Time) -> Option<(MemberState, MemberState)> {
        let handed_over = matches!(self.state, MemberState::Draining | MemberState::Gone);
        handed_over.then(|| {
            self.streak = 0;
            self.change(now, MemberState::Joining, "restored by the operator")
        })
    }

    /// The next change of the state that is due. `settled`: the host has answered for all items.
    pub(super) fn step(&mut self, now: Time, settled: bool) -> Option<(MemberState, MemberState)> {
        let (fresh, skewed) = (now < self.fresh_until, self.is_skewed());
        if !fresh {
            self.streak = 0;
        }
        let usable = fresh && self.complete && self.streak >= STREAK && !skewed;
        let drained = self.since + self.drain + LAST_PACKETS;
        match self.state {
            MemberState::Joining if usable && settled => {
                self.lost = None;
                Some(self.change(now, MemberState::Healthy, "knows all bindings"))
            }
            MemberState::Joining if settled && self.copy_serves_at().is_some_and(|at| now >= at) => {
                self.lost.get_or_insert(now);
                Some(self.change(now, MemberState::Degraded, "the store does not answer: serves by its copy"))
            }
            MemberState::Degraded if usable => {
                self.lost = None;
                Some(self.change(now, MemberState::Healthy, "the store works again"))
            }
            MemberState::Healthy if !fresh || skewed => {
                self.lost.get_or_insert(now);
                let fault = self.fault.clone().unwrap_or_else(|| "its heartbeats do not come back".to_owned());
                let why = if skewed { "its clock is wrong" } else { fault.as_str() };
                Some(self.change(now, MemberState::Degraded, why))
            }
            MemberState::Draining if now >= drained => Some(self.change(now, MemberState::Gone, "has handed over")),
            _ => None,
        }
    }

    fn change(&mut self, now: Time, to: MemberState, why: &str) -> (MemberState, MemberState) {
        (self.since, self.why) = (now, why.to_owned());
        (core::mem::replace(&mut self.state, to), to)
    }

    /// When [`Membership::step`] or [`Membership::announces`] may return something else, if nothing happens.
    pub(super) fn deadline(&self, now: Time) -> Option<Time> {
        match self.state {
            MemberState::Healthy => Some(self.fresh_until),
            MemberState::Draining if now < self.since + self.drain => Some(self.since + self.drain),
            MemberState::Draining => Some(self.since + self.drain + LAST_PACKETS),
            MemberState::Joining => self.copy_serves_at().filter(|at| *at > now),
            MemberState::Degraded | MemberState::Gone => None,
        }
    }
}

fn exceeds(skew: i64, most: Duration) -> bool {
    u128::from(skew.unsigned_abs()) > most.as_micros()
}

/// FNV-1a of 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn hash(home: &[u8], name: &[u8]) -> u64 {
    let mix = |hash: u64, octet: &u8| (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
    home.iter().chain(name).fold(0xcbf2_9ce4_8422_2325, mix)
}
