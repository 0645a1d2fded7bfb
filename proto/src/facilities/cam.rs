//! CAM generation: EN 302 637-2 V1.4.1 §6.1.3. At once when heading, place or speed has changed enough, but not within
//! T_GenCamMin; otherwise every T_GenCam, which follows the latest changes.

use crate::base::time::Time;
use crate::geo::geometry;
use core::time::Duration;
use roam6_wire::geo::{Coordinates, LongPositionVector};
use std::collections::VecDeque;

/// T_GenCamMin.
pub const T_GEN_CAM_MIN: Duration = Duration::from_millis(100);
/// T_GenCamMax.
pub const T_GEN_CAM_MAX: Duration = Duration::from_millis(1000);
/// N_GenCam: messages at the interval of a change, before T_GenCam returns to T_GenCamMax.
const N_GEN_CAM: u32 = 3;
/// Interval of messages with the low frequency container.
const LOW_FREQUENCY: Duration = Duration::from_millis(500);

/// Heading changes of more than 4 degrees, tenths of a degree.
const HEADING_CHANGE: u16 = 40;
/// Movements of more than 4 m.
const DISTANCE_CHANGE: f64 = 4.0;
/// Speed changes of more than 0.5 m/s, centimetres per second.
const SPEED_CHANGE: u16 = 50;

/// Points of the path history, and metres between them.
const PATH_POINTS: usize = 23;
const PATH_STEP: f64 = 10.0;

/// Decides when a CAM is due.
#[derive(Debug)]
pub struct CamGenerator {
    /// Roadside units do not move, and send every T_GenCamMax.
    roadside: bool,
    /// T_GenCam.
    t_gen_cam: Duration,
    /// T_GenCam_DCC: T_GenCamMin where no congestion control says otherwise.
    t_gen_cam_dcc: Duration,
    /// Messages in a row that only T_GenCam has triggered.
    cams_at_pace: u32,
    last: Option<(Time, LongPositionVector)>,
    last_low: Option<Time>,
    path: VecDeque<(Time, Coordinates)>,
}

/// The content of a CAM that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueCam {
    /// With the low frequency container.
    pub low_frequency: bool,
}

impl CamGenerator {
    /// Before the first message.
    pub fn new(roadside: bool) -> CamGenerator {
        CamGenerator {
            roadside,
            t_gen_cam: T_GEN_CAM_MAX,
            t_gen_cam_dcc: T_GEN_CAM_MIN,
            cams_at_pace: 0,
            last: None,
            last_low: None,
            path: VecDeque::new(),
        }
    }

    /// The same station before its first message.
    pub fn renewed(&self) -> CamGenerator {
        CamGenerator { t_gen_cam_dcc: self.t_gen_cam_dcc, ..CamGenerator::new(self.roadside) }
    }

    /// Sets T_GenCam_DCC, within T_GenCamMin and T_GenCamMax.
    #[cfg(feature = "dcc")]
    pub fn set_t_gen_cam_dcc(&mut self, interval: Duration) {
        self.t_gen_cam_dcc = interval.clamp(T_GEN_CAM_MIN, T_GEN_CAM_MAX);
    }

    /// The CAM that is due at this position, if any; it then counts as sent.
    pub fn next_message(&mut self, now: Time, position: &LongPositionVector) -> Option<DueCam> {
        let Some((sent, last)) = &self.last else { return Some(self.generate(now, position)) };
        let since = now.since(*sent);
        if since < self.t_gen_cam_dcc {
            return None;
        }
        if !self.roadside && has_changed(last, position) {
            (self.t_gen_cam, self.cams_at_pace) = (since.min(T_GEN_CAM_MAX), 0);
            return Some(self.generate(now, position));
        }
        if since < self.t_gen_cam {
            return None;
        }
        self.cams_at_pace += 1;
        if self.cams_at_pace >= N_GEN_CAM {
            self.t_gen_cam = T_GEN_CAM_MAX;
        }
        Some(self.generate(now, position))
    }

    fn generate(&mut self, now: Time, position: &LongPositionVector) -> DueCam {
        self.last = Some((now, *position));
        self.record_path(now, position.place);
        let low_frequency = self.last_low.is_none_or(|last| now.since(last) >= LOW_FREQUENCY);
        if low_frequency {
            self.last_low = Some(now);
        }
        DueCam { low_frequency }
    }

    fn record_path(&mut self, now: Time, place: Coordinates) {
        let is_far = self.path.front().is_none_or(|(_, last)| geometry::distance(*last, place) >= PATH_STEP);
        if is_far {
            self.path.push_front((now, place));
            self.path.truncate(PATH_POINTS);
        }
    }

    /// The path history: places and times, the latest first.
    pub fn path(&self) -> impl Iterator<Item = (Time, Coordinates)> + '_ {
        self.path.iter().copied()
    }

    /// When to check again if no position comes before. `position` is the present one.
    pub fn deadline(&self, position: &LongPositionVector) -> Option<Time> {
        let (sent, last) = self.last.as_ref()?;
        let waits = !self.roadside && has_changed(last, position);
        Some(*sent + if waits { self.t_gen_cam_dcc } else { self.t_gen_cam.max(self.t_gen_cam_dcc) })
    }
}

