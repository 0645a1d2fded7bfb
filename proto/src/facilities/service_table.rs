//! Service announcements of other stations: the receiving side of EN 302 890-1 (SAM).

use super::sam::RATE_PERIOD;
use crate::base::small_timers::SmallTimerQueue;
use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::its::extension::Value;
use roam6_wire::its::saem::{Saem, values};

/// Announcements at most.
pub const MAX_ANNOUNCEMENTS: usize = 256;
/// Announcements of one station at most.
pub const MAX_OF_ONE_STATION: usize = 4;

/// Lifetime of an announcement: five of its intervals, and at least this long; messages may be lost.
const LIFETIME_INTERVALS: u32 = 5;
const MIN_LIFETIME: Duration = Duration::from_secs(5);

/// The key of an announcement: link-layer address of the station, and announcement number.
type AnnouncementKey = (LinkAddress, u8);

/// The received announcements.
#[derive(Debug, Default)]
pub struct ServiceTable {
    received: VecMap<AnnouncementKey, ReceivedSam>,
    /// When each expires.
    expiry: SmallTimerQueue<AnnouncementKey>,
}

/// A received announcement.
#[derive(Debug)]
pub struct ReceivedSam {
    /// Link-layer address of its station.
    pub mid: LinkAddress,
    /// Its last message.
    pub saem: Box<Saem>,
    /// When it was received.
    pub received: Time,
}

/// The effect of a received SAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamUpdate {
    /// The announcement is new or has changed.
    New,
    /// The announcement was renewed.
    Unchanged,
    /// The table is full.
    Full,
}

impl ServiceTable {
    /// Adds or renews an announcement.
    pub fn put(&mut self, now: Time, mid: LinkAddress, saem: Box<Saem>) -> SamUpdate {
        let name = (mid, saem.sam.body.change_count.announcement);
        let known = self.received.get(&name);
        if known.is_none() && !self.has_room(mid) {
            return SamUpdate::Full;
        }
        let is_new = known.is_none_or(|known| known.saem != saem);
        self.expiry.set(name, now + lifetime(&saem));
        self.received.insert(name, ReceivedSam { mid, saem, received: now });
        if is_new { SamUpdate::New } else { SamUpdate::Unchanged }
    }

    fn has_room(&self, mid: LinkAddress) -> bool {
        let of_this = self.received.range((mid, u8::MIN)..=(mid, u8::MAX)).count();
        self.received.len() < MAX_ANNOUNCEMENTS && of_this < MAX_OF_ONE_STATION
    }

    /// Removes expired announcements.
    pub fn expire(&mut self, now: Time) {
        while let Some(name) = self.expiry.pop_expired(now) {
            self.received.remove(&name);
        }
    }

    /// When the next announcement expires.
    pub fn deadline(&self) -> Option<Time> {
        self.expiry.deadline()
    }

    /// The announcements.
    pub fn iter(&self) -> impl Iterator<Item = &ReceivedSam> {
        self.received.values()
    }
}

fn lifetime(saem: &Saem) -> Duration {
    interval(saem).map_or(MIN_LIFETIME, |interval| (interval * LIFETIME_INTERVALS).max(MIN_LIFETIME))
}

/// The interval that the message names.
pub(super) fn interval(saem: &Saem) -> Option<Duration> {
    let rate = values(saem.sam.body.extensions.as_deref()).find_map(|value| match value {
        Value::RepeatRate(rate) => Some(u32::from(rate)),
        _ => None,
    })?;
    RATE_PERIOD.checked_div(rate)
}
