//! Emulates the stations around a forwarder on a packet socket: many neighbours, and packets for distant stations.

use crate::bed::{Host, gpsd};
use crate::clock;
use crate::sys;
use anyhow::Result;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn6, sendmmsg, setsockopt};
use roam6_proto::geo::geometry::{Offset, distance};
use roam6_wire::LinkAddress;
use roam6_wire::geo::{
    Coordinates, ETHERTYPE, ExtendedHeader, GeoAddress, ItsStationType, Lifetime, LongPositionVector, Packet,
    SequencedSource, ShortPositionVector, Timestamp, TrafficClass, UpperProtocol, VERSION,
};
use roam6_wire::security::{HashedId8, Psid, SignerField, UnsignedData};
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// The forwarder's link-layer address.
pub(crate) const FORWARDER: LinkAddress = LinkAddress([2, 0x47, 0, 0, 0, 1]);
/// Octets of the Ethernet header, and of all headers of a GeoUnicast frame.
const ETHERNET_HEADER: usize = 14;
const HEADERS: usize = ETHERNET_HEADER + 60;
/// Octets of the envelope of a packet of 128 to 255 octets, for a service with a number of one octet.
const SHORT_ENVELOPE: usize = 94;
/// Octets of a Basic Header.
pub(super) const BASIC_HEADER: usize = 4;
/// Frames per system call.
const BATCH: usize = 64;
/// The number of destinations and the angle of the sector they are in, centred on the first neighbour's direction. In a
/// wider sector a single neighbour would not be nearer to each of them than the forwarder, which would then broadcast
/// (EN 302 636-4-1 §E.2).
const DESTINATIONS: u16 = 16;
const SECTOR_ANGLE: f64 = core::f64::consts::FRAC_PI_2;
/// How long a forwarded packet may take, milliseconds.
const TIMEOUT: u16 = 200;
const BROADCAST: LinkAddress = LinkAddress([0xff; 6]);

/// The stations.
pub(crate) struct EmulatedStations {
    host: Host,
    interface: String,
    socket: OwnedFd,
    neighbours: Vec<(LinkAddress, Coordinates)>,
    /// Distant stations and the neighbour nearest to each; computed in advance, so that the cost of generating frames
    /// is independent of the number of neighbours.
    destinations: Vec<Destination>,
    sequence: u16,
    is_secured: bool,
}

/// A distant destination.
#[derive(Debug, Clone, Copy)]
struct Destination {
    station: LinkAddress,
    place: Coordinates,
    next_hop: LinkAddress,
}

impl EmulatedStations {
    /// So many neighbours of a forwarder at [`FORWARDER`], attached to `interface` of `host`.
    pub(crate) fn open(host: &Host, interface: &str, neighbours: u16) -> Result<EmulatedStations> {
        let socket = host.in_namespace(|| sys::open_packet_socket(interface, 0))??;
        let place = |number| place_at(f64::from(number) / f64::from(neighbours) * core::f64::consts::TAU, 250.0);
        let neighbours: Vec<_> = (0..neighbours).map(|number| (link_address(1, number), place(number))).collect();
        let far = (0..DESTINATIONS).map(|number| Destination::new(number, &neighbours)).collect();
        let (host, interface) = (host.clone(), interface.to_owned());
        Ok(EmulatedStations { host, interface, socket, neighbours, destinations: far, sequence: 0, is_secured: false })
    }

    /// Puts the packets for distant stations into envelopes.
    pub(crate) fn secure(&mut self) {
        self.is_secured = true;
    }

    /// Sends a beacon from every neighbour.
    pub(crate) fn send_beacons(&mut self) -> Result<()> {
        for (address, place) in &self.neighbours {
            let packet = packet(ExtendedHeader::Beacon { source: position(*address, *place) }, 1, &[]);
            nix::unistd::write(&self.socket, &frame(BROADCAST, *address, &packet))?;
        }
        Ok(())
    }

