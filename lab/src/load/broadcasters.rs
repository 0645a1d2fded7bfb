//! Other stations on a radio channel: each broadcasts frames of a constant size at a constant rate, as vehicles broadcast
//! cooperative awareness messages (CAM).

use crate::bed::{Host, LinkEmulator, Segment};
use crate::clock;
use crate::sys;
use crate::threads::Workers;
use anyhow::Result;
use roam6_proto::geo::geometry::Offset;
use roam6_sim::Track;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Stations, each of which broadcasts for ten vehicles: a thread for each vehicle would load the machine.
const STATIONS: u32 = 3;
const VEHICLES: u32 = 10;
/// CAMs of a vehicle each second, at most (EN 302 637-2 §6.1.3), and the octets of their frames.
const CAM_RATE: u32 = 10;
const OCTETS: usize = 300;
/// An EtherType for local experiments (IEEE 802), which no station receives.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Frames that all stations broadcast each second.
pub(crate) const FRAMES_PER_SECOND: u32 = STATIONS * VEHICLES * CAM_RATE;

/// The stations; they end with this value.
pub(crate) struct Broadcasters {
    _workers: Workers,
    _host: Host,
}

impl Broadcasters {
    /// Adds the stations to a channel, at this place.
    pub(crate) fn start(emulator: &LinkEmulator, channel: Segment, place: Offset) -> Result<Broadcasters> {
        let (host, mut workers) = (Host::new("others")?, Workers::default());
        for number in 0..STATIONS {
            let name = format!("radio{number}");
            let port = emulator.add_port(&host, &name)?;
            host.set_sysctl(&format!("ipv6/conf/{name}/disable_ipv6"), "1")?;
            emulator.tune(port, channel, Track::standing(place))?;
            let socket = host.in_namespace(|| sys::open_packet_socket(&name, 0))??;
            let mut frame = [&[0xff; 6][..], &[2, 0x47, 1, 0, 0, u8::try_from(number)?], &ETHERTYPE].concat();
            frame.resize(OCTETS, 0);
            workers.spawn("broadcasts", move |stop| broadcast(&socket, &frame, stop))?;
        }
        Ok(Broadcasters { _workers: workers, _host: host })
    }
}

fn broadcast(socket: &OwnedFd, frame: &[u8], stop: &AtomicBool) {
    let interval = Duration::from_secs(1) / (VEHICLES * CAM_RATE);
    let (begin, mut sent) = (clock::now(), 0_u32);
    while !stop.load(Ordering::Relaxed) {
        // A frame that a full queue refuses is lost, as one of a real station.
        nix::unistd::write(socket, frame).ok();
        sent = sent.wrapping_add(1);
        std::thread::sleep((interval * sent).saturating_sub(begin.elapsed()));
    }
}
