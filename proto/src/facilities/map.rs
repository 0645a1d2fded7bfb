//! The local dynamic map: the stations that make themselves known and the events they tell of, as long as they are of
//! interest (EN 302 895; receiving side of EN 302 637-3 §8.2.2).

use super::notification::Told;
use crate::base::few;
use crate::base::time::Time;
use crate::base::timers::Agenda;
use crate::contract::config::facilities::EventName;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::its::cam::Cam;
use roam6_wire::its::denm::Termination;
use std::collections::BTreeMap;

/// Stations on the map.
pub const MAX_STATIONS: usize = 2048;
/// Events of others on the map.
pub const MAX_EVENTS: usize = 512;
/// Events that one other station can put there: the rest is for the rest.
pub const MAX_EVENTS_OF_ONE: usize = 64;

/// A station is on the map for so long after its last message: five may be lost.
const STATION_LIFETIME: Duration = Duration::from_secs(5);
/// An event that is over is remembered for so long, so that a late message does not bring it back.
pub const OVER_LIFETIME: Duration = Duration::from_secs(60);

/// Stations and events.
#[derive(Debug, Default)]
pub struct Map {
    /// By link-layer address: whoever changes its number remains one station.
    stations: BTreeMap<LinkAddress, Seen>,
    events: few::Map<EventName, Known>,
    /// When each is to be forgotten.
    ends: Agenda<Subject>,
}

/// What is on the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Station(LinkAddress),
    Event(EventName),
}

/// A station on the map.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its link-layer address.
    pub mid: LinkAddress,
    /// Its last message.
    pub cam: Box<Cam>,
    /// When that came.
    pub heard: Time,
}

/// An event on the map.
#[derive(Debug, Clone)]
pub struct Known {
    /// What was told last, and for whom.
    pub told: Told,
    /// When it ends.
    pub until: Time,
    /// Who put it there.
    by: Teller,
    over: bool,
}

/// Who tells of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teller {
    /// This station, which is believed, and keeps its number of events small itself.
    Own,
    /// The station with this link-layer address.
    Other(LinkAddress),
}

/// What a message about an event changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// It is new, or something else has happened than was thought.
    New,
    /// It is over.
    Over,
    /// Nothing that was not known: heard before, older than what is known, or confirmed.
    Nothing,
    /// Whoever says so may not end it.
    NotTheirs,
    /// The map is full.
    Full,
}

impl Map {
    /// Hears of a station; false if the map is full.
    pub fn put_station(&mut self, now: Time, mid: LinkAddress, cam: Box<Cam>) -> bool {
        if self.stations.len() >= MAX_STATIONS && !self.stations.contains_key(&mid) {
            return false;
        }
        self.stations.insert(mid, Seen { mid, cam, heard: now });
        self.ends.put(Subject::Station(mid), now + STATION_LIFETIME);
        true
    }

    /// Hears of an event; `its_time` in milliseconds of TAI since 2004.
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

    fn put(&mut self, name: EventName, known: Known) {
        self.ends.put(Subject::Event(name), known.until);
        self.events.insert(name, known);
    }

    /// What is known of an event that is not over.
    pub fn find(&self, name: EventName) -> Option<&Told> {
        self.events.get(&name).filter(|known| !known.over).map(|known| &known.told)
    }

    /// Forgets what is of no interest any longer.
    pub fn expire(&mut self, now: Time) {
        while let Some(subject) = self.ends.expire(now) {
            match subject {
                Subject::Station(mid) => drop(self.stations.remove(&mid)),
                Subject::Event(name) => drop(self.events.remove(&name)),
            }
        }
    }

    /// When something is to be forgotten.
    pub fn deadline(&self) -> Option<Time> {
        self.ends.deadline()
    }

    /// The stations.
    pub fn stations(&self) -> impl Iterator<Item = &Seen> {
        self.stations.values()
    }

    /// The events that are not over.
    pub fn events(&self) -> impl Iterator<Item = &Known> {
        self.events.values().filter(|known| !known.over)
    }

    /// How many stations and events, those that are over too.
    pub fn len(&self) -> (usize, usize) {
        (self.stations.len(), self.events.len())
    }
}
