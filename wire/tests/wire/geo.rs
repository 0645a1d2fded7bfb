//! GeoNetworking packets: frames of other stacks and hand-made ones decoded and encoded again, what must be refused,
//! hostile octets, and what another decoder finds. A line of the vectors: verdict, name, Ethernet frame.

use crate::dissector::{ETHERNET, fields_of_link};
use crate::hostile::disturb;
use crate::samples::octets;
use roam6_wire::geo::btp::{Btp, Second};
use roam6_wire::geo::{Extended, Packet, Upper, is_secured, set_destination, set_remaining};
use roam6_wire::scenario;

const VECTORS: &str = include_str!("vectors/geo.tsv");
/// Octets of an Ethernet header.
const HEADER: usize = 14;
/// What a receiver must let pass although it is called bad: reserved bits mean nothing to it (§9.6.1), and what is wrong
/// in the IPv6 packet inside is the next layer's to find.
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
fn good_vectors_come_back_octet_for_octet() {
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
fn bad_vectors_are_refused_with_a_reason() {
    for vector in vectors().filter(|vector| !vector.good) {
        let parsed = Packet::parse(vector.packet());
        assert_eq!(parsed.is_ok(), TOLERATED.contains(&vector.name), "{}: {parsed:?}", vector.name);
        assert_eq!(is_secured(vector.packet()), vector.name.starts_with("secured"), "{}", vector.name);
    }
}

#[test]
fn fields_are_where_the_standard_has_them() {
    let vector = vector("guc-btpa");
    let packet = Packet::parse(vector.packet()).unwrap();
    let Extended::GeoUnicast { origin, destination } = packet.extended else { panic!("{packet:?}") };
    assert_eq!((origin.sequence, origin.source.speed, origin.source.heading), (2, 1300, 900));
    assert_eq!(origin.source.address.to_string(), "passenger-car/02:00:00:00:00:01");
    assert_eq!(destination.address.mid.0, [2, 0, 0, 0, 0, 4]);
    assert_eq!(destination.place.to_string(), "48.7668616, 11.4484210");
    assert!(origin.source.accurate && packet.is_mobile() && packet.upper == Upper::BtpA);
    let btp = Btp::parse(packet.upper, packet.payload).unwrap().unwrap();
    assert_eq!((btp.destination, btp.second, btp.payload), (6000, Second::Source(6001), &b"guc"[..]));
    assert_eq!((btp.upper(), btp.emit()), (packet.upper, packet.payload.to_vec()));
}

#[test]
fn a_forwarder_changes_only_what_it_must() {
    let vector = vector("guc-btpa");
    let before = Packet::parse(vector.packet()).unwrap();
    let mut bytes = vector.packet().to_vec();
    let mut here = before.extended.source().short();
    here.address.mid.0[5] = 4;
    set_remaining(&mut bytes, before.remaining - 1);
    set_destination(&mut bytes, &here);

    let Extended::GeoUnicast { origin, .. } = before.extended else { panic!("{before:?}") };
    let extended = Extended::GeoUnicast { origin, destination: here };
    assert_eq!(Packet::parse(&bytes), Ok(Packet { remaining: before.remaining - 1, extended, ..before }));
}

#[test]
fn what_ethernet_filled_up_is_cut_off_and_nothing_longer() {
    let vector = vector("beacon");
    let mut bytes = vector.packet().to_vec();
    let packet = Packet::parse(vector.packet()).unwrap();
    bytes.resize(46, 0);
    assert_eq!(Packet::parse(&bytes), Ok(packet));
    bytes.push(0);
    assert!(Packet::parse(&bytes).is_err());
}

#[test]
fn disturbed_packets_never_panic() {
    let packets: Vec<Vec<u8>> = vectors().map(|vector| vector.packet().to_vec()).collect();
    disturb(0x8947, &packets, scenario::geo);
}

#[test]
fn tshark_dissects_every_good_vector() {
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
        assert_eq!((malformed, remaining), ("", packet.remaining.to_string().as_str()), "{}", vector.name);
    }
}
