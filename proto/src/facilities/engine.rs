//! The facilities of one station: generation of CAM, DENM and SAM, and reception of those and other messages.

use super::cam::{CamGenerator, DueCam};
use super::cam_permissions;
use super::denm::{DenmRecord, DenmService, Originator};
use super::ldm::{EventSource, Ldm, LdmUpdate, StationMessage, StationUpdate};
use super::message_table::{self, MessageTable, MessageUpdate, Perception};
use super::sam::SamGenerator;
use super::service_table::{self, ServiceTable};
use super::view;
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::contract::config::facilities::{Announcement, DenmRequest, EventId, FacilitiesConfig};
use crate::contract::config::geo::{PacketParameters, TransportType};
use crate::contract::report::{DropReason, FacilitiesReport, HostReport, Report};
use crate::contract::view::View;
use crate::geo::ego::EgoState;
use crate::geo::{Delivery, PacketRequest};
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::btp::{Btp, SourceOrInfo, port};
use roam6_wire::geo::{Area, ExtendedHeader, ItsStationType, LongPositionVector, TrafficClass, UpperProtocol};
use roam6_wire::its::cam::{
    Awareness as CoopAwareness, Basic, Cam, Curvature, CurvatureConfidence, CurvatureMode, DriveDirection,
    HighFrequency, LowFrequency, Parameters, Roadside, Trailer, Vehicle, VehicleLength, VehicleLow, VehicleRole,
    YawRate, YawRateConfidence,
};
use roam6_wire::its::common::{
    Acceleration, DeltaPosition, Header, Heading, PathHistory, PathPoint, ReferencePosition, Speed, no_lights,
};
use roam6_wire::its::denm::Termination;
use roam6_wire::its::saem::Saem;
use roam6_wire::its::{Message, PROTOCOL_VERSION, message};

/// Traffic classes (EN 302 636-4-1 §9.7.5) of CAM, DENM (more urgent) and SAM (less urgent).
const CAM_CLASS: TrafficClass = TrafficClass(2);
const DENM_CLASS: TrafficClass = TrafficClass(1);
const SAM_CLASS: TrafficClass = TrafficClass(3);
/// Lifetime of a CAM's packet (EN 302 637-2 §5.3.4.1).
const CAM_LIFETIME: Duration = Duration::from_secs(1);

/// The facilities of one station.
#[derive(Debug)]
pub struct Facilities {
    config: FacilitiesConfig,
    station: u32,
    kind: ItsStationType,
    cam: CamGenerator,
    denm: DenmService,
    sam: SamGenerator,
    ldm: Ldm,
    messages: MessageTable,
    services: ServiceTable,
    /// For station IDs.
    entropy: Entropy,
}

impl Facilities {
    /// The facilities of a station of this type.
    pub fn new(mut config: FacilitiesConfig, kind: ItsStationType, mut entropy: Entropy) -> Facilities {
        Facilities {
            station: config.station_id.unwrap_or((entropy.next_u64() & u64::from(u32::MAX)) as u32),
            kind,
            cam: CamGenerator::new(kind == ItsStationType::ROADSIDE_UNIT),
            denm: DenmService::default(),
            sam: SamGenerator::new(config.announcement.take()),
            ldm: Ldm::default(),
            messages: MessageTable::default(),
            services: ServiceTable::default(),
            entropy: entropy.independent(),
            config,
        }
    }

    /// Whether events of this station are active.
    pub fn has_own_events(&self) -> bool {
        self.denm.iter().next().is_some()
    }

    /// Takes another station ID. What would tell that it is the same station is forgotten: the path history, and the sequence
    /// number of events.
    pub fn change_station_id(&mut self) {
        self.station = (self.entropy.next_u64() & u64::from(u32::MAX)) as u32;
        self.cam = self.cam.renewed();
        self.denm = DenmService::beginning_with((self.entropy.next_u64() & 0xffff) as u16);
    }

    /// Sets T_GenCam_DCC, the least interval of CAMs that congestion control allows.
    #[cfg(feature = "dcc")]
    pub fn set_least_cam_interval(&mut self, interval: Duration) {
        self.cam.set_t_gen_cam_dcc(interval);
    }

    /// The local dynamic map.
    pub fn ldm(&self) -> &Ldm {
        &self.ldm
    }

    /// Messages of other stations about their surroundings.
    pub fn messages(&self) -> &MessageTable {
        &self.messages
    }

    /// The announcements of other stations.
    pub fn services(&self) -> &ServiceTable {
        &self.services
    }

    /// Replaces the announcement of this station.
    pub fn announce(&mut self, announcement: Option<Announcement>) {
        self.sam.change(announcement);
    }

