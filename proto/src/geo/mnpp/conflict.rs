//! Two routers announce the same network. The first keeps it while it answers: a router whose link-local address has changed
//! (with its pseudonym, or a new interface) does not wait for the lifetime of its former announcements.

use super::neighbours::{NeighbourRouter, NeighbourTable};
use crate::{Time, VecMap};
use core::time::Duration;

/// Routers that are asked at the same time, at most.
pub const MAX_CONFLICTS: usize = 16;
/// Queries, and the interval between them and after the last.
const QUERIES: u8 = 3;
const INTERVAL: Duration = Duration::from_millis(150);
/// A router is not asked again for this time.
const HOLD: Duration = Duration::from_secs(1);

/// Routers whose networks others announce too.
#[derive(Debug, Default)]
pub struct ConflictTable(VecMap<NeighbourRouter, Conflict>);

#[derive(Debug, Clone, Copy)]
struct Conflict {
    since: Time,
    queries: u8,
    next: Time,
}

/// What to do about a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictStep {
    /// Send a query on its link.
    Query(NeighbourRouter),
    /// It has not answered: remove its networks, and ask for the announcements of others.
    Remove(NeighbourRouter),
}

impl ConflictTable {
    /// Another router has announced a network of this one.
    pub fn begin(&mut self, now: Time, owner: NeighbourRouter) {
        if self.0.len() < MAX_CONFLICTS || self.0.contains_key(&owner) {
            self.0.entry(owner).or_insert(Conflict { since: now, queries: 0, next: now });
        }
    }

    /// The next step that is due.
    pub fn next_step(&mut self, now: Time, neighbours: &NeighbourTable) -> Option<ConflictStep> {
        loop {
            let (owner, conflict) = self.0.iter_mut().find(|(_, conflict)| conflict.next <= now)?;
            let owner = *owner;
            let is_over = conflict.next >= conflict.since + HOLD;
            let has_answered = neighbours.last_heard(owner).is_none_or(|last| last > conflict.since);
            if has_answered && !is_over {
                conflict.next = conflict.since + HOLD;
            } else if !has_answered && conflict.queries < QUERIES {
                conflict.queries += 1;
                conflict.next = now + INTERVAL;
                return Some(ConflictStep::Query(owner));
            } else {
                self.0.remove(&owner);
                if !has_answered {
                    return Some(ConflictStep::Remove(owner));
                }
            }
        }
    }

    /// When the next step is due.
    pub fn deadline(&self) -> Option<Time> {
        self.0.values().map(|conflict| conflict.next).min()
    }
}
