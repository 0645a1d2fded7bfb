//! The link emulator: cables and radio channels between hosts. Frames pass between TAP devices through the link models
//! of the simulator.
//!
//! A port is a TAP device of a host. A segment is a medium: a link delivers each frame to all other ports plugged into
//! it; on a radio channel ports move along tracks, and the ports in range receive. A moving vehicle is emulated by
//! re-plugging a port: carrier lost, another network, carrier up.

mod fabric;

pub(crate) use fabric::{ObservedFrame, Port, Segment};

use super::capture::Capture;
use super::host::Host;
use crate::clock;
use crate::sys;
use crate::threads::{Shared, Workers};
use anyhow::{Result, anyhow, bail};
use fabric::{Fabric, MAX_FRAME, Medium, PortState, TIMER_EVENT, run};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::timerfd::{ClockId, TimerFd, TimerFlags};
use roam6_proto::Time;
use roam6_proto::geo::geometry::Offset;
use roam6_sim::net::track::Velocity;
use roam6_sim::{LinkModel, LinkSpec, Radio, RadioSpec, Track};
use roam6_wire::LinkAddress;
use std::io::Read;
use std::net::Ipv6Addr;
use std::path::Path;
use std::sync::Arc;

/// All ports and segments of a testbed and the thread that moves their frames.
pub(crate) struct LinkEmulator {
    fabric: Shared<Fabric>,
    epoll: Arc<Epoll>,
    _workers: Workers,
}

/// Positions of the ports on radio channels.
#[derive(Clone)]
pub(crate) struct Positions(Shared<Fabric>);

impl Positions {
    /// Position and motion of a port on a radio channel; `None` for other ports.
    pub(crate) fn position_and_motion(&self, port: Port) -> Option<(Offset, Velocity)> {
        let mut fabric = self.0.lock();
        let now = fabric.now();
        fabric
            .radio_channel(port)
            .and_then(|radio| Some((radio.place(port.into(), now)?, radio.motion(port.into(), now)?)))
    }
}

