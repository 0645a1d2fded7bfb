//! Positions from NMEA 0183 sentences: RMC has position and speed, GGA the precision. A file is replayed at the pace of its
//! timestamps; a device is read as it sends.

use super::{PositionSender, RETRY_INTERVAL, SILENCE_TIMEOUT};
use core::time::Duration;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roam6_proto::Fix;
use roam6_wire::geo::Coordinates;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;

/// Longest sentence read, octets; the standard has 82.
const MAX_SENTENCE: u64 = 256;
/// A receiver's error in metres with 95 % confidence, for each unit of HDOP.
const METRES_PER_HDOP: f64 = 6.0;
/// Metres a second of one knot.
const KNOT: f64 = 1852.0 / 3600.0;
/// Longest pause between two sentences in the replay of a file.
const MAX_PAUSE: Duration = Duration::from_secs(10);
const DAY: Duration = Duration::from_secs(86_400);

/// Reads a file to its end, or a device for ever, until the event loop has closed its end.
pub(super) fn follow(path: &Path, sender: &mut PositionSender) {
    loop {
        if let Ok(file) = File::open(path) {
            let is_file = file.metadata().is_ok_and(|data| data.is_file());
            let result = read_sentences(file, is_file, sender);
            if result.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) || !sender.send(None) || is_file {
                return;
            }
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
}

fn read_sentences(file: File, is_file: bool, sender: &mut PositionSender) -> std::io::Result<()> {
    let mut reader = BufReader::new(file);
    let mut sentences = NmeaParser::default();
    let mut last = None;
    loop {
        if !is_file && reader.buffer().is_empty() && !has_data(reader.get_ref())? && !sender.send(None) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let mut line = Vec::new();
        if reader.by_ref().take(MAX_SENTENCE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let Some((time, fix)) = std::str::from_utf8(&line).ok().and_then(|line| sentences.take(line)) else { continue };
        if is_file && let Some(last) = last.replace(time) {
            // The time of day wraps at midnight.
            let pause = if time >= last { time - last } else { time + DAY.saturating_sub(last) };
            std::thread::sleep(pause.min(MAX_PAUSE));
        }
        if !sender.send(fix) {
            return Err(ErrorKind::BrokenPipe.into());
        }
    }
}

/// Whether a device sends anything before the timeout.
fn has_data(file: &File) -> std::io::Result<bool> {
    let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(SILENCE_TIMEOUT.as_millis()).unwrap_or(PollTimeout::MAX);
    Ok(poll(&mut fds, timeout)? > 0)
}

/// State across sentences.
#[derive(Default)]
struct NmeaParser {
    /// Horizontal dilution of precision of the last GGA sentence.
    hdop: Option<f64>,
}

impl NmeaParser {
    /// The time of day and the position of an RMC sentence; `None` for other sentences and for damaged ones.
    fn take(&mut self, line: &str) -> Option<(Duration, Option<Fix>)> {
        let fields: Vec<&str> = checked_body(line)?.split(',').collect();
        let kind = fields.first()?.get(2..)?;
        match (kind, fields.as_slice()) {
            ("GGA", [_, _, _, _, _, _, quality, _, dilution, ..]) => {
                self.hdop = dilution.parse().ok().filter(|_| *quality != "0");
                None
            }
            ("RMC", [_, time, status, latitude, north, longitude, east, speed, course, ..]) => {
                let place = parse_place(latitude, north, longitude, east).filter(|_| *status == "A");
                Some((time_of_day(time)?, place.map(|place| self.fix(place, speed, course))))
            }
            _ => None,
        }
    }

    fn fix(&self, place: Coordinates, speed: &str, course: &str) -> Fix {
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite()).unwrap_or(0.0);
        // Casts of floats saturate.
        Fix {
            place,
            uncertainty: self.hdop.map(|dilution| (dilution * METRES_PER_HDOP).ceil() as u32),
            speed: (number(speed) * KNOT * 100.0) as i16,
            heading: (number(course).rem_euclid(360.0) * 10.0) as u16,
        }
    }
}

/// The text between `$` and `*`, if the checksum after it is correct.
fn checked_body(line: &str) -> Option<&str> {
    let (body, sum) = line.trim().strip_prefix('$')?.split_once('*')?;
    let sum = u8::from_str_radix(sum, 16).ok()?;
    (body.bytes().fold(0, |sum, octet| sum ^ octet) == sum).then_some(body)
}

/// Parses degrees and minutes: `4807.038` (latitude), `01131.000` (longitude).
fn parse_place(latitude: &str, north: &str, longitude: &str, east: &str) -> Option<Coordinates> {
    let degrees = |text: &str, digits: usize, negative: bool| {
        let (degrees, minutes) = text.split_at_checked(digits)?;
        let (degrees, minutes): (f64, f64) = (degrees.parse::<u16>().ok()?.into(), minutes.parse().ok()?);
        let sum = degrees + minutes / 60.0;
        (0.0..60.0).contains(&minutes).then_some(if negative { -sum } else { sum })
    };
    Coordinates::from_degrees(degrees(latitude, 2, north == "S")?, degrees(longitude, 3, east == "W")?)
}

/// `123519.00` as time since midnight.
fn time_of_day(text: &str) -> Option<Duration> {
    let (hours, rest) = text.split_at_checked(2)?;
    let (minutes, seconds) = rest.split_at_checked(2)?;
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds: f64 = seconds.parse().ok().filter(|seconds| (0.0..61.0).contains(seconds))?;
    let whole = Duration::from_secs(u64::from(hours) * 3600 + u64::from(minutes) * 60);
    (hours < 24 && minutes < 60).then_some(whole + Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(body: &str) -> String {
        format!("${body}*{:02X}\r\n", body.bytes().fold(0, |sum, octet| sum ^ octet))
    }

    #[test]
    fn gga_and_rmc_sentences_yield_a_fix() {
        let mut sentences = NmeaParser::default();
        assert_eq!(sentences.take("$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n"), None);
        let found = sentences.take("$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A\r\n");
        let (time, fix) = found.unwrap();
        let place = Coordinates::from_degrees(48.0 + 7.038 / 60.0, 11.0 + 31.0 / 60.0).unwrap();
        assert_eq!(time, Duration::from_secs(12 * 3600 + 35 * 60 + 19));
        assert_eq!(fix, Some(Fix { place, uncertainty: Some(6), speed: 1152, heading: 844 }));
    }

    #[test]
    fn an_rmc_sentence_without_a_fix_yields_no_position() {
        let mut sentences = NmeaParser::default();
        assert_eq!(
            sentences.take(&sentence("GNRMC,000001.50,V,,,,,,,,,,N")),
            Some((Duration::from_millis(1500), None))
        );
    }

    #[test]
    fn damaged_nmea_sentences_are_ignored() {
        let mut sentences = NmeaParser::default();
        let good = sentence("GPRMC,123519,A,4807.038,S,01131.000,W,022.4,084.4,230394,,");
        assert!(sentences.take(&good).unwrap().1.is_some());
        for length in 0..good.trim_end().len() {
            assert_eq!(sentences.take(&good[..length]), None, "{length}");
        }
        for wrong in ["GPRMC", "GPRMC,", "GPRMC,256060,A,4807.0,N,01131.0,E,0,0", "GPGSV,1,1", "G", ""] {
            assert_eq!(sentences.take(&sentence(wrong)), None, "{wrong}");
        }
        for elsewhere in ["9960.038,N,01131.000,E", "4860.000,N,01131.000,E", "NaN,N,inf,E", "48,N,é,E"] {
            let found = sentences.take(&sentence(&format!("GPRMC,123519,A,{elsewhere},0,0,,")));
            assert_eq!(found.and_then(|(_, fix)| fix), None, "{elsewhere}");
        }
    }
}
