//! Forwarding: EN 302 636-4-1 annexes D (selection of the algorithm), E (non-area forwarding), F (area forwarding).

use super::{FLUSH, Router, Timer};
use crate::base::time::Time;
use crate::contract::config::geo::{AreaForwarding, NonAreaForwarding};
use crate::contract::engine::Outbox;
use crate::contract::report::DropReason;
use crate::geo::contention::PacketId;
use crate::geo::geometry::{self, Plane};
use crate::geo::stations::{Hop, Origin, Vantage};
use crate::geo::store::Owner;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Area, Coordinates, TrafficClass, set_detour};

/// Copies of a packet after which a contending station discards its own. §F.4 counts copies, and annex H gives no
/// value: vanetza takes 1, which ends contention at the first copy, veloce 2.
const MAX_COPIES: u8 = 3;

/// The goal of a packet, and the owner to whom its octets are charged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Target {
    pub(super) goal: Goal,
    pub(super) owner: Owner,
}

/// Where a packet is forwarded to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Goal {
    /// A station, at its known position.
    Station(LinkAddress, Coordinates),
    /// A place.
    Place(Coordinates),
    /// All neighbours.
    Everybody,
}

/// The result of the forwarding algorithm for a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Step {
    /// Send it to this neighbour.
    To(Hop),
    /// Broadcast it.
    Everywhere,
    /// Broadcast it after this time, unless a copy is received before.
    Contend(Duration),
    /// Buffer it until a neighbour appears.
    Keep,
    /// Discard it: other stations are nearer to the goal.
    Stop,
    /// Discard it: its perimeter has no edge left.
    Lost,
}

/// A packet of another station, to be forwarded.
pub(super) struct Passing {
    pub(super) id: PacketId,
    pub(super) class: TrafficClass,
    /// The link-layer source of the frame.
    pub(super) sender: LinkAddress,
    /// The frame was addressed to this station alone.
    pub(super) was_handed: bool,
    pub(super) bytes: Vec<u8>,
}

impl Goal {
    /// The place of the goal, if it is one.
    pub(super) fn place(&self) -> Option<Coordinates> {
        match self {
            Goal::Station(_, place) | Goal::Place(place) => Some(*place),
            Goal::Everybody => None,
        }
    }
}

impl Passing {
    fn target(&self, goal: Goal) -> Target {
        Target { goal, owner: Owner { sender: self.sender, source: self.id.0 } }
    }
}

impl Router {
    /// Forwards a packet of this station.
    pub(super) fn route_own(
        &mut self,
        now: Time,
        target: Target,
        mut bytes: Vec<u8>,
        class: TrafficClass,
        out: &mut Outbox,
    ) {
        let id = (self.address.mid, self.sequence);
        // Contention begins with everybody hearing the packet (§E.3).
        let step = match self.mib.non_area {
            NonAreaForwarding::Contention if self.stations.has_neighbours() || !class.store_carry_forward() => Step::Everywhere,
            NonAreaForwarding::Contention => Step::Keep,
            NonAreaForwarding::Greedy => self.advance(now, &target.goal, (id, class, None), &mut bytes),
        };
        self.take_step(now, step, target, None, bytes, out);
    }

    /// Forwards a packet of another station towards its goal.
    pub(super) fn pass_on(&mut self, now: Time, goal: Goal, mut passing: Passing, out: &mut Outbox) {
        let step = match (self.mib.non_area, goal) {
            (NonAreaForwarding::Greedy, _) => {
                let Passing { id, class, sender, ref mut bytes, .. } = passing;
                self.advance(now, &goal, (id, class, Some(Origin { source: id.0, sender })), bytes)
            }
            (NonAreaForwarding::Contention, Goal::Station(_, place) | Goal::Place(place)) => {
                self.contend(now, place, passing.sender)
            }
            (NonAreaForwarding::Contention, Goal::Everybody) => Step::Everywhere,
        };
        self.take_step(now, step, passing.target(goal), Some(passing.id), passing.bytes, out);
    }

