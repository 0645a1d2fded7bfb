//! Source operations: EN 302 636-4-1 §10.3.6 (beacons), §10.3.7 (location service), §10.3.8 to §10.3.12 (packets of the
//! upper layers).

use super::forwarding::Goal;
use super::origination::{NextStep, OwnPacket};
use super::{ActiveRepetition, GeoRouter, MAX_REPETITIONS, Timer};
use crate::base::time::Time;
use crate::contract::config::geo::TransportType;
use crate::contract::engine::Outbox;
use crate::contract::report::DropReason;
use crate::geo::geometry;
use crate::geo::location_service::{Enqueued, MAX_LOOKUPS};
use crate::geo::request::{PacketRequest, RequestError};
use core::time::Duration;
use roam6_wire::geo::{
    Area, ExtendedHeader, GeoAddress, Lifetime, Packet, SequencedSource, TrafficClass, UpperProtocol, VERSION,
};

impl GeoRouter {
    /// Sends a request, now or once the destination's position is known, and repeats it if asked to.
    pub fn request(&mut self, now: Time, request: PacketRequest, out: &mut Outbox) -> Result<(), RequestError> {
        self.check(&request)?;
        if let Some(repetition) = request.repetition {
            let until = now + repetition.total.min(self.mib.max_lifetime);
            let number = self.next_repetition;
            self.next_repetition = number.wrapping_add(1);
            self.repetitions
                .insert(number, ActiveRepetition { request: request.clone(), interval: repetition.interval, until });
            self.agenda.set(Timer::Repeat(number), now + repetition.interval);
        }
        self.send(now, request, out)
    }

    fn check(&self, request: &PacketRequest) -> Result<(), RequestError> {
        let (has, most) = (request.payload.len(), usize::from(self.mib.max_sdu_size));
        if has > most {
            return Err(RequestError::TooLong { octets: has, limit: most });
        }
        if let TransportType::GeoAnycast(area) | TransportType::GeoBroadcast(area) = &request.to {
            let (has, most) = (geometry::square_metres(area), f64::from(self.mib.max_area_size));
            if has > most {
                return Err(RequestError::AreaTooLarge { square_metres: has, limit: most });
            }
        }
        if request.repetition.is_some_and(|repetition| repetition.interval < self.mib.min_repetition_interval) {
            return Err(RequestError::RepetitionTooFast);
        }
        if request.repetition.is_some() && self.repetitions.len() >= MAX_REPETITIONS {
            return Err(RequestError::TooManyRepetitions(MAX_REPETITIONS));
        }
        Ok(())
    }

    pub(super) fn repeat(&mut self, now: Time, number: u32, out: &mut Outbox) {
        let Some(repeated) = self.repetitions.get(&number) else { return };
        let next = now + repeated.interval;
        let (request, ends) = (repeated.request.clone(), next > repeated.until);
        if ends {
            self.repetitions.remove(&number);
        } else {
            self.agenda.set(Timer::Repeat(number), next);
        }
        // A repetition that cannot be sent now is missed, as one that no station receives is.
        if let Err(refused) = self.send(now, request, out) {
            out.report_drop(DropReason::NoPosition, None, format!("repetition refused: {refused}"));
        }
    }

    fn send(&mut self, now: Time, request: PacketRequest, out: &mut Outbox) -> Result<(), RequestError> {
        if self.links.is_empty() {
            return Err(RequestError::NoLink);
        }
        match request.to {
            TransportType::GeoUnicast(address) => self.send_unicast(now, address, request, out),
            TransportType::GeoAnycast(area) => self.send_broadcast(now, &area, &request, false, out),
            TransportType::GeoBroadcast(area) => self.send_broadcast(now, &area, &request, true, out),
            TransportType::TopologyBroadcast(hops) => {
                let origin = self.next_source_vector(now)?;
                let packet = self.packet(&request, ExtendedHeader::TopoBroadcast(origin), hops.max(1));
                self.originate(now, packet, OwnPacket { class: request.class, next: NextStep::Broadcast }, out);
                Ok(())
            }
            TransportType::SingleHop => {
                let source = self.position(now).ok_or(RequestError::NoPosition)?;
                let packet = self.packet(&request, ExtendedHeader::SingleHop { source, media: [0; 4] }, 1);
                self.restart_beacon(now);
                self.sent_positions.record(&source);
                self.originate(now, packet, OwnPacket { class: request.class, next: NextStep::Broadcast }, out);
                Ok(())
            }
        }
    }

    fn send_unicast(
        &mut self,
        now: Time,
        address: GeoAddress,
        request: PacketRequest,
        out: &mut Outbox,
    ) -> Result<(), RequestError> {
        let Some(station) = self.location_table.find(address.mid) else {
            // Others compare the whole address, with the kind of station in it.
            let address = self.location_table.address(address.mid).unwrap_or(address);
            return match self.location_service.enqueue(now, address, request, &self.mib) {
                Enqueued::LookupBegun => {
                    self.send_ls_request(now, address, out);
                    self.schedule_expiry(now);
                    Ok(())
                }
                Enqueued::Appended(0) => Ok(()),
                Enqueued::Appended(count) => {
                    let detail = format!("{count} queued packets for {address} dropped");
                    out.report_drop(DropReason::BufferFull, None, detail);
                    Ok(())
                }
                Enqueued::Full => {
                    out.report_full_table("lookups", MAX_LOOKUPS);
                    Err(RequestError::TooManyRepetitions(MAX_LOOKUPS))
                }
            };
        };
        let destination = station.position.short();
        let origin = self.next_source_vector(now)?;
        let bytes =
            self.packet(&request, ExtendedHeader::GeoUnicast { origin, destination }, self.mib.default_hop_limit);
        let next = self.route_step(now, Goal::Station(address.mid, destination.place));
        self.originate(now, bytes, OwnPacket { class: request.class, next }, out);
        Ok(())
    }

