//! The air: cables and radio between hosts, moved frame by frame between TAP devices through the link model.
//!
//! A port is a TAP device of a host. A segment is a medium that carries each frame to all other ports plugged into it.
//! Re-plugging a port is what a moving vehicle does: carrier gone, other network, carrier back.

use super::capture::Capture;
use super::host::Host;
use crate::clock;
use crate::sys;
use anyhow::{Result, anyhow};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use roam6_proto::Time;
use roam6_sim::{LinkModel, LinkSpec};
use roam6_wire::LinkAddress;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv6Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A port: one end of a cable, at a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Port(usize);

/// A segment: a medium ports are plugged into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Segment(usize);

/// A frame a port sends into a segment, before anything happens to it there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sighting<'a> {
    /// Microseconds since 1970.
    pub(crate) unix_micros: u64,
    /// Who sends it.
    pub(crate) port: Port,
    /// Where.
    pub(crate) segment: Segment,
    /// The frame, from its Ethernet header on.
    pub(crate) frame: &'a [u8],
}

impl<'a> Sighting<'a> {
    /// The IPv6 packet in the frame, if it is one.
    pub(crate) fn packet(&self) -> Option<&'a [u8]> {
        (self.frame.get(12..14) == Some(&[0x86, 0xdd])).then(|| self.frame.get(14..)).flatten()
    }
}

