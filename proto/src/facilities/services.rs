//! Service announcements of other stations: the receiving side of EN 302 890-1 (SAM).

use super::announcement::RATE_PERIOD;
use crate::base::few;
use crate::base::time::Time;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::its::extension::Value;
use roam6_wire::its::saem::{Saem, values};

/// Announcements at most.
pub const MAX_ANNOUNCEMENTS: usize = 256;
/// Announcements of one station at most.
pub const MAX_OF_ONE: usize = 4;

/// Lifetime of an announcement: five of its intervals, and at least this long; messages may be lost.
const BELIEVED: u32 = 5;
const BELIEVED_LEAST: Duration = Duration::from_secs(5);

/// The key of an announcement: link-layer address of the station, and announcement number.
type Name = (LinkAddress, u8);

/// The received announcements.
#[derive(Debug, Default)]
pub struct Services {
    heard: few::VecMap<Name, Heard>,
    /// When each expires.
    ends: few::SmallTimerQueue<Name>,
}

/// A received announcement.
#[derive(Debug)]
pub struct Heard {
    /// Link-layer address of its station.
    pub mid: LinkAddress,
    /// Its last message.
    pub saem: Box<Saem>,
    /// When it was received.
    pub at: Time,
}

/// The effect of a received SAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// The announcement is new or has changed.
    New,
    /// The announcement was renewed.
    Nothing,
    /// The table is full.
    Full,
}

impl Services {
    /// Adds or renews an announcement.
    pub fn put(&mut self, now: Time, mid: LinkAddress, saem: Box<Saem>) -> News {
        let name = (mid, saem.sam.body.change_count.announcement);
        let known = self.heard.get(&name);
        if known.is_none() && !self.has_room(mid) {
            return News::Full;
        }
        let is_new = known.is_none_or(|known| known.saem != saem);
        self.ends.set(name, now + believed(&saem));
        self.heard.insert(name, Heard { mid, saem, at: now });
        if is_new { News::New } else { News::Nothing }
    }

    fn has_room(&self, mid: LinkAddress) -> bool {
        let of_this = self.heard.range((mid, u8::MIN)..=(mid, u8::MAX)).count();
        self.heard.len() < MAX_ANNOUNCEMENTS && of_this < MAX_OF_ONE
    }

    /// Removes expired announcements.
    pub fn expire(&mut self, now: Time) {
        while let Some(name) = self.ends.pop_expired(now) {
            self.heard.remove(&name);
        }
    }

    /// When the next announcement expires.
    pub fn deadline(&self) -> Option<Time> {
        self.ends.deadline()
    }

    /// The announcements.
    pub fn iter(&self) -> impl Iterator<Item = &Heard> {
        self.heard.values()
    }
}

fn believed(saem: &Saem) -> Duration {
    interval(saem).map_or(BELIEVED_LEAST, |interval| (interval * BELIEVED).max(BELIEVED_LEAST))
}

/// The interval that the message names.
pub(super) fn interval(saem: &Saem) -> Option<Duration> {
    let rate = values(saem.sam.body.extensions.as_deref()).find_map(|value| match value {
        Value::RepeatRate(rate) => Some(u32::from(rate)),
        _ => None,
    })?;
    RATE_PERIOD.checked_div(rate)
}
