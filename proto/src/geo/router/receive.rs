//! Reception of frames: EN 302 636-4-1 §10.3.3 to §10.3.12, in the order of the text, except that a duplicate is
//! detected first and only ends a contention.

use super::forwarding::{Goal, TransitPacket};
use super::{BROADCAST, GeoRouter};
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use crate::contract::input::Frame;
use crate::contract::report::DropReason;
use crate::contract::view::Trust;
use crate::geo::contention::PacketId;
use crate::geo::geometry;
use crate::geo::location_table::{Hop, PositionUpdate};
use crate::geo::packet_data_rate::PacketDataRate;
use crate::geo::request::Delivery;
#[cfg(feature = "geo-security")]
use crate::geo::security::Signer;
use roam6_wire::LinkAddress;
use roam6_wire::geo::echo::Echo;
use roam6_wire::geo::{
    Area, ExtendedHeader, GeoAddress, LongPositionVector, Packet, SequencedSource, ShortPositionVector, is_secured,
    set_destination, set_remaining_hop_limit,
};

/// A neighbour is at most so many communication ranges away.
const MAX_NEIGHBOUR_RANGES: f64 = 10.0;

/// Whether a packet was received before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Novelty {
    /// It was not.
    New,
    /// It was delivered, but not forwarded, because the hop limit of its first copy was reached.
    NotForwarded,
}

/// A received packet, and what its frame holds of it.
pub(super) struct Arrival<'a> {
    pub(super) packet: Packet<'a>,
    pub(super) frame: &'a Frame,
    /// The packet as received, without padding.
    pub(super) octets: &'a [u8],
    /// How far the packet is trusted. One that is signed and not verified is forwarded, and its source is learnt; it has no
    /// other effect here.
    pub(super) trust: Trust,
    /// Who has signed it, if that is verified.
    #[cfg(feature = "geo-security")]
    pub(super) signer: Option<Signer>,
}

impl Arrival<'_> {
    #[cfg(feature = "geo-security")]
    fn permissions(&self) -> Option<[u8; 3]> {
        self.signer.map(|signer| signer.permissions)
    }

    #[cfg(not(feature = "geo-security"))]
    fn permissions(&self) -> Option<[u8; 3]> {
        None
    }
}

