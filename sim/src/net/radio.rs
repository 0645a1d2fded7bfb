//! The radio medium, one model for the simulator and for network namespaces: which stations receive a frame, and when.
//!
//! Stations move along tracks. A frame reaches each station in range when its last bit is sent, with independent loss.
//! Stations in range of one another share the channel: a sender waits until it is idle, and for a random backoff. A
//! unicast frame is retransmitted until it is acknowledged or the retry limit is reached, as in 802.11; a broadcast is
//! sent once. With [`ChannelAccess::collisions`] frames that overlap at a receiver are lost: those whose backoffs end in the
//! same slot, and those of senders that do not receive one another (hidden stations).

mod spec;

pub use spec::{ChannelAccess, RadioSpec};

use crate::net::track::{Track, Velocity, distance};
use core::time::Duration;
use roam6_proto::geo::geometry::Offset;
use roam6_proto::{Entropy, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A station on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StationId(pub u32);

/// The destination of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Every station in range.
    Broadcast,
    /// One station; `None` for an address without a station, which never acknowledges.
    Unicast(Option<StationId>),
}

/// A received frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Reception<F> {
    /// When.
    pub at: Time,
    /// The sender.
    pub from: StationId,
    /// The receivers; one that received the frame twice is listed twice. May be empty.
    pub receivers: Vec<StationId>,
    /// The frame.
    pub frame: F,
}

/// The medium and its frames.
#[derive(Debug)]
pub struct Radio<F> {
    spec: RadioSpec,
    entropy: Entropy,
    stations: BTreeMap<StationId, Station<F>>,
    /// Senders by the time of their channel access; the one that waits longest is first.
    channel_access: BTreeSet<(Time, u64, StationId)>,
    /// Frames in transmission, by their end.
    transmissions: BTreeMap<(Time, u64), (StationId, Waiting<F>)>,
    /// Transmissions that may overlap one that has not ended: sender, begin and end. Empty without collisions.
    on_air: Vec<(StationId, Time, Time)>,
    /// Sequence number of channel accesses and frames.
    count: u64,
}

#[derive(Debug)]
struct Station<F> {
    track: Track,
    queue: VecDeque<Waiting<F>>,
    octets: usize,
    /// Until when the station senses or uses the channel.
    busy_until: Time,
    /// When the last transmission that it senses began.
    busy_since: Option<Time>,
    /// Whether a channel access is scheduled, or a frame in transmission.
    active: bool,
}

#[derive(Debug)]
struct Waiting<F> {
    frame: F,
    size: usize,
    audience: Audience,
    tries: u8,
}

impl<F> Radio<F> {
    /// A medium with these properties; random choices follow from `seed`.
    pub fn new(spec: RadioSpec, seed: u64) -> Radio<F> {
        Radio {
            spec,
            entropy: Entropy::seed_from_u64(seed),
            stations: BTreeMap::new(),
            channel_access: BTreeSet::new(),
            transmissions: BTreeMap::new(),
            on_air: Vec::new(),
            count: 0,
        }
    }

    /// The properties of the medium.
    pub fn spec(&self) -> RadioSpec {
        self.spec
    }

    /// Changes the properties of the medium.
    pub fn set_spec(&mut self, spec: RadioSpec) {
        self.spec = spec;
    }

    /// Adds a station, or changes its track.
    pub fn put(&mut self, id: StationId, track: Track) {
        match self.stations.get_mut(&id) {
            Some(station) => station.track = track,
            None => {
                let (queue, busy_until) = (VecDeque::new(), Time::ZERO);
                let station = Station { track, queue, octets: 0, busy_until, busy_since: None, active: false };
                self.stations.insert(id, station);
            }
        }
    }

    /// Removes a station and its queue.
    pub fn drop(&mut self, id: StationId) {
        self.stations.remove(&id);
        self.channel_access.retain(|(_, _, turn)| *turn != id);
        self.transmissions.retain(|_, (from, _)| *from != id);
    }

    /// The place of a station.
    pub fn place(&self, id: StationId, now: Time) -> Option<Offset> {
        self.stations.get(&id).map(|station| station.track.at(now))
    }

    /// The motion of a station.
    pub fn motion(&self, id: StationId, now: Time) -> Option<Velocity> {
        self.stations.get(&id).map(|station| station.track.motion(now))
    }

