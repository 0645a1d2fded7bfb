//! Replay of a track: positions with times, from a GPX file (topografix.com/GPX/1/1) or from lines of
//! `seconds,latitude,longitude`, interpolated in a straight line at constant speed.

use super::PositionSender;
use core::time::Duration;
use roam6_proto::Fix;
use roam6_proto::geo::geometry::Plane;
use roam6_wire::geo::Coordinates;
use std::path::Path;
use std::time::{Instant, UNIX_EPOCH};

/// Most points of a track.
const MAX_POINTS: usize = 1_000_000;
/// Largest file, octets.
const MAX_OCTETS: u64 = 256 << 20;
/// Interval between positions.
const INTERVAL: Duration = Duration::from_millis(100);

/// Positions with the time since the start; in order, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Track {
    points: Vec<(Duration, Coordinates)>,
    /// Whether it starts again at its end.
    repeat: bool,
}

impl Track {
    /// Reads a file: GPX if it starts with `<`, otherwise lines.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn read(path: &Path, repeat: bool) -> Result<Track, String> {
        let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
        if length > MAX_OCTETS {
            return Err(format!("{length} octets are more than {MAX_OCTETS}"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let points = if text.trim_start().starts_with('<') { gpx(&text)? } else { lines(&text)? };
        if let Some(at) = points.windows(2).position(|pair| matches!(pair, [(one, _), (next, _)] if next <= one)) {
            return Err(format!("point {} is not later than the one before", at + 2));
        }
        match points.len() {
            0 => Err("no point has a place and a time".to_owned()),
            count if count > MAX_POINTS => Err(format!("more than {MAX_POINTS} points")),
            _ => Ok(Track { points, repeat }),
        }
    }

    /// Sends the positions of the track until the event loop has closed its end. At the end of the track the station is
    /// stationary, or the track starts again.
    #[allow(clippy::disallowed_methods, reason = "a track is replayed in real time")]
    pub(super) fn replay(&self, sender: &mut PositionSender) {
        let began = Instant::now();
        while sender.send(Some(self.at(began.elapsed()))) {
            std::thread::sleep(INTERVAL);
        }
    }

    /// The position at this time since the start.
    fn at(&self, since: Duration) -> Fix {
        let whole = self.points.last().map_or(Duration::ZERO, |(time, _)| *time);
        let since = match self.repeat && !whole.is_zero() {
            true => Duration::from_micros((since.as_micros() % whole.as_micros()) as u64),
            false => since,
        };
        let next = self.points.partition_point(|(time, _)| *time <= since);
        let before = next.checked_sub(1).and_then(|at| self.points.get(at));
        match (before, self.points.get(next)) {
            (Some(from), Some(to)) => interpolate(from, to, since),
            (Some((_, place)), None) | (None, Some((_, place))) => stationary(*place),
            (None, None) => stationary(Coordinates { latitude: 0, longitude: 0 }),
        }
    }
}

fn stationary(place: Coordinates) -> Fix {
    Fix { place, uncertainty: Some(1), speed: 0, heading: 0 }
}

fn interpolate((begin, from): &(Duration, Coordinates), (end, to): &(Duration, Coordinates), since: Duration) -> Fix {
    let plane = Plane::at(*from);
    let mut offset = plane.offset(*to);
    let length = offset.east.hypot(offset.north);
    let (span, gone) = ((*end - *begin).as_secs_f64(), since.saturating_sub(*begin).as_secs_f64());
    let heading = offset.direction().to_degrees().rem_euclid(360.0);
    offset.east *= gone / span;
    offset.north *= gone / span;
    // Casts of floats saturate; a heading that rounds to 360 degrees is north.
    let (speed, heading) = ((length / span * 100.0) as i16, (heading * 10.0) as u16 % 3600);
    Fix { place: plane.place(offset), uncertainty: Some(1), speed, heading }
}

/// Lines of seconds, latitude and longitude; lines that do not start with a number are headings or comments.
fn lines(text: &str) -> Result<Vec<(Duration, Coordinates)>, String> {
    let mut points = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        if !line.trim_start().starts_with(|letter: char| letter.is_ascii_digit() || letter == '.') {
            continue;
        }
        let wrong = || format!("line {number}: not seconds, latitude and longitude as 1.5,48.1,11.5");
        let mut values = line.split([',', ';']).map(|value| value.trim().parse::<f64>());
        let mut next = || values.next().and_then(Result::ok).ok_or_else(wrong);
        let time = Duration::try_from_secs_f64(next()?).map_err(|_| wrong())?;
        let place = Coordinates::from_degrees(next()?, next()?).ok_or_else(wrong)?;
        points.push((time, place));
    }
    Ok(from_start(points))
}

/// The points of all tracks and routes of a GPX file that have a time.
fn gpx(text: &str) -> Result<Vec<(Duration, Coordinates)>, String> {
    let document = roxmltree::Document::parse(text).map_err(|error| error.to_string())?;
    let is_point = |node: &roxmltree::Node<'_, '_>| matches!(node.tag_name().name(), "trkpt" | "rtept");
    let mut points = Vec::new();
    for node in document.descendants().filter(is_point) {
        let degrees = |name| node.attribute(name).and_then(|value| value.trim().parse::<f64>().ok());
        let place = degrees("lat").zip(degrees("lon")).and_then(|(lat, lon)| Coordinates::from_degrees(lat, lon));
        let time = node.children().find(|child| child.tag_name().name() == "time").and_then(|time| time.text());
        points.extend(time.and_then(parse_timestamp).zip(place));
    }
    Ok(from_start(points))
}

fn from_start(mut points: Vec<(Duration, Coordinates)>) -> Vec<(Duration, Coordinates)> {
    let first = points.first().map_or(Duration::ZERO, |(time, _)| *time);
    for (time, _) in &mut points {
        *time = time.saturating_sub(first);
    }
    points
}

/// `2026-11-21T20:50:00.5Z` as time since 1970; the fraction is optional, and an offset is ignored because all points share it.
fn parse_timestamp(text: &str) -> Option<Duration> {
    let (date, time) = text.trim().split_once('T')?;
    let time = time.split(['Z', '+', '-']).next()?;
    humantime::parse_rfc3339(&format!("{date}T{time}Z")).ok()?.duration_since(UNIX_EPOCH).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::geo::geometry;

    fn track(text: &str, repeat: bool) -> Result<Track, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("track");
        std::fs::write(&path, text).unwrap();
        Track::read(&path, repeat)
    }