    /// Sends `count` frames of `octets`, one every `pause`. Whether each was forwarded once, with one hop less, to the
    /// neighbour nearest to its destination; and the latencies, microseconds.
    pub(crate) fn measure_latency(&mut self, count: usize, pause: Duration, octets: usize) -> Result<(bool, Vec<f64>)> {
        let interface = self.interface.clone();
        let receiver = self.host.in_namespace(|| sys::open_packet_socket(&interface, ETHERTYPE))??;
        setsockopt(&receiver, ReceiveTimestampns, &true)?;
        let (mut all_forwarded, mut latencies) = (true, Vec::new());
        for _ in 0..count {
            let (sent, hop) = self.next_packet(octets);
            let begin = clock::unix_micros();
            nix::unistd::write(&self.socket, &sent)?;
            let wanted = expected_frame(&sent, hop);
            match await_frame(&receiver, &wanted)? {
                Some(at) => latencies.push(at.saturating_sub(begin) as f64),
                None => all_forwarded = false,
            }
            std::thread::sleep(pause);
        }
        Ok((all_forwarded, latencies))
    }

    /// Sends frames of `octets` at full rate for `span`; the number of forwarded frames.
    pub(crate) fn send_burst(&mut self, span: Duration, octets: usize) -> Result<u64> {
        let before = self.received()?;
        let end = clock::now() + span;
        let mut headers: MultiHeaders<SockaddrIn6> = MultiHeaders::preallocate(BATCH, None);
        while clock::now() < end {
            let frames: Vec<Vec<u8>> = (0..BATCH).map(|_| self.next_packet(octets).0).collect();
            let slices: Vec<[IoSlice<'_>; 1]> = frames.iter().map(|frame| [IoSlice::new(frame)]).collect();
            let nowhere = vec![None; BATCH];
            sendmmsg(self.socket.as_raw_fd(), &mut headers, &slices, nowhere, [], MsgFlags::empty())?;
        }
        // The forwarder may still have frames in its queue.
        std::thread::sleep(Duration::from_millis(300));
        Ok(self.received()?.saturating_sub(before))
    }

    /// The next packet for a distant station, and its expected next hop.
    fn next_packet(&mut self, octets: usize) -> (Vec<u8>, LinkAddress) {
        self.sequence = self.sequence.wrapping_add(1);
        let Some(Destination { station, place, next_hop: hop }) =
            self.destinations.get(usize::from(self.sequence % DESTINATIONS)).copied()
        else {
            return (Vec::new(), BROADCAST);
        };
        let source = position(link_address(3, 0), place_at(0.1, 400.0));
        let address = GeoAddress::new(ItsStationType::BUS, station);
        let destination = ShortPositionVector { address, timestamp: now(), place };
        let origin = SequencedSource { sequence: self.sequence, source };
        let envelope = if self.is_secured { SHORT_ENVELOPE } else { 0 };
        let payload = vec![0x55; octets.saturating_sub(HEADERS + envelope)];
        let packet = packet(ExtendedHeader::GeoUnicast { origin, destination }, 10, &payload);
        let packet = if self.is_secured { secured(&packet) } else { packet };
        // From a station that is no neighbour: a packet is not sent back to its sender.
        (frame(FORWARDER, link_address(4, 0), &packet), hop)
    }

    /// Frames the interface has received.
    fn received(&self) -> Result<u64> {
        self.host.packet_count(&self.interface, "rx")
    }
}

impl Destination {
    fn new(number: u16, neighbours: &[(LinkAddress, Coordinates)]) -> Destination {
        let place = place_at((f64::from(number) / f64::from(DESTINATIONS) - 0.5) * SECTOR_ANGLE, 5_000.0);
        let distance_to = |neighbour: &&(LinkAddress, Coordinates)| distance(place, neighbour.1);
        let nearest = neighbours.iter().min_by(|one, other| distance_to(one).total_cmp(&distance_to(other)));
        Destination {
            station: link_address(2, number),
            place,
            next_hop: nearest.map_or(BROADCAST, |(address, _)| *address),
        }
    }
}

/// A frame as it must be forwarded: to the next hop, with one hop less remaining.
fn expected_frame(sent: &[u8], hop: LinkAddress) -> Vec<u8> {
    let mut packet = sent.get(ETHERNET_HEADER..).unwrap_or_default().to_vec();
    roam6_wire::geo::set_remaining_hop_limit(&mut packet, 9);
    frame(hop, FORWARDER, &packet)
}

/// Waits for a frame; the time of its reception by the kernel, microseconds since 1970. `None` if it does not arrive,
/// or if another frame arrives that is not one of the forwarder's own beacons.
fn await_frame(receiver: &OwnedFd, wanted: &[u8]) -> Result<Option<u64>> {
    let mut buffer = [0; 2048];
    loop {
        if !sys::is_readable_within(receiver, TIMEOUT)? {
            return Ok(None);
        }
        let (length, at) = sys::receive_stamped(receiver, &mut buffer)?;
        let frame = buffer.get(..length).unwrap_or_default();
        if !is_beacon(frame) {
            return Ok(at.filter(|_| frame == wanted));
        }
    }
}

fn is_beacon(frame: &[u8]) -> bool {
    let packet = Packet::parse(frame.get(ETHERNET_HEADER..).unwrap_or_default());
    packet.is_ok_and(|packet| matches!(packet.extended, ExtendedHeader::Beacon { .. }))
}

pub(super) fn link_address(kind: u8, number: u16) -> LinkAddress {
    let [high, low] = number.to_be_bytes();
    LinkAddress([2, 0x47, 0, kind, high, low])
}

/// The position at a distance (metres) and direction (radians clockwise from north) from the forwarder.
pub(super) fn place_at(angle: f64, metres: f64) -> Coordinates {
    gpsd::to_position(Offset { east: metres * angle.sin(), north: metres * angle.cos() })
}

pub(super) fn position(address: LinkAddress, place: Coordinates) -> LongPositionVector {
    let address = GeoAddress::new(ItsStationType::PASSENGER_CAR, address);
    LongPositionVector { address, timestamp: now(), place, accurate: true, speed: 0, heading: 0 }
}

/// Milliseconds since 2004-01-01, approximately TAI.
fn now() -> Timestamp {
    Timestamp((clock::its_micros() / 1000) as u32)
}

pub(super) fn packet(extended: ExtendedHeader, hops: u8, payload: &[u8]) -> Vec<u8> {
    let (upper, class) = (if payload.is_empty() { UpperProtocol::Any } else { UpperProtocol::BtpB }, TrafficClass(0));
    let lifetime = Lifetime::of(Duration::from_secs(60));
    let packet = Packet {
        version: VERSION,
        lifetime,
        remaining_hop_limit: hops,
        upper_protocol: upper,
        traffic_class: class,
        flags: 0x80,
        max_hop_limit: hops,
        extended,
        payload,
    };
    packet.emit()
}

/// The packet in an envelope whose signature nobody can verify, as a station that forwards it sees it.
fn secured(packet: &[u8]) -> Vec<u8> {
    let Some(([first, rest @ ..], payload)) = packet.split_first_chunk::<BASIC_HEADER>() else { return Vec::new() };
    let data = UnsignedData::new(payload, Psid::GN_MANAGEMENT, u64::from(now().0) * 1_000);
    let signer = SignerField::Digest(HashedId8([7; 8]));
    let envelope = UnsignedData::emit(&data.to_be_signed(), signer, ([5; 32], [6; 32]));
    [&[*first & 0xf0 | 2], &rest[..], &envelope].concat()
}

pub(super) fn frame(to: LinkAddress, from: LinkAddress, packet: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0, &ETHERTYPE.to_be_bytes(), packet].concat()
}
