//! Invariants of every step of every station: a packet is delivered once and only to its destination, no station sends
//! one twice, a received frame causes at most one frame, and tables are bounded.

use super::world::{RadioWorld, StationStep, StepCause, address, owner};
use crate::failure::ensure;
use crate::net::radio::StationId;
use crate::net::track::distance;
use roam6_proto::contract::config::geo::{AreaForwarding, Mib, TransportType};
use roam6_proto::geo::geometry;
use roam6_proto::geo::location_service::MAX_LOOKUPS;
use roam6_proto::geo::location_table::MAX_STATIONS;
use roam6_proto::geo::router::BROADCAST;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{ExtendedHeader, Packet, detour};
use std::collections::{BTreeMap, BTreeSet};

/// Metres that a station may have moved since its last fix.
const STALE: f64 = 40.0;
/// Octets of the smallest multi-hop packet.
const MIN_OCTETS: usize = 40;

/// A multi-hop packet: source, timestamp, sequence number.
type PacketKey = (LinkAddress, u32, u16);

/// The observed packets.
#[derive(Debug, Default)]
pub struct DeliveryInvariants {
    /// Deliveries: number of the payload, station and instance.
    delivered: BTreeSet<(u64, StationId, u32)>,
    /// With the remaining hops of a packet in perimeter mode, which may pass again with fewer; and whether it was sent
    /// to one station inside its area before it is broadcast (§F.4).
    sent: BTreeSet<(StationId, u32, PacketKey, Option<u8>, bool)>,
    requested: BTreeMap<u64, (StationId, TransportType)>,
    /// Payload numbers that were sent by their source.
    originated: BTreeSet<u64>,
    /// Frames sent.
    pub frames: u64,
}

/// The number in a payload.
pub fn number(payload: &[u8]) -> Option<u64> {
    payload.first_chunk().map(|octets| u64::from_be_bytes(*octets))
}

impl DeliveryInvariants {
    /// A station is requested to send the payload `number`.
    pub fn note_request(&mut self, number: u64, by: StationId, to: TransportType) {
        self.requested.insert(number, (by, to));
    }

    /// The receivers of a payload.
    pub fn receivers(&self, number: u64) -> BTreeSet<StationId> {
        let all = self.delivered.range((number, StationId(0), 0)..=(number, StationId(u32::MAX), u32::MAX));
        all.map(|(_, id, _)| *id).collect()
    }

    /// The number of deliveries.
    pub fn deliveries(&self) -> usize {
        self.delivered.len()
    }

    /// Checks the invariants of a step.
    ///
    /// # Errors
    /// The violated invariant.
    pub fn check(&mut self, world: &RadioWorld, mib: &Mib, step: &StationStep) -> Result<(), String> {
        self.frames += step.sent.len() as u64;
        check_bounds(mib, step)?;
        let received = match &step.cause {
            StepCause::FrameReceived(frame) => Packet::parse(&frame.bytes).ok(),
            _ => None,
        };
        let received_key = received.as_ref().and_then(key);
        let mut forwarded = Vec::new();
        for frame in &step.sent {
            let packet =
                Packet::parse(&frame.bytes).map_err(|error| format!("it sends a malformed packet: {error}"))?;
            let Some(key) = key(&packet) else { continue };
            let left = detour(&frame.bytes).map(|_| packet.remaining_hop_limit);
            let handed = mib.in_area == AreaForwarding::Advanced && frame.destination != BROADCAST;
            ensure!(self.sent.insert((step.station, step.instance, key, left, handed)), "sends {key:?} again");
            if key.0 == address(step.station) && received_key != Some(key) {
                self.check_origin(step, &packet)?;
            } else {
                forwarded.push(key);
            }
        }
        if matches!(step.cause, StepCause::FrameReceived(_)) {
            let is_copy = forwarded.len() <= 1 && forwarded.iter().all(|key| Some(*key) == received_key);
            ensure!(is_copy, "makes {forwarded:?} of {received_key:?}");
            self.check_no_copy(step, received.as_ref())?;
        }
        step.delivered.as_deref().map_or(Ok(()), |payload| self.check_delivery(world, step, payload))
    }

