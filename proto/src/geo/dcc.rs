//! Decentralised congestion control (DCC) of one radio channel: the reactive approach of ETSI TS 102 687 V1.2.1 §5.3 with
//! the parameters of table A.1, and the gate that it controls, with a queue for each DCC profile.
//!
//! The channel busy ratio selects one of five states; a state is entered from its neighbours only. Each has a least time
//! between two frames of this station (T_off). The gate passes the waiting frame with the most urgent profile: traffic
//! classes 0, 1 and 2 have DP0, DP1 and DP2, all others DP3 (TS 102 636-4-2).

use crate::base::time::Time;
use crate::contract::input::Frame;
use crate::contract::view::{ChannelView, CongestionState};
use core::time::Duration;
use roam6_wire::geo::{Lifetime, traffic_class_of};
use std::collections::VecDeque;

/// Frames that wait in the queue of a profile. The oldest is dropped for a new one: its content is the most outdated.
pub const QUEUE_LENGTH: usize = 8;
/// The longest wait, if the lifetime of a packet is not shorter: twice the longest T_off.
pub const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// A state: the channel busy ratio from which on it applies, per mille, and T_off in milliseconds.
struct Level {
    state: CongestionState,
    busy_from: u16,
    t_off: u64,
}

/// Table A.1, for frames of up to 1 ms.
static LEVELS: [Level; 5] = [
    RELAXED,
    Level { state: CongestionState::Active1, busy_from: 300, t_off: 200 },
    Level { state: CongestionState::Active2, busy_from: 400, t_off: 400 },
    Level { state: CongestionState::Active3, busy_from: 500, t_off: 500 },
    Level { state: CongestionState::Restrictive, busy_from: 600, t_off: 1000 },
];

const RELAXED: Level = Level { state: CongestionState::Relaxed, busy_from: 0, t_off: 100 };

/// Congestion control of one channel.
#[derive(Debug)]
pub struct ReactiveDcc {
    /// Whether the interval of the relaxed state applies.
    is_limited_when_relaxed: bool,
    /// Index of the state.
    level: usize,
    /// The last measurement of the channel busy ratio, per mille.
    last: Option<u16>,
    /// The mean of the last two.
    busy: Option<u16>,
    last_sent: Option<Time>,
    /// The frames of DP0 to DP3, the oldest first.
    queues: [VecDeque<WaitingFrame>; 4],
    sent: u64,
    delayed: u64,
    dropped: u64,
}

#[derive(Debug)]
struct WaitingFrame {
    frame: Frame,
    until: Time,
}

impl ReactiveDcc {
    /// Before the first measurement. Where the relaxed state has no limit, this station may fill the channel until it is busy.
    pub fn new(is_limited_when_relaxed: bool) -> ReactiveDcc {
        ReactiveDcc {
            is_limited_when_relaxed,
            level: 0,
            last: None,
            busy: None,
            last_sent: None,
            queues: Default::default(),
            sent: 0,
            delayed: 0,
            dropped: 0,
        }
    }

    /// Records a measurement of the channel busy ratio, per mille; returns whether the state has changed.
    pub fn measure(&mut self, ratio: u16) -> bool {
        let busy = self.last.map_or(ratio, |last| last.midpoint(ratio));
        (self.last, self.busy) = (Some(ratio), Some(busy));
        let target = LEVELS.iter().filter(|level| level.busy_from <= busy).count().saturating_sub(1);
        let before = self.level;
        self.level = target.clamp(before.saturating_sub(1), before + 1);
        self.level != before
    }

