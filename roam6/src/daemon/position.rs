//! Where this host is, from whoever knows: a thread asks a gpsd and tells the loop over a socket pair, a line of JSON for
//! each change; it connects again when the connection is lost, and says that nothing is known meanwhile.

use crate::config::geo::Position;
use core::time::Duration;
use roam6_proto::Fix;
use roam6_wire::geo::Place;
use serde::Deserialize;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Without a word of gpsd for so long, nothing is known.
const SILENCE: Duration = Duration::from_secs(3);
/// Time until it is asked for again.
const AGAIN: Duration = Duration::from_secs(2);
/// Longest line of gpsd read, octets.
const LONGEST: u64 = 64 * 1024;

/// What tells positions.
pub(crate) struct Positions {
    first: Option<Option<Fix>>,
    lines: Option<BufReader<UnixStream>>,
}

impl Positions {
    /// Begins to ask.
    pub(crate) fn begin(position: &Position) -> std::io::Result<Positions> {
        match position {
            Position::Fixed(fix) => Ok(Positions { first: Some(Some(*fix)), lines: None }),
            Position::Gpsd(server) => {
                let (ours, theirs) = UnixStream::pair()?;
                ours.set_nonblocking(true)?;
                let server = server.clone();
                std::thread::Builder::new().name("gpsd".to_owned()).spawn(move || follow(&server, theirs))?;
                Ok(Positions { first: None, lines: Some(BufReader::new(ours)) })
            }
        }
    }

    /// Readable when a position is there; `None` where it never changes.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.lines.as_ref().map(|lines| lines.get_ref().as_fd())
    }

    /// Takes what was told, oldest first.
    pub(crate) fn take(&mut self) -> Vec<Option<Fix>> {
        let mut fixes: Vec<Option<Fix>> = self.first.take().into_iter().collect();
        let mut line = String::new();
        while let Some(lines) = &mut self.lines
            && lines.read_line(&mut line).is_ok_and(|length| length > 0)
        {
            fixes.extend(serde_json::from_str::<Option<Fix>>(&line).ok());
            line.clear();
        }
        fixes
    }
}

/// Until the loop is gone.
fn follow(server: &str, mut to: UnixStream) {
    let mut tell = |fix: Option<Fix>| {
        let line = serde_json::to_string(&fix).unwrap_or_else(|_| "null".to_owned());
        writeln!(to, "{line}").is_ok()
    };
    loop {
        let heard = listen(server, &mut tell);
        if heard.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) || !tell(None) {
            return;
        }
        std::thread::sleep(AGAIN);
    }
}

/// One connection to gpsd, until it is lost; `BrokenPipe` once nobody wants to know any more.
fn listen(server: &str, tell: &mut impl FnMut(Option<Fix>) -> bool) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.write_all(b"?WATCH={\"enable\":true,\"json\":true}\n")?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.by_ref().take(LONGEST).read_line(&mut line)? == 0 {
            return Ok(());
        }
        if let Some(fix) = fix(&line)
            && !tell(fix)
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

/// Two dimensions at least are known.
const MODE_2D: u8 = 2;

/// What a line of gpsd says of the position; `None` if it is about something else.
fn fix(line: &str) -> Option<Option<Fix>> {
    let tpv: Tpv = serde_json::from_str(line).ok().filter(|tpv: &Tpv| tpv.class == "TPV")?;
    let place = match (tpv.mode, tpv.lat, tpv.lon) {
        (Some(mode), Some(latitude), Some(longitude)) if mode >= MODE_2D => Place::of_degrees(latitude, longitude),
        _ => None,
    };
    // Casts of floats saturate, and turn what is no number into 0.
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
    use std::net::TcpListener;

    const TPV: &str = r#"{"class":"TPV","mode":3,"lat":48.5,"lon":-11.25,"eph":4.2,"speed":13.9,"track":271.5}"#;

    #[test]
    fn a_report_becomes_a_position_and_the_loss_of_satellites_none() {
        let place = Place::of_degrees(48.5, -11.25).unwrap();
        assert_eq!(fix(TPV), Some(Some(Fix { place, uncertainty: Some(5), speed: 1390, heading: 2715 })));
        assert_eq!(fix(r#"{"class":"TPV","mode":1}"#), Some(None));
        for other in ["", "{}", r#"{"class":"SKY"}"#, "\u{0}"] {
            assert_eq!(fix(other), None, "{other:?}");
        }
        assert_eq!(fix(&TPV.replace("48.5", "98.5")), Some(None));
    }

    #[test]
    fn what_a_server_says_arrives_and_its_end_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let mut positions = Positions::begin(&Position::Gpsd(server)).unwrap();
        let (mut client, _) = listener.accept().unwrap();
        writeln!(client, "{{\"class\":\"VERSION\"}}\n{TPV}").unwrap();
        drop(client);
        let mut told = Vec::new();
        for _ in 0..500 {
            told.extend(positions.take());
            if told.len() >= 2 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(told.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    }
}
