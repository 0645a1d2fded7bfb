//! Reception of frames: EN 302 636-4-1 §10.3.3 to §10.3.12, in the order of the text, except that a duplicate is
//! detected first and only ends a contention.

use super::forward::{Goal, Passing};
use super::{EVERYBODY, Router};
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use crate::contract::input::Frame;
use crate::contract::report::{DropReason, Report};
use crate::geo::geometry;
use crate::geo::rate::Rate;
use crate::geo::request::Delivery;
use crate::geo::stations::{Heard, Hop};
use roam6_wire::geo::echo::Echo;
use roam6_wire::geo::{
    Area, ExtendedHeader, GeoAddress, LongPositionVector, Packet, SequencedSource, ShortPositionVector, is_secured, set_destination,
    set_remaining_hop_limit,
};

/// Octets of headers of a forwarded packet, approximately.
const HEADERS: usize = 40;
/// A neighbour is at most so many communication ranges away.
const FARTHEST: f64 = 10.0;

impl Router {
    /// Receives a frame, and returns the packet that it carries for this station.
    pub fn hear<'a>(&mut self, now: Time, frame: &'a Frame, out: &mut Outbox) -> Option<Delivery<'a>> {
        let own = self.link_address(frame.link)?;
        if frame.destination != own && frame.destination != EVERYBODY {
            return None;
        }
        if is_secured(&frame.bytes) {
            if frame.source != own {
                self.drop_secured(out);
            }
            return None;
        }
        let packet = match Packet::parse(&frame.bytes) {
            Ok(packet) => packet,
            Err(error) => {
                self.drop_counted(DropReason::Malformed, &error.to_string(), out);
                return None;
            }
        };
        let is_ours = packet.extended.source().address.mid == self.address.mid;
        if frame.source == own || is_ours {
            if frame.source != own && self.goes_round(now, &packet, &frame.bytes) {
                return self.act(now, packet, frame, out);
            }
            self.meet_duplicate(now, &packet.extended, frame, out);
            return None;
        }
        let first = self.learn(now, &packet, frame, out);
        self.keep_sweeping(now);
        if !first {
            return None;
        }
        self.act(now, packet, frame, out)
    }

    /// Drops a secured packet: nothing here verifies it. The first one is reported.
    fn drop_secured(&mut self, out: &mut Outbox) {
        if !std::mem::replace(&mut self.has_told_of_secured, true) {
            let text = "secured GeoNetworking packets (TS 103 097) are received; roam6 drops them, so the stations that send \
                        them are not known here and their packets are not forwarded: see the counter dropped_secured";
            out.report(Report::Notice { text: text.to_owned() });
        }
        self.drop_counted(DropReason::Secured, "a secured packet", out);
    }

    /// Updates the location table from the packet's source; `false` if the packet is to be dropped.
    fn learn(&mut self, now: Time, packet: &Packet<'_>, frame: &Frame, out: &mut Outbox) -> bool {
        let source = &source_of(packet);
        let mid = source.address.mid;
        let direct = packet.extended.is_single_hop();
        if direct && self.is_too_far(now, source) {
            self.drop_counted(DropReason::Implausible, "position too far away for a neighbour", out);
            return false;
        }
        let own = if direct { self.ego.place(now) } else { None };
        let heard = self.stations.put(now, source, (hop_of(frame), direct), own, self.ego.timestamp(now));
        match heard {
            Heard::Full => {
                let limit = crate::geo::stations::MAX_STATIONS;
                out.report(Report::TableFull { table: "stations".to_owned(), limit });
                return false;
            }
            Heard::Implausible => {
                self.drop_counted(DropReason::Implausible, "timestamp of the position vector is in the future", out);
                return false;
            }
            Heard::Neighbour => self.flush_soon(now),
            Heard::New | Heard::Known => {}
        }
        let Some(station) = self.stations.find_mut(mid) else { return false };
        let Some(number) = packet.extended.sequence() else {
            self.release(now, source.address, out);
            return true;
        };
        let lifetime = packet.lifetime.duration().min(self.mib.max_lifetime);
        station.packets_until = station.packets_until.max(now + lifetime);
        let latest = station.position.timestamp == source.timestamp;
        let first = station.seen.put(number, source.timestamp, latest);
        if first {
            self.release(now, source.address, out);
        } else if self.goes_round(now, packet, &frame.bytes) {
            return true;
        } else {
            self.hear_again(now, (mid, number), frame.source);
            self.drop_counted(DropReason::Duplicate, "heard before", out);
        }
        first
    }

    /// Dispatches by the header type.
    fn act<'a>(&mut self, now: Time, packet: Packet<'a>, frame: &Frame, out: &mut Outbox) -> Option<Delivery<'a>> {
        let from = hop_of(frame);
        let delivery = (!packet.payload.is_empty()).then_some(Delivery { packet, from, ends_here: false });
        match packet.extended {
            ExtendedHeader::Beacon { .. } => None,
            ExtendedHeader::SingleHop { .. } => delivery,
            ExtendedHeader::TopoBroadcast(_) => {
                if let Some(passing) = self.passing(now, &packet, frame, out) {
                    self.send_everywhere(&passing.bytes, out);
                }
                delivery
            }
            ExtendedHeader::GeoUnicast { destination, .. } if self.is_own(destination.address) => delivery,
            ExtendedHeader::GeoUnicast { .. } if packet.remaining_hop_limit == 1 && Echo::is_trace(&packet) => {
                Some(Delivery { packet, from, ends_here: true })
            }
            ExtendedHeader::GeoUnicast { destination, .. } => {
                self.pass_to_station(now, &packet, &destination, frame, out);
                None
            }
            ExtendedHeader::GeoBroadcast { area, .. } => {
                self.pass_to_area(now, &packet, &area, frame, out).then_some(delivery)?
            }
            ExtendedHeader::GeoAnycast { area, .. } => {
                let inside = self.ego.place(now).is_some_and(|own| geometry::holds(&area, own));
                if inside {
                    return delivery;
                }
                self.pass_to_area(now, &packet, &area, frame, out);
                None
            }
            ExtendedHeader::LocationRequest { origin, sought } => {
                self.hear_request(now, &packet, (&origin, sought), frame, out);
                None
            }
            ExtendedHeader::LocationReply { destination, .. } => {
                if !self.is_own(destination.address) {
                    self.pass_to_station(now, &packet, &destination, frame, out);
                }
                None
            }
        }
    }

    fn hear_request(
        &mut self,
        now: Time,
        packet: &Packet<'_>,
        (origin, sought): (&SequencedSource, GeoAddress),
        frame: &Frame,
        out: &mut Outbox,
    ) {
        if self.is_own(sought) {
            self.answer(now, origin, out);
        } else if let Some(passing) = self.passing(now, packet, frame, out) {
            self.send_everywhere(&passing.bytes, out);
        }
    }

    /// §10.3.8.3: replaces the destination's position by the latest known one.
    fn pass_to_station(
        &mut self,
        now: Time,
        packet: &Packet<'_>,
        destination: &ShortPositionVector,
        frame: &Frame,
        out: &mut Outbox,
    ) {
        let Some(mut passing) = self.passing(now, packet, frame, out) else { return };
        let mid = destination.address.mid;
        let known = self.stations.find(mid).map(|station| station.position.short());
        let place = match known {
            Some(known) if known.timestamp.is_newer_than(destination.timestamp) => {
                set_destination(&mut passing.bytes, &known);
                known.place
            }
            _ => {
                self.stations.learn(now, destination, self.ego.timestamp(now));
                destination.place
            }
        };
        self.pass_on(now, Goal::Station(mid, place), passing, out);
    }

    /// Annex D: inside the area the packet is forwarded by area forwarding, outside of it towards the area unless it
    /// was inside before. Returns whether this station is inside.
    fn pass_to_area(&mut self, now: Time, packet: &Packet<'_>, area: &Area, frame: &Frame, out: &mut Outbox) -> bool {
        let Some(own) = self.ego.place(now) else { return false };
        let inside = geometry::holds(area, own);
        if geometry::size(area) > f64::from(self.mib.max_area_size) {
            self.drop_counted(DropReason::AreaTooLarge, "destination area too large to be forwarded", out);
            return inside;
        }
        let Some(passing) = self.passing(now, packet, frame, out) else { return inside };
        if inside {
            self.spread(now, area, passing, out);
            return true;
        }
        let sender = self.stations.sender(frame.source).map(|station| station.position);
        if !sender.is_some_and(|sender| sender.accurate && geometry::holds(area, sender.place)) {
            self.pass_on(now, Goal::Place(area.center), passing, out);
        }
        false
    }

    /// The packet to forward; `None` if its hop limit is reached or its source exceeds the packet data rate.
    fn passing(&mut self, now: Time, packet: &Packet<'_>, frame: &Frame, out: &mut Outbox) -> Option<Passing> {
        let remaining = packet.remaining_hop_limit.checked_sub(1).filter(|remaining| *remaining > 0)?;
        let mid = packet.extended.source().address.mid;
        let octets = packet.payload.len() + HEADERS;
        let (most, burst) = (self.mib.max_packet_data_rate, Rate::burst(self.mib.packet_data_rate_beta));
        let station = self.stations.find_mut(mid);
        if station.is_some_and(|station| !station.rate.take(now, octets, most, burst)) {
            self.drop_counted(DropReason::RateLimited, "source exceeds the packet data rate", out);
            return None;
        }
        let mut bytes = frame.bytes.get(..packet.length())?.to_vec();
        set_remaining_hop_limit(&mut bytes, remaining);
        let id = (mid, packet.extended.sequence()?);
        let was_handed = frame.destination != EVERYBODY;
        Some(Passing { id, class: packet.traffic_class, sender: frame.source, was_handed, bytes })
    }

    /// Whether a station reports a position too far away to be received directly.
    fn is_too_far(&self, now: Time, source: &LongPositionVector) -> bool {
        let most = FARTHEST * f64::from(self.mib.max_range);
        let own = self.ego.place(now).filter(|_| self.ego.has_fix());
        own.is_some_and(|own| geometry::distance(own, source.place) > most)
    }

    pub(super) fn is_own(&self, address: GeoAddress) -> bool {
        address.mid == self.address.mid
    }
}

/// The source's position vector, without speed and heading if the source is stationary (itsGnIsMobile).
fn source_of(packet: &Packet<'_>) -> LongPositionVector {
    let source = *packet.extended.source();
    if packet.is_mobile() { source } else { LongPositionVector { speed: 0, heading: 0, ..source } }
}

/// The neighbour that has sent a frame.
fn hop_of(frame: &Frame) -> Hop {
    Hop { link: frame.link, address: frame.source }
}