    fn send_broadcast(
        &mut self,
        now: Time,
        area: &Area,
        request: &PacketRequest,
        all: bool,
        out: &mut Outbox,
    ) -> Result<(), RequestError> {
        let origin = self.next_source_vector(now)?;
        let place = origin.source.place;
        let extended = match (all, *area) {
            (true, area) => ExtendedHeader::GeoBroadcast { origin, area },
            (false, area) => ExtendedHeader::GeoAnycast { origin, area },
        };
        let bytes = self.packet(request, extended, self.mib.default_hop_limit);
        let next = match geometry::contains(area, place) {
            true => NextStep::Broadcast,
            false => self.route_step(now, Goal::Place(area.center)),
        };
        self.originate(now, bytes, OwnPacket { class: request.class, next }, out);
        Ok(())
    }

    fn next_source_vector(&mut self, now: Time) -> Result<SequencedSource, RequestError> {
        let source = self.position(now).ok_or(RequestError::NoPosition)?;
        Ok(SequencedSource { sequence: self.next_sequence(), source })
    }

    /// Builds the packet of a request.
    fn packet(&self, request: &PacketRequest, extended: ExtendedHeader, default_hops: u8) -> Vec<u8> {
        let single = extended.is_single_hop();
        let hops = if single { 1 } else { request.hops.unwrap_or(default_hops).max(1) };
        let lifetime = request.lifetime.unwrap_or(self.mib.default_lifetime).min(self.mib.max_lifetime);
        self.emit(extended, request.upper, &request.payload, request.class, lifetime, hops)
    }

    fn emit(
        &self,
        extended: ExtendedHeader,
        upper: UpperProtocol,
        payload: &[u8],
        class: TrafficClass,
        lifetime: Duration,
        hops: u8,
    ) -> Vec<u8> {
        let flags = Packet::flags_for(self.mib.is_mobile);
        let lifetime = Lifetime::of(lifetime);
        Packet {
            version: VERSION,
            lifetime,
            remaining_hop_limit: hops,
            upper_protocol: upper,
            traffic_class: class,
            flags,
            max_hop_limit: hops,
            extended,
            payload,
        }
        .emit()
    }

    /// Builds a packet without payload.
    fn control_packet(&self, extended: ExtendedHeader, hops: u8) -> Vec<u8> {
        let class = TrafficClass(self.mib.traffic_class);
        self.emit(extended, UpperProtocol::Any, &[], class, self.mib.default_lifetime, hops)
    }

    /// Sends a beacon: single-hop, or over several hops if so configured (a TSB packet without payload).
    pub(super) fn beacon(&mut self, now: Time, out: &mut Outbox) {
        let Some(source) = self.position(now).filter(|_| !self.links.is_empty()) else { return };
        self.restart_beacon(now);
        #[cfg(feature = "geo-security")]
        {
            self.last_beacon = Some(now);
        }
        self.sent_positions.record(&source);
        let bytes = self.control_packet(ExtendedHeader::Beacon { source }, 1);
        self.originate(now, bytes, OwnPacket::CONTROL, out);
        if self.mib.beacon_hops > 1 {
            let origin = SequencedSource { sequence: self.next_sequence(), source };
            let bytes = self.control_packet(ExtendedHeader::TopoBroadcast(origin), self.mib.beacon_hops);
            self.originate(now, bytes, OwnPacket::CONTROL, out);
        }
    }

    /// Sends an LS request (§10.3.7.1.2), each with a new sequence number, since forwarders would drop a copy.
    pub(super) fn send_ls_request(&mut self, now: Time, sought: GeoAddress, out: &mut Outbox) {
        let Ok(origin) = self.next_source_vector(now) else { return };
        let bytes = self.control_packet(ExtendedHeader::LocationRequest { origin, sought }, self.mib.default_hop_limit);
        self.originate(now, bytes, OwnPacket::CONTROL, out);
    }

    /// Sends an LS reply (§10.3.7.3), within the rates per requester and in all.
    pub(super) fn send_ls_reply(&mut self, now: Time, asker: &SequencedSource, out: &mut Outbox) {
        let least = self.mib.location_service_timer / 2;
        let Some(station) = self.location_table.find_mut(asker.source.address.mid) else { return };
        let was_answered = station.last_ls_reply.is_some_and(|at| now.since(at) < least);
        if was_answered || !self.ls_replies.take(now) {
            return out.report_drop(DropReason::RateLimited, None, "LS request not answered");
        }
        station.last_ls_reply = Some(now);
        let Ok(origin) = self.next_source_vector(now) else { return };
        let destination = asker.source.short();
        let bytes =
            self.control_packet(ExtendedHeader::LocationReply { origin, destination }, self.mib.default_hop_limit);
        let next = self.route_step(now, Goal::Station(destination.address.mid, destination.place));
        self.originate(now, bytes, OwnPacket { class: TrafficClass(self.mib.traffic_class), next }, out);
    }

    pub(super) fn count_expired(&self, packets: usize, out: &mut Outbox) {
        if packets > 0 {
            let detail = format!("{packets} packets expired in the location service buffer");
            out.report_drop(DropReason::Expired, None, detail);
        }
    }

    /// Sends the packets that have waited for a station whose position is now known.
    pub(super) fn send_waiting(&mut self, now: Time, address: GeoAddress, out: &mut Outbox) {
        let (requests, expired) = self.location_service.resolve(now, address.mid);
        self.count_expired(expired, out);
        for request in requests {
            if let Err(refused) = self.send(now, request, out) {
                let detail = format!("queued packet for {address} refused: {refused}");
                out.report_drop(DropReason::NoPosition, None, detail);
            }
        }
    }
}
