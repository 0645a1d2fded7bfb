//! A hostile station that sends unsolicited frames from one link-layer address: invents sources, floods areas and
//! buffers, requests absent stations, replays overheard frames, and sends malformed packets. It does nothing that only
//! signatures prevent: it does not impersonate stations, does not flood buffers under one name, and replays no packet
//! without a sequence number.

use super::world::{LINK, RadioWorld, address};
use crate::net::radio::StationId;
use crate::net::track::distance;
use core::time::Duration;
use roam6_proto::geo::geometry::Offset;
use roam6_proto::geo::router::BROADCAST;
use roam6_proto::{Entropy, Frame, Time};
use roam6_wire::LinkAddress;
use roam6_wire::geo::{
    Area, ETHERTYPE, ExtendedHeader, GeoAddress, ItsStationType, Lifetime, LongPositionVector, Packet, SequencedSource,
    Timestamp, TrafficClass, UpperProtocol, VERSION,
};
use std::collections::VecDeque;
use std::rc::Rc;

/// Frames remembered, and for how long.
const MAX_OVERHEARD: usize = 40;
const RECENT: Duration = Duration::from_secs(5);
/// A place so far away that greedy forwarding never leads there.
const NOWHERE: Offset = Offset { east: -60_000.0, north: 40_000.0 };

/// The attacker.
#[derive(Debug)]
pub struct Attacker {
    id: StationId,
    entropy: Entropy,
    overheard: VecDeque<(Time, Rc<Frame>)>,
    number: u64,
    sequence: u16,
}

impl Attacker {
    /// An attacker that sends as `id`; its choices follow from `seed`.
    pub fn new(id: StationId, seed: u64) -> Attacker {
        let entropy = Entropy::seed_from_u64(seed ^ 0xa77ac);
        Attacker { id, entropy, overheard: VecDeque::new(), number: 1 << 63, sequence: 0 }
    }

    /// Overhears frames.
    pub fn record_sent(&mut self, world: &RadioWorld, from: StationId, sent: &[Rc<Frame>]) {
        let near = world.place(self.id).zip(world.place(from)).map(|(here, there)| distance(here, there));
        if near.is_none_or(|near| near > world.radio_spec().range) {
            return;
        }
        let has_number =
            |frame: &&Rc<Frame>| Packet::parse(&frame.bytes).is_ok_and(|packet| packet.extended.sequence().is_some());
        for frame in sent.iter().filter(has_number) {
            if self.overheard.len() >= MAX_OVERHEARD {
                self.overheard.pop_front();
            }
            self.overheard.push_back((world.now(), frame.clone()));
        }
    }

    /// Sends `count` frames.
    pub fn step(&mut self, world: &mut RadioWorld, count: u32) {
        for _ in 0..count {
            let bytes = self.next_frame(world);
            let frame =
                Frame { link: LINK, source: address(self.id), destination: BROADCAST, ethertype: ETHERTYPE, bytes };
            world.inject(self.id, &frame);
        }
    }

    fn next_frame(&mut self, world: &RadioWorld) -> Vec<u8> {
        let here = world.place(self.id).unwrap_or(NOWHERE);
        match self.entropy.below(8) {
            0 => {
                let source = self.invented_position(world, NOWHERE);
                self.packet(ExtendedHeader::Beacon { source }, 1, 0)
            }
            1 => {
                let origin = self.forged_source(world, here);
                let hops = self.small_number();
                self.packet(ExtendedHeader::TopoBroadcast(origin), hops, 60)
            }
            // Somewhere else, to be carried along for ever.
            2 | 3 => {
                let middle = Offset { east: here.east + 2_000.0 * (1 + self.entropy.below(3)) as f64, ..here };
                let area = Area::circle(world.on_earth(middle), 300);
                let origin = SequencedSource { sequence: self.next(), source: self.own_position(world, here) };
                self.packet(ExtendedHeader::GeoBroadcast { origin, area }, 10, 400)
            }
            4 => {
                let sought = self.address();
                let origin = self.forged_source(world, here);
                self.packet(ExtendedHeader::LocationRequest { origin, sought }, 10, 0)
            }
            5 => {
                let mut noise = vec![0; usize::try_from(self.entropy.below(200)).unwrap_or(0)];
                self.entropy.fill(&mut noise);
                noise
            }
            // Here, to be spread.
            6 => {
                let origin = self.forged_source(world, here);
                let area = Area::circle(world.on_earth(here), 900);
                self.packet(ExtendedHeader::GeoBroadcast { origin, area }, 10, 800)
            }
            _ => self.replay(world.now()),
        }
    }

    /// A recently overheard frame, or a part of it.
    fn replay(&mut self, now: Time) -> Vec<u8> {
        self.overheard.retain(|(at, _)| now.since(*at) < RECENT);
        let chosen = self.entropy.below(self.overheard.len() as u64);
        let Some((_, frame)) = usize::try_from(chosen).ok().and_then(|at| self.overheard.get(at)) else {
            return Vec::new();
        };
        let mut bytes = frame.bytes.clone();
        if self.entropy.below(4) == 0 {
            bytes.truncate(usize::try_from(self.entropy.below(bytes.len() as u64)).unwrap_or(0));
        }
        bytes
    }

    fn packet(&mut self, extended: ExtendedHeader, hops: u8, octets: usize) -> Vec<u8> {
        let mut payload = Vec::new();
        if octets > 0 {
            self.number += 1;
            payload.extend(self.number.to_be_bytes());
            payload.resize(octets, 0xaa);
        }
        let (lifetime, class) = (Lifetime::of(Duration::from_secs(600)), TrafficClass(0x80));
        let upper = if octets > 0 { UpperProtocol::BtpB } else { UpperProtocol::Any };
        let (remaining, most, flags) = (hops, hops, 0);
        Packet {
            version: VERSION,
            lifetime,
            remaining_hop_limit: remaining,
            upper_protocol: upper,
            traffic_class: class,
            flags,
            max_hop_limit: most,
            extended,
            payload: &payload,
        }
        .emit()
    }

    fn forged_source(&mut self, world: &RadioWorld, place: Offset) -> SequencedSource {
        SequencedSource { sequence: self.next(), source: self.invented_position(world, place) }
    }

    fn next(&mut self) -> u16 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    fn small_number(&mut self) -> u8 {
        u8::try_from(2 + self.entropy.below(4)).unwrap_or(2)
    }

    fn address(&mut self) -> GeoAddress {
        let mut octets = [0; 6];
        self.entropy.fill(&mut octets);
        // Never one of those that there are.
        octets[0] = 6;
        GeoAddress::new(ItsStationType::BUS, LinkAddress(octets))
    }

    fn invented_position(&mut self, world: &RadioWorld, place: Offset) -> LongPositionVector {
        LongPositionVector { address: self.address(), ..self.own_position(world, place) }
    }

    fn own_position(&mut self, world: &RadioWorld, place: Offset) -> LongPositionVector {
        let address = GeoAddress::new(ItsStationType::BUS, LinkAddress([6, 0, 0, 0, 0, 1]));
        let timestamp = Timestamp((world.now().as_micros() / 1000) as u32);
        LongPositionVector { address, timestamp, place: world.on_earth(place), accurate: true, speed: 0, heading: 0 }
    }
}
