//! The last step of the source operations (EN 302 636-4-1 §10.3.6 to §10.3.12): an own packet is signed, if this station
//! signs (SN-ENCAP), and then sent or buffered.

use super::GeoRouter;
use super::forwarding::{ForwardingDecision, Goal, Target};
use crate::base::time::Time;
use crate::contract::config::geo::NonAreaForwarding;
use crate::contract::engine::Outbox;
use crate::geo::buffer::Owner;
use crate::geo::contention::PacketId;
use roam6_wire::geo::TrafficClass;

/// What becomes of an own packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OwnPacket {
    pub(super) class: TrafficClass,
    pub(super) next: NextStep,
}

/// How an own packet is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NextStep {
    /// To all neighbours, at once.
    Send,
    /// To all neighbours; it is buffered instead if there is none and its traffic class allows it (§10.3.9.2).
    Broadcast,
    /// Towards a goal.
    Route(Target, PacketId),
}

impl OwnPacket {
    /// A packet of GeoNetworking itself.
    pub(super) const CONTROL: OwnPacket = OwnPacket { class: TrafficClass(0), next: NextStep::Send };
}

impl GeoRouter {
    /// Sends a packet of this station, as soon as it is signed.
    pub(super) fn originate(&mut self, now: Time, bytes: Vec<u8>, packet: OwnPacket, out: &mut Outbox) {
        #[cfg(feature = "geo-security")]
        if self.signer.is_some() {
            return self.request_signature(now, &bytes, packet, out);
        }
        self.dispatch_own(now, bytes, packet, out);
    }

    /// Sends a packet of this station.
    pub(super) fn dispatch_own(&mut self, now: Time, bytes: Vec<u8>, packet: OwnPacket, out: &mut Outbox) {
        match packet.next {
            NextStep::Send => self.send_broadcast_frame(&bytes, out),
            NextStep::Broadcast if packet.class.store_carry_forward() && !self.location_table.has_neighbours() => {
                self.buffer_packet(now, self.own_target(Goal::AllNeighbours), bytes, out);
            }
            NextStep::Broadcast => self.send_broadcast_frame(&bytes, out),
            NextStep::Route(target, id) => self.route_own(now, (target, id), bytes, packet.class, out),
        }
    }

    /// The step of the packet with the latest sequence number, to be forwarded to this goal.
    pub(super) fn route_step(&self, now: Time, goal: Goal) -> NextStep {
        let sent = self.position(now).map_or(self.ego.timestamp(now), |own| own.timestamp);
        NextStep::Route(self.own_target(goal), PacketId::new(self.address.mid, self.sequence, sent))
    }

    fn own_target(&self, goal: Goal) -> Target {
        let own = self.address.mid;
        Target { goal, owner: Owner { sender: own, source: own } }
    }

    /// Forwards a packet of this station.
    fn route_own(
        &mut self,
        now: Time,
        (target, id): (Target, PacketId),
        mut bytes: Vec<u8>,
        class: TrafficClass,
        out: &mut Outbox,
    ) {
        // Contention begins with a broadcast of the packet (§E.3).
        let step = match self.mib.non_area {
            NonAreaForwarding::Contention if self.location_table.has_neighbours() || !class.store_carry_forward() => {
                ForwardingDecision::Broadcast
            }
            NonAreaForwarding::Contention => ForwardingDecision::Buffer,
            NonAreaForwarding::Greedy => self.advance_perimeter(now, &target.goal, (id, class, None), &mut bytes),
        };
        self.apply_decision(now, step, target, None, bytes, out);
    }
}
