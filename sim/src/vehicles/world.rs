//! Stations on a radio channel of the simulator: each has a track and a GeoNetworking station, and the world is its
//! upper layer.

use crate::net::host::FIRST_LINK;
use crate::net::virtual_link::ORIGIN;
use crate::net::{Host, HostId, MediumId, RadioSpec, StationId, Track, World};
use core::cell::RefCell;
use roam6_proto::contract::config::geo::{GeoConfig, Mib, SecurityConfig};
use roam6_proto::contract::report::HostReport;
use roam6_proto::geo::geometry::{Offset, Plane};
use roam6_proto::geo::{GeoStation, PacketRequest, RequestError};
use roam6_proto::{DropReason, Engine, Entropy, Frame, Input, LinkId, Outbox, Output, Report, Time, View};
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Coordinates, GeoAddress, ItsStationType};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// The radio interface of every station.
pub const LINK: LinkId = LinkId(FIRST_LINK);

/// A world of vehicles.
#[derive(Debug)]
pub struct RadioWorld {
    /// Its hosts, and the radio channel.
    pub network: World,
    /// The radio channel.
    pub radio: MediumId,
    plane: Plane,
    hosts: BTreeMap<StationId, HostId>,
    upper_layer: Rc<RefCell<UpperLayer>>,
    /// Whether sequence numbers begin with 0 at each start, as in other stacks.
    numbers_from_zero: bool,
}

/// What the world requests of stations, and what they do.
#[derive(Debug, Default)]
struct UpperLayer {
    request: Option<PacketRequest>,
    refused: Option<RequestError>,
    steps: VecDeque<StationStep>,
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
    /// The entries of its location table; packets stored, and in contention; and lookups, after the step.
    pub held: (usize, usize, usize, usize),
}

/// The cause of a step.
#[derive(Debug, Clone)]
pub enum StepCause {
    /// A frame was received.
    FrameReceived(Rc<Frame>),
    /// A timer has expired, or the state of the host has changed.
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
        let mut network = World::new(seed);
        let radio = network.add_radio("radio", spec);
        RadioWorld {
            network,
            radio,
            plane: Plane::at(ORIGIN),
            hosts: BTreeMap::new(),
            upper_layer: Rc::default(),
            numbers_from_zero: (seed / 10).is_multiple_of(2),
        }
    }

    /// The present time.
    pub fn now(&self) -> Time {
        self.network.now()
    }

    /// The properties of the radio channel.
    pub fn radio_spec(&self) -> RadioSpec {
        self.network.medium(self.radio).channel.as_ref().map(|channel| channel.spec()).unwrap_or_default()
    }

    /// The place of a station.
    pub fn place(&self, id: StationId) -> Option<Offset> {
        self.host(id).map(|host| self.network.host(host).track().at(self.now()))
    }

    /// The places of all stations that are switched on.
    pub fn places(&self) -> BTreeMap<StationId, Offset> {
        let on = self.hosts.keys().filter(|id| self.is_on(**id));
        on.filter_map(|id| Some((*id, self.place(*id)?))).collect()
    }

    /// The geographical position of a place of this world.
    pub fn on_earth(&self, offset: Offset) -> Coordinates {
        self.plane.place(offset)
    }

    /// The place of a geographical position in this world.
    pub fn offset(&self, place: Coordinates) -> Offset {
        self.plane.offset(place)
    }

    /// Whether a station is switched on.
    pub fn is_on(&self, id: StationId) -> bool {
        self.host(id).is_some_and(|host| self.network.host(host).instance.is_some())
    }

    /// The host of a station.
    pub fn host(&self, id: StationId) -> Option<HostId> {
        self.hosts.get(&id).copied()
    }

    /// Adds a station and switches it on.
    pub fn add(&mut self, id: StationId, track: Track, mib: Mib) {
        let (seed, from_zero) = (self.network.entropy.next_u64(), self.numbers_from_zero);
        let upper_layer = Rc::clone(&self.upper_layer);
        let interfaces = ["radio0".to_owned()].into();
        let station = ItsStationType::PASSENGER_CAR;
        let security = SecurityConfig::default();
        let config = GeoConfig {
            interfaces,
            station,
            virtual_links: Vec::new(),
            advertised_links: 0,
            destinations: Vec::new(),
            facilities: None,
            mib,
            security,
        };
        let mut host = Host::new(&format!("station {}", id.0), move |instance| {
            let entropy = Entropy::seed_from_u64(seed.wrapping_add(instance.into()));
            let station = GeoStation::new(config.clone(), entropy);
            let station = if from_zero { station.with_sequence(0) } else { station };
            Box::new(StationEngine { id, instance, station, upper_layer: Rc::clone(&upper_layer) })
        });
        host.track = Some(track);
        self.attach(id, host);
        self.switch_on(id);
    }

    /// Adds a transmitter without a station, for [`RadioWorld::inject`].
    pub fn add_transmitter(&mut self, id: StationId, place: Offset) {
        let mut host = Host::idle("transmitter");
        host.track = Some(Track::standing(place));
        self.attach(id, host);
    }

    fn attach(&mut self, id: StationId, mut host: Host) {
        let link = host.add_interface("radio0", u16::try_from(id.0).unwrap_or(u16::MAX));
        let host = self.network.add_attached_host(host, &[(link, self.radio)]);
        self.hosts.insert(id, host);
    }

    /// Switches a station on, as a new instance without memory; its receiver has a fix at once.
    pub fn switch_on(&mut self, id: StationId) {
        if let Some(host) = self.host(id).filter(|_| !self.is_on(id)) {
            self.network.start(host);
            self.network.report_fix(host);
        }
    }

    /// Switches it off without warning.
    pub fn switch_off(&mut self, id: StationId) {
        if let Some(host) = self.host(id) {
            self.network.power_off(host);
        }
    }

    /// Requests a station to send a packet, unless it is switched off.
    ///
    /// # Errors
    /// Why the station refuses.
    pub fn request(&mut self, id: StationId, request: PacketRequest) -> Result<(), RequestError> {
        if let Some(host) = self.host(id).filter(|_| self.is_on(id)) {
            self.upper_layer.borrow_mut().request = Some(request);
            self.network.handle(host, &Input::Tick);
        }
        self.upper_layer.borrow_mut().refused.take().map_or(Ok(()), Err)
    }

    /// Sends a frame of a transmitter.
    pub fn inject(&mut self, from: StationId, frame: &Frame) {
        if let Some(host) = self.host(from) {
            self.network.send_frame(host, frame);
        }
    }

    /// The next step of a station that has been made and not taken yet.
    pub fn take_step(&mut self) -> Option<StationStep> {
        self.upper_layer.borrow_mut().steps.pop_front()
    }
}