    /// Forwards a packet of another station inside its destination area.
    pub(super) fn spread(&mut self, now: Time, area: &Area, mut passing: Passing, out: &mut Outbox) {
        if self.mib.recovery {
            set_detour(&mut passing.bytes, None);
        }
        let is_advanced = self.mib.in_area == AreaForwarding::Advanced;
        let step = match self.mib.in_area {
            AreaForwarding::Simple => Step::Everywhere,
            AreaForwarding::Advanced if passing.was_handed => {
                self.hand_on(now, area, &passing, out);
                Step::Contend(self.mib.cbf_max_time)
            }
            AreaForwarding::Contention | AreaForwarding::Advanced => {
                Step::Contend(self.patience(self.distance_from(now, passing.sender)))
            }
        };
        let id = passing.id;
        self.take_step(now, step, passing.target(Goal::Everybody), Some(id), passing.bytes, out);
        if is_advanced {
            self.contention.persist(id);
        }
    }

    /// Sends a copy to the neighbour nearest to the centre of the area, if one is nearer than this station (§F.4).
    fn hand_on(&mut self, now: Time, area: &Area, passing: &Passing, out: &mut Outbox) {
        let from = Origin { source: passing.id.0, sender: passing.sender };
        if let Step::To(hop) = self.greedy(now, &Goal::Place(area.center), passing.class, Some(from)) {
            self.send_to(hop, passing.bytes.clone(), out);
        }
    }

    /// Receives a copy of a packet that may be contending. That ends the contention; with the advanced algorithm only
    /// after several copies, or if the sender of the copy covers all stations behind this one (§F.4).
    pub(super) fn hear_again(&mut self, now: Time, id: PacketId, sender: LinkAddress) {
        match self.contention.hear_again(id) {
            Some((first, copies)) if copies < MAX_COPIES && !self.is_covered(now, first, sender) => {
                let patience = self.patience(self.distance_from(now, sender));
                self.contention.wait_until(id, now + patience);
            }
            _ => {
                self.contention.cancel(id);
            }
        }
    }

    /// Whether this station is nearer to the first sender of a packet than the sender of the copy, in the same
    /// direction.
    fn is_covered(&self, now: Time, first: LinkAddress, again: LinkAddress) -> bool {
        let place = |sender| {
            let station = self.stations.sender(sender).filter(|station| station.position.accurate)?;
            Some(station.position.place)
        };
        let (Some(own), Some(first), Some(again)) = (self.ego.place(now), place(first), place(again)) else {
            return false;
        };
        let farther = geometry::distance(first, again);
        geometry::distance(first, own) < farther
            && farther < f64::from(self.mib.max_range)
            && geometry::angle(first, own, again) < f64::from(self.mib.cbf_sector_angle)
    }

    fn take_step(
        &mut self,
        now: Time,
        step: Step,
        target: Target,
        id: Option<PacketId>,
        bytes: Vec<u8>,
        out: &mut Outbox,
    ) {
        match (step, id) {
            (Step::To(hop), _) => self.send_to(hop, bytes, out),
            (Step::Everywhere, _) | (Step::Contend(_), None) => self.send_everywhere(&bytes, out),
            (Step::Contend(patience), Some(id)) => {
                if !self.contention.put(id, target.owner.sender, bytes, now + patience) {
                    self.drop_counted(DropReason::BufferFull, "contention buffer full", out);
                }
            }
            (Step::Keep, _) => self.keep(now, target, bytes, out),
            (Step::Lost, _) => {
                self.drop_counted(DropReason::NoNeighbour, "perimeter forwarding found no next hop", out)
            }
            (Step::Stop, _) => {}
        }
    }

    /// Buffers a packet until a neighbour appears.
    pub(super) fn keep(&mut self, now: Time, target: Target, bytes: Vec<u8>, out: &mut Outbox) {
        let store = match target.goal {
            Goal::Station(..) => &mut self.unicast,
            Goal::Place(_) | Goal::Everybody => &mut self.broadcast,
        };
        let given_up = store.put(now, target.owner, target.goal, bytes);
        self.keep_sweeping(now);
        if given_up > 0 {
            self.drop_counted(DropReason::BufferFull, &format!("{given_up} buffered packets dropped"), out);
        }
    }

    /// Schedules the buffers for a new neighbour.
    pub(super) fn flush_soon(&mut self, now: Time) {
        let waits = !self.unicast.is_empty() || !self.broadcast.is_empty();
        if waits && self.agenda.deadline_of(&Timer::Flush).is_none() {
            self.agenda.set(Timer::Flush, now + FLUSH);
        }
    }

