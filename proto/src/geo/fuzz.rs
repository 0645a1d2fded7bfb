//! Fuzz harness of a GeoNetworking station. Invariants: no panic, bounded tables and buffers, and no received frame
//! causes more frames than the standard allows.
//!
//! One function, driven by the seeded loop in `cargo test`, by the committed corpus, and by the fuzzer.

use super::location_table::MAX_STATIONS;
use super::station::GeoStation;
use crate::base::ids::LinkId;
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::contract::command::{Command, LifecycleCommand};
use crate::contract::config::geo::{
    AreaForwarding, GeoConfig, LinkScope, Mib, NonAreaForwarding, SecurityConfig, SecurityMode, VirtualLink,
};
use crate::contract::engine::{Engine, Outbox};
use crate::contract::input::{Clock, Fix, Frame, Input, LinkEvent};
use crate::contract::output::Output;
#[cfg(feature = "geo-security")]
use crate::contract::signature::{SigningResult, VerificationResult};
use core::time::Duration;
use roam6_wire::geo::{Coordinates, ETHERTYPE, ItsStationType, Packet, set_remaining_hop_limit};
use roam6_wire::{LinkAddress, Reader};

const RADIO: LinkId = LinkId(1);
const VIRTUAL: LinkId = LinkId(2);
const OWN: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 0xee]);
/// Ticks at one moment at most.
const MAX_TICKS: usize = 8;

/// Runs the scenario that `data` encodes, and asserts the invariants after each step.
///
/// # Panics
/// If an invariant does not hold.
pub fn run(data: &[u8]) {
    let mut reader = Reader::new("scenario", data);
    let mut world = Harness::new(reader.u8().unwrap_or_default());
    while let Ok(action) = reader.u8() {
        let choice = reader.u8().unwrap_or_default();
        match action % 8 {
            0..=2 => {
                let length = usize::from(choice).min(reader.len());
                world.receive(reader.bytes(length).unwrap_or_default(), action >> 3);
            }
            3 => world.echo(choice),
            4 => {
                let length = usize::from(choice).min(reader.len());
                world.host_sends(reader.bytes(length).unwrap_or_default(), action >> 3);
            }
            5 => world.wait(Duration::from_millis(u64::from(choice))),
            6 => world.wait(Duration::from_secs(u64::from(choice))),
            _ => world.move_to(choice),
        }
    }
    world.stop();
}

#[cfg(feature = "geo-security")]
fn security(choice: u8) -> SecurityConfig {
    match choice & 0xc0 {
        0 => SecurityMode::Drop.into(),
        0x40 => super::fuzz_security::config(SecurityMode::Strict),
        0x80 => SecurityMode::Relay.into(),
        _ => super::fuzz_security::config(SecurityMode::NonStrict),
    }
}

#[cfg(not(feature = "geo-security"))]
fn security(_choice: u8) -> SecurityConfig {
    SecurityMode::Drop.into()
}

struct Harness {
    station: GeoStation,
    now: Time,
    /// Frames the station has sent, to be sent back at it.
    sent: Vec<Frame>,
}

impl Harness {
    fn new(choice: u8) -> Harness {
        let mib = Mib {
            non_area: if choice & 1 == 0 { NonAreaForwarding::Greedy } else { NonAreaForwarding::Contention },
            in_area: match choice & 34 {
                0 => AreaForwarding::Contention,
                2 => AreaForwarding::Simple,
                _ => AreaForwarding::Advanced,
            },
            beacon_hops: choice >> 2 & 3,
            ..Mib::default()
        };
        let reach = if choice & 16 == 0 { LinkScope::Around(500) } else { LinkScope::Hops(2) };
        let config = GeoConfig {
            interfaces: ["radio0".to_owned()].into(),
            station: ItsStationType::BUS,
            virtual_links: vec![VirtualLink::new("gn0", reach)],
            advertised_links: 2,
            destinations: Vec::new(),
            facilities: None,
            mib,
            security: security(choice),
        };
        let station = GeoStation::new(config, Entropy::seed_from_u64(u64::from(choice)));
        let mut world = Harness { station, now: Time::from_micros(1), sent: Vec::new() };
        world.feed(&Input::Clock(Clock { unix_micros: 1_790_000_000_000_000 }));
        for (link, name) in [(RADIO, "radio0"), (VIRTUAL, "gn0")] {
            let event = LinkEvent { link, name: name.to_owned(), address: Some(OWN), up: true, mtu: 1500 };
            world.feed(&Input::Link(event));
        }
        world.move_to(choice);
        world
    }

