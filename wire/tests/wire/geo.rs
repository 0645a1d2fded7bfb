//! GeoNetworking packets: round trips of recorded and hand-made frames, invalid frames, mutated frames, and a cross-check
//! by tshark. A line of the vectors has a verdict, a name and an Ethernet frame.

use crate::dissector::{ETHERNET, fields_of_link};
use crate::mutation::mutate;
use crate::samples::octets;
use roam6_wire::fuzz;
use roam6_wire::geo::btp::{Btp, SourceOrInfo};
use roam6_wire::geo::{ExtendedHeader, Packet, UpperProtocol, is_secured, set_destination, set_remaining_hop_limit};

const VECTORS: &str = include_str!("vectors/geo.tsv");
/// Octets of an Ethernet header.
const HEADER: usize = 14;
/// Invalid vectors that a receiver has to accept: reserved bits are ignored (§9.6.1), and errors in the inner IPv6
/// packet are for the next layer.
const TOLERATED: [&str; 3] = ["reserved-bits-set", "ipv6-truncated", "ipv6-is-ipv4"];

pub(crate) struct Vector {
    pub(crate) good: bool,
    pub(crate) name: &'static str,
    frame: Vec<u8>,
}

impl Vector {
    pub(crate) fn packet(&self) -> &[u8] {
        &self.frame[HEADER..]
    }
}

pub(crate) fn vectors() -> impl Iterator<Item = Vector> {
    VECTORS.lines().map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [verdict, name, frame] = fields[..] else { panic!("{line}") };
        Vector { good: verdict == "good", name, frame: octets(frame) }
    })
}

fn vector(name: &str) -> Vector {
    vectors().find(|vector| vector.name == name).unwrap()
}

#[test]
fn valid_geonetworking_vectors_round_trip() {
    let mut count = 0;
    for vector in vectors().filter(|vector| vector.good) {
        let packet = Packet::parse(vector.packet()).unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        assert_eq!(
            (packet.length(), packet.emit().as_slice()),
            (vector.packet().len(), vector.packet()),
            "{}",
            vector.name
        );
        count += 1;
    }
    assert!(count > 40, "{count} good vectors");
}

#[test]
fn invalid_geonetworking_vectors_are_refused() {
    for vector in vectors().filter(|vector| !vector.good) {
        let parsed = Packet::parse(vector.packet());
        assert_eq!(parsed.is_ok(), TOLERATED.contains(&vector.name), "{}: {parsed:?}", vector.name);
        assert_eq!(is_secured(vector.packet()), vector.name.starts_with("secured"), "{}", vector.name);
    }
}

#[test]
fn geonetworking_field_offsets() {
    let vector = vector("guc-btpa");
    let packet = Packet::parse(vector.packet()).unwrap();
    let ExtendedHeader::GeoUnicast { origin, destination } = packet.extended else { panic!("{packet:?}") };
    assert_eq!((origin.sequence, origin.source.speed, origin.source.heading), (2, 1300, 900));
    assert_eq!(origin.source.address.to_string(), "passenger-car/02:00:00:00:00:01");
    assert_eq!(destination.address.mid.0, [2, 0, 0, 0, 0, 4]);
    assert_eq!(destination.place.to_string(), "48.7668616, 11.4484210");
    assert!(origin.source.accurate && packet.is_mobile() && packet.upper_protocol == UpperProtocol::BtpA);
    let btp = Btp::parse(packet.upper_protocol, packet.payload).unwrap().unwrap();
    assert_eq!((btp.destination, btp.source_or_info, btp.payload), (6000, SourceOrInfo::Source(6001), &b"guc"[..]));
    assert_eq!((btp.upper(), btp.emit()), (packet.upper_protocol, packet.payload.to_vec()));
}

#[test]
fn a_forwarder_changes_rhl_and_destination_only() {
    let vector = vector("guc-btpa");
    let before = Packet::parse(vector.packet()).unwrap();
    let mut bytes = vector.packet().to_vec();
    let mut here = before.extended.source().short();
    here.address.mid.0[5] = 4;
    set_remaining_hop_limit(&mut bytes, before.remaining_hop_limit - 1);
    set_destination(&mut bytes, &here);

    let ExtendedHeader::GeoUnicast { origin, .. } = before.extended else { panic!("{before:?}") };
    let extended = ExtendedHeader::GeoUnicast { origin, destination: here };
    assert_eq!(
        Packet::parse(&bytes),
        Ok(Packet { remaining_hop_limit: before.remaining_hop_limit - 1, extended, ..before })
    );
}

#[test]
fn ethernet_padding_is_removed() {
    let vector = vector("beacon");
    let mut bytes = vector.packet().to_vec();
    let packet = Packet::parse(vector.packet()).unwrap();
    bytes.resize(46, 0);
    assert_eq!(Packet::parse(&bytes), Ok(packet));
    bytes.push(0);
    assert!(Packet::parse(&bytes).is_err());
}

#[test]
fn mutated_geonetworking_packets_never_panic() {
    let packets: Vec<Vec<u8>> = vectors().map(|vector| vector.packet().to_vec()).collect();
    mutate(0x8947, &packets, fuzz::geo);
}

#[test]
fn tshark_dissects_every_valid_vector() {
    let good: Vec<Vector> = vectors().filter(|vector| vector.good).collect();
    let frames: Vec<Vec<u8>> = good.iter().map(|vector| vector.frame.clone()).collect();
    let Some(text) = fields_of_link(ETHERNET, &frames, &["frame.protocols", "_ws.malformed", "geonw.bh.rhl"]) else {
        return;
    };
    for (line, vector) in text.lines().zip(good) {
        let fields: Vec<&str> = line.split('|').collect();
        let [protocols, malformed, remaining] = fields[..] else { panic!("{line}") };
        let packet = Packet::parse(vector.packet()).unwrap();
        assert!(protocols.contains("gnw"), "{}: {line}", vector.name);
        assert_eq!((malformed, remaining), ("", packet.remaining_hop_limit.to_string().as_str()), "{}", vector.name);
    }
}
