//! Fuzz harness of the facilities. Invariants: no panic, bounded tables, nothing sent because of a received message,
//! and every message that roam6 sends is encoded as it was decoded.
//! One function, driven by the seeded loop in `cargo test`, by the committed corpus, and by the fuzzer.

use super::Facilities;
use super::denm::MAX_OWN;
use super::ldm::{MAX_EVENTS, MAX_STATIONS, TERMINATED_LIFETIME};
use super::service_table::MAX_OF_ONE_STATION;
use crate::base::ids::LinkId;
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::contract::config::facilities::MAX_NAME;
use crate::contract::config::facilities::{
    Announcement, DenmEvent, DenmRequest, EventId, FacilitiesConfig, OfferedService, RoutingAdvertisement,
};
use crate::geo::Delivery;
use crate::geo::ego::EgoState;
use crate::geo::location_table::Hop;
use core::net::Ipv6Addr;
use core::time::Duration;
use roam6_wire::geo::btp::{Btp, SourceOrInfo, port};
use roam6_wire::geo::{
    Area, Coordinates, ExtendedHeader, GeoAddress, ItsStationType, Lifetime, LongPositionVector, Packet, Timestamp,
    TrafficClass, UpperProtocol, VERSION,
};
use roam6_wire::its::{Message, PROTOCOL_VERSION, message, vam};
use roam6_wire::{LinkAddress, Prefix, Reader};

/// Longest silence: each event makes a message every tenth of a second.
const MAX_SILENCE: Time = Time::from_micros(600_000_000);
/// Requests at one moment at most.
const MAX_REQUESTS: usize = 80;
/// Types of messages that describe the surroundings of a station.
const MESSAGE_TYPES: usize = 4;
/// Actions from this number on concern announcements and messages that are only received.
const MORE: u8 = 128;

/// Runs the scenario that `data` encodes, and asserts the invariants after each step.
///
/// # Panics
/// If an invariant does not hold.
pub fn run(data: &[u8]) {
    let mut reader = Reader::new("scenario", data);
    let mut world = Harness::new();
    while let Some(action) = reader.u8().ok().filter(|_| world.now < MAX_SILENCE) {
        let choice = reader.u8().unwrap_or_default();
        match action % 5 {
            kind @ (0 | 1) => {
                let (port, kind) = match (action < MORE, kind) {
                    (true, 0) => (port::CAM, message::CAM),
                    (true, _) => (port::DENM, message::DENM),
                    (false, 0) => (port::SAEM, message::SAEM),
                    (false, _) => match reader.u8().unwrap_or_default() % 5 {
                        0 => (port::CPM, message::CPM),
                        1 => (port::VAM, message::VAM),
                        2 => (port::MAPEM, message::MAPEM),
                        3 => (port::SPATEM, message::SPATEM),
                        _ => (port::IVIM, message::IVIM),
                    },
                };
                let length = usize::from(choice).min(reader.len());
                world.receive(reader.bytes(length).unwrap_or_default(), port, kind);
            }
            2 if action < MORE => world.order(choice),
            2 => world.announce(choice),
            3 => world.wait(Duration::from_millis(u64::from(choice) * 10)),
            _ => world.wait(Duration::from_secs(u64::from(choice))),
        }
    }
}

struct Harness {
    facilities: Facilities,
    now: Time,
    own: EgoState,
}

impl Harness {
    fn new() -> Harness {
        let config =
            FacilitiesConfig { station_id: Some(7), send_cams: true, length: None, width: None, announcement: None };
        let facilities = Facilities::new(config, ItsStationType::BUS, Entropy::seed_from_u64(1));
        let position = LongPositionVector {
            address: GeoAddress::new(ItsStationType::BUS, LinkAddress([2, 0, 0, 0, 0, 1])),
            timestamp: Timestamp(0),
            place: Coordinates { latitude: 480_000_000, longitude: 110_000_000 },
            accurate: true,
            speed: -5,
            heading: 3599,
        };
        let own = EgoState { position, position_accuracy: Some(u32::MAX), has_fix: true, its_time: 700_000_000_000 };
        Harness { facilities, now: Time::from_micros(1), own }
    }

