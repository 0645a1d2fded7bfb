//! Stations on a radio medium in virtual time: each has a router, a track, and a receiver that reports its position
//! every second.

use crate::net::radio::{Audience, Radio, RadioSpec, StationId};
use crate::net::track::{Track, Velocity};
use core::time::Duration;
use roam6_proto::contract::config::geo::Mib;
use roam6_proto::contract::report::HostReport;
use roam6_proto::geo::geometry::{Offset, Plane};
use roam6_proto::geo::request::RequestError;
use roam6_proto::geo::router::BROADCAST;
use roam6_proto::geo::{GeoRouter, PacketRequest};
use roam6_proto::{
    Clock, DropReason, Entropy, Fix, Frame, LinkEvent, LinkId, Outbox, Output, Report, Time, TimerQueue,
};
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Coordinates, GeoAddress, ItsStationType};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// The radio interface of every station.
pub const LINK: LinkId = LinkId(1);
/// Octets of an Ethernet header, which the medium counts too.
const HEADER: usize = 14;
/// Interval of position fixes.
const FIX: Duration = Duration::from_secs(1);
/// Unix microseconds at the start of a world (2026-01-01T00:00Z).
const WALL_AT_START: u64 = 1_767_225_600_000_000;
/// The origin of every world.
const MIDDLE: Coordinates = Coordinates { latitude: 480_000_000, longitude: 110_000_000 };

/// A world of vehicles.
#[derive(Debug)]
pub struct RadioWorld {
    now: Time,
    plane: Plane,
    radio: Radio<Rc<Frame>>,
    peers: BTreeMap<StationId, StationState>,
    agenda: TimerQueue<Timer>,
    /// Receptions not handled yet.
    received: VecDeque<(StationId, Rc<Frame>)>,
    entropy: Entropy,
    /// Whether sequence numbers begin with 0 at each start, as in other stacks.
    numbers_from_zero: bool,
}

/// A station.
#[derive(Debug)]
pub struct StationState {
    /// Its router, unless it is switched off.
    pub router: Option<GeoRouter>,
    /// How often it was switched on.
    pub life: u32,
    mib: Mib,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Fix(StationId),
    Router(StationId),
}

/// One step of a station.
#[derive(Debug, Clone)]
pub struct StationStep {
    /// The station.
    pub station: StationId,
    /// Its instance.
    pub instance: u32,
    /// The cause.
    pub cause: StepCause,
    /// Frames sent.
    pub sent: Vec<Rc<Frame>>,
    /// The payload delivered.
    pub delivered: Option<Vec<u8>>,
    /// Packets dropped.
    pub drops: Vec<DropReason>,
}

/// The cause of a step.
#[derive(Debug, Clone)]
pub enum StepCause {
    /// A frame was received.
    FrameReceived(Rc<Frame>),
    /// A timer has expired.
    TimerExpired,
    /// A request of the upper layer.
    Requested,
}

/// The link-layer address of a station.
pub fn address(id: StationId) -> LinkAddress {
    let [a, b, c, d] = id.0.to_be_bytes();
    LinkAddress([2, 0, a, b, c, d])
}

/// The station of a link-layer address.
pub fn owner(address: LinkAddress) -> Option<StationId> {
    let [2, 0, a, b, c, d] = address.0 else { return None };
    Some(StationId(u32::from_be_bytes([a, b, c, d])))
}

/// The GeoNetworking address of a station.
pub fn geo_address(id: StationId) -> GeoAddress {
    GeoAddress::new(ItsStationType::PASSENGER_CAR, address(id))
}

impl RadioWorld {
    /// A world without stations.
    pub fn new(spec: RadioSpec, seed: u64) -> RadioWorld {
        RadioWorld {
            now: Time::from_micros(1),
            plane: Plane::at(MIDDLE),
            radio: Radio::new(spec, seed),
            peers: BTreeMap::new(),
            agenda: TimerQueue::new(),
            received: VecDeque::new(),
            entropy: Entropy::seed_from_u64(seed ^ 0x6e0),
            numbers_from_zero: (seed / 10).is_multiple_of(2),
        }
    }

    /// The present time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The medium.
    pub fn radio(&mut self) -> &mut Radio<Rc<Frame>> {
        &mut self.radio
    }

    /// The properties of the medium.
    pub fn radio_spec(&self) -> RadioSpec {
        self.radio.spec()
    }

    /// The place of a station.
    pub fn place(&self, id: StationId) -> Option<Offset> {
        self.radio.place(id, self.now)
    }

    /// The places of all stations that are switched on.
    pub fn places(&self) -> BTreeMap<StationId, Offset> {
        let on = |id: &StationId| self.peers.get(id).is_some_and(|peer| peer.router.is_some());
        self.radio.places(self.now).filter(|(id, _)| on(id)).collect()
    }

    /// The geographical position of a place of this world.
    pub fn on_earth(&self, offset: Offset) -> Coordinates {
        self.plane.place(offset)
    }

    /// The place of a geographical position in this world.
    pub fn offset(&self, place: Coordinates) -> Offset {
        self.plane.offset(place)
    }

    /// A station.
    pub fn peer(&self, id: StationId) -> Option<&StationState> {
        self.peers.get(&id)
    }

