//! Event notification: the originating side of EN 302 637-3 V1.3.1 §8.2.1 (trigger, update, repetition, termination).

use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use crate::contract::config::facilities::{DenmEvent, DenmRequest, EventId};
use crate::contract::config::packet_parameters::PacketParameters;
use core::time::Duration;
use roam6_wire::geo::{Area, Coordinates};
use roam6_wire::its::common::{Cause, Header, ReferencePosition};
use roam6_wire::its::denm::{ActionId, Denm, Management, Notification, Situation, Termination};
use roam6_wire::its::{PROTOCOL_VERSION, message};

/// Causes, in the order of the bits of permissions (EN 302 637-3 table 5).
const PERMITTED_CAUSES: [u8; 24] =
    [1, 2, 3, 6, 9, 10, 11, 12, 14, 15, 17, 18, 19, 26, 27, 91, 92, 93, 94, 95, 96, 97, 98, 99];

/// Events of this station at most.
pub const MAX_OWN: usize = 64;
/// Minimum interval of repetition.
const MIN_REPETITION: Duration = Duration::from_millis(100);
/// Repetitions of a termination and their interval: a receiver that misses it would keep the event until its validity
/// ends.
const TERMINATION_REPETITION: (u32, Duration) = (3, Duration::from_secs(1));

/// The originating station, for the fields of a DENM.
#[derive(Debug, Clone, Copy)]
pub struct Originator {
    /// Its station identifier.
    pub station: u32,
    /// Its station type.
    pub kind: u8,
    /// Its place.
    pub place: Coordinates,
    /// Accuracy of the place in metres.
    pub position_accuracy: Option<u32>,
    /// Its ITS time: milliseconds of TAI since 2004.
    pub its_time: u64,
}

/// A DENM and its destination area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenmRecord {
    /// The message.
    pub denm: Denm,
    /// The destination area.
    pub area: Area,
    /// The lifetime of the packet.
    pub lifetime: Duration,
    /// What differs from the defaults of DENMs.
    pub parameters: PacketParameters,
}

impl DenmRecord {
    /// The identifier of the event.
    pub fn event_id(&self) -> EventId {
        let action = self.denm.notification.management.action;
        EventId { station: action.station, sequence: action.sequence }
    }

    /// Cause and subcause; zeros if the message has none.
    pub fn cause(&self) -> (u8, u8) {
        let situation = self.denm.notification.situation.as_ref();
        situation.map_or((0, 0), |it| (it.event.cause, it.event.sub_cause))
    }

    /// Whether a station with these permissions (EN 302 637-3 §6.1.2.2, the octets behind the version) may report its cause. A
    /// message without cause ends an event.
    pub fn is_permitted(&self, permissions: [u8; 3]) -> bool {
        is_cause_permitted(self.cause().0, permissions)
    }

    /// When it was generated, milliseconds of TAI since 2004.
    pub fn reference_time(&self) -> u64 {
        self.denm.notification.management.reference_time
    }
}

/// Whether these permissions include a cause.
pub fn is_cause_permitted(cause: u8, permissions: [u8; 3]) -> bool {
    let [a, b, c] = permissions.map(u32::from);
    let bits = a << 16 | b << 8 | c;
    cause == 0 || PERMITTED_CAUSES.iter().zip((0..24).rev()).any(|(known, bit)| *known == cause && bits >> bit & 1 == 1)
}

/// The events of this station.
#[derive(Debug, Default)]
pub struct DenmService {
    own: VecMap<EventId, OwnEvent>,
    sequence: u16,
}

#[derive(Debug)]
struct OwnEvent {
    tag: u32,
    denm: Denm,
    area: Area,
    parameters: PacketParameters,
    until: Time,
    /// The next repetition, the interval, and the end of repetition.
    next: Option<(Time, Duration, Time)>,
}

impl OwnEvent {
    /// Only its termination is repeated.
    fn is_over(&self) -> bool {
        self.denm.notification.management.termination.is_some()
    }
}

impl DenmService {
    /// Without events; the next has this sequence number.
    pub fn beginning_with(sequence: u16) -> DenmService {
        DenmService { sequence, ..DenmService::default() }
    }

    /// Executes a command; returns the message to send at once.
    pub fn execute(
        &mut self,
        now: Time,
        order: &DenmRequest,
        by: Originator,
        known: Option<&DenmRecord>,
    ) -> Result<DenmRecord, String> {
        match order {
            DenmRequest::Trigger(event) => {
                if self.own.len() >= MAX_OWN {
                    return Err(format!("the limit of {MAX_OWN} events is reached; terminate one"));
                }
                let name = EventId { station: by.station, sequence: self.sequence };
                self.sequence = self.sequence.wrapping_add(1);
                Ok(self.put(now, name, event, by, by.its_time))
            }
            DenmRequest::Update(name, event) => {
                let own = self.own.get(name).filter(|own| !own.is_over());
                let own = own.ok_or_else(|| format!("{name} is not an event of this station"))?;
                let detected = own.denm.notification.management.detection_time;
                Ok(self.put(now, *name, event, by, detected))
            }
            DenmRequest::Terminate(name) => self.terminate(now, *name, by, known),
        }
    }

