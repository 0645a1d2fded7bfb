//! The local dynamic map: stations of received CAMs and VAMs, and events of received DENMs, while they are valid (EN 302 895;
//! receiving side of EN 302 637-3 §8.2.2).

use super::denm::DenmRecord;
use crate::base::time::Time;
use crate::base::timers::TimerQueue;
use crate::base::vec_map::VecMap;
use crate::contract::config::facilities::EventId;
use crate::geo::location_table::is_plausible;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{LongPositionVector, Timestamp};
use roam6_wire::its::denm::Termination;
use roam6_wire::its::{Cam, Vam};
use std::collections::BTreeMap;

/// Stations at most.
pub const MAX_STATIONS: usize = 2048;
/// Events of other stations at most.
pub const MAX_EVENTS: usize = 512;
/// Events of one other station at most.
pub const MAX_EVENTS_OF_ONE_STATION: usize = 64;

/// Lifetime of a station after its last CAM: five may be lost.
const CAM_STATION_LIFETIME: Duration = Duration::from_secs(5);
/// Lifetime of a vulnerable road user after its last VAM: three intervals (T_GenVamMax, TS 103 300-3).
const VAM_STATION_LIFETIME: Duration = Duration::from_secs(15);
/// Milliseconds by which the clock of another station may be ahead, as in the location table.
const MAX_CLOCK_DIFFERENCE: u64 = 10_000;
/// How long a terminated event is remembered, so that a late message does not restore it.
pub const TERMINATED_LIFETIME: Duration = Duration::from_secs(60);

/// Stations and events.
#[derive(Debug, Default)]
pub struct Ldm {
    /// By link-layer address: a station that changes its station identifier remains one entry.
    stations: BTreeMap<LinkAddress, LdmStation>,
    events: VecMap<EventId, LdmEvent>,
    /// When each entry expires.
    expiry: TimerQueue<LdmKey>,
}

/// The key of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LdmKey {
    Station(LinkAddress),
    Event(EventId),
}

/// A station of the LDM.
#[derive(Debug, Clone)]
pub struct LdmStation {
    /// Its link-layer address.
    pub mid: LinkAddress,
    /// Its last message.
    pub message: StationMessage,
    /// When it was received.
    pub received: Time,
    /// The timestamp of its source position vector.
    timestamp: Timestamp,
}

/// A message with position and movement of its station.
#[derive(Debug, Clone)]
pub enum StationMessage {
    /// Of a vehicle or a roadside unit.
    Cam(Box<Cam>),
    /// Of a vulnerable road user.
    Vam(Box<Vam>),
}

/// An event of the LDM.
#[derive(Debug, Clone)]
pub struct LdmEvent {
    /// Its last DENM.
    pub denm: DenmRecord,
    /// When its validity ends.
    pub until: Time,
    /// The station that has created the entry.
    source: EventSource,
    terminated: bool,
}

/// The source of a DENM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventSource {
    /// This station, which limits the number of its events itself.
    ThisStation,
    /// The station with this link-layer address.
    Station(LinkAddress),
}

/// The effect of a CAM or VAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StationUpdate {
    /// It is the latest of its station.
    Stored,
    /// It is older than the latest of its station.
    Older,
    /// The LDM is full.
    Full,
}

/// The effect of a DENM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LdmUpdate {
    /// The event is new or has changed.
    New,
    /// The event is terminated.
    Terminated,
    /// No effect: a repetition, older than the entry, or a confirmation.
    Unchanged,
    /// The station may not terminate the event.
    NotOriginator,
    /// The LDM is full.
    Full,
}

/// Whether a message with this timestamp in its source position vector is older than the known one; `its_time` in milliseconds
/// of TAI since 2004. Somebody has delayed it, or played it back. As in the location table, one from the future never replaces
/// one that is not, and is replaced by it.
pub(super) fn is_older(timestamp: Timestamp, known: Timestamp, its_time: u64) -> bool {
    let clock = Timestamp((its_time & u64::from(u32::MAX)) as u32);
    match (is_plausible(timestamp, clock), is_plausible(known, clock)) {
        (true, false) => false,
        (false, true) => true,
        _ => known.is_newer_than(timestamp),
    }
}

/// Whether the times of a DENM are not later than `its_time`, as far as clocks differ.
fn has_happened(record: &DenmRecord, its_time: u64) -> bool {
    let latest = record.reference_time().max(record.denm.notification.management.detection_time);
    latest <= its_time.saturating_add(MAX_CLOCK_DIFFERENCE)
}