impl LinkEmulator {
    /// An empty testbed. `seed` initialises all random generators.
    pub(crate) fn new(seed: u64) -> Result<LinkEmulator> {
        let fabric = Shared::new(Fabric::new(seed));
        let epoll = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER_EVENT))?;
        let (moved, polled, mut workers) = (fabric.clone(), epoll.clone(), Workers::default());
        workers.spawn("emulator", move |stop| run(&moved, &polled, &timer, stop))?;
        Ok(LinkEmulator { fabric, epoll, _workers: workers })
    }

    /// Makes a TAP device `name` at `host`, up but unplugged.
    pub(crate) fn add_port(&self, host: &Host, name: &str) -> Result<Port> {
        let tap = host.in_namespace(|| sys::open_tap(name))??;
        sys::set_carrier(&tap, false)?;
        let mut fabric = self.fabric.lock();
        let number = fabric.ports.len();
        let [.., high, low] = u32::try_from(number)?.to_be_bytes();
        let mac = LinkAddress([0x02, 0x60, 0x06, 0x00, high, low]);
        host.ip(&[&format!("link set {name} address {mac} up")])?;
        self.epoll.add(&tap, EpollEvent::new(EpollFlags::EPOLLIN, number as u64))?;
        let name = format!("{}.{name}", host.name());
        let model = LinkModel::new(LinkSpec::default(), 0);
        fabric.ports.push(PortState { tap, name, link_layer_address: mac, segment: None, model });
        Ok(Port(number))
    }

    /// Makes a link that treats frames as `spec` says.
    pub(crate) fn add_link(&self, spec: LinkSpec) -> Segment {
        self.fabric.lock().add_segment(Medium::Link(spec))
    }

    /// Makes a radio channel without stations.
    pub(crate) fn add_radio_channel(&self, spec: RadioSpec) -> Segment {
        let mut fabric = self.fabric.lock();
        let seed = fabric.next_seed();
        fabric.add_segment(Medium::Channel(Box::new(Radio::new(spec, seed))))
    }

    /// Attaches `port` to a radio channel and moves it along a track in the time of [`LinkEmulator::now`]; returns the time of
    /// link-up, microseconds since 1970.
    pub(crate) fn tune(&self, port: Port, channel: Segment, track: Track) -> Result<u64> {
        let mut fabric = self.fabric.lock();
        fabric.leave_channel(port);
        match fabric.segments.get_mut(channel.0) {
            Some(Medium::Channel(radio)) => radio.put(port.into(), track),
            _ => bail!("no such radio channel"),
        }
        connect(&mut fabric, port, channel)
    }

    /// Moves a port that is on a radio channel along another track.
    pub(crate) fn set_track(&self, port: Port, track: Track) -> Result<()> {
        let mut fabric = self.fabric.lock();
        let radio = fabric.radio_channel(port).ok_or_else(|| anyhow!("no such port on a radio channel"))?;
        radio.put(port.into(), track);
        Ok(())
    }

    /// The present, in the time base of tracks.
    pub(crate) fn now(&self) -> Time {
        self.fabric.lock().now()
    }

    /// A handle to the positions of all ports.
    pub(crate) fn positions(&self) -> Positions {
        Positions(self.fabric.clone())
    }

    /// Makes a link between two ports.
    pub(crate) fn cable(&self, ends: [Port; 2], spec: LinkSpec) -> Result<Segment> {
        let segment = self.add_link(spec);
        for port in ends {
            self.plug(port, segment)?;
        }
        Ok(segment)
    }

    /// Changes the link model for frames that enter `segment` from now on.
    pub(crate) fn shape(&self, segment: Segment, spec: LinkSpec) {
        let mut fabric = self.fabric.lock();
        if let Some(slot) = fabric.segments.get_mut(segment.0) {
            *slot = Medium::Link(spec);
        }
        for port in fabric.ports.iter_mut().filter(|port| port.segment == Some(segment)) {
            port.model.set_spec(spec);
        }
    }

    /// Changes the link model for frames that `port` sends, until it is plugged in again: as netem at an interface.
    pub(crate) fn shape_egress(&self, port: Port, spec: LinkSpec) {
        if let Some(port) = self.fabric.lock().ports.get_mut(port.0) {
            port.model.set_spec(spec);
        }
    }

    /// Calls `observer` for every frame sent from now on.
    pub(crate) fn observe(&self, observer: impl FnMut(&ObservedFrame<'_>) + Send + 'static) {
        self.fabric.lock().observers.push(Box::new(observer));
    }

    /// Lets `record` collect something of every frame from now on.
    pub(crate) fn collect<T, F>(&self, mut record: F) -> Shared<T>
    where
        T: Default + Send + 'static,
        F: FnMut(&mut T, &ObservedFrame<'_>) + Send + 'static,
    {
        let collected = Shared::default();
        let shared = collected.clone();
        self.observe(move |frame| record(&mut shared.lock(), frame));
        collected
    }

    /// Plugs `port` into `segment`; returns the time of link-up, microseconds since 1970.
    pub(crate) fn plug(&self, port: Port, segment: Segment) -> Result<u64> {
        let mut fabric = self.fabric.lock();
        fabric.leave_channel(port);
        connect(&mut fabric, port, segment)
    }

    /// The link-layer address of `port`.
    pub(crate) fn link_layer_address(&self, port: Port) -> Option<LinkAddress> {
        self.fabric.lock().ports.get(port.0).map(|port| port.link_layer_address)
    }

    /// The link-local address a host forms at `port` (RFC 4291, appendix A).
    pub(crate) fn link_local(&self, port: Port) -> Result<Ipv6Addr> {
        Ok(self.link_layer_address(port).ok_or_else(|| anyhow!("no such port"))?.link_local())
    }

    /// Unplugs `port`; returns the time of link-down, microseconds since 1970.
    pub(crate) fn unplug(&self, port: Port) -> Result<u64> {
        let mut fabric = self.fabric.lock();
        let slot = fabric.ports.get_mut(port.0).ok_or_else(|| anyhow!("no such port"))?;
        slot.segment = None;
        let now = clock::unix_micros();
        sys::set_carrier(&slot.tap, false)?;
        fabric.leave_channel(port);
        Ok(now)
    }

    /// Records every frame sent from now on.
    pub(crate) fn capture(&self, path: &Path) -> Result<()> {
        self.fabric.lock().capture = Some(Capture::create(path)?);
        Ok(())
    }

    /// Ends the recording.
    pub(crate) fn finish_capture(&self) -> Result<()> {
        let capture = self.fabric.lock().capture.take();
        Ok(capture.map_or(Ok(()), Capture::finish)?)
    }
}

fn connect(fabric: &mut Fabric, port: Port, segment: Segment) -> Result<u64> {
    let spec = fabric.segments.get(segment.0).ok_or_else(|| anyhow!("no such segment"))?.link_spec();
    let seed = fabric.next_seed();
    let slot = fabric.ports.get_mut(port.0).ok_or_else(|| anyhow!("no such port"))?;
    // Frames sent while unplugged are lost, also those that have not been read yet.
    let mut lost = vec![0; MAX_FRAME];
    while slot.tap.read(&mut lost).is_ok() {}
    slot.segment = Some(segment);
    slot.model = LinkModel::new(spec, seed);
    let now = clock::unix_micros();
    sys::set_carrier(&slot.tap, true)?;
    Ok(now)
}
