//! Forwarding: EN 302 636-4-1 annexes D (selection of the algorithm), E (non-area forwarding), F (area forwarding).

use super::receive::Arrival;
use super::{FLUSH_DELAY, GeoRouter, Timer};
use crate::base::time::Time;
use crate::contract::config::geo::{AreaForwarding, NonAreaForwarding};
use crate::contract::engine::Outbox;
use crate::contract::report::DropReason;
use crate::geo::buffer::Owner;
use crate::geo::contention::PacketId;
use crate::geo::geometry::{self, Plane};
use crate::geo::location_table::{Coverage, Hop, Origin};
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Area, Coordinates, TrafficClass, set_detour};

/// Copies of a packet after which a contending station discards its own. §F.4 counts copies, and annex H gives no
/// value: vanetza takes 1, which ends contention at the first copy, veloce 2.
const MAX_COPIES: u8 = 3;

/// The goal of a packet, and the owner whose share of the buffer it uses.
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
    AllNeighbours,
}

/// The result of the forwarding algorithm for a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ForwardingDecision {
    /// Send it to this neighbour.
    Unicast(Hop),
    /// Broadcast it.
    Broadcast,
    /// Broadcast it after this time, unless a copy is received before.
    Contend(Duration),
    /// Buffer it until a neighbour appears.
    Buffer,
    /// Discard it: other stations are nearer to the goal.
    Discard,
    /// Discard it: its perimeter has no edge left.
    PerimeterFailed,
}

/// A packet of another station, to be forwarded.
pub(super) struct TransitPacket {
    pub(super) id: PacketId,
    pub(super) class: TrafficClass,
    /// The link-layer source of the frame.
    pub(super) sender: LinkAddress,
    /// The frame was addressed to this station alone.
    pub(super) is_unicast: bool,
    pub(super) bytes: Vec<u8>,
}

impl Goal {
    /// The place of the goal, if it is one.
    pub(super) fn place(&self) -> Option<Coordinates> {
        match self {
            Goal::Station(_, place) | Goal::Place(place) => Some(*place),
            Goal::AllNeighbours => None,
        }
    }
}

impl TransitPacket {
    fn target(&self, goal: Goal) -> Target {
        Target { goal, owner: Owner { sender: self.sender, source: self.id.source } }
    }
}

impl GeoRouter {
    /// Forwards a packet of another station towards its goal.
    pub(super) fn forward(&mut self, now: Time, goal: Goal, mut passing: TransitPacket, out: &mut Outbox) {
        let step = match (self.mib.non_area, goal) {
            (NonAreaForwarding::Greedy, _) => {
                let TransitPacket { id, class, sender, ref mut bytes, .. } = passing;
                self.advance_perimeter(now, &goal, (id, class, Some(Origin { source: id.source, sender })), bytes)
            }
            (NonAreaForwarding::Contention, Goal::Station(_, place) | Goal::Place(place)) => {
                self.contention_decision(now, place, passing.sender)
            }
            (NonAreaForwarding::Contention, Goal::AllNeighbours) => ForwardingDecision::Broadcast,
        };
        self.apply_decision(now, step, passing.target(goal), Some(passing.id), passing.bytes, out);
    }

    /// Forwards a packet of another station inside its destination area.
    pub(super) fn forward_in_area(&mut self, now: Time, area: &Area, mut passing: TransitPacket, out: &mut Outbox) {
        if self.mib.recovery {
            set_detour(&mut passing.bytes, None);
        }
        let is_advanced = self.mib.in_area == AreaForwarding::Advanced;
        let step = match self.mib.in_area {
            AreaForwarding::Simple => ForwardingDecision::Broadcast,
            AreaForwarding::Advanced if passing.is_unicast => {
                self.advanced_forwarding(now, area, &passing, out);
                ForwardingDecision::Contend(self.mib.cbf_max_time)
            }
            AreaForwarding::Contention | AreaForwarding::Advanced => {
                ForwardingDecision::Contend(self.contention_timeout(self.distance_from(now, passing.sender)))
            }
        };
        let id = passing.id;
        self.apply_decision(now, step, passing.target(Goal::AllNeighbours), Some(id), passing.bytes, out);
        if is_advanced {
            self.contention.make_persistent(id);
        }
    }