impl Ldm {
    /// Updates a station from a message with this source position vector; `its_time` in milliseconds of TAI since 2004. A message
    /// older than the known one changes nothing.
    pub fn put_station(
        &mut self,
        now: Time,
        its_time: u64,
        source: &LongPositionVector,
        message: StationMessage,
    ) -> StationUpdate {
        let (mid, timestamp) = (source.address.mid, source.timestamp);
        match self.stations.get(&mid) {
            Some(known) if is_older(timestamp, known.timestamp, its_time) => return StationUpdate::Older,
            None if self.stations.len() >= MAX_STATIONS => return StationUpdate::Full,
            _ => {}
        }
        let lifetime = match &message {
            StationMessage::Cam(_) => CAM_STATION_LIFETIME,
            StationMessage::Vam(_) => VAM_STATION_LIFETIME,
        };
        self.stations.insert(mid, LdmStation { mid, message, received: now, timestamp });
        self.expiry.set(LdmKey::Station(mid), now + lifetime);
        StationUpdate::Stored
    }

    /// Updates an event; `its_time` in milliseconds of TAI since 2004.
    ///
    /// Neither time of a DENM, of detection and of the message, is in the future. A DENM from the future never replaces one
    /// that is not, and is replaced by it: otherwise it would stand against all messages of the originator until then.
    /// Its validity counts from its reception.
    pub fn put_event(&mut self, now: Time, its_time: u64, record: DenmRecord, by: EventSource) -> LdmUpdate {
        let management = &record.denm.notification.management;
        let name = record.event_id();
        let end = management.detection_time.saturating_add(u64::from(management.validity) * 1000);
        let validity = Duration::from_secs(u64::from(management.validity).min(86_400));
        let left = Duration::from_millis(end.saturating_sub(its_time)).min(validity);
        let known = self.events.get(&name);
        let is_older = |known: &LdmEvent| match (has_happened(&record, its_time), has_happened(&known.denm, its_time)) {
            (true, false) => false,
            (false, true) => true,
            _ => known.denm.reference_time() >= management.reference_time,
        };
        if by != EventSource::ThisStation && known.is_some_and(is_older) {
            return LdmUpdate::Unchanged;
        }
        if let Some(kind) = management.termination {
            let sender = record.denm.header.station_id;
            let may = (kind == Termination::Cancellation) == (sender == name.station);
            return match known.filter(|known| !known.terminated) {
                _ if !may => LdmUpdate::NotOriginator,
                None => LdmUpdate::Unchanged,
                Some(known) => {
                    let by = known.source;
                    self.put(
                        name,
                        LdmEvent { denm: record, until: now + TERMINATED_LIFETIME, source: by, terminated: true },
                    );
                    LdmUpdate::Terminated
                }
            };
        }
        if left.is_zero() {
            return LdmUpdate::Unchanged;
        }
        let (news, by) = match known {
            Some(known) if !known.terminated && known.denm.cause() == record.cause() => {
                (LdmUpdate::Unchanged, known.source)
            }
            Some(known) => (LdmUpdate::New, known.source),
            None if !self.has_room(by) => return LdmUpdate::Full,
            None => (LdmUpdate::New, by),
        };
        self.put(name, LdmEvent { denm: record, until: now + left, source: by, terminated: false });
        news
    }

    fn has_room(&self, by: EventSource) -> bool {
        let of_others = self.events.values().filter(|known| known.source != EventSource::ThisStation).count();
        let of_this = self.events.values().filter(|known| known.source == by).count();
        by == EventSource::ThisStation || (of_others < MAX_EVENTS && of_this < MAX_EVENTS_OF_ONE_STATION)
    }

    fn put(&mut self, name: EventId, known: LdmEvent) {
        self.expiry.set(LdmKey::Event(name), known.until);
        self.events.insert(name, known);
    }

    /// The last DENM of an event that is not terminated.
    pub fn find(&self, name: EventId) -> Option<&DenmRecord> {
        self.events.get(&name).filter(|known| !known.terminated).map(|known| &known.denm)
    }

    /// Removes expired entries.
    pub fn expire(&mut self, now: Time) {
        while let Some(subject) = self.expiry.pop_expired(now) {
            match subject {
                LdmKey::Station(mid) => drop(self.stations.remove(&mid)),
                LdmKey::Event(name) => drop(self.events.remove(&name)),
            }
        }
    }

    /// When the next entry expires.
    pub fn deadline(&self) -> Option<Time> {
        self.expiry.deadline()
    }

    /// The stations.
    pub fn stations(&self) -> impl Iterator<Item = &LdmStation> {
        self.stations.values()
    }

    /// The events that are not terminated.
    pub fn events(&self) -> impl Iterator<Item = &LdmEvent> {
        self.events.values().filter(|known| !known.terminated)
    }

    /// The number of stations and of events, terminated ones included.
    pub fn len(&self) -> (usize, usize) {
        (self.stations.len(), self.events.len())
    }
}
