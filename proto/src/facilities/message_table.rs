//! Messages of other stations that describe more than the station itself: what it perceives (CPM, TS 103 324), and roads,
//! signals and signs (MAPEM, SPATEM and IVIM, TS 103 301). Of each station and type the last message is known.

use super::ldm::is_older;
use crate::base::time::Time;
use crate::base::timers::TimerQueue;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Coordinates, LongPositionVector, Timestamp};
use roam6_wire::its::common::Header;
use roam6_wire::its::{Cpm, message};
use std::collections::BTreeMap;

/// Entries at most.
pub const MAX_MESSAGES: usize = 512;

/// Lifetime of an entry after the last message: stations send each type about once a second, or more often.
const LIFETIME: Duration = Duration::from_secs(5);

/// The key of an entry: link-layer address of the station, and message type.
type MessageKey = (LinkAddress, u8);

/// The received messages.
#[derive(Debug, Default)]
pub struct MessageTable {
    received: BTreeMap<MessageKey, ReceivedMessage>,
    /// When each expires.
    expiry: TimerQueue<MessageKey>,
}

/// What is known from the messages of one type of a station.
#[derive(Debug, Clone)]
pub struct ReceivedMessage {
    /// Link-layer address of the station.
    pub mid: LinkAddress,
    /// Header of its last message.
    pub header: Header,
    /// Content of its last CPM.
    pub perception: Option<Perception>,
    /// Number of messages since the entry exists.
    pub count: u64,
    /// When the last one was received.
    pub received: Time,
    /// The timestamp of its source position vector.
    timestamp: Timestamp,
}

/// Content of a CPM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Perception {
    /// Position of the station.
    pub place: Option<Coordinates>,
    /// Orientation of the station, tenths of a degree clockwise from north.
    pub orientation: Option<u16>,
    /// Number of objects that it perceives.
    pub objects: Option<u8>,
}

/// The effect of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageUpdate {
    /// It is the latest of its station and type.
    Stored,
    /// It is older than the latest of its station and type.
    Older,
    /// The table is full.
    Full,
}

impl From<&Cpm> for Perception {
    fn from(cpm: &Cpm) -> Perception {
        let orientation = cpm.orientation().ok().flatten().map(|angle| angle.value);
        Perception {
            place: cpm.payload.management.position.place(),
            orientation: orientation.filter(|angle| *angle < 3600),
            objects: cpm.perceived_objects().ok().flatten(),
        }
    }
}

impl ReceivedMessage {
    /// The name of its type.
    pub fn kind(&self) -> &'static str {
        match self.header.message_id {
            message::MAPEM => "MAPEM",
            message::SPATEM => "SPATEM",
            message::IVIM => "IVIM",
            _ => "CPM",
        }
    }
}

impl MessageTable {
    /// Adds or renews an entry from a message with this source position vector; `its_time` in milliseconds of TAI since 2004.
    pub fn put(
        &mut self,
        now: Time,
        its_time: u64,
        source: &LongPositionVector,
        header: Header,
        perception: Option<Perception>,
    ) -> MessageUpdate {
        let (mid, timestamp) = (source.address.mid, source.timestamp);
        let key = (mid, header.message_id);
        let known = self.received.get(&key);
        match known {
            Some(known) if is_older(timestamp, known.timestamp, its_time) => return MessageUpdate::Older,
            None if self.received.len() >= MAX_MESSAGES => return MessageUpdate::Full,
            _ => {}
        }
        let count = known.map_or(0, |known| known.count) + 1;
        self.expiry.set(key, now + LIFETIME);
        self.received.insert(key, ReceivedMessage { mid, header, perception, count, received: now, timestamp });
        MessageUpdate::Stored
    }

    /// Removes expired entries.
    pub fn expire(&mut self, now: Time) {
        while let Some(key) = self.expiry.pop_expired(now) {
            self.received.remove(&key);
        }
    }

    /// When the next entry expires.
    pub fn deadline(&self) -> Option<Time> {
        self.expiry.deadline()
    }

    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = &ReceivedMessage> {
        self.received.values()
    }
}