    const GPX: &str = r#"<?xml version="1.0"?><gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>
        <trkpt lat="48.0" lon="11.0"><ele>1</ele><time>2024-02-29T23:59:55Z</time></trkpt>
        <trkpt lat="48.0" lon="11.1"/>
        <trkpt lat="48.001" lon="11.0"><time>2024-03-01T00:00:05.000Z</time></trkpt>
        </trkseg></trk></gpx>"#;

    #[test]
    fn a_track_is_replayed_once_or_repeatedly() {
        for text in [GPX, "time,lat,lon\n0, 48.0, 11.0\n10, 48.001, 11.0\n"] {
            let (once, again) = (track(text, false).unwrap(), track(text, true).unwrap());
            let half = once.at(Duration::from_secs(5));
            let middle = Coordinates::from_degrees(48.0005, 11.0).unwrap();
            assert!(geometry::distance(half.place, middle) < 0.1, "{half:?}");
            assert!((1110..1114).contains(&half.speed) && half.heading == 0, "{half:?}");
            let end = once.at(Duration::from_secs(20));
            assert_eq!((end.place, end.speed), (Coordinates::from_degrees(48.001, 11.0).unwrap(), 0));
            assert_eq!(again.at(Duration::from_secs(15)), again.at(Duration::from_secs(5)));
        }
    }

    #[test]
    fn an_invalid_track_is_refused_with_its_line() {
        for (text, why) in [
            ("", "no point"),
            ("<gpx>", "never closed"),
            ("<gpx/>", "no point"),
            ("0,48.0", "line 1"),
            ("0,98.0,11.0", "line 1"),
            ("0,48.0,11.0\n0,48.1,11.0", "point 2"),
            ("1e300,48.0,11.0", "line 1"),
        ] {
            let error = track(text, false).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn gpx_timestamps_are_calendar_dates() {
        assert_eq!(parse_timestamp("1970-01-01T00:00:00Z"), Some(Duration::ZERO));
        assert_eq!(parse_timestamp("2026-12-31T23:59:59.5+00:00"), Some(Duration::from_millis(1_798_761_599_500)));
        for wrong in ["", "T", "2026-13-01T00:00:00Z", "1969-12-31T23:59:59Z", "2026-01-01T00:00", "a-b-cTd:e:f"] {
            assert_eq!(parse_timestamp(wrong), None, "{wrong}");
        }
    }
}