    /// The stations and their places.
    pub fn places(&self, now: Time) -> impl Iterator<Item = (StationId, Offset)> {
        self.stations.iter().map(move |(id, station)| (*id, station.track.at(now)))
    }

    /// Queues a frame of `size` octets at a station; `false` if its queue is full.
    ///
    /// `now` never goes backwards.
    pub fn offer(&mut self, now: Time, from: StationId, audience: Audience, size: usize, frame: F) -> bool {
        let Some(station) = self.stations.get_mut(&from) else { return false };
        if !station.queue.is_empty() && station.octets.saturating_add(size) > self.spec.queue_bytes {
            return false;
        }
        station.octets = station.octets.saturating_add(size);
        station.queue.push_back(Waiting { frame, size, audience, tries: 0 });
        let (idle, is_busy) = (!station.active, station.busy_until > now);
        if idle {
            self.schedule_access(from, now, is_busy);
        }
        true
    }

    /// When the next event is due.
    pub fn deadline(&self) -> Option<Time> {
        let turn = self.channel_access.first().map(|(at, ..)| *at);
        let end = self.transmissions.first_key_value().map(|((at, _), _)| *at);
        [turn, end].into_iter().flatten().min()
    }

    /// Handles events that are due, and returns the earliest frame received by `now`.
    pub fn expire(&mut self, now: Time) -> Option<Reception<F>> {
        loop {
            let turn = self.channel_access.first().copied().filter(|(at, ..)| *at <= now);
            let end = self.transmissions.first_key_value().map(|(key, _)| *key).filter(|(at, _)| *at <= now);
            match (turn, end) {
                (Some((at, number, id)), end) if end.is_none_or(|(ends, _)| at < ends) => {
                    self.channel_access.remove(&(at, number, id));
                    self.begin_transmission(at, id);
                }
                (_, Some(key)) => {
                    let reception = self
                        .transmissions
                        .remove(&key)
                        .and_then(|(from, sent)| self.end_transmission(key.0, from, sent));
                    if reception.is_some() {
                        return reception;
                    }
                }
                _ => return None,
            }
        }
    }

    /// Schedules the channel access of a station: when the channel is idle, after a random backoff if it was busy or
    /// the station has just sent.
    fn schedule_access(&mut self, id: StationId, now: Time, polite: bool) {
        let Some(station) = self.stations.get_mut(&id) else { return };
        station.active = true;
        let ChannelAccess { slot, window: (first, most), .. } = self.spec.access;
        let tries = station.queue.front().map_or(0, |waiting| u32::from(waiting.tries));
        let window = first.saturating_mul(1_u64.checked_shl(tries).unwrap_or(u64::MAX)).min(most).max(1);
        let slots = if polite { u32::try_from(self.entropy.below(window)).unwrap_or(0) } else { 0 };
        self.count += 1;
        self.channel_access.insert((station.busy_until.max(now) + slot * slots, self.count, id));
    }

    fn begin_transmission(&mut self, at: Time, id: StationId) {
        let Some(station) = self.stations.get_mut(&id) else { return };
        // A transmission that begins in the same slot is not sensed.
        let is_same_slot = self.spec.access.collisions && station.busy_since == Some(at);
        if station.busy_until > at && !is_same_slot {
            return self.schedule_access(id, at, true);
        }
        let Some(waiting) = station.queue.pop_front() else {
            station.active = false;
            return;
        };
        station.octets = station.octets.saturating_sub(waiting.size);
        let end = at + self.spec.airtime(waiting.size);
        if end > at {
            let is_unicast = matches!(waiting.audience, Audience::Unicast(_));
            let acknowledged = if is_unicast { self.spec.access.acknowledgement } else { Duration::ZERO };
            self.mark_busy(at, id, end + acknowledged);
            if self.spec.access.collisions {
                self.on_air.push((id, at, end));
            }
        }
        self.count += 1;
        self.transmissions.insert((end, self.count), (id, waiting));
    }

    /// Marks the channel busy at the stations in range.
    fn mark_busy(&mut self, at: Time, from: StationId, end: Time) {
        let Some(origin) = self.place(from, at) else { return };
        for station in self.stations.values_mut() {
            if distance(origin, station.track.at(at)) <= self.spec.range {
                station.busy_until = station.busy_until.max(end);
                station.busy_since = Some(at);
            }
        }
    }