    /// A message with these octets behind a valid version and kind.
    fn receive(&mut self, octets: &[u8], port: u16, kind: u8) {
        let version = if kind == message::VAM { vam::PROTOCOL_VERSION } else { PROTOCOL_VERSION };
        let message = [&[version, kind], octets].concat();
        if let Ok(read @ (Message::Cam(_) | Message::Denm(_) | Message::Saem(_))) = Message::parse(&message) {
            let written = read.emit().map(|octets| Message::parse(&octets));
            assert_eq!(written, Some(Ok(read)), "encoded differently from what was decoded");
        }
        let payload = Btp { destination: port, source_or_info: SourceOrInfo::Information(0), payload: &message }.emit();
        let packet = Packet {
            version: VERSION,
            lifetime: Lifetime(26),
            remaining_hop_limit: 1,
            upper_protocol: UpperProtocol::BtpB,
            traffic_class: TrafficClass(0),
            flags: 0,
            max_hop_limit: 1,
            extended: ExtendedHeader::SingleHop { source: self.own.position, media: [0; 4] },
            payload: &payload,
        };
        let from = Hop { link: LinkId(1), address: LinkAddress([2, 0, 0, 0, 0, 9]) };
        self.facilities.receive(
            self.now,
            &Delivery { packet, from, hop_limit_reached: false, permissions: None },
            self.own.its_time,
        );
        let (stations, events) = self.facilities.ldm().len();
        // Own events make room for others once their termination was sent for 3 s.
        let own = MAX_OWN * (TERMINATED_LIFETIME.as_secs() as usize / 3 + 1);
        assert!(stations <= MAX_STATIONS && events <= MAX_EVENTS + own, "{stations} stations, {events} events");
        assert!(self.facilities.messages().iter().count() <= MESSAGE_TYPES, "one station has entries without end");
        assert!(self.facilities.services().iter().count() <= MAX_OF_ONE_STATION, "one station announces without end");
    }

    fn announce(&mut self, choice: u8) {
        let served = OfferedService {
            application: u32::from(choice) << (choice & 15),
            address: (choice & 1 != 0).then_some(Ipv6Addr::LOCALHOST),
            port: (choice & 2 != 0).then_some(choice.into()),
            context: (choice & 4 != 0).then(|| "x".repeat(usize::from(choice >> 3))),
        };
        let routing = RoutingAdvertisement {
            prefix: Prefix::ALL,
            gateway: Ipv6Addr::LOCALHOST,
            dns: vec![Ipv6Addr::LOCALHOST; usize::from(choice & 3)],
            lifetime: Duration::from_secs(u64::from(choice) << 10),
        };
        self.facilities.announce((choice != 0).then(|| Announcement {
            name: (choice & 8 != 0).then(|| "é".repeat(MAX_NAME / 2)),
            interval: Duration::from_millis(u64::from(choice) * 20),
            services: vec![served; usize::from(choice >> 4)],
            routing: (choice & 16 != 0).then_some(routing),
        }));
        self.next_message();
    }

    fn order(&mut self, choice: u8) {
        let name = EventId { station: 7, sequence: u16::from(choice >> 4) };
        let repetition = (choice & 4 != 0).then_some((Duration::from_millis(choice.into()), Duration::from_secs(9)));
        let event = DenmEvent {
            tag: choice.into(),
            cause: (choice, 0),
            quality: choice,
            place: None,
            area: Area::circle(self.own.position.place, 100),
            validity: Duration::from_secs(u64::from(choice) << 10),
            repetition,
            parameters: Default::default(),
        };
        let order = match choice & 3 {
            0 | 1 => DenmRequest::Trigger(event),
            2 => DenmRequest::Update(name, event),
            _ => DenmRequest::Terminate(name),
        };
        if let Ok(request) = self.facilities.execute(self.now, &order, Some(&self.own)) {
            assert!(
                Message::parse(request.payload.get(4..).unwrap_or_default()).is_ok(),
                "a sent message can be parsed"
            );
        }
        self.next_message();
    }

    fn next_message(&mut self) {
        let mut sent = 0;
        while let Some(request) = self.facilities.next_message(self.now, Some(&self.own)) {
            assert!(
                Message::parse(request.payload.get(4..).unwrap_or_default()).is_ok(),
                "a sent message can be parsed"
            );
            sent += 1;
            assert!(sent <= MAX_REQUESTS, "messages are due without end");
        }
        let next = self.facilities.deadline(Some(&self.own));
        assert!(next.is_none_or(|at| at > self.now), "an expired timer was not handled");
    }

    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(at) = self.facilities.deadline(Some(&self.own)).filter(|at| *at <= until) {
            self.own.its_time += at.since(self.now).as_millis() as u64;
            self.now = at.max(self.now);
            self.next_message();
        }
        self.own.its_time += until.since(self.now).as_millis() as u64;
        self.now = until;
        self.next_message();
    }
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::fuzz_inputs;

    #[test]
    fn the_committed_corpus_passes() {
        fuzz_inputs::run_files("../fuzz/corpus/facilities", run);
    }

    #[test]
    fn arbitrary_octets_pass() {
        fuzz_inputs::run_seeds(1_000, 400, run);
    }
}