    /// The next message that is due; call again until `None`.
    pub fn next_message(&mut self, now: Time, own: Option<&EgoState>) -> Option<PacketRequest> {
        self.ldm.expire(now);
        self.messages.expire(now);
        self.services.expire(now);
        if let Some(own) = own.filter(|own| own.has_fix && self.config.send_cams)
            && let Some(due) = self.cam.next_message(now, &own.position)
        {
            let cam = self.cam(now, own, due);
            return Some(request(
                TransportType::SingleHop,
                port::CAM,
                &Message::Cam(Box::new(cam)),
                CAM_CLASS,
                CAM_LIFETIME,
            ));
        }
        if own.is_some()
            && let Some((saem, lifetime)) = self.sam.next_message(now, self.station)
        {
            let message = Message::Saem(Box::new(saem));
            return Some(request(TransportType::SingleHop, port::SAEM, &message, SAM_CLASS, lifetime));
        }
        self.denm.next_message(now).map(denm_request)
    }

    /// Receives a packet that may be for the facilities, and reports new content.
    pub fn receive(&mut self, now: Time, delivery: &Delivery<'_>, its_time: u64) -> Option<Report> {
        let packet = &delivery.packet;
        let Btp { destination, payload, .. } = Btp::parse(packet.upper_protocol, packet.payload)?.ok()?;
        if !is_facilities_port(destination) || delivery.hop_limit_reached {
            return None;
        }
        let source = packet.extended.source();
        match (destination, Message::parse(payload)) {
            // EN 302 637-2 §5.3.4.1: single hop. Stations farther away cannot fill the map.
            (port::CAM, Ok(Message::Cam(_))) | (port::VAM, Ok(Message::Vam(_))) if !packet.extended.is_single_hop() => {
                Some(dropped(DropReason::NotForUs, "CAM or VAM not sent by a neighbour"))
            }
            (port::CAM, Ok(Message::Cam(cam)))
                if delivery
                    .permissions
                    .is_some_and(|permissions| !cam_permissions::is_permitted(&cam, permissions)) =>
            {
                Some(dropped(DropReason::NotPermitted, "the certificate does not permit what the CAM contains"))
            }
            (port::CAM, Ok(Message::Cam(cam))) => self.receive_station(now, its_time, source, StationMessage::Cam(cam)),
            (port::VAM, Ok(Message::Vam(vam))) => self.receive_station(now, its_time, source, StationMessage::Vam(vam)),
            (port::CPM, Ok(Message::Cpm(cpm))) => {
                self.receive_message(now, its_time, source, cpm.header, Some(Perception::from(cpm.as_ref())))
            }
            (port, Ok(Message::Infrastructure(header))) if infrastructure_port(header.message_id) == Some(port) => {
                self.receive_message(now, its_time, source, header, None)
            }
            (port::DENM, Ok(Message::Denm(denm))) => {
                let place = denm.notification.management.position.place();
                let area = match packet.extended {
                    ExtendedHeader::GeoBroadcast { area, .. } | ExtendedHeader::GeoAnycast { area, .. } => area,
                    _ => Area::circle(place.unwrap_or(source.place), 1),
                };
                let by = source.address.mid;
                let parameters = PacketParameters::default();
                let record = DenmRecord { denm: *denm, area, lifetime: Duration::ZERO, parameters };
                if delivery.permissions.is_some_and(|permissions| !record.is_permitted(permissions)) {
                    return Some(dropped(
                        DropReason::NotPermitted,
                        "the certificate does not permit the cause of the DENM",
                    ));
                }
                self.receive_denm(now, its_time, record, by)
            }
            (port::SAEM, Ok(Message::Saem(saem))) => self.receive_sam(now, source.address.mid, saem),
            (_, Ok(_)) => Some(dropped(DropReason::NotForUs, "message at the wrong BTP port")),
            (_, Err(error)) => Some(dropped(DropReason::Malformed, &error.to_string())),
        }
    }

    fn receive_station(
        &mut self,
        now: Time,
        its_time: u64,
        source: &LongPositionVector,
        message: StationMessage,
    ) -> Option<Report> {
        match self.ldm.put_station(now, its_time, source, message) {
            StationUpdate::Stored => None,
            StationUpdate::Older => {
                Some(dropped(DropReason::Replayed, "CAM or VAM older than the latest of its station"))
            }
            StationUpdate::Full => Some(full("ldm stations", super::ldm::MAX_STATIONS)),
        }
    }

    fn receive_message(
        &mut self,
        now: Time,
        its_time: u64,
        source: &LongPositionVector,
        header: Header,
        perception: Option<Perception>,
    ) -> Option<Report> {
        match self.messages.put(now, its_time, source, header, perception) {
            MessageUpdate::Stored => None,
            MessageUpdate::Older => Some(dropped(DropReason::Replayed, "message older than the latest of its station")),
            MessageUpdate::Full => Some(full("ldm messages", message_table::MAX_MESSAGES)),
        }
    }

