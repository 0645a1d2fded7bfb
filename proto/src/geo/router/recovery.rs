//! Perimeter forwarding, an extension: at a local minimum, where the standard broadcasts a packet, it follows the edge
//! of the gap by the right-hand rule until it is nearer to the goal than that minimum (GPSR). The distance of the
//! minimum is in a reserved field of the packet, which other stacks forward unchanged. A packet may pass a station more
//! than once, each time with a lower hop limit.

use super::GeoRouter;
use super::forwarding::{ForwardingDecision, Goal};
use super::receive::Arrival;
use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use crate::geo::contention::PacketId;
use crate::geo::geometry;
use crate::geo::location_table::{Origin, PerimeterEdge};
use roam6_wire::geo::{ExtendedHeader, Packet, TrafficClass, detour, is_secured, set_detour};
use std::collections::VecDeque;

/// Packets remembered at most.
const MAX_PERIMETER_PACKETS: usize = 256;

/// Packets in perimeter mode that this station has forwarded, and the remaining hop limit of each.
#[derive(Debug, Default)]
pub(super) struct PerimeterState {
    hops_left: VecMap<PacketId, u8>,
    order: VecDeque<PacketId>,
}

impl PerimeterState {
    fn put(&mut self, id: PacketId, left: u8) {
        if self.hops_left.insert(id, left).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > MAX_PERIMETER_PACKETS
            && let Some(oldest) = self.order.pop_front()
        {
            self.hops_left.remove(&oldest);
        }
    }

    /// Whether a packet may pass again: its remaining hop limit is lower than at its last visit.
    fn admits(&self, id: PacketId, left: u8) -> bool {
        self.hops_left.get(&id).is_none_or(|before| left < *before)
    }
}

impl GeoRouter {
    /// The next hop of a packet in perimeter mode that was received from `from`; `None` for an own packet.
    pub(super) fn advance_perimeter(
        &mut self,
        now: Time,
        goal: &Goal,
        (id, class, from): (PacketId, TrafficClass, Option<Origin>),
        bytes: &mut [u8],
    ) -> ForwardingDecision {
        // The field for the detour is covered by the signature of a secured packet.
        let may_detour = self.mib.recovery && !(cfg!(feature = "geo-security") && is_secured(bytes));
        let (true, Some(away)) = (may_detour, self.distance_to_goal(now, goal)) else {
            return self.greedy(now, goal, class, from);
        };
        let begun = detour(bytes).filter(|begun| away >= f64::from(*begun) && !self.is_near(now, goal));
        let (step, begun) = match (begun, from) {
            (Some(begun), Some(from)) => {
                (self.perimeter_next_hop(now, PerimeterEdge::Sender(from.sender)), Some(begun))
            }
            _ => match (self.greedy(now, goal, class, from), goal.place()) {
                // Rounded down: the next to come nearer is nearer than here.
                (ForwardingDecision::Broadcast, Some(place)) => {
                    let step = self.perimeter_next_hop(now, PerimeterEdge::Goal(place));
                    let begun = matches!(step, ForwardingDecision::Unicast(_))
                        .then_some(away.min(f64::from(u16::MAX)).max(1.0) as u16);
                    (if begun.is_some() { step } else { ForwardingDecision::Broadcast }, begun)
                }
                (step, _) => (step, None),
            },
        };
        set_detour(bytes, begun);
        if begun.is_some() {
            self.perimeter.put(id, Packet::remaining_hop_limit_of(bytes));
        }
        step
    }

    fn perimeter_next_hop(&mut self, now: Time, from: PerimeterEdge) -> ForwardingDecision {
        let own = self.coverage(now);
        self.location_table
            .perimeter_next_hop(now, own, from)
            .map_or(ForwardingDecision::PerimeterFailed, ForwardingDecision::Unicast)
    }

    /// Distance to the goal, metres.
    fn distance_to_goal(&self, now: Time, goal: &Goal) -> Option<f64> {
        Some(geometry::distance(goal.place()?, self.ego.place(now)?))
    }

    fn is_near(&mut self, now: Time, goal: &Goal) -> bool {
        let own = self.coverage(now);
        matches!(goal, Goal::Station(mid, _) if self.location_table.direct_next_hop(now, *mid, own).is_some())
    }

    /// Whether a duplicate is a packet in perimeter mode that passes again, and is not for this station.
    pub(super) fn is_in_perimeter_mode(&self, now: Time, arrival: &Arrival<'_>) -> bool {
        let Arrival { packet, octets, .. } = arrival;
        let extended = &packet.extended;
        let is_for_here = match extended {
            ExtendedHeader::GeoUnicast { destination, .. } | ExtendedHeader::LocationReply { destination, .. } => {
                self.is_own(destination.address)
            }
            ExtendedHeader::GeoAnycast { area, .. } | ExtendedHeader::GeoBroadcast { area, .. } => {
                self.ego.place(now).is_none_or(|own| geometry::contains(area, own))
            }
            _ => true,
        };
        let admits = PacketId::of(extended, arrival.trust)
            .is_some_and(|id| self.perimeter.admits(id, packet.remaining_hop_limit));
        self.mib.recovery && detour(octets).is_some() && !is_for_here && admits
    }
}