impl GeoRouter {
    /// Receives a frame, and returns the packet that it carries for this station.
    pub fn receive<'a>(&mut self, now: Time, frame: &'a Frame, out: &mut Outbox) -> Option<Delivery<'a>> {
        let own = self.link_address(frame.link)?;
        if frame.destination != own && frame.destination != BROADCAST {
            return None;
        }
        let arrival = self.parse(now, frame, own, out)?;
        self.accept(now, &arrival, own, out)
    }

    /// Receives a packet that may have an effect here.
    pub(super) fn accept<'a>(
        &mut self,
        now: Time,
        arrival: &Arrival<'a>,
        own: LinkAddress,
        out: &mut Outbox,
    ) -> Option<Delivery<'a>> {
        let frame = arrival.frame;
        let is_ours = arrival.packet.extended.source().address.mid == self.address.mid;
        if frame.source == own || is_ours {
            if frame.source != own && self.is_in_perimeter_mode(now, arrival) {
                return self.dispatch(now, arrival, out);
            }
            // A signed packet that is not verified proves nothing.
            if arrival.trust != Trust::Unverified {
                self.detect_duplicate_address(now, &arrival.packet.extended, frame, out);
            }
            return None;
        }
        let novelty = self.update_location_table(now, arrival, out);
        self.schedule_expiry(now);
        let delivery = novelty.and_then(|_| self.dispatch(now, arrival, out));
        delivery.filter(|_| novelty == Some(Novelty::New) && arrival.trust != Trust::Unverified)
    }

    /// Parses a packet; reports one that is malformed, or secured where nobody can open it.
    fn parse<'a>(&mut self, now: Time, frame: &'a Frame, own: LinkAddress, out: &mut Outbox) -> Option<Arrival<'a>> {
        if is_secured(&frame.bytes) {
            return self.parse_secured(now, frame, own, out);
        }
        #[cfg(feature = "geo-security")]
        if self.verifier.as_ref().is_some_and(|verifier| verifier.is_strict()) {
            if frame.source == own {
                return None;
            }
            out.report_drop(DropReason::NotAuthenticated, None, "a packet that is not signed");
            return None;
        }
        match Packet::parse(&frame.bytes) {
            Ok(packet) => {
                let octets = frame.bytes.get(..packet.length()).unwrap_or_default();
                Some(Arrival {
                    packet,
                    frame,
                    octets,
                    trust: Trust::Unsigned,
                    #[cfg(feature = "geo-security")]
                    signer: None,
                })
            }
            Err(error) => {
                out.report_drop(DropReason::Malformed, None, error.to_string());
                None
            }
        }
    }

    #[cfg(not(feature = "geo-security"))]
    fn parse_secured<'a>(
        &mut self,
        _now: Time,
        frame: &'a Frame,
        own: LinkAddress,
        out: &mut Outbox,
    ) -> Option<Arrival<'a>> {
        if frame.source != own {
            self.drop_secured(out);
        }
        None
    }

    /// Drops a secured packet, because signatures are not verified here. The first one is reported.
    pub(super) fn drop_secured(&mut self, out: &mut Outbox) {
        if !std::mem::replace(&mut self.secured_reported, true) {
            let text = "secured GeoNetworking packets (TS 103 097) are received; roam6 drops them, so the stations that send \
                        them are not known here and their packets are not forwarded: see the counter dropped_secured";
            out.notice(text);
        }
        out.report_drop(DropReason::Secured, None, "a secured packet");
    }

    /// Updates the location table from the packet's source; `None` if the packet is to be dropped.
    fn update_location_table(&mut self, now: Time, arrival: &Arrival<'_>, out: &mut Outbox) -> Option<Novelty> {
        let Arrival { packet, frame, .. } = arrival;
        let source = &source_of(packet);
        let mid = source.address.mid;
        let direct = packet.extended.is_single_hop();
        #[cfg(feature = "geo-security")]
        if !self.may_speak_for(now, arrival, out) {
            return None;
        }
        if direct && self.is_too_far(now, source) {
            out.report_drop(DropReason::Implausible, None, "position too far away for a neighbour");
            return None;
        }
        let own = if direct { self.ego.place(now) } else { None };
        let updated = self.location_table.update(now, source, (hop_of(frame), direct), own, self.ego.timestamp(now));
        match updated {
            PositionUpdate::Full => {
                let limit = crate::geo::location_table::MAX_STATIONS;
                out.report_full_table("stations", limit);
                return None;
            }
            PositionUpdate::Implausible => {
                out.report_drop(DropReason::Implausible, None, "timestamp of the position vector is in the future");
                return None;
            }
            PositionUpdate::Neighbour => self.flush_soon(now),
            PositionUpdate::New | PositionUpdate::Known => {}
        }
        let station = self.location_table.find_mut(mid)?;
        #[cfg(feature = "geo-security")]
        station.note_trust(now, source, (arrival.trust, arrival.signer.map(|signer| signer.digest)));
        let Some(id) = PacketId::of(&packet.extended, arrival.trust) else {
            self.send_waiting(now, source.address, out);
            return Some(Novelty::New);
        };
        let lifetime = packet.lifetime.duration().min(self.mib.max_lifetime);
        station.packets_until = station.packets_until.max(now + lifetime);
        let latest = station.position.timestamp == source.timestamp;
        let duplicates = station.duplicates_mut(arrival.trust);
        let first = duplicates.insert(id.sequence, source.timestamp, latest);
        if first {
            if packet.remaining_hop_limit == 1 {
                duplicates.set_hop_limit_reached(id.sequence, source.timestamp);
            }
            self.send_waiting(now, source.address, out);
            return Some(Novelty::New);
        }
        if packet.remaining_hop_limit > 1 && duplicates.take_hop_limit_reached(id.sequence, source.timestamp) {
            return Some(Novelty::NotForwarded);
        }
        if self.is_in_perimeter_mode(now, arrival) {
            return Some(Novelty::New);
        }
        self.suppress_or_postpone(now, id, arrival);
        out.report_drop(DropReason::Duplicate, None, "received before");
        None
    }

    /// Dispatches by the header type.
    fn dispatch<'a>(&mut self, now: Time, arrival: &Arrival<'a>, out: &mut Outbox) -> Option<Delivery<'a>> {
        let (packet, from) = (arrival.packet, hop_of(arrival.frame));
        let delivery = (!packet.payload.is_empty()).then_some(Delivery {
            packet,
            from,
            hop_limit_reached: false,
            permissions: arrival.permissions(),
        });
        match packet.extended {
            ExtendedHeader::Beacon { .. } => None,
            ExtendedHeader::SingleHop { .. } => delivery,
            ExtendedHeader::TopoBroadcast(_) => {
                if let Some(passing) = self.transit_packet(now, arrival, out) {
                    self.send_broadcast_frame(&passing.bytes, out);
                }
                delivery
            }
            ExtendedHeader::GeoUnicast { destination, .. } if self.is_own(destination.address) => delivery,
            ExtendedHeader::GeoUnicast { .. } if packet.remaining_hop_limit == 1 && Echo::is_trace(&packet) => {
                Some(Delivery { packet, from, hop_limit_reached: true, permissions: arrival.permissions() })
            }
            ExtendedHeader::GeoUnicast { destination, .. } => {
                self.forward_to_station(now, arrival, &destination, out);
                None
            }
            ExtendedHeader::GeoBroadcast { area, .. } => {
                self.forward_to_area(now, arrival, &area, out).then_some(delivery)?
            }
            ExtendedHeader::GeoAnycast { area, .. } => {
                let inside = self.ego.place(now).is_some_and(|own| geometry::contains(&area, own));
                if inside {
                    return delivery;
                }
                self.forward_to_area(now, arrival, &area, out);
                None
            }
            ExtendedHeader::LocationRequest { origin, sought } => {
                self.receive_ls_request(now, arrival, (&origin, sought), out);
                None
            }
            ExtendedHeader::LocationReply { destination, .. } => {
                if !self.is_own(destination.address) {
                    self.forward_to_station(now, arrival, &destination, out);
                }
                None
            }
        }
    }

    fn receive_ls_request(
        &mut self,
        now: Time,
        arrival: &Arrival<'_>,
        (origin, sought): (&SequencedSource, GeoAddress),
        out: &mut Outbox,
    ) {
        if self.is_own(sought) {
            if self.answers(arrival) {
                self.send_ls_reply(now, origin, out);
            }
        } else if let Some(passing) = self.transit_packet(now, arrival, out) {
            self.send_broadcast_frame(&passing.bytes, out);
        }
    }

    /// §10.3.8.3: replaces the destination's position by the latest known one. In a secured packet the position stays, and
    /// the next hop is chosen by the latest known one all the same.
    fn forward_to_station(
        &mut self,
        now: Time,
        arrival: &Arrival<'_>,
        destination: &ShortPositionVector,
        out: &mut Outbox,
    ) {
        let Some(mut passing) = self.transit_packet(now, arrival, out) else { return };
        let mid = destination.address.mid;
        let known = self.location_table.find(mid).map(|station| station.position.short());
        let place = match known {
            Some(known) if known.timestamp.is_newer_than(destination.timestamp) => {
                set_destination(&mut passing.bytes, &known);
                known.place
            }
            _ => {
                self.location_table.learn_short(now, destination, self.ego.timestamp(now));
                destination.place
            }
        };
        self.forward(now, Goal::Station(mid, place), passing, out);
    }

    /// Annex D: inside the area the packet is forwarded by area forwarding, outside of it towards the area unless it
    /// was inside before. Returns whether this station is inside.
    fn forward_to_area(&mut self, now: Time, arrival: &Arrival<'_>, area: &Area, out: &mut Outbox) -> bool {
        let Some(own) = self.ego.place(now) else { return false };
        let inside = geometry::contains(area, own);
        if geometry::square_metres(area) > f64::from(self.mib.max_area_size) {
            out.report_drop(DropReason::AreaTooLarge, None, "destination area too large to be forwarded");
            return inside;
        }
        let Some(passing) = self.transit_packet(now, arrival, out) else { return inside };
        if inside {
            self.forward_in_area(now, area, passing, out);
            return true;
        }
        let sender = self.location_table.neighbour_by_address(arrival.frame.source).map(|station| station.position);
        if !sender.is_some_and(|sender| sender.accurate && geometry::contains(area, sender.place)) {
            self.forward(now, Goal::Place(area.center), passing, out);
        }
        false
    }

    /// The packet to forward; `None` if its hop limit is reached or its source exceeds the packet data rate.
    fn transit_packet(&mut self, now: Time, arrival: &Arrival<'_>, out: &mut Outbox) -> Option<TransitPacket> {
        let Arrival { packet, frame, octets, .. } = arrival;
        let remaining = packet.remaining_hop_limit.checked_sub(1).filter(|remaining| *remaining > 0)?;
        let mid = packet.extended.source().address.mid;
        let (most, burst) = (self.mib.max_packet_data_rate, PacketDataRate::burst(self.mib.packet_data_rate_beta));
        let station = self.location_table.find_mut(mid);
        if station.is_some_and(|station| !station.packet_data_rate.take(now, octets.len(), most, burst)) {
            out.report_drop(DropReason::RateLimited, None, "source exceeds the packet data rate");
            return None;
        }
        let mut bytes = octets.to_vec();
        set_remaining_hop_limit(&mut bytes, remaining);
        let id = PacketId::of(&packet.extended, arrival.trust)?;
        let was_handed = frame.destination != BROADCAST;
        Some(TransitPacket { id, class: packet.traffic_class, sender: frame.source, is_unicast: was_handed, bytes })
    }

    /// Whether a station reports a position too far away to be received directly.
    pub(super) fn is_too_far(&self, now: Time, source: &LongPositionVector) -> bool {
        let most = MAX_NEIGHBOUR_RANGES * f64::from(self.mib.max_range);
        let own = self.ego.place(now).filter(|_| self.ego.has_fix());
        own.is_some_and(|own| geometry::distance(own, source.place) > most)
    }

    /// Whether a location service request is answered. A station that signs its requests ignores an unsigned reply.
    fn answers(&self, arrival: &Arrival<'_>) -> bool {
        #[cfg(feature = "geo-security")]
        if arrival.trust == Trust::Verified {
            return self.signer.is_some();
        }
        arrival.trust == Trust::Unsigned
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