    /// Adds a station and switches it on.
    pub fn add(&mut self, id: StationId, track: Track, mib: Mib) {
        self.radio.put(id, track);
        self.peers.insert(id, StationState { router: None, life: 0, mib });
        self.switch_on(id);
        let first = self.now + Duration::from_micros(self.entropy.below(1_000_000));
        self.agenda.set(Timer::Fix(id), first);
    }

    /// Switches a station on, as a new instance without memory.
    pub fn switch_on(&mut self, id: StationId) {
        let fix = self.fix(id);
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let mut seed = [0; 32];
        self.entropy.fill(&mut seed);
        let mut router = GeoRouter::new(ItsStationType::PASSENGER_CAR, peer.mib.clone(), Entropy::from_seed(seed));
        if self.numbers_from_zero {
            router = router.with_sequence(0);
        }
        router.set_clock(self.now, Clock { unix_micros: WALL_AT_START + self.now.as_micros() });
        let name = "radio0".to_owned();
        let event = LinkEvent { link: LINK, name, address: Some(address(id)), up: true, mtu: 1500 };
        router.set_link(self.now, &event);
        router.set_fix(self.now, fix);
        peer.router = Some(router);
        peer.life += 1;
        self.schedule(id);
    }

    /// Switches it off without warning.
    pub fn switch_off(&mut self, id: StationId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.router = None;
        }
        self.schedule(id);
    }

    /// Requests a station to send a packet; `None` if it is switched off.
    pub fn ask(&mut self, id: StationId, request: PacketRequest) -> Option<(StationStep, Result<(), RequestError>)> {
        let mut result = Ok(());
        let step = self.act(id, StepCause::Requested, |router, now, out| {
            result = router.request(now, request, out);
            None
        });
        step.map(|step| (step, result))
    }

    /// Injects a frame of a station without a router.
    pub fn inject(&mut self, from: StationId, frame: Frame) {
        self.send(from, Rc::new(frame));
    }

    /// The next step of a station before `end`; `None` if there is none.
    pub fn step(&mut self, end: Time) -> Option<StationStep> {
        loop {
            if let Some((id, frame)) = self.received.pop_front() {
                let step = self.act(id, StepCause::FrameReceived(frame.clone()), |router, now, out| {
                    router.receive(now, &frame, out).map(|delivery| delivery.packet.payload.to_vec())
                });
                if step.is_some() {
                    return step;
                }
                continue;
            }
            let next = [self.radio.deadline(), self.agenda.deadline()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return None;
            };
            self.now = self.now.max(next);
            if let Some(reception) = self.radio.expire(self.now) {
                self.received.extend(reception.receivers.into_iter().map(|id| (id, reception.frame.clone())));
                continue;
            }
            match self.agenda.pop_expired(self.now) {
                Some(Timer::Fix(id)) => self.tell_place(id),
                Some(Timer::Router(id)) => {
                    let step = self.act(id, StepCause::TimerExpired, |router, now, out| {
                        router.expire(now, out);
                        None
                    });
                    if step.is_some() {
                        return step;
                    }
                }
                None => {}
            }
        }
    }

    fn tell_place(&mut self, id: StationId) {
        let (fix, now) = (self.fix(id), self.now);
        if let Some(router) = self.peers.get_mut(&id).and_then(|peer| peer.router.as_mut()) {
            router.set_fix(now, fix);
        }
        self.agenda.set(Timer::Fix(id), now + FIX);
        self.schedule(id);
    }

    /// The fix of its receiver.
    fn fix(&self, id: StationId) -> Option<Fix> {
        let place = self.plane.place(self.place(id)?);
        let Velocity { speed, heading } = self.radio.motion(id, self.now)?;
        // Casts of floats saturate.
        Some(Fix {
            place,
            uncertainty: Some(2),
            speed: (speed * 100.0) as i16,
            heading: (heading * 10.0) as u16 % 3600,
        })
    }

    fn act(
        &mut self,
        id: StationId,
        cause: StepCause,
        work: impl FnOnce(&mut GeoRouter, Time, &mut Outbox) -> Option<Vec<u8>>,
    ) -> Option<StationStep> {
        let peer = self.peers.get_mut(&id)?;
        let mut out = Outbox::new();
        let delivered = work(peer.router.as_mut()?, self.now, &mut out);
        let mut step =
            StationStep { station: id, instance: peer.life, cause, sent: Vec::new(), delivered, drops: Vec::new() };
        for output in out.drain() {
            match output {
                Output::Frame(frame) => step.sent.push(Rc::new(frame)),
                Output::Report(Report::Host(HostReport::Dropped { reason, .. })) => step.drops.push(reason),
                _ => {}
            }
        }
        step.sent.iter().for_each(|frame| self.send(id, frame.clone()));
        self.schedule(id);
        Some(step)
    }

    fn send(&mut self, from: StationId, frame: Rc<Frame>) {
        let audience = if frame.destination == BROADCAST {
            Audience::Broadcast
        } else {
            Audience::Unicast(owner(frame.destination))
        };
        self.radio.offer(self.now, from, audience, HEADER + frame.bytes.len(), frame);
    }

    fn schedule(&mut self, id: StationId) {
        let deadline = self.peers.get(&id).and_then(|peer| peer.router.as_ref()?.deadline());
        match deadline {
            Some(at) => self.agenda.set(Timer::Router(id), at.max(self.now)),
            None => self.agenda.cancel(&Timer::Router(id)),
        }
    }
}