    fn receive_sam(&mut self, now: Time, by: LinkAddress, saem: Box<Saem>) -> Option<Report> {
        let body = &saem.sam.body;
        let (station, routing) = (saem.header.station_id, body.routing.is_some());
        let count = body.services.as_ref().map_or(0, Vec::len);
        match self.services.put(now, by, saem) {
            service_table::SamUpdate::New => {
                Some(Report::Facilities(FacilitiesReport::SamReceived { station, services: count, routing }))
            }
            service_table::SamUpdate::Unchanged => None,
            service_table::SamUpdate::Full => Some(full("announcements", service_table::MAX_ANNOUNCEMENTS)),
        }
    }

    fn receive_denm(&mut self, now: Time, its_time: u64, record: DenmRecord, by: LinkAddress) -> Option<Report> {
        let EventId { station, sequence } = record.event_id();
        let (cause, sub_cause) = record.cause();
        // Other stations may only negate the events of this one.
        let denies = record.denm.notification.management.termination == Some(Termination::Negation);
        if station == self.station && !denies {
            return Some(dropped(DropReason::Unverified, "DENM in the name of this station"));
        }
        match self.ldm.put_event(now, its_time, record, EventSource::Station(by)) {
            LdmUpdate::New => {
                Some(Report::Facilities(FacilitiesReport::DenmReceived { station, sequence, cause, sub_cause }))
            }
            LdmUpdate::Terminated => Some(Report::Facilities(FacilitiesReport::DenmTerminated { station, sequence })),
            LdmUpdate::Unchanged => None,
            LdmUpdate::NotOriginator => {
                Some(dropped(DropReason::Unverified, "termination by a station that did not originate the event"))
            }
            LdmUpdate::Full => Some(full("ldm events", super::ldm::MAX_EVENTS)),
        }
    }

    /// Executes a command; returns the message to send at once.
    pub fn execute(&mut self, now: Time, order: &DenmRequest, own: Option<&EgoState>) -> Result<PacketRequest, String> {
        let own = own.ok_or("this station has no position yet")?;
        let EgoState { position, position_accuracy: within, its_time, .. } = *own;
        let by = Originator {
            station: self.station,
            kind: self.kind.0,
            place: position.place,
            position_accuracy: within,
            its_time,
        };
        let known = match order {
            DenmRequest::Terminate(name) => self.ldm.find(*name).cloned(),
            _ => None,
        };
        let record = self.denm.execute(now, order, by, known.as_ref())?;
        self.ldm.put_event(now, its_time, record.clone(), EventSource::ThisStation);
        Ok(denm_request(record))
    }

    /// When the next message or expiry is due.
    pub fn deadline(&self, own: Option<&EgoState>) -> Option<Time> {
        let announces = own.and_then(|_| self.sam.deadline());
        let own = own.filter(|own| own.has_fix && self.config.send_cams);
        let speaks = own.and_then(|own| self.cam.deadline(&own.position));
        let ends = [self.denm.deadline(), self.ldm.deadline(), self.messages.deadline(), self.services.deadline()];
        [speaks, announces].into_iter().chain(ends).flatten().min()
    }

    /// Adds the LDM and the announcements.
    pub fn view(&self, now: Time, view: &mut View) {
        view.services.extend(view::own(&self.sam, self.station, now));
        view.services.extend(self.services.iter().map(|sam| view::announcement(sam, now)));
        view.ldm.station = Some(self.station);
        view.ldm.stations.extend(self.ldm.stations().filter_map(|seen| view::station(seen, now)));
        view.ldm.messages.extend(self.messages.iter().map(|known| view::message(known, now)));
        let tag = |name: EventId| {
            let mut own = self.denm.iter();
            own.find(|(own, _)| *own == name).map(|(_, tag)| tag)
        };
        view.ldm.events.extend(self.ldm.events().filter_map(|known| {
            let name = known.denm.event_id();
            view::event(known, name, tag(name).filter(|_| name.station == self.station), now)
        }));
    }

    fn cam(&self, now: Time, own: &EgoState, due: DueCam) -> Cam {
        let position = ReferencePosition::of(own.position.place, own.position_accuracy);
        let header = Header { protocol_version: PROTOCOL_VERSION, message_id: message::CAM, station_id: self.station };
        let is_roadside = self.kind == ItsStationType::ROADSIDE_UNIT;
        let high = match is_roadside {
            true => HighFrequency::Roadside(Roadside::default()),
            false => HighFrequency::Vehicle(self.vehicle(own)),
        };
        let low = (due.low_frequency && !is_roadside).then(|| LowFrequency::Vehicle(self.vehicle_low(now, own)));
        let parameters = Parameters::new(Basic::new(self.kind.0, position), high, low);
        let generation_delta_time = (own.its_time & 0xffff) as u16;
        Cam { header, awareness: CoopAwareness { generation_delta_time, parameters } }
    }

