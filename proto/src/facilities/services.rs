//! What other stations say they serve, as long as they go on saying it: the receiving side of EN 302 890-1 (SAM).

use super::announcement::RATE_PERIOD;
use crate::base::few;
use crate::base::time::Time;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::its::extension::Value;
use roam6_wire::its::saem::{Saem, values};

/// Announcements remembered.
pub const MAX_ANNOUNCEMENTS: usize = 256;
/// Announcements of one station.
pub const MAX_OF_ONE: usize = 4;

/// An announcement is believed for as long as five of it take, and so long at least: some may be lost.
const BELIEVED: u32 = 5;
const BELIEVED_LEAST: Duration = Duration::from_secs(5);

/// Which announcement: of whom, and which of theirs.
type Name = (LinkAddress, u8);

/// The announcements.
#[derive(Debug, Default)]
pub struct Services {
    heard: few::Map<Name, Heard>,
    /// When each is to be forgotten.
    ends: few::Agenda<Name>,
}

/// An announcement.
#[derive(Debug)]
pub struct Heard {
    /// Link-layer address of its station.
    pub mid: LinkAddress,
    /// Its last message.
    pub saem: Box<Saem>,
    /// When that came.
    pub at: Time,
}

/// What a message has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// It is new, or says something else than before.
    New,
    /// Nothing.
    Nothing,
    /// There is no room.
    Full,
}

impl Services {
    /// Hears an announcement.
    pub fn put(&mut self, now: Time, mid: LinkAddress, saem: Box<Saem>) -> News {
        let name = (mid, saem.sam.body.change_count.announcement);
        let known = self.heard.get(&name);
        if known.is_none() && !self.has_room(mid) {
            return News::Full;
        }
        let is_new = known.is_none_or(|known| known.saem != saem);
        self.ends.put(name, now + believed(&saem));
        self.heard.insert(name, Heard { mid, saem, at: now });
        if is_new { News::New } else { News::Nothing }
    }

    fn has_room(&self, mid: LinkAddress) -> bool {
        let of_this = self.heard.range((mid, u8::MIN)..=(mid, u8::MAX)).count();
        self.heard.len() < MAX_ANNOUNCEMENTS && of_this < MAX_OF_ONE
    }

    /// Forgets what is no longer said.
    pub fn expire(&mut self, now: Time) {
        while let Some(name) = self.ends.expire(now) {
            self.heard.remove(&name);
        }
    }

    /// When something is to be forgotten.
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

/// From one message to the next, if it says so.
pub(super) fn interval(saem: &Saem) -> Option<Duration> {
    let rate = values(saem.sam.body.extensions.as_deref()).find_map(|value| match value {
        Value::RepeatRate(rate) => Some(u32::from(rate)),
        _ => None,
    })?;
    RATE_PERIOD.checked_div(rate)
}