/// Told of every frame, on the thread that moves them.
type Observer = Box<dyn FnMut(&Sighting<'_>) + Send>;

/// All ports and segments of a testbed and the thread that moves their frames.
pub(crate) struct Air {
    fabric: Arc<Mutex<Fabric>>,
    epoll: Arc<Epoll>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How often the thread looks whether it should end, milliseconds.
const PATIENCE: u16 = 200;
/// The timer's number among the epoll events.
const TIMER: u64 = u64::MAX;
/// Octets of the largest frame.
const LARGEST: usize = 65_536;
/// Frames taken from one port before others get their turn.
const BURST: usize = 64;

impl Air {
    /// An empty testbed. `seed` decides all chances.
    pub(crate) fn new(seed: u64) -> Result<Air> {
        let fabric = Arc::new(Mutex::new(Fabric::new(seed)));
        let epoll = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (fabric, epoll, stop) = (fabric.clone(), epoll.clone(), stop.clone());
            std::thread::Builder::new().name("air".into()).spawn(move || carry(&fabric, &epoll, &timer, &stop))?
        };
        Ok(Air { fabric, epoll, stop, thread: Some(thread) })
    }

    /// Makes a TAP device `name` at `host`, up but unplugged.
    pub(crate) fn port(&self, host: &Host, name: &str) -> Result<Port> {
        let tap = host.inside(|| sys::open_tap(name))??;
        sys::set_carrier(&tap, false)?;
        let mut fabric = lock(&self.fabric);
        let number = fabric.ports.len();
        let [.., high, low] = u32::try_from(number)?.to_be_bytes();
        let mac = [0x02, 0x60, 0x06, 0x00, high, low];
        let text = mac.map(|byte| format!("{byte:02x}")).join(":");
        host.ip(&[&format!("link set {name} address {text} up")])?;
        self.epoll.add(&tap, EpollEvent::new(EpollFlags::EPOLLIN, number as u64))?;
        let name = format!("{}.{name}", host.name());
        fabric.ports.push(Plugged { tap, name, mac, segment: None, model: LinkModel::new(LinkSpec::default(), 0) });
        Ok(Port(number))
    }

    /// Makes a medium; every frame that enters it is treated as `spec` says.
    pub(crate) fn segment(&self, spec: LinkSpec) -> Segment {
        let mut fabric = lock(&self.fabric);
        fabric.segments.push(spec);
        Segment(fabric.segments.len() - 1)
    }

    /// Makes a medium with two ends, as a cable.
    pub(crate) fn cable(&self, ends: [Port; 2], spec: LinkSpec) -> Result<Segment> {
        let segment = self.segment(spec);
        for port in ends {
            self.plug(port, segment)?;
        }
        Ok(segment)
    }

    /// Treats frames that enter `segment` from now on as `spec` says.
    pub(crate) fn shape(&self, segment: Segment, spec: LinkSpec) {
        let mut fabric = lock(&self.fabric);
        if let Some(slot) = fabric.segments.get_mut(segment.0) {
            *slot = spec;
        }
        for port in fabric.ports.iter_mut().filter(|port| port.segment == Some(segment)) {
            port.model.set_spec(spec);
        }
    }

    /// Treats frames that `port` sends from now on as `spec` says, until it is plugged in anew: netem at an interface.
    pub(crate) fn shape_out(&self, port: Port, spec: LinkSpec) {
        if let Some(port) = lock(&self.fabric).ports.get_mut(port.0) {
            port.model.set_spec(spec);
        }
    }

    /// Tells `observer` of every frame that is sent from now on.
    pub(crate) fn observe(&self, observer: impl FnMut(&Sighting<'_>) + Send + 'static) {
        lock(&self.fabric).observers.push(Box::new(observer));
    }

    /// Plugs `port` into `segment`; returns the moment carrier came, microseconds since 1970.
    pub(crate) fn plug(&self, port: Port, segment: Segment) -> Result<u64> {
        let mut fabric = lock(&self.fabric);
        let spec = *fabric.segments.get(segment.0).ok_or_else(|| anyhow!("no such segment"))?;
        fabric.seed = fabric.seed.wrapping_add(1);
        let seed = fabric.seed;
        let slot = fabric.ports.get_mut(port.0).ok_or_else(|| anyhow!("no such port"))?;
        // What the host sent while nothing was plugged in is lost, also if it has not been looked at yet.
        let mut lost = vec![0; LARGEST];
        while slot.tap.read(&mut lost).is_ok() {}
        slot.segment = Some(segment);
        slot.model = LinkModel::new(spec, seed);
        let now = clock::unix_micros();
        sys::set_carrier(&slot.tap, true)?;
        Ok(now)
    }

    /// The link-local address a host forms at `port` (RFC 4291, appendix A).
    pub(crate) fn link_local(&self, port: Port) -> Result<Ipv6Addr> {
        let fabric = lock(&self.fabric);
        let slot = fabric.ports.get(port.0).ok_or_else(|| anyhow!("no such port"))?;
        Ok(roam6_proto::access::neighbour::link_local(LinkAddress(slot.mac)))
    }

    /// Pulls the cable of `port`; returns the moment, microseconds since 1970.
    pub(crate) fn unplug(&self, port: Port) -> Result<u64> {
        let mut fabric = lock(&self.fabric);
        let slot = fabric.ports.get_mut(port.0).ok_or_else(|| anyhow!("no such port"))?;
        slot.segment = None;
        let now = clock::unix_micros();
        sys::set_carrier(&slot.tap, false)?;
        Ok(now)
    }

    /// Records every frame any port sends from now on.
    pub(crate) fn capture(&self, path: &Path) -> Result<()> {
        lock(&self.fabric).capture = Some(Capture::create(path)?);
        Ok(())
    }

    /// Ends the recording.
    pub(crate) fn finish_capture(&self) -> Result<()> {
        let capture = lock(&self.fabric).capture.take();
        Ok(capture.map_or(Ok(()), Capture::finish)?)
    }
}

impl Drop for Air {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// What the thread and the callers share.
struct Fabric {
    began: Instant,
    seed: u64,
    ports: Vec<Plugged>,
    segments: Vec<LinkSpec>,
    under_way: BinaryHeap<Reverse<Flight>>,
    sent: u64,
    capture: Option<Capture>,
    observers: Vec<Observer>,
}

/// A port and what it is plugged into.
struct Plugged {
    tap: File,
    name: String,
    mac: [u8; 6],
    segment: Option<Segment>,
    model: LinkModel,
}

/// A frame that will arrive; ordered by arrival, then by the order of sending.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    arrives: Time,
    number: u64,
    from: Port,
    segment: Segment,
    frame: Vec<u8>,
}

impl Fabric {
    fn new(seed: u64) -> Fabric {
        Fabric {
            began: clock::now(),
            seed,
            ports: Vec::new(),
            segments: Vec::new(),
            under_way: BinaryHeap::new(),
            sent: 0,
            capture: None,
            observers: Vec::new(),
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    /// Takes what `from` has sent and puts it under way.
    fn collect(&mut self, from: Port, buffer: &mut [u8]) {
        for _ in 0..BURST {
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
                && capture.put(&port.name, unix_micros, frame).is_err()
            {
                self.capture = None;
            }
            for observer in &mut self.observers {
                observer(&Sighting { unix_micros, port: from, segment, frame });
            }
            for arrives in port.model.offer(now, frame.len()) {
                let number = self.sent;
                self.sent += 1;
                self.under_way.push(Reverse(Flight { arrives, number, from, segment, frame: frame.to_vec() }));
            }
        }
    }

    /// Delivers what has arrived; returns how long until the next arrival.
    fn deliver(&mut self) -> Option<Duration> {
        loop {
            let Reverse(next) = self.under_way.peek()?;
            let now = self.now();
            if next.arrives > now {
                return Some(next.arrives.since(now));
            }
            let Reverse(Flight { from, segment, frame, .. }) = self.under_way.pop()?;
            let destination = frame.get(..6).unwrap_or_default();
            let to_all = destination.first().is_some_and(|octet| octet & 1 == 1);
            for (number, port) in self.ports.iter_mut().enumerate() {
                if port.segment == Some(segment) && number != from.0 && (to_all || port.mac == destination) {
                    port.tap.write_all(&frame).ok(); // a host that is down loses it, as with any cable
                }
            }
        }
    }
}

/// The thread: waits for frames and arrivals, moves frames.
fn carry(fabric: &Mutex<Fabric>, epoll: &Epoll, timer: &TimerFd, stop: &AtomicBool) {
    sys::run_first(20);
    let mut events = [EpollEvent::empty(); 32];
    let mut buffer = vec![0; LARGEST];
    while !stop.load(Ordering::Relaxed) {
        let ready = epoll.wait(&mut events, EpollTimeout::from(PATIENCE)).unwrap_or(0);
        let mut fabric = lock(fabric);
        for event in events.iter().take(ready).filter(|event| event.data() != TIMER) {
            fabric.collect(Port(usize::try_from(event.data()).unwrap_or(usize::MAX)), &mut buffer);
        }
        match fabric.deliver() {
            Some(wait) => timer
                .set(Expiration::OneShot(TimeSpec::from_duration(wait)), TimerSetTimeFlags::empty())
                .unwrap_or_default(),
            None => timer.unset().unwrap_or_default(),
        }
    }
}

fn lock(fabric: &Mutex<Fabric>) -> MutexGuard<'_, Fabric> {
    fabric.lock().unwrap_or_else(PoisonError::into_inner)
}