/// A GeoNetworking station whose upper layer is the world.
struct StationEngine {
    id: StationId,
    instance: u32,
    station: GeoStation,
    upper_layer: Rc<RefCell<UpperLayer>>,
}

impl StationEngine {
    /// Lets the station do `work`, which returns the payload delivered, and logs the step.
    fn step(
        &mut self,
        cause: StepCause,
        out: &mut Outbox,
        work: impl FnOnce(&mut GeoStation, &mut Outbox) -> Option<Vec<u8>>,
    ) {
        let before = out.outputs().len();
        let delivered = work(&mut self.station, out);
        let (mut sent, mut drops) = (Vec::new(), Vec::new());
        for output in out.outputs().get(before..).unwrap_or_default() {
            match output {
                Output::Frame(frame) => sent.push(Rc::new(frame.clone())),
                Output::Report(Report::Host(HostReport::Dropped { reason, .. })) => drops.push(*reason),
                _ => {}
            }
        }
        let router = self.station.router();
        let (stored, contending, lookups) = router.buffered();
        let held = (router.location_table().len(), stored, contending, lookups);
        let (station, instance) = (self.id, self.instance);
        let step = StationStep { station, instance, cause, sent, delivered, drops, held };
        self.upper_layer.borrow_mut().steps.push_back(step);
    }
}

impl Engine for StationEngine {
    /// A request or frame is a step of its own, apart from timers that expire at the same moment.
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        let request = self.upper_layer.borrow_mut().request.take();
        if let Some(request) = request {
            let mut refused = None;
            self.step(StepCause::Requested, out, |station, out| {
                refused = station.request(now, request, out).err();
                None
            });
            self.upper_layer.borrow_mut().refused = refused;
        }
        let rest = match input {
            Input::Frame(frame) => {
                self.step(StepCause::FrameReceived(Rc::new(frame.clone())), out, |station, out| {
                    station.receive_frame(now, frame, out).map(|delivery| delivery.packet.payload.to_vec())
                });
                &Input::Tick
            }
            other => other,
        };
        self.step(StepCause::TimerExpired, out, |station, out| {
            station.handle(now, rest, out);
            None
        });
    }

    fn deadline(&self) -> Option<Time> {
        self.station.deadline()
    }

    fn view(&self, now: Time, view: &mut View) {
        self.station.view(now, view);
    }
}