    /// Values without a sensor are marked unavailable (TS 102 894-2).
    fn vehicle(&self, own: &EgoState) -> Vehicle {
        let position = &own.position;
        let length = self.config.length.filter(|length| (1..1022).contains(length));
        let trailer = if length.is_some() { Trailer::None } else { Trailer::Unavailable };
        Vehicle {
            heading: Heading { value: position.heading % 3600, confidence: 127 },
            speed: Speed { value: position.speed.unsigned_abs().min(16_382), confidence: 127 },
            drive_direction: if position.speed < 0 { DriveDirection::Backward } else { DriveDirection::Forward },
            length: VehicleLength { value: length.unwrap_or(1023), trailer },
            width: self.config.width.filter(|width| (1..62).contains(width)).unwrap_or(62),
            longitudinal_acceleration: Acceleration { value: 161, confidence: 102 },
            curvature: Curvature { value: 1023, confidence: CurvatureConfidence::Unavailable },
            curvature_calculation_mode: CurvatureMode::Unavailable,
            yaw_rate: YawRate { value: 32_767, confidence: YawRateConfidence::Unavailable },
            acceleration_control: None,
            lane_position: None,
            steering_wheel_angle: None,
            lateral_acceleration: None,
            vertical_acceleration: None,
            performance_class: None,
            toll_zone: None,
        }
    }

    fn vehicle_low(&self, now: Time, own: &EgoState) -> VehicleLow {
        let mut points = Vec::new();
        let (mut later, mut since) = (own.position.place, now);
        for (time, place) in self.cam.path().skip_while(|(time, _)| *time == now) {
            let delta = |from: i32, to: i32| from.checked_sub(to).filter(|delta| delta.abs() <= 131_071);
            let north = delta(place.latitude, later.latitude);
            let Some((latitude, longitude)) = north.zip(delta(place.longitude, later.longitude)) else { break };
            let hundredths = u32::try_from(since.since(time).as_millis() / 10).unwrap_or(u32::MAX);
            let position = DeltaPosition { latitude, longitude, altitude: 12_800 };
            points
                .push(PathPoint { position, delta_time: Some(hundredths).filter(|time| (1..=65_535).contains(time)) });
            (later, since) = (place, time);
        }
        VehicleLow { role: VehicleRole::Default, exterior_lights: no_lights(), path_history: PathHistory(points) }
    }
}

fn is_facilities_port(port: u16) -> bool {
    let own = [port::CAM, port::DENM, port::SAEM];
    let received = [port::MAPEM, port::SPATEM, port::IVIM, port::CPM, port::VAM];
    own.contains(&port) || received.contains(&port)
}

fn infrastructure_port(message_id: u8) -> Option<u16> {
    match message_id {
        message::MAPEM => Some(port::MAPEM),
        message::SPATEM => Some(port::SPATEM),
        message::IVIM => Some(port::IVIM),
        _ => None,
    }
}

fn denm_request(record: DenmRecord) -> PacketRequest {
    let DenmRecord { denm, area, lifetime, parameters } = record;
    let (to, message) = (TransportType::GeoBroadcast(area), Message::Denm(Box::new(denm)));
    let class = parameters.traffic_class(DENM_CLASS);
    let lifetime = parameters.lifetime.map_or(lifetime, |most| most.min(lifetime));
    PacketRequest { hops: parameters.hops, ..request(to, port::DENM, &message, class, lifetime) }
}

fn request(to: TransportType, port: u16, message: &Message, class: TrafficClass, lifetime: Duration) -> PacketRequest {
    // Whatever is put together here is within the bounds of its fields.
    let payload = message.emit().unwrap_or_default();
    let payload = Btp { destination: port, source_or_info: SourceOrInfo::Information(0), payload: &payload }.emit();
    PacketRequest {
        to,
        upper: UpperProtocol::BtpB,
        payload,
        class,
        lifetime: Some(lifetime),
        hops: None,
        repetition: None,
    }
}

fn dropped(reason: DropReason, what: &str) -> Report {
    Report::Host(HostReport::Dropped { reason, from: None, detail: format!("facilities: {what}") })
}

fn full(table: &str, limit: usize) -> Report {
    Report::Host(HostReport::TableFull { table: table.to_owned(), limit })
}