    /// Sends a copy to the neighbour nearest to the centre of the area, if one is nearer than this station (§F.4).
    fn advanced_forwarding(&mut self, now: Time, area: &Area, passing: &TransitPacket, out: &mut Outbox) {
        let from = Origin { source: passing.id.source, sender: passing.sender };
        if let ForwardingDecision::Unicast(hop) = self.greedy(now, &Goal::Place(area.center), passing.class, Some(from))
        {
            self.send_to(hop, passing.bytes.clone(), out);
        }
    }

    /// Receives a copy of a packet that may be contending. That ends the contention; with the advanced algorithm only
    /// after several copies, or if the sender of the copy covers all stations behind this one (§F.4).
    ///
    /// The remaining hop limit is not protected by anything. A copy that somebody has sent with a low one is not
    /// forwarded by those who receive it, and ends no contention. Neither does another packet in the name of a secured one.
    pub(super) fn suppress_or_postpone(&mut self, now: Time, id: PacketId, arrival: &Arrival<'_>) {
        let sender = arrival.frame.source;
        if !self.contention.went_on(id, arrival.octets) {
            return;
        }
        match self.contention.note_copy(id) {
            Some((first, copies)) if copies < MAX_COPIES && !self.is_covered(now, first, sender) => {
                let patience = self.contention_timeout(self.distance_from(now, sender));
                self.contention.postpone(id, now + patience);
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
            let station =
                self.location_table.neighbour_by_address(sender).filter(|station| station.position.accurate)?;
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

    pub(super) fn apply_decision(
        &mut self,
        now: Time,
        step: ForwardingDecision,
        target: Target,
        id: Option<PacketId>,
        bytes: Vec<u8>,
        out: &mut Outbox,
    ) {
        match (step, id) {
            (ForwardingDecision::Unicast(hop), _) => self.send_to(hop, bytes, out),
            (ForwardingDecision::Broadcast, _) | (ForwardingDecision::Contend(_), None) => {
                self.send_broadcast_frame(&bytes, out)
            }
            (ForwardingDecision::Contend(patience), Some(id)) => {
                if !self.contention.put(id, target.owner.sender, bytes, now + patience) {
                    out.report_drop(DropReason::BufferFull, None, "contention buffer full");
                }
            }
            (ForwardingDecision::Buffer, _) => self.buffer_packet(now, target, bytes, out),
            (ForwardingDecision::PerimeterFailed, _) => {
                out.report_drop(DropReason::NoNeighbour, None, "perimeter forwarding found no next hop")
            }
            (ForwardingDecision::Discard, _) => {}
        }
    }

    /// Buffers a packet until a neighbour appears.
    pub(super) fn buffer_packet(&mut self, now: Time, target: Target, bytes: Vec<u8>, out: &mut Outbox) {
        let store = match target.goal {
            Goal::Station(..) => &mut self.unicast_buffer,
            Goal::Place(_) | Goal::AllNeighbours => &mut self.broadcast_buffer,
        };
        let given_up = store.put(now, target.owner, target.goal, bytes);
        self.schedule_expiry(now);
        if given_up > 0 {
            out.report_drop(DropReason::BufferFull, None, format!("{given_up} buffered packets dropped"));
        }
    }

    /// Schedules the buffers for a new neighbour.
    pub(super) fn flush_soon(&mut self, now: Time) {
        let waits = !self.unicast_buffer.is_empty() || !self.broadcast_buffer.is_empty();
        if waits && self.agenda.deadline_of(&Timer::Flush).is_none() {
            self.agenda.set(Timer::Flush, now + FLUSH_DELAY);
        }
    }

    /// Offers every buffered packet to the present neighbours; those without a next hop stay buffered.
    pub(super) fn flush(&mut self, now: Time, out: &mut Outbox) {
        for _ in 0..self.unicast_buffer.len() {
            let Some(stored) = self.unicast_buffer.take() else { break };
            match self.decide_buffered(now, stored.target, stored.owner) {
                ForwardingDecision::Unicast(hop) => self.send_to(hop, stored.into_parts(now).1, out),
                _ => self.unicast_buffer.restore(stored),
            }
        }
        for _ in 0..self.broadcast_buffer.len() {
            let Some(stored) = self.broadcast_buffer.take() else { break };
            match self.decide_buffered(now, stored.target, stored.owner) {
                ForwardingDecision::Unicast(hop) => self.send_to(hop, stored.into_parts(now).1, out),
                ForwardingDecision::Broadcast => self.send_broadcast_frame(&stored.into_parts(now).1, out),
                _ => self.broadcast_buffer.restore(stored),
            }
        }
    }

    /// Runs the forwarding algorithm for a buffered packet.
    fn decide_buffered(&mut self, now: Time, goal: Goal, owner: Owner) -> ForwardingDecision {
        let from = Origin { source: owner.source, sender: owner.sender };
        match (goal, self.location_table.has_neighbours()) {
            (Goal::AllNeighbours, false) => ForwardingDecision::Buffer,
            _ => self.greedy(now, &goal, TrafficClass(u8::MAX), Some(from)),
        }
    }

    /// Greedy forwarding: to the neighbour nearest to the goal, if it is nearer than this station (§E.2). A packet is
    /// not sent back to its source or sender, which would drop it as a duplicate; if only those are nearer, it ends
    /// here.
    pub(super) fn greedy(
        &mut self,
        now: Time,
        goal: &Goal,
        class: TrafficClass,
        from: Option<Origin>,
    ) -> ForwardingDecision {
        let own = self.coverage(now);
        let place = match goal {
            Goal::AllNeighbours => return ForwardingDecision::Broadcast,
            Goal::Place(place) => *place,
            Goal::Station(mid, place) => match self.location_table.direct_next_hop(now, *mid, own) {
                Some(hop) => return ForwardingDecision::Unicast(hop),
                None => *place,
            },
        };
        let plane = Plane::at(place);
        let away = own.place.map_or(f64::INFINITY, |own| plane.square(own));
        let mut nearer =
            |from| self.location_table.greedy_next_hop(now, &plane, own, from).filter(|(_, square)| *square < away);
        match nearer(from) {
            Some((hop, _)) => ForwardingDecision::Unicast(hop),
            None if class.store_carry_forward() => ForwardingDecision::Buffer,
            None if from.is_some() && nearer(None).is_some() => ForwardingDecision::Discard,
            None => ForwardingDecision::Broadcast,
        }
    }

    pub(super) fn coverage(&self, now: Time) -> Coverage {
        Coverage { place: self.ego.place(now), range: self.mib.max_range }
    }

    /// Contention: the timeout is shorter the more progress this station makes compared with the sender (§E.3).
    fn contention_decision(&self, now: Time, goal: Coordinates, sender: LinkAddress) -> ForwardingDecision {
        let Some(own) = self.ego.place(now) else { return ForwardingDecision::Discard };
        let Some(sender) = self.location_table.neighbour_by_address(sender).filter(|station| station.position.accurate)
        else {
            return ForwardingDecision::Contend(self.mib.cbf_max_time);
        };
        let progress = geometry::distance(goal, sender.position.place) - geometry::distance(goal, own);
        if progress <= 0.0 {
            ForwardingDecision::Discard
        } else {
            ForwardingDecision::Contend(self.contention_timeout(Some(progress)))
        }
    }

    /// The contention timeout: TO_CBF_MAX for no distance, TO_CBF_MIN for itsGnDefaultMaxCommunicationRange and more
    /// (§F.3).
    fn contention_timeout(&self, distance: Option<f64>) -> Duration {
        let (least, most) = (self.mib.cbf_min_time, self.mib.cbf_max_time);
        let share = distance.map_or(0.0, |distance| (distance / f64::from(self.mib.max_range.max(1))).clamp(0.0, 1.0));
        least + most.saturating_sub(least).mul_f64(1.0 - share)
    }

    /// Distance in metres to the sender of a frame, if its position is accurate.
    fn distance_from(&self, now: Time, sender: LinkAddress) -> Option<f64> {
        let station = self.location_table.neighbour_by_address(sender).filter(|station| station.position.accurate)?;
        Some(geometry::distance(station.position.place, self.ego.place(now)?))
    }
}