    fn feed(&mut self, input: &Input) -> usize {
        let mut out = Outbox::new();
        self.station.handle(self.now, input, &mut out);
        assert!(self.station.deadline().is_none_or(|at| at > self.now), "an expired timer was not handled");
        assert!(self.station.router().location_table().len() <= MAX_STATIONS);
        let outputs: Vec<Output> = out.drain().collect();
        let answered: usize = outputs.iter().map(|output| self.answer(output)).sum();
        let frames: Vec<Frame> = outputs
            .into_iter()
            .filter_map(|output| match output {
                Output::Frame(frame) => Some(frame),
                _ => None,
            })
            .collect();
        let on_air = frames.iter().filter(|frame| frame.link == RADIO).count();
        self.sent.extend(frames.into_iter().filter(|frame| frame.link == RADIO));
        self.sent.truncate(64);
        on_air + answered
    }

    /// The host signs, and finds half of the signatures valid; the number of frames that were sent then.
    #[cfg(feature = "geo-security")]
    fn answer(&mut self, output: &Output) -> usize {
        match output {
            Output::Sign(request) => {
                self.feed(&Input::Signed(SigningResult { id: request.id, signature: vec![1; 64] }))
            }
            Output::Verify(request) => {
                let valid = request.message.first().is_some_and(|first| first & 1 == 1);
                self.feed(&Input::Verified(VerificationResult { id: request.id, valid }))
            }
            _ => 0,
        }
    }

    #[cfg(not(feature = "geo-security"))]
    fn answer(&mut self, _output: &Output) -> usize {
        0
    }

    /// A frame with these octets, from one of a few senders.
    fn receive(&mut self, bytes: &[u8], sender: u8) {
        let source = LinkAddress([2, 0, 0, 0, 0, sender]);
        self.take(Frame { link: RADIO, source, destination: OWN, ethertype: ETHERTYPE, bytes: bytes.to_vec() });
    }

    fn take(&mut self, frame: Frame) {
        let own = self.station.router().address();
        let is_own = Packet::parse(&frame.bytes).is_ok_and(|packet| packet.extended.source().address.mid == own.mid);
        let (_, _, buffered) = self.station.router().buffered();
        let sent = self.feed(&Input::Frame(frame));
        // One frame to forward or answer it; packets that waited for the position of its source are sent too.
        assert!(sent <= 1 || buffered > 0, "{sent} frames for one packet");
        assert!(sent == 0 || !is_own, "{sent} frames for an own packet");
    }

    /// The station's own frame is received from the medium.
    fn echo(&mut self, choice: u8) {
        let Some(frame) = self.sent.get(usize::from(choice) % self.sent.len().max(1)).cloned() else { return };
        let mut frame = Frame { source: LinkAddress([2, 0, 0, 0, 0, 9]), destination: OWN, ..frame };
        set_remaining_hop_limit(&mut frame.bytes, choice >> 6);
        // It is not forwarded, unless the station's address has changed since.
        self.take(frame);
    }

    fn host_sends(&mut self, bytes: &[u8], choice: u8) {
        let destination =
            if choice & 1 == 0 { LinkAddress([0x33, 0x33, 0, 0, 0, 1]) } else { LinkAddress([2, 0, 0, 0, 0, choice]) };
        self.feed(&Input::Frame(Frame {
            link: VIRTUAL,
            source: OWN,
            destination,
            ethertype: 0x86dd,
            bytes: bytes.to_vec(),
        }));
    }

    fn move_to(&mut self, choice: u8) {
        let place = Coordinates { latitude: 480_000_000 + i32::from(choice) * 10_000, longitude: 110_000_000 };
        let fix = (choice != 13).then_some(Fix { place, uncertainty: Some(u32::from(choice)), speed: 0, heading: 0 });
        self.feed(&Input::Fix(fix));
    }

    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        let mut at_once = 0;
        while let Some(at) = self.station.deadline().filter(|at| *at <= until) {
            at_once = if at == self.now { at_once + 1 } else { 0 };
            assert!(at_once < MAX_TICKS, "does not stop at {at}");
            self.now = at;
            self.feed(&Input::Tick);
        }
        self.now = until;
    }

    fn stop(&mut self) {
        self.feed(&Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
        assert_eq!(self.station.deadline(), None, "does not end");
    }
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::fuzz_inputs;

    #[test]
    fn the_committed_corpus_passes() {
        fuzz_inputs::run_files("../fuzz/corpus/geo_station", run);
    }

    #[test]
    fn arbitrary_octets_pass() {
        fuzz_inputs::run_seeds(3_000, 600, run);
    }
}