    fn present(&self) -> &'static Level {
        static FIRST: Level = RELAXED;
        LEVELS.get(self.level).unwrap_or(&FIRST)
    }

    /// The state.
    pub fn state(&self) -> CongestionState {
        self.present().state.clone()
    }

    /// T_off; zero without a limit.
    pub fn interval(&self) -> Duration {
        if self.level == 0 && !self.is_limited_when_relaxed {
            return Duration::ZERO;
        }
        Duration::from_millis(self.present().t_off)
    }

    /// The channel busy ratio, per mille; 0 before the first measurement.
    pub fn busy(&self) -> u16 {
        self.busy.unwrap_or_default()
    }

    /// When the gate opens; in the past if it is open.
    fn opens_at(&self) -> Time {
        self.last_sent.map_or(Time::ZERO, |sent| sent + self.interval())
    }

    /// Queues a frame; returns whether another was dropped for it.
    pub fn put(&mut self, now: Time, frame: Frame) -> bool {
        let profile = traffic_class_of(&frame.bytes).map_or(3, |class| class.id().min(3));
        // The lifetime is the third octet of a Basic Header.
        let lifetime = frame.bytes.get(2).map_or(LONGEST_WAIT, |octet| Lifetime(*octet).duration());
        let until = now + lifetime.min(LONGEST_WAIT);
        self.delayed += u64::from(self.opens_at() > now);
        let [dp0, dp1, dp2, dp3] = &mut self.queues;
        let queue = match profile {
            0 => dp0,
            1 => dp1,
            2 => dp2,
            _ => dp3,
        };
        queue.push_back(WaitingFrame { frame, until });
        let is_full = queue.len() > QUEUE_LENGTH;
        if is_full {
            queue.pop_front();
            self.dropped += 1;
        }
        is_full
    }

    /// Drops the frames that have waited too long; returns their number.
    pub fn drop_expired(&mut self, now: Time) -> usize {
        let before = self.queued();
        self.queues.iter_mut().for_each(|queue| queue.retain(|waiting| waiting.until > now));
        let dropped = before - self.queued();
        self.dropped += dropped as u64;
        dropped
    }

    /// Drops the frames that wait and are not wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(&Frame) -> bool) {
        let before = self.queued();
        self.queues.iter_mut().for_each(|queue| queue.retain(|waiting| is_wanted(&waiting.frame)));
        self.dropped += (before - self.queued()) as u64;
    }

    /// The frame that is sent now, if the gate is open.
    pub fn take(&mut self, now: Time) -> Option<Frame> {
        if self.opens_at() > now {
            return None;
        }
        let waiting = self.queues.iter_mut().find_map(VecDeque::pop_front)?;
        self.last_sent = Some(now);
        self.sent += 1;
        Some(waiting.frame)
    }

    /// Frames that wait.
    pub fn queued(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// When the gate opens for a waiting frame.
    pub fn deadline(&self) -> Option<Time> {
        (self.queued() > 0).then(|| self.opens_at())
    }

    /// The row of the channel.
    pub fn view(&self, link: &str) -> ChannelView {
        ChannelView {
            link: link.to_owned(),
            busy: self.busy,
            state: self.state(),
            interval: self.interval(),
            queued: self.queued(),
            sent: self.sent,
            delayed: self.delayed,
            dropped: self.dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkId;
    use roam6_wire::LinkAddress;
    use roam6_wire::geo::{ETHERTYPE, TrafficClass};

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// A frame with this traffic class and lifetime; `number` tells it from others.
    fn frame(class: u8, lifetime: Duration, number: u8) -> Frame {
        let bytes = vec![0x11, 0, Lifetime::of(lifetime).0, 1, 0x20, 0x50, TrafficClass(class).0, 0x80, number];
        let address = LinkAddress([2, 0, 0, 0, 0, 1]);
        Frame { link: LinkId(1), source: address, destination: address, ethertype: ETHERTYPE, bytes }
    }

    fn number(frame: &Frame) -> u8 {
        *frame.bytes.last().unwrap()
    }

    #[test]
    fn a_state_is_entered_from_its_neighbours_only() {
        use CongestionState::{Active1, Active2, Active3, Relaxed, Restrictive};
        let mut dcc = ReactiveDcc::new(true);
        let mut states = Vec::new();
        for ratio in [900, 900, 900, 900, 900, 0, 0, 0, 0, 0, 0] {
            dcc.measure(ratio);
            states.push(dcc.state());
        }
        // 450 per mille is the mean after the first measurement of 0.
        let falls = [Active3, Active2, Active1, Relaxed, Relaxed, Relaxed];
        assert_eq!(states, [&[Active1, Active2, Active3, Restrictive, Restrictive][..], &falls].concat());
    }

    #[test]
    fn the_ratio_selects_the_interval_of_table_a1() {
        for (ratio, t_off) in [
            (0, 100),
            (299, 100),
            (300, 200),
            (399, 200),
            (400, 400),
            (500, 500),
            (599, 500),
            (600, 1000),
            (1000, 1000),
        ] {
            let mut dcc = ReactiveDcc::new(true);
            (0..10).for_each(|_| {
                dcc.measure(ratio);
            });
            assert_eq!(dcc.interval(), Duration::from_millis(t_off), "{ratio}");
        }
    }

    #[test]
    fn the_relaxed_state_may_be_without_a_limit() {
        let mut dcc = ReactiveDcc::new(false);
        for number in 0..50 {
            dcc.put(at(0), frame(2, Duration::from_secs(60), number));
            assert!(dcc.take(at(0)).is_some(), "{number}");
        }
        dcc.measure(300);
        assert_eq!(dcc.interval(), Duration::from_millis(200));
        dcc.put(at(0), frame(2, Duration::from_secs(60), 50));
        assert!(dcc.take(at(199)).is_none() && dcc.take(at(200)).is_some());
        dcc.measure(0);
        assert_eq!((dcc.state(), dcc.interval()), (CongestionState::Relaxed, Duration::ZERO));
    }

    #[test]
    fn frames_keep_the_interval_and_urgent_ones_pass_first() {
        let mut dcc = ReactiveDcc::new(true);
        let long = Duration::from_secs(60);
        for (class, number) in [(3, 1), (2, 2), (0, 3), (1, 4), (9, 5)] {
            assert!(!dcc.put(at(0), frame(class, long, number)));
        }
        let mut sent = Vec::new();
        for millis in 0..500 {
            while let Some(frame) = dcc.take(at(millis)) {
                sent.push((millis, number(&frame)));
            }
        }
        assert_eq!(sent, [(0, 3), (100, 4), (200, 2), (300, 1), (400, 5)]);
        assert_eq!(dcc.deadline(), None);
        dcc.put(at(420), frame(2, long, 6));
        assert_eq!(dcc.deadline(), Some(at(500)));
    }

    #[test]
    fn queues_are_bounded_and_keep_the_newest() {
        let mut dcc = ReactiveDcc::new(true);
        let long = Duration::from_secs(60);
        let dropped = (0..100).filter(|number| dcc.put(at(0), frame(2, long, *number))).count();
        assert_eq!((dcc.queued(), dropped), (QUEUE_LENGTH, 100 - QUEUE_LENGTH));
        assert_eq!(dcc.take(at(0)).as_ref().map(number), Some(92));
        let view = dcc.view("wlan0");
        assert_eq!((view.queued, view.sent, view.dropped), (QUEUE_LENGTH - 1, 1, 92));
    }

    #[test]
    fn no_frame_outlives_its_packet_or_the_longest_wait() {
        let mut dcc = ReactiveDcc::new(true);
        dcc.put(at(0), frame(3, Duration::from_millis(150), 1));
        dcc.put(at(0), frame(3, Duration::from_secs(600), 2));
        assert_eq!(dcc.drop_expired(at(149)), 0);
        assert_eq!(dcc.drop_expired(at(150)), 1);
        assert_eq!(dcc.drop_expired(at(1_999)), 0);
        assert_eq!(dcc.drop_expired(at(2_000)), 1);
        assert_eq!((dcc.queued(), dcc.view("wlan0").dropped), (0, 2));
    }

    #[test]
    fn octets_that_are_no_packet_have_the_last_profile() {
        let mut dcc = ReactiveDcc::new(true);
        for length in 0..9 {
            let mut short = frame(0, Duration::from_secs(60), 0);
            short.bytes.truncate(length);
            dcc.put(at(0), short);
        }
        assert_eq!(dcc.queued(), QUEUE_LENGTH + 1, "two are long enough for a class: DP0");
    }
}
