//! Position sources: a thread reads a gpsd, a GNSS receiver or a track, and sends each change to the event loop over a socket
//! pair, as a line of JSON. If the source is silent, the position becomes unknown.

mod fusion;
mod gpsd;
mod nmea;
pub(crate) mod track;

use crate::config::geo::Position;
use core::time::Duration;
use roam6_proto::Fix;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// The position is unknown after a source has been silent for this long.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time until a lost source is opened again.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// A source of positions.
pub(crate) struct PositionSource {
    first: Option<Option<Fix>>,
    lines: Option<BufReader<UnixStream>>,
    /// The incomplete line read so far.
    partial_line: String,
}

/// The thread's end of the socket pair.
struct PositionSender(UnixStream);

impl PositionSender {
    /// Sends a position; false once the event loop has closed its end.
    fn send(&mut self, fix: Option<Fix>) -> bool {
        let line = serde_json::to_string(&fix).unwrap_or_else(|_| "null".to_owned());
        writeln!(self.0, "{line}").is_ok()
    }
}

impl PositionSource {
    /// Opens a source.
    ///
    /// # Errors
    /// The system is out of threads or descriptors.
    pub(crate) fn start(position: &Position) -> std::io::Result<PositionSource> {
        match position.clone() {
            Position::Fixed(fix) => {
                Ok(PositionSource { first: Some(Some(fix)), lines: None, partial_line: String::new() })
            }
            Position::Gpsd(server) => PositionSource::follow("gpsd", move |sender| gpsd::follow(&server, sender)),
            Position::Nmea(path) => PositionSource::follow("nmea", move |sender| nmea::follow(&path, sender)),
            Position::Several(sources) => {
                PositionSource::follow("position", move |sender| fusion::follow(&sources, sender))
            }
            Position::Track(track) => PositionSource::follow("track", move |sender| track.replay(sender)),
        }
    }

    fn follow(
        name: &str,
        source: impl FnOnce(&mut PositionSender) + Send + 'static,
    ) -> std::io::Result<PositionSource> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(move || source(&mut PositionSender(theirs)))?;
        Ok(PositionSource { first: None, lines: Some(BufReader::new(ours)), partial_line: String::new() })
    }

    /// Readable when a position is available; `None` if it never changes.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.lines.as_ref().map(|lines| lines.get_ref().as_fd())
    }

    /// Takes the pending positions, oldest first. Once the source has ended its descriptor is closed, because it would always
    /// be readable.
    pub(crate) fn take(&mut self) -> Vec<Option<Fix>> {
        let mut fixes: Vec<Option<Fix>> = self.first.take().into_iter().collect();
        while let Some(lines) = &mut self.lines {
            match lines.read_line(&mut self.partial_line) {
                Ok(0) => self.lines = None,
                Ok(_) => {
                    fixes.extend(serde_json::from_slice::<Option<Fix>>(self.partial_line.as_bytes()).ok());
                    self.partial_line.clear();
                }
                Err(_) => break,
            }
        }
        fixes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const TPV: &str = r#"{"class":"TPV","mode":3,"lat":48.5,"lon":-11.25}"#;

    fn await_fixes(positions: &mut PositionSource, count: usize) -> Vec<Option<Fix>> {
        let mut fixes = Vec::new();
        for _ in 0..500 {
            fixes.extend(positions.take());
            if fixes.len() >= count {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        fixes
    }

    #[test]
    fn gpsd_fixes_arrive_and_its_disconnection_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let mut positions = PositionSource::start(&Position::Gpsd(server)).unwrap();
        let (mut client, _) = listener.accept().unwrap();
        // A connection that is closed with octets unread is reset, and a reset discards what was written.
        let mut request = String::new();
        BufReader::new(&client).read_line(&mut request).unwrap();
        assert!(request.starts_with("?WATCH="), "{request}");
        writeln!(client, "{{\"class\":\"VERSION\"}}\n{TPV}").unwrap();
        drop(client);
        let fixes = await_fixes(&mut positions, 2);
        assert_eq!(fixes.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn partial_lines_are_buffered_and_a_closed_source_is_not_polled() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut positions =
            PositionSource { first: None, lines: Some(BufReader::new(ours)), partial_line: String::new() };
        for part in ["nu", "ll", "\nnull"] {
            assert_eq!(positions.take(), []);
            theirs.write_all(part.as_bytes()).unwrap();
        }
        assert_eq!(positions.take(), [None]);
        writeln!(theirs).unwrap();
        assert_eq!(positions.take(), [None]);
        assert!(positions.fd().is_some());
        drop(theirs);
        assert_eq!(positions.take(), []);
        assert!(positions.fd().is_none(), "an event loop that polls it would spin");
    }

    #[test]
    fn an_nmea_file_is_replayed_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.nmea");
        let lines = "$GPRMC,123519.00,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*44\r\n\
                     $GPRMC,123519.10,V,,,,,,,,,,N*71\r\n\
                     $GPRMC,123519.20,A,4807.040,N,01131.000,E,022.4,084.4,230394,003.1,W*49\r\n";
        std::fs::write(&path, lines).unwrap();
        let fixes = await_fixes(&mut PositionSource::start(&Position::Nmea(path)).unwrap(), 4);
        assert_eq!(fixes.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true, false]);
    }
}