    /// A packet of the station itself: each payload once.
    fn check_origin(&mut self, step: &StationStep, packet: &Packet<'_>) -> Result<(), String> {
        let Some(number) = number(packet.payload) else { return Ok(()) };
        let by = self.requested.get(&number).map(|(by, _)| *by);
        let is_new = by == Some(step.station) && self.originated.insert(number);
        ensure!(is_new, "sends payload {number} of {by:?}, perhaps again");
        Ok(())
    }

    /// On reception a station sends, of its own, only an LS reply to a request for it, and packets that have waited.
    fn check_no_copy(&self, step: &StationStep, received: Option<&Packet<'_>>) -> Result<(), String> {
        let received_key = received.and_then(key);
        let of_own = |packet: &Packet<'_>| packet.extended.source().address.mid == address(step.station);
        let own = step.sent.iter().filter_map(|frame| Packet::parse(&frame.bytes).ok());
        let own = own.filter(|packet| of_own(packet) && packet.payload.is_empty());
        let own = own.filter(|packet| received_key.is_none() || key(packet) != received_key);
        let is_asked = matches!(received.map(|packet| packet.extended),
            Some(ExtendedHeader::LocationRequest { sought, .. }) if sought.mid == address(step.station));
        let answers = own.map(|packet| matches!(packet.extended, ExtendedHeader::LocationReply { .. }) && is_asked);
        match answers.collect::<Vec<_>>().as_slice() {
            [] | [true] => Ok(()),
            other => Err(format!("sends {} packets of its own without a request", other.len())),
        }
    }

    fn check_delivery(&mut self, world: &RadioWorld, step: &StationStep, payload: &[u8]) -> Result<(), String> {
        let Some(number) = number(payload) else { return Ok(()) };
        ensure!(self.delivered.insert((number, step.station, step.instance)), "hands up payload {number} twice");
        let Some((by, to)) = self.requested.get(&number) else { return Ok(()) };
        let is_meant = match to {
            TransportType::GeoUnicast(station) => owner(station.mid) == Some(step.station),
            TransportType::GeoBroadcast(area) | TransportType::GeoAnycast(area) => {
                let wider = roam6_wire::geo::Area { a: area.a + STALE as u16, b: area.b + STALE as u16, ..*area };
                world.place(step.station).is_some_and(|place| geometry::contains(&wider, world.on_earth(place)))
            }
            TransportType::SingleHop => {
                let apart = world.place(step.station).zip(world.place(*by)).map(|(one, other)| distance(one, other));
                apart.is_some_and(|apart| apart <= world.radio_spec().range + STALE)
            }
            TransportType::TopologyBroadcast(_) => true,
        };
        ensure!(is_meant, "hands up payload {number}, which was for {to:?}");
        Ok(())
    }
}

fn key(packet: &Packet<'_>) -> Option<PacketKey> {
    let source = packet.extended.source();
    Some((source.address.mid, source.timestamp.0, packet.extended.sequence()?))
}

fn check_bounds(mib: &Mib, step: &StationStep) -> Result<(), String> {
    let (stations, stored, contending, lookups) = step.held;
    let most = (mib.unicast_buffer + mib.broadcast_buffer) / MIN_OCTETS;
    let bounds = [
        ("stations", stations, MAX_STATIONS),
        ("packets stored", stored, most),
        ("packets contending", contending, mib.cbf_buffer / MIN_OCTETS),
        ("lookups", lookups, MAX_LOOKUPS),
    ];
    match bounds.iter().find(|(_, has, most)| has > most) {
        Some((what, has, most)) => Err(format!("{has} {what}, more than {most}")),
        None => Ok(()),
    }
}