    fn end_transmission(&mut self, at: Time, from: StationId, sent: Waiting<F>) -> Option<Reception<F>> {
        let origin = self.place(from, at)?;
        let mut by = match sent.audience {
            Audience::Broadcast => self.broadcast_receivers(at, from, origin),
            Audience::Unicast(to) => self.unicast_receiver(at, to, origin),
        };
        let began =
            self.on_air.iter().find(|(sender, _, end)| (*sender, *end) == (from, at)).map(|(_, began, _)| *began);
        if let Some(began) = began {
            by.retain(|id| !self.is_disturbed(*id, from, (began, at)));
            self.forget_ended(at);
        }
        let again = matches!(sent.audience, Audience::Unicast(_)) && by.is_empty() && sent.tries < self.spec.retries;
        let station = self.stations.get_mut(&from)?;
        let arrived = if again {
            station.octets = station.octets.saturating_add(sent.size);
            station.queue.push_front(Waiting { tries: sent.tries + 1, ..sent });
            None
        } else {
            Some(Reception { at, from, receivers: by, frame: sent.frame })
        };
        station.active = !station.queue.is_empty();
        if station.active {
            self.schedule_access(from, at, self.spec.rate_bps.is_some());
        }
        arrived
    }

    fn broadcast_receivers(&mut self, at: Time, from: StationId, origin: Offset) -> Vec<StationId> {
        let RadioSpec { range, .. } = self.spec;
        let others = self.stations.iter().filter(|(id, _)| **id != from);
        let distances = others.map(|(id, station)| (*id, distance(origin, station.track.at(at))));
        let near: Vec<(StationId, f64)> = distances.filter(|(_, metres)| *metres <= range).collect();
        near.into_iter().filter(|(_, metres)| self.is_received(*metres)).map(|(id, _)| id).collect()
    }

    fn unicast_receiver(&mut self, at: Time, to: Option<StationId>, origin: Offset) -> Vec<StationId> {
        let there = to.and_then(|to| Some((to, distance(origin, self.place(to, at)?))));
        match there {
            Some((to, metres)) if self.is_received(metres) => {
                if self.chance(self.spec.duplicate) {
                    vec![to, to]
                } else {
                    vec![to]
                }
            }
            _ => Vec::new(),
        }
    }

    /// Whether a receiver is in range of another transmission than that of `from` in this time, or transmits itself.
    fn is_disturbed(&self, receiver: StationId, from: StationId, (begin, end): (Time, Time)) -> bool {
        let Some(here) = self.place(receiver, end) else { return true };
        self.on_air.iter().filter(|(sender, ..)| *sender != from).any(|(sender, began, ended)| {
            *began < end
                && *ended > begin
                && self.place(*sender, end).is_some_and(|there| distance(there, here) <= self.spec.range)
        })
    }

    /// Forgets transmissions that ended before those still on the air began.
    fn forget_ended(&mut self, now: Time) {
        let oldest = self.on_air.iter().filter(|(.., end)| *end > now).map(|(_, begin, _)| *begin).min();
        // Those that end now may belong to the same collision.
        self.on_air.retain(|(.., end)| *end >= oldest.unwrap_or(now).min(now));
    }

    /// Whether a frame is received at a distance in metres.
    fn is_received(&mut self, metres: f64) -> bool {
        let RadioSpec { range, lossless_range: sure, loss, .. } = self.spec;
        let beyond = if metres > sure { (metres - sure) / (range - sure) } else { 0.0 };
        metres <= range && !self.chance(loss + (1.0 - loss) * beyond)
    }