    fn put(&mut self, now: Time, name: EventId, event: &DenmEvent, by: Originator, detected: u64) -> DenmRecord {
        let validity = event.validity.min(Duration::from_secs(86_400));
        let denm = message(name, event, by, detected, validity);
        let next = event.repetition.map(|(interval, span)| {
            let interval = interval.max(MIN_REPETITION);
            (now + interval, interval, now + span.min(validity))
        });
        let (tag, area, until, parameters) = (event.tag, event.area, now + validity, event.parameters);
        self.own.insert(name, OwnEvent { tag, denm: denm.clone(), area, parameters, until, next });
        DenmRecord { denm, area, lifetime: validity, parameters }
    }

    /// Cancels an event of this station, or negates that of another with the message received last.
    fn terminate(
        &mut self,
        now: Time,
        name: EventId,
        by: Originator,
        known: Option<&DenmRecord>,
    ) -> Result<DenmRecord, String> {
        let (mut denm, area, parameters, tag, kind) = match (self.own.get(&name), known) {
            (Some(own), _) if own.is_over() => return Err(format!("{name} is already terminated")),
            (Some(own), _) => (own.denm.clone(), own.area, own.parameters, own.tag, Termination::Cancellation),
            (None, Some(received)) if name.station != by.station => {
                (received.denm.clone(), received.area, PacketParameters::default(), 0, Termination::Negation)
            }
            _ => return Err(format!("event {name} is unknown")),
        };
        let ending = TERMINATION_REPETITION.1 * TERMINATION_REPETITION.0;
        denm.header = header(by.station);
        let management = &mut denm.notification.management;
        management.termination = Some(kind);
        management.reference_time = by.its_time.max(management.reference_time.saturating_add(1));
        management.station_type = by.kind;
        // A termination has no situation, location and a-la-carte container (§7.1.1).
        (denm.notification.situation, denm.notification.location, denm.notification.alacarte) = (None, None, None);
        let next = Some((now + TERMINATION_REPETITION.1, TERMINATION_REPETITION.1, now + ending));
        self.own.insert(name, OwnEvent { tag, denm: denm.clone(), area, parameters, until: now + ending, next });
        Ok(DenmRecord { denm, area, lifetime: ending, parameters })
    }

    /// Takes an event whose repetition is due, and removes those that are over.
    pub fn next_message(&mut self, now: Time) -> Option<DenmRecord> {
        self.own.retain(|_, own| own.until > now);
        let own = self.own.values_mut().find(|own| own.next.is_some_and(|(at, ..)| at <= now))?;
        own.next = own.next.and_then(|(_, interval, end)| {
            let at = now + interval;
            (at < end).then_some((at, interval, end))
        });
        let (denm, area, parameters) = (own.denm.clone(), own.area, own.parameters);
        Some(DenmRecord { denm, area, lifetime: own.until.since(now), parameters })
    }

    /// When the next repetition is due.
    pub fn deadline(&self) -> Option<Time> {
        let nexts = self.own.values().flat_map(|own| [Some(own.until), own.next.map(|(at, ..)| at)]);
        nexts.flatten().min()
    }

    /// The events and their clients' tags.
    pub fn iter(&self) -> impl Iterator<Item = (EventId, u32)> {
        self.own.iter().map(|(name, own)| (*name, own.tag))
    }
}

fn header(station_id: u32) -> Header {
    Header { protocol_version: PROTOCOL_VERSION, message_id: message::DENM, station_id }
}

fn message(name: EventId, event: &DenmEvent, by: Originator, detected: u64, validity: Duration) -> Denm {
    let place = event.place.unwrap_or(by.place);
    let within = if event.place.is_none() { by.position_accuracy } else { None };
    let action = ActionId { station: name.station, sequence: name.sequence };
    let mut management = Management::new(action, detected, ReferencePosition::of(place, within), by.kind);
    management.reference_time = by.its_time.max(detected);
    let age = Duration::from_millis(by.its_time.saturating_sub(detected));
    // Counted from the detection.
    management.validity = u32::try_from((age + validity).as_secs()).unwrap_or(u32::MAX).min(86_400);
    management.transmission_interval = event
        .repetition
        .and_then(|(interval, _)| u16::try_from(interval.as_millis()).ok())
        .filter(|millis| (1..=10_000).contains(millis));
    let (cause, sub_cause) = event.cause;
    let situation = Some(Situation::new(event.quality.min(7), Cause::new(cause, sub_cause)));
    let notification = Notification { management, situation, location: None, alacarte: None };
    Denm { header: header(by.station), notification }
}
