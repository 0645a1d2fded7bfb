//! State of the link emulator: ports, media, frames in flight, and the thread that moves them.

use crate::bed::capture::Capture;
use crate::clock;
use crate::sys;
use crate::threads::Shared;
use nix::sys::epoll::{Epoll, EpollEvent, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{Expiration, TimerFd, TimerSetTimeFlags};
use roam6_proto::Time;
use roam6_sim::net::radio::{Audience, Radio, StationId};
use roam6_sim::{LinkModel, LinkSpec};
use roam6_wire::LinkAddress;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the thread checks whether it should end, milliseconds.
const POLL_TIMEOUT: u16 = 200;
/// The timer's number among the epoll events.
pub(super) const TIMER_EVENT: u64 = u64::MAX;
/// Octets of the largest frame.
pub(super) const MAX_FRAME: usize = 65_536;
/// Frames read from one port before the next port is served.
const MAX_BATCH: usize = 64;

/// A port: one end of a cable, at a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Port(pub(super) usize);

/// A segment: a medium that ports are plugged into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Segment(pub(super) usize);

/// A frame that a port sends into a segment, before the link model applies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObservedFrame<'a> {
    /// Microseconds since 1970.
    pub(crate) unix_micros: u64,
    /// The sending port.
    pub(crate) port: Port,
    /// The segment it is sent into.
    pub(crate) segment: Segment,
    /// The frame, from its Ethernet header on.
    pub(crate) frame: &'a [u8],
}

impl<'a> ObservedFrame<'a> {
    /// The IPv6 packet in the frame, if it is one.
    pub(crate) fn packet(&self) -> Option<&'a [u8]> {
        (self.frame.get(12..14) == Some(&[0x86, 0xdd])).then(|| self.frame.get(14..)).flatten()
    }
}

/// Called for every frame, on the emulator's thread.
pub(super) type Observer = Box<dyn FnMut(&ObservedFrame<'_>) + Send>;

/// State shared by the emulator's thread and its callers.
pub(super) struct Fabric {
    began: Instant,
    seed: u64,
    pub(super) ports: Vec<PortState>,
    pub(super) segments: Vec<Medium>,
    in_flight: BinaryHeap<Reverse<FrameInFlight>>,
    sent: u64,
    pub(super) capture: Option<Capture>,
    pub(super) observers: Vec<Observer>,
}

/// A medium.
pub(super) enum Medium {
    /// Delivers each frame to all ports plugged into it.
    Link(LinkSpec),
    /// Delivers each frame to the stations in range.
    Channel(Box<Radio<Vec<u8>>>),
}

impl Medium {
    /// The link model of ports on this medium.
    pub(super) fn link_spec(&self) -> LinkSpec {
        match self {
            Medium::Link(spec) => *spec,
            Medium::Channel(_) => LinkSpec::default(),
        }
    }
}

impl From<Port> for StationId {
    fn from(port: Port) -> StationId {
        StationId(u32::try_from(port.0).unwrap_or(u32::MAX))
    }
}

/// A port and its segment.
pub(super) struct PortState {
    pub(super) tap: File,
    pub(super) name: String,
    pub(super) link_layer_address: LinkAddress,
    pub(super) segment: Option<Segment>,
    pub(super) model: LinkModel,
}

/// A frame in flight; ordered by arrival, then by the order of sending.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FrameInFlight {
    arrival: Time,
    number: u64,
    from: Port,
    segment: Segment,
    frame: Vec<u8>,
}

