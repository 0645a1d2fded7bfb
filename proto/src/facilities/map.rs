//! The local dynamic map: stations of received CAMs and events of received DENMs, while they are valid (EN 302 895;
//! receiving side of EN 302 637-3 §8.2.2).

use super::notification::Told;
use crate::base::few;
use crate::base::time::Time;
use crate::base::timers::TimerQueue;
use crate::contract::config::facilities::EventId;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::its::cam::Cam;
use roam6_wire::its::denm::Termination;
use std::collections::BTreeMap;

/// Stations at most.
pub const MAX_STATIONS: usize = 2048;
/// Events of other stations at most.
pub const MAX_EVENTS: usize = 512;
/// Events of one other station at most.
pub const MAX_EVENTS_OF_ONE: usize = 64;

/// Lifetime of a station after its last CAM: five may be lost.
const STATION_LIFETIME: Duration = Duration::from_secs(5);
/// How long a terminated event is remembered, so that a late message does not restore it.
pub const OVER_LIFETIME: Duration = Duration::from_secs(60);

/// Stations and events.
#[derive(Debug, Default)]
pub struct Map {
    /// By link-layer address: a station that changes its station identifier remains one entry.
    stations: BTreeMap<LinkAddress, Seen>,
    events: few::VecMap<EventId, Known>,
    /// When each entry expires.
    ends: TimerQueue<Subject>,
}

/// The key of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Station(LinkAddress),
    Event(EventId),
}

/// A station of the LDM.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its link-layer address.
    pub mid: LinkAddress,
    /// Its last CAM.
    pub cam: Box<Cam>,
    /// When it was received.
    pub heard: Time,
}

/// An event of the LDM.
#[derive(Debug, Clone)]
pub struct Known {
    /// Its last DENM.
    pub told: Told,
    /// When its validity ends.
    pub until: Time,
    /// The station that has created the entry.
    by: Teller,
    over: bool,
}

/// The source of a DENM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teller {
    /// This station, which limits the number of its events itself.
    Own,
    /// The station with this link-layer address.
    Other(LinkAddress),
}

/// The effect of a DENM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// The event is new or has changed.
    New,
    /// The event is terminated.
    Over,
    /// No effect: a repetition, older than the entry, or a confirmation.
    Nothing,
    /// The station may not terminate the event.
    NotTheirs,
    /// The LDM is full.
    Full,
}

impl Map {
    /// Updates a station; `false` if the LDM is full.
    pub fn put_station(&mut self, now: Time, mid: LinkAddress, cam: Box<Cam>) -> bool {
        if self.stations.len() >= MAX_STATIONS && !self.stations.contains_key(&mid) {
            return false;
        }
        self.stations.insert(mid, Seen { mid, cam, heard: now });
        self.ends.set(Subject::Station(mid), now + STATION_LIFETIME);
        true
    }

    /// Updates an event; `its_time` in milliseconds of TAI since 2004.
    pub fn put_event(&mut self, now: Time, its_time: u64, told: Told, by: Teller) -> News {
        let management = &told.denm.notification.management;
        let name = told.name();
        let end = management.detection_time.saturating_add(u64::from(management.validity) * 1000);
        let left = Duration::from_millis(end.saturating_sub(its_time).min(86_400_000));
        let known = self.events.get(&name);
        if known.is_some_and(|known| by != Teller::Own && known.told.reference_time() >= management.reference_time) {
            return News::Nothing;
        }
        if let Some(kind) = management.termination {
            let sender = told.denm.header.station_id;
            let may = (kind == Termination::Cancellation) == (sender == name.station);
            return match known.filter(|known| !known.over) {
                _ if !may => News::NotTheirs,
                None => News::Nothing,
                Some(known) => {
                    let by = known.by;
                    self.put(name, Known { told, until: now + OVER_LIFETIME, by, over: true });
                    News::Over
                }
            };
        }
        if left.is_zero() {
            return News::Nothing;
        }
        let (news, by) = match known {
            Some(known) if !known.over && known.told.cause() == told.cause() => (News::Nothing, known.by),
            Some(known) => (News::New, known.by),
            None if !self.has_room(by) => return News::Full,
            None => (News::New, by),
        };
        self.put(name, Known { told, until: now + left, by, over: false });
        news
    }

    fn has_room(&self, by: Teller) -> bool {
        let of_others = self.events.values().filter(|known| known.by != Teller::Own).count();
        let of_this = self.events.values().filter(|known| known.by == by).count();
        by == Teller::Own || (of_others < MAX_EVENTS && of_this < MAX_EVENTS_OF_ONE)
    }

    fn put(&mut self, name: EventId, known: Known) {
        self.ends.set(Subject::Event(name), known.until);
        self.events.insert(name, known);
    }

    /// The last DENM of an event that is not terminated.
    pub fn find(&self, name: EventId) -> Option<&Told> {
        self.events.get(&name).filter(|known| !known.over).map(|known| &known.told)
    }

    /// Removes expired entries.
    pub fn expire(&mut self, now: Time) {
        while let Some(subject) = self.ends.pop_expired(now) {
            match subject {
                Subject::Station(mid) => drop(self.stations.remove(&mid)),
                Subject::Event(name) => drop(self.events.remove(&name)),
            }
        }
    }

    /// When the next entry expires.
    pub fn deadline(&self) -> Option<Time> {
        self.ends.deadline()
    }

    /// The stations.
    pub fn stations(&self) -> impl Iterator<Item = &Seen> {
        self.stations.values()
    }

    /// The events that are not terminated.
    pub fn events(&self) -> impl Iterator<Item = &Known> {
        self.events.values().filter(|known| !known.over)
    }

    /// The number of stations and of events, terminated ones included.
    pub fn len(&self) -> (usize, usize) {
        (self.stations.len(), self.events.len())
    }
}
