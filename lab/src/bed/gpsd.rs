//! An emulated gpsd for a host on a radio channel: it serves the protocol of gpsd_json(5) on gpsd's port.

use super::host::Host;
use super::link_emulator::{Port, Positions};
use crate::threads::Workers;
use anyhow::{Context, Result};
use roam6_proto::geo::geometry::{Offset, Plane};
use roam6_wire::geo::Coordinates;
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Address of the server in each host.
pub(crate) const ADDRESS: &str = "127.0.0.1:2947";
const PORT: u16 = 2947;
/// Time between reports: 10 Hz, as good vehicle receivers have.
const INTERVAL: Duration = Duration::from_millis(100);
/// Geographic origin of the lab's tracks.
const ORIGIN: Coordinates = Coordinates { latitude: 480_000_000, longitude: 110_000_000 };

/// Converts an offset on a track to a geographic position.
pub(crate) fn to_position(offset: Offset) -> Coordinates {
    Plane::at(ORIGIN).place(offset)
}

/// Converts a geographic position to an offset on a track.
pub(crate) fn to_offset(place: Coordinates) -> Offset {
    Plane::at(ORIGIN).offset(place)
}

/// Serves the position of `port` at `host` until the workers are dropped.
pub(crate) fn serve(host: &Host, positions: Positions, port: Port) -> Result<Workers> {
    let listener =
        host.in_namespace(|| TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)))?.context("no port for a gpsd")?;
    listener.set_nonblocking(true)?;
    let mut workers = Workers::default();
    workers.spawn("gps", move |stop| run_server(&listener, &positions, port, stop))?;
    Ok(workers)
}

/// A connection; reports are sent once the client has requested them.
struct Client {
    stream: TcpStream,
    watching: bool,
}

fn run_server(listener: &TcpListener, positions: &Positions, port: Port, stop: &AtomicBool) {
    let mut clients = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        while let Ok((stream, _)) = listener.accept() {
            clients.extend(Client::send_version(stream));
        }
        let report = tpv_report(positions, port);
        clients.retain_mut(|client| client.send_report(&report));
        std::thread::sleep(INTERVAL);
    }
}

impl Client {
    fn send_version(mut stream: TcpStream) -> Option<Client> {
        let version = json!({ "class": "VERSION", "release": "lab", "proto_major": 3, "proto_minor": 14 });
        stream.set_nonblocking(true).ok()?;
        writeln!(stream, "{version}").ok()?;
        Some(Client { stream, watching: false })
    }

    /// `false` once the client has disconnected.
    fn send_report(&mut self, report: &str) -> bool {
        let mut asked = [0; 256];
        match self.stream.read(&mut asked) {
            Ok(0) => return false,
            Ok(_) => self.watching |= asked.starts_with(b"?WATCH="),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
        !self.watching || self.stream.write_all(report.as_bytes()).is_ok()
    }
}

/// A TPV report of gpsd, speed in metres per second; without a position if the port is on no radio channel.
fn tpv_report(positions: &Positions, port: Port) -> String {
    let tpv = match positions.position_and_motion(port) {
        Some((offset, motion)) => {
            let (lat, lon) = to_position(offset).to_degrees();
            let (speed, track) = (motion.speed, motion.heading);
            json!({ "class": "TPV", "mode": 3, "lat": lat, "lon": lon, "eph": 1.5, "speed": speed, "track": track })
        }
        None => json!({ "class": "TPV", "mode": 1 }),
    };
    format!("{tpv}\n")
}
