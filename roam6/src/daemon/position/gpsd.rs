//! Positions of a gpsd. A lost connection is opened again; meanwhile the position is unknown.

use super::{PositionSender, RETRY_INTERVAL, SILENCE_TIMEOUT};
use roam6_proto::Fix;
use roam6_wire::geo::Coordinates;
use serde::Deserialize;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;

/// Longest line read from gpsd, octets.
const MAX_LINE: u64 = 64 * 1024;

/// Reads positions until the event loop has closed its end.
pub(super) fn follow(server: &str, sender: &mut PositionSender) {
    loop {
        let result = read_reports(server, sender);
        if result.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) || !sender.send(None) {
            return;
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
}

/// Serves one connection to gpsd until it is lost; `BrokenPipe` once the event loop has closed its end.
fn read_reports(server: &str, sender: &mut PositionSender) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(SILENCE_TIMEOUT))?;
    stream.write_all(b"?WATCH={\"enable\":true,\"json\":true}\n")?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.by_ref().take(MAX_LINE).read_line(&mut line)? == 0 {
            return Ok(());
        }
        if let Some(fix) = parse_report(&line)
            && !sender.send(fix)
        {
            return Err(ErrorKind::BrokenPipe.into());
        }
    }
}

/// The members of gpsd's TPV object that matter; speed in metres a second, track in degrees, eph in metres.
#[derive(Deserialize)]
struct Tpv {
    class: String,
    mode: Option<u8>,
    lat: Option<f64>,
    lon: Option<f64>,
    eph: Option<f64>,
    speed: Option<f64>,
    track: Option<f64>,
}

/// The mode of a fix in two dimensions.
const MODE_2D: u8 = 2;

/// The position in a line of gpsd; `None` if the line is not a position report.
fn parse_report(line: &str) -> Option<Option<Fix>> {
    let tpv: Tpv = serde_json::from_slice(line.as_bytes()).ok().filter(|tpv: &Tpv| tpv.class == "TPV")?;
    let place = match (tpv.mode, tpv.lat, tpv.lon) {
        (Some(mode), Some(latitude), Some(longitude)) if mode >= MODE_2D => {
            Coordinates::from_degrees(latitude, longitude)
        }
        _ => None,
    };
    // Casts of floats saturate, and turn NaN into 0.
    Some(place.map(|place| Fix {
        place,
        uncertainty: tpv.eph.filter(|eph| *eph >= 0.0).map(|eph| eph.ceil() as u32),
        speed: (tpv.speed.unwrap_or(0.0) * 100.0) as i16,
        heading: (tpv.track.unwrap_or(0.0).rem_euclid(360.0) * 10.0) as u16,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TPV: &str = r#"{"class":"TPV","mode":3,"lat":48.5,"lon":-11.25,"eph":4.2,"speed":13.9,"track":271.5}"#;

    #[test]
    fn a_gpsd_report_without_a_fix_yields_no_position() {
        let place = Coordinates::from_degrees(48.5, -11.25).unwrap();
        assert_eq!(parse_report(TPV), Some(Some(Fix { place, uncertainty: Some(5), speed: 1390, heading: 2715 })));
        assert_eq!(parse_report(r#"{"class":"TPV","mode":1}"#), Some(None));
        for other in ["", "{}", r#"{"class":"SKY"}"#, "\u{0}"] {
            assert_eq!(parse_report(other), None, "{other:?}");
        }
        assert_eq!(parse_report(&TPV.replace("48.5", "98.5")), Some(None));
    }
}