impl Fabric {
    pub(super) fn new(seed: u64) -> Fabric {
        Fabric {
            began: clock::now(),
            seed,
            ports: Vec::new(),
            segments: Vec::new(),
            in_flight: BinaryHeap::new(),
            sent: 0,
            capture: None,
            observers: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    pub(super) fn next_seed(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(1);
        self.seed
    }

    pub(super) fn add_segment(&mut self, medium: Medium) -> Segment {
        self.segments.push(medium);
        Segment(self.segments.len() - 1)
    }

    /// The radio channel that a port is on.
    pub(super) fn radio_channel(&mut self, port: Port) -> Option<&mut Radio<Vec<u8>>> {
        match self.segments.get_mut(self.ports.get(port.0)?.segment?.0)? {
            Medium::Channel(radio) => Some(radio),
            Medium::Link(_) => None,
        }
    }

    /// Removes a port from all radio channels.
    pub(super) fn leave_channel(&mut self, port: Port) {
        self.radios().for_each(|radio| radio.drop(port.into()));
    }

    /// Reads the frames that `from` has sent and passes them to the medium.
    fn read_frames(&mut self, from: Port, buffer: &mut [u8]) {
        for _ in 0..MAX_BATCH {
            let now = self.now();
            let Some(port) = self.ports.get_mut(from.0) else { return };
            let frame = match port.tap.read(buffer) {
                Ok(length) => buffer.get(..length).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let Some(segment) = port.segment else { continue };
            let unix_micros = clock::unix_micros();
            if let Some(capture) = &mut self.capture
                && capture.write_packet(&port.name, unix_micros, frame).is_err()
            {
                self.capture = None;
            }
            for observer in &mut self.observers {
                observer(&ObservedFrame { unix_micros, port: from, segment, frame });
            }
            self.send(now, from, segment, frame);
        }
    }

    fn send(&mut self, now: Time, from: Port, segment: Segment, frame: &[u8]) {
        let audience = self.receivers(segment, frame);
        if let Some(Medium::Channel(radio)) = self.segments.get_mut(segment.0) {
            radio.offer(now, from.into(), audience, frame.len(), frame.to_vec());
            return;
        }
        let Some(port) = self.ports.get_mut(from.0) else { return };
        for arrives in port.model.offer(now, frame.len()) {
            let (number, frame) = (self.sent, frame.to_vec());
            self.sent += 1;
            self.in_flight.push(Reverse(FrameInFlight { arrival: arrives, number, from, segment, frame }));
        }
    }

    /// The receivers of a frame.
    fn receivers(&self, segment: Segment, frame: &[u8]) -> Audience {
        let destination = frame.get(..6).unwrap_or_default();
        if is_group(destination) {
            return Audience::Broadcast;
        }
        let found = self
            .ports
            .iter()
            .position(|port| port.segment == Some(segment) && port.link_layer_address.0 == destination);
        Audience::Unicast(found.map(|number| Port(number).into()))
    }

    /// Delivers all frames that are due; returns the time until the next arrival.
    fn deliver_due(&mut self) -> Option<Duration> {
        loop {
            let flight = self.in_flight.peek().map(|Reverse(flight)| flight.arrival);
            let next = self.radios().filter_map(|radio| radio.deadline()).chain(flight).min()?;
            let now = self.now();
            if next > now {
                return Some(next.since(now));
            }
            if flight == Some(next) {
                self.deliver_link_frame();
            } else {
                self.deliver_radio_frames(next);
            }
        }
    }

    fn radios(&mut self) -> impl Iterator<Item = &mut Radio<Vec<u8>>> {
        self.segments.iter_mut().filter_map(|medium| match medium {
            Medium::Channel(radio) => Some(radio.as_mut()),
            Medium::Link(_) => None,
        })
    }

    /// Delivers the next frame at the end of a link.
    fn deliver_link_frame(&mut self) {
        let Some(Reverse(FrameInFlight { from, segment, frame, .. })) = self.in_flight.pop() else { return };
        let destination = frame.get(..6).unwrap_or_default();
        let to_all = is_group(destination);
        for (number, port) in self.ports.iter_mut().enumerate() {
            if port.segment == Some(segment) && number != from.0 && (to_all || port.link_layer_address.0 == destination)
            {
                port.tap.write_all(&frame).ok(); // a host that is down loses it, as with any cable
            }
        }
    }

    /// Delivers the radio frames received until `now`.
    fn deliver_radio_frames(&mut self, now: Time) {
        let mut received = Vec::new();
        for radio in self.radios() {
            received.extend(std::iter::from_fn(|| radio.expire(now)));
        }
        for reception in received {
            for station in reception.receivers {
                let port = usize::try_from(station.0).ok().and_then(|number| self.ports.get_mut(number));
                if let Some(port) = port {
                    port.tap.write_all(&reception.frame).ok();
                }
            }
        }
    }
}

fn is_group(destination: &[u8]) -> bool {
    destination.first().is_some_and(|octet| octet & 1 == 1)
}

/// The emulator's thread: waits for frames and arrivals, and moves frames.
pub(super) fn run(fabric: &Shared<Fabric>, epoll: &Epoll, timer: &TimerFd, stop: &AtomicBool) {
    sys::set_realtime_priority(20);
    let mut events = [EpollEvent::empty(); 32];
    let mut buffer = vec![0; MAX_FRAME];
    while !stop.load(Ordering::Relaxed) {
        let ready = epoll.wait(&mut events, EpollTimeout::from(POLL_TIMEOUT)).unwrap_or(0);
        let mut fabric = fabric.lock();
        for event in events.iter().take(ready).filter(|event| event.data() != TIMER_EVENT) {
            fabric.read_frames(Port(usize::try_from(event.data()).unwrap_or(usize::MAX)), &mut buffer);
        }
        match fabric.deliver_due() {
            Some(wait) => timer
                .set(Expiration::OneShot(TimeSpec::from_duration(wait)), TimerSetTimeFlags::empty())
                .unwrap_or_default(),
            None => timer.unset().unwrap_or_default(),
        }
    }
}