fn has_changed(last: &LongPositionVector, now: &LongPositionVector) -> bool {
    let turned = last.heading.abs_diff(now.heading);
    let turned = turned.min(3600_u16.saturating_sub(turned));
    turned > HEADING_CHANGE
        || last.speed.abs_diff(now.speed) > SPEED_CHANGE
        || geometry::distance(last.place, now.place) > DISTANCE_CHANGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_wire::LinkAddress;
    use roam6_wire::geo::{GeoAddress, ItsStationType, Timestamp};

    const START: Time = Time::from_micros(1_000_000);

    /// A position so many centimetres north, with this heading.
    fn position(centimetres: f64, speed: i16, heading: u16) -> LongPositionVector {
        let plane = geometry::Plane::at(Coordinates::from_degrees(48.0, 11.0).unwrap());
        LongPositionVector {
            address: GeoAddress::new(ItsStationType::PASSENGER_CAR, LinkAddress([2, 0, 0, 0, 0, 1])),
            timestamp: Timestamp(0),
            place: plane.place(geometry::Offset { east: 0.0, north: centimetres / 100.0 }),
            accurate: true,
            speed,
            heading,
        }
    }

    /// Milliseconds at which messages are sent while `at` says where the station is, looked at every 10 ms.
    fn drive(awareness: &mut CamGenerator, span: u64, at: impl Fn(u64) -> LongPositionVector) -> Vec<(u64, bool)> {
        let mut sent = Vec::new();
        for time in (0..span).step_by(10) {
            let now = START + Duration::from_millis(time);
            sent.extend(awareness.next_message(now, &at(time)).map(|due| (time, due.low_frequency)));
        }
        sent
    }

    fn times(sent: &[(u64, bool)]) -> Vec<u64> {
        sent.iter().map(|(time, _)| *time).collect()
    }

    #[test]
    fn a_standing_station_sends_a_cam_each_second() {
        let sent = drive(&mut CamGenerator::new(false), 3_500, |_| position(0.0, 0, 0));
        assert_eq!(sent, [(0, true), (1000, true), (2000, true), (3000, true)]);
    }

    #[test]
    fn a_driving_station_sends_a_cam_every_four_metres_at_most_at_10_hz() {
        let at = |speed: f64| move |time: u64| position(speed * time as f64 / 10.0, (speed * 100.0) as i16, 0);
        let sent = drive(&mut CamGenerator::new(false), 1_000, at(18.0));
        assert_eq!(times(&sent), [0, 230, 460, 690, 920], "4 m at 18 m/s, seen each 10 ms");
        let low: Vec<u64> = sent.iter().filter(|(_, low)| *low).map(|(time, _)| *time).collect();
        assert_eq!(low, [0, 690]);
        assert_eq!(times(&drive(&mut CamGenerator::new(false), 400, at(80.0))), [0, 100, 200, 300]);
    }

    #[test]
    fn heading_and_speed_changes_trigger_a_cam() {
        let turn = |time: u64| position(0.0, 0, if time < 300 { 3590 } else { 31 });
        assert_eq!(times(&drive(&mut CamGenerator::new(false), 500, turn)), [0, 300]);
        let little = |time: u64| position(0.0, if time < 300 { 0 } else { 50 }, if time < 300 { 3590 } else { 30 });
        assert_eq!(
            times(&drive(&mut CamGenerator::new(false), 900, little)),
            [0],
            "4 degrees and 0.5 m/s are not more"
        );
        let brake = |time: u64| position(0.0, if time < 50 { 0 } else { 51 }, 0);
        assert_eq!(times(&drive(&mut CamGenerator::new(false), 150, brake)), [0, 100], "not within T_GenCamMin");
    }

    #[test]
    fn t_gen_cam_is_kept_for_n_gen_cam_messages() {
        let at = |time: u64| position(0.0, if time < 300 { 0 } else { 100 }, 0);
        let sent = times(&drive(&mut CamGenerator::new(false), 4_000, at));
        assert_eq!(sent, [0, 300, 600, 900, 1200, 2200, 3200]);
    }

    #[test]
    fn a_roadside_unit_sends_a_cam_each_second() {
        let at = |time: u64| position(time as f64 * 10.0, 0, 0);
        assert_eq!(times(&drive(&mut CamGenerator::new(true), 2_500, at)), [0, 1000, 2000]);
    }

    #[test]
    fn the_deadline_is_when_the_next_cam_is_due() {
        let mut awareness = CamGenerator::new(false);
        let (here, there) = (position(0.0, 0, 0), position(500.0, 0, 0));
        assert_eq!(awareness.deadline(&here), None);
        awareness.next_message(START, &here);
        assert_eq!(awareness.deadline(&here), Some(START + T_GEN_CAM_MAX));
        assert_eq!(awareness.next_message(START, &there), None);
        assert_eq!(awareness.deadline(&there), Some(START + T_GEN_CAM_MIN));
    }
}