    fn chance(&mut self, share: f64) -> bool {
        const STEPS: u64 = 1 << 32;
        share > 0.0 && (self.entropy.below(STEPS) as f64) < share * STEPS as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_STATIONS: Audience = Audience::Broadcast;

    /// Stations 0, 1, ... on a road, at these distances in metres.
    fn road(spec: RadioSpec, metres: &[f64]) -> Radio<u32> {
        let mut radio = Radio::new(spec, 1);
        for (id, east) in (0..).zip(metres) {
            radio.put(StationId(id), Track::standing(Offset { east: *east, north: 0.0 }));
        }
        radio
    }

    fn millis(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// Handles all events: time, frame and receivers of each reception.
    fn receptions(radio: &mut Radio<u32>) -> Vec<(u64, u32, Vec<u32>)> {
        let mut all = Vec::new();
        while let Some(at) = radio.deadline() {
            while let Some(reception) = radio.expire(at) {
                let by = reception.receivers.iter().map(|id| id.0).collect();
                all.push((reception.at.as_micros(), reception.frame, by));
            }
        }
        all
    }

    #[test]
    fn frames_reach_stations_in_range_and_unicast_only_its_receiver() {
        let mut radio = road(RadioSpec::default(), &[0.0, 200.0, 300.0, 301.0]);
        assert!(radio.offer(millis(5), StationId(0), ALL_STATIONS, 100, 7));
        assert!(radio.offer(millis(5), StationId(0), Audience::Unicast(Some(StationId(2))), 100, 8));
        assert!(radio.offer(millis(5), StationId(0), Audience::Unicast(Some(StationId(3))), 100, 9));
        assert!(radio.offer(millis(5), StationId(0), Audience::Unicast(None), 100, 10));
        assert_eq!(
            receptions(&mut radio),
            [(5000, 7, vec![1, 2]), (5000, 8, vec![2]), (5000, 9, vec![]), (5000, 10, vec![])]
        );
    }

    #[test]
    fn a_moving_station_is_received_while_in_range() {
        let mut radio = road(RadioSpec::default(), &[0.0]);
        let away = Offset { east: 600.0, north: 0.0 };
        radio.put(StationId(1), Track::standing(Offset { east: 0.0, north: 0.0 }).drive_to(away, 100.0));
        let heard_at = |second: u64| {
            radio.offer(millis(second * 1000), StationId(1), ALL_STATIONS, 10, 0);
            receptions(&mut radio).iter().any(|seen| seen.2 == [0])
        };
        assert_eq!([2, 3, 4].map(heard_at), [true, true, false]);
    }

    #[test]
    fn stations_in_range_share_the_channel() {
        let spec = RadioSpec { rate_bps: Some(8_000_000), ..RadioSpec::default() };
        let mut radio = road(spec, &[0.0, 100.0, 1_000.0, 1_100.0]);
        for id in [0, 1, 2] {
            radio.offer(Time::ZERO, StationId(id), ALL_STATIONS, 1000, id);
        }
        let seen = receptions(&mut radio);
        let at = |frame| seen.iter().find(|seen| seen.1 == frame).unwrap().0;
        assert_eq!((at(0), at(2)), (1000, 1000));
        assert!((2000..2000 + 13 * 16).contains(&at(1)), "{seen:?}");
    }

    #[test]
    fn two_saturated_stations_share_the_channel_equally() {
        let spec = RadioSpec { rate_bps: Some(8_000_000), queue_bytes: 1 << 20, ..RadioSpec::default() };
        let mut radio = road(spec, &[0.0, 100.0]);
        for number in 0..200 {
            radio.offer(Time::ZERO, StationId(number % 2), ALL_STATIONS, 1000, number % 2);
        }
        let first: u32 = receptions(&mut radio).iter().take(100).map(|seen| seen.1).sum();
        assert!((30..=70).contains(&first), "{first} of 100");
    }

    #[test]
    fn a_lone_station_sends_as_often_as_the_standard_permits() {
        for (spec, octets) in [(RadioSpec::ieee80211p(300.0), 500), (RadioSpec::ieee80211g(300.0), 1400)] {
            let mut radio = road(RadioSpec { queue_bytes: 1 << 22, ..spec }, &[0.0, 100.0]);
            let count = 2000;
            for number in 0..count {
                radio.offer(Time::ZERO, StationId(0), Audience::Unicast(Some(StationId(1))), octets, number);
            }
            let seen = receptions(&mut radio);
            let took = Duration::from_micros(seen.last().unwrap().0);
            let expected = spec.unicast_interval(octets) * count;
            assert!((took.as_secs_f64() / expected.as_secs_f64() - 1.0).abs() < 0.02, "{took:?} {expected:?}");
        }
        // 500 octets in 802.11p: 110 µs of space, 40 of preamble, 527 octets in 703 µs, 96 for the acknowledgement, 97.5 of backoff.
        assert_eq!(RadioSpec::ieee80211p(300.0).unicast_interval(500), Duration::from_nanos(1_046_500));
    }

    #[test]
    fn stations_whose_backoffs_end_together_collide_and_retransmit() {
        let spec = RadioSpec { queue_bytes: 1 << 22, ..RadioSpec::ieee80211p(300.0) };
        let mut radio = road(spec, &[0.0, 50.0, 100.0, 150.0, 200.0]);
        for number in 0..1000 {
            let from = number % 4;
            radio.offer(Time::ZERO, StationId(from), ALL_STATIONS, 300, number);
        }
        let seen = receptions(&mut radio);
        let lost = seen.iter().filter(|seen| seen.2.is_empty()).count();
        assert!(seen.len() == 1000 && (50..400).contains(&lost), "{lost} broadcasts of 1000 collided");
        for number in 0..1000 {
            let from = number % 4;
            radio.offer(radio_end(&radio), StationId(from), Audience::Unicast(Some(StationId(4))), 300, number);
        }
        let lost = receptions(&mut radio).iter().filter(|seen| seen.2.is_empty()).count();
        assert!(lost < 5, "{lost} unicast frames were lost although they are retransmitted");
    }

    #[test]
    fn hidden_stations_collide_at_the_receiver_between_them() {
        let spec = RadioSpec { queue_bytes: 1 << 22, ..RadioSpec::ieee80211p(300.0) };
        let between = |far: f64| {
            let mut radio = road(spec, &[0.0, 250.0, far]);
            for number in 0..400 {
                radio.offer(Time::ZERO, StationId(2 * (number % 2)), ALL_STATIONS, 1000, number);
            }
            receptions(&mut radio).iter().filter(|seen| seen.2.contains(&1)).count()
        };
        let (near, hidden) = (between(290.0), between(500.0));
        assert!(near > 300 && hidden < 100, "received in the middle: {near} in range of one another, {hidden} hidden");
    }

    /// A time at which no frame is on the air.
    fn radio_end(radio: &Radio<u32>) -> Time {
        radio.stations.values().map(|station| station.busy_until).max().unwrap_or(Time::ZERO)
    }

    #[test]
    fn unicast_frames_are_retransmitted_and_broadcasts_are_not() {
        let mut radio = road(RadioSpec { loss: 0.5, retries: 3, ..RadioSpec::default() }, &[0.0, 100.0]);
        let mut arrived = |audience| {
            for number in 0..2000 {
                radio.offer(Time::ZERO, StationId(0), audience, 0, number);
            }
            receptions(&mut radio).iter().filter(|seen| !seen.2.is_empty()).count()
        };
        let (one, all) = (arrived(Audience::Unicast(Some(StationId(1)))), arrived(ALL_STATIONS));
        assert!((1_840..1_910).contains(&one) && (930..1_070).contains(&all), "{one} {all}");
    }

    #[test]
    fn loss_increases_towards_the_end_of_the_range() {
        let spec = RadioSpec { lossless_range: 100.0, ..RadioSpec::default() };
        let mut radio = road(spec, &[0.0, 100.0, 150.0, 250.0, 300.0]);
        for number in 0..1000 {
            radio.offer(Time::ZERO, StationId(0), ALL_STATIONS, 0, number);
        }
        let seen = receptions(&mut radio);
        let of = |id: u32| seen.iter().filter(|seen| seen.2.contains(&id)).count();
        assert_eq!((of(1), of(4)), (1000, 0));
        assert!((700..800).contains(&of(2)) && (200..300).contains(&of(3)), "{} {}", of(2), of(3));
    }

    #[test]
    fn a_full_queue_drops_and_a_removed_station_sends_nothing() {
        let spec = RadioSpec { rate_bps: Some(8_000_000), queue_bytes: 2000, ..RadioSpec::default() };
        let mut radio = road(spec, &[0.0, 100.0]);
        let offers: Vec<bool> =
            (0..4).map(|number| radio.offer(Time::ZERO, StationId(0), ALL_STATIONS, 1000, number)).collect();
        assert_eq!(offers, [true, true, false, false]);
        radio.drop(StationId(0));
        assert_eq!(
            (receptions(&mut radio), radio.offer(Time::ZERO, StationId(0), ALL_STATIONS, 1, 0)),
            (vec![], false)
        );
    }
}