    /// Offers every buffered packet to the present neighbours; those without a next hop stay buffered.
    pub(super) fn flush(&mut self, now: Time, out: &mut Outbox) {
        for _ in 0..self.unicast.len() {
            let Some(stored) = self.unicast.take() else { break };
            match self.offer(now, stored.with, stored.owner) {
                Step::To(hop) => self.send_to(hop, stored.leave(now).1, out),
                _ => self.unicast.restore(stored),
            }
        }
        for _ in 0..self.broadcast.len() {
            let Some(stored) = self.broadcast.take() else { break };
            match self.offer(now, stored.with, stored.owner) {
                Step::To(hop) => self.send_to(hop, stored.leave(now).1, out),
                Step::Everywhere => self.send_everywhere(&stored.leave(now).1, out),
                _ => self.broadcast.restore(stored),
            }
        }
    }

    /// Runs the forwarding algorithm for a buffered packet.
    fn offer(&mut self, now: Time, goal: Goal, owner: Owner) -> Step {
        let from = Origin { source: owner.source, sender: owner.sender };
        match (goal, self.stations.has_neighbours()) {
            (Goal::Everybody, false) => Step::Keep,
            _ => self.greedy(now, &goal, TrafficClass(u8::MAX), Some(from)),
        }
    }

    /// Greedy forwarding: to the neighbour nearest to the goal, if it is nearer than this station (§E.2). A packet is
    /// not sent back to its source or sender, which would drop it as a duplicate; if only those are nearer, it ends
    /// here.
    pub(super) fn greedy(&mut self, now: Time, goal: &Goal, class: TrafficClass, from: Option<Origin>) -> Step {
        let own = self.vantage(now);
        let place = match goal {
            Goal::Everybody => return Step::Everywhere,
            Goal::Place(place) => *place,
            Goal::Station(mid, place) => match self.stations.reach(now, *mid, own) {
                Some(hop) => return Step::To(hop),
                None => *place,
            },
        };
        let plane = Plane::at(place);
        let away = own.place.map_or(f64::INFINITY, |own| plane.square(own));
        let mut nearer = |from| self.stations.nearest(now, &plane, own, from).filter(|(_, square)| *square < away);
        match nearer(from) {
            Some((hop, _)) => Step::To(hop),
            None if class.store_carry_forward() => Step::Keep,
            None if from.is_some() && nearer(None).is_some() => Step::Stop,
            None => Step::Everywhere,
        }
    }

    pub(super) fn vantage(&self, now: Time) -> Vantage {
        Vantage { place: self.ego.place(now), range: self.mib.max_range }
    }

    /// Contention: the timeout is shorter the more progress this station makes compared with the sender (§E.3).
    fn contend(&self, now: Time, goal: Coordinates, sender: LinkAddress) -> Step {
        let Some(own) = self.ego.place(now) else { return Step::Stop };
        let Some(sender) = self.stations.sender(sender).filter(|station| station.position.accurate) else {
            return Step::Contend(self.mib.cbf_max_time);
        };
        let progress = geometry::distance(goal, sender.position.place) - geometry::distance(goal, own);
        if progress <= 0.0 { Step::Stop } else { Step::Contend(self.patience(Some(progress))) }
    }

    /// The contention timeout: TO_CBF_MAX for no distance, TO_CBF_MIN for itsGnDefaultMaxCommunicationRange and more
    /// (§F.3).
    fn patience(&self, distance: Option<f64>) -> Duration {
        let (least, most) = (self.mib.cbf_min_time, self.mib.cbf_max_time);
        let share = distance.map_or(0.0, |distance| (distance / f64::from(self.mib.max_range)).clamp(0.0, 1.0));
        least + most.saturating_sub(least).mul_f64(1.0 - share)
    }

    /// Distance in metres to the sender of a frame, if its position is accurate.
    fn distance_from(&self, now: Time, sender: LinkAddress) -> Option<f64> {
        let station = self.stations.sender(sender).filter(|station| station.position.accurate)?;
        Some(geometry::distance(station.position.place, self.ego.place(now)?))
    }
}
