//! The latest GeoNetworking packets on the channel.

use crate::bed::{LinkEmulator, ObservedFrame};
use crate::threads::Shared;
use roam6_proto::geo::geometry::Offset;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{ETHERTYPE, ExtendedHeader, Packet};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// Number of packets kept.
const CAPACITY: usize = 500;

/// Shared by the emulator's thread and the server.
#[derive(Debug)]
pub(super) struct PacketLog(Shared<LogState>);

#[derive(Debug, Default)]
struct LogState {
    packets: VecDeque<Value>,
    number: u64,
}

impl PacketLog {
    /// Records from now on.
    pub(super) fn watch(emulator: &LinkEmulator) -> PacketLog {
        PacketLog(emulator.collect(LogState::record))
    }

    /// The packets after `number`, oldest first, and the total number so far.
    pub(super) fn since(&self, number: u64) -> (Vec<Value>, u64) {
        let seen = self.0.lock();
        let newer = |packet: &&Value| packet.get("number").and_then(Value::as_u64).is_some_and(|own| own > number);
        (seen.packets.iter().filter(newer).cloned().collect(), seen.number)
    }
}

impl LogState {
    /// Records a frame if it is a GeoNetworking packet.
    fn record(&mut self, observed: &ObservedFrame<'_>) {
        let Some((header, bytes)) = observed.frame.split_at_checked(14) else { return };
        let (Ok(packet), true) = (Packet::parse(bytes), header.ends_with(&ETHERTYPE.to_be_bytes())) else { return };
        let address = |at: usize| header.get(at..at + 6).and_then(|octets| octets.try_into().ok()).map(LinkAddress);
        let to = address(0).filter(|address| address.is_unicast()).map(|address| address.to_string());
        let from = address(6).map(|address| address.to_string());
        self.number += 1;
        if self.packets.len() >= CAPACITY {
            self.packets.pop_front();
        }
        let (kind, area) = packet_type(&packet.extended);
        self.packets.push_back(json!({
            "number": self.number, "from": from, "to": to, "kind": kind, "area": area, "octets": bytes.len(),
        }));
    }
}

/// The packet type, and the destination area if it has one.
fn packet_type(extended: &ExtendedHeader) -> (&'static str, Option<Value>) {
    match extended {
        ExtendedHeader::Beacon { .. } => ("beacon", None),
        ExtendedHeader::SingleHop { .. } => ("single hop", None),
        ExtendedHeader::TopoBroadcast(_) => ("some hops", None),
        ExtendedHeader::GeoUnicast { .. } => ("unicast", None),
        ExtendedHeader::GeoAnycast { area, .. } => ("anycast", Some(area_view(area))),
        ExtendedHeader::GeoBroadcast { area, .. } => ("broadcast", Some(area_view(area))),
        ExtendedHeader::LocationRequest { .. } | ExtendedHeader::LocationReply { .. } => ("location service", None),
    }
}

fn area_view(area: &roam6_wire::geo::Area) -> Value {
    let Offset { east, north } = crate::bed::gpsd::to_offset(area.center);
    json!({ "shape": area.shape, "east": east, "north": north, "a": area.a, "b": area.b, "angle": area.angle })
}
