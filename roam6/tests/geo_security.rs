//! The real binary as a strict station that verifies signed beacons, with certificates of `roam6 geo cert make`.

#![cfg(feature = "geo-security")]
#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use p256::ecdsa::signature::Signer;
use p256::ecdsa::{Signature, SigningKey};
use p256::pkcs8::DecodePrivateKey;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{
    Coordinates, ExtendedHeader, GeoAddress, ItsStationType, Lifetime, LongPositionVector, Packet, Timestamp,
    TrafficClass, UpperProtocol, VERSION,
};
use roam6_wire::security::{Certificate, Message, Psid, SignerField, UnsignedData};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};
use testbed::{BINARY, Namespace, run, wait_or_report};

/// Sends an Ethernet frame, given in hexadecimal.
const SENDER: &str = "
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
for frame in sys.argv[2:]:
    s.send(bytes.fromhex(frame))
";

/// A beacon of station `number` from its Basic Header, not signed.
fn beacon(number: u8, micros: u64) -> Vec<u8> {
    let source = LongPositionVector {
        address: GeoAddress::new(ItsStationType::PASSENGER_CAR, LinkAddress([2, 0, 0, 0, 0, number])),
        timestamp: Timestamp(((micros / 1_000) & u64::from(u32::MAX)) as u32),
        place: Coordinates::from_degrees(48.001, 11.0).unwrap(),
        accurate: true,
        speed: 0,
        heading: 0,
    };
    let packet = Packet {
        version: VERSION,
        lifetime: Lifetime(0xf1),
        remaining_hop_limit: 1,
        upper_protocol: UpperProtocol::Any,
        traffic_class: TrafficClass(0),
        flags: 0x80,
        max_hop_limit: 1,
        extended: ExtendedHeader::Beacon { source },
        payload: &[],
    };
    packet.emit()
}

/// The same packet, signed with the ticket of a lab.
fn sign(packet: &[u8], lab: &Path, micros: u64) -> Vec<u8> {
    let octets = fs::read(lab.join("tickets/at-01.cert")).unwrap();
    let key = fs::read_to_string(lab.join("tickets/at-01.key")).unwrap();
    let (basic, payload) = packet.split_at(4);
    let data = UnsignedData { payload, psid: Psid::GN_MANAGEMENT, generation_time: micros, location: None };
    let to_be_signed = data.to_be_signed();
    let message = Message::of_data(&to_be_signed, &Certificate::parse(&octets).unwrap());
    let signature: Signature = SigningKey::from_pkcs8_pem(&key).unwrap().sign(message.octets());
    let (r, s) = signature.split_bytes();
    let envelope = UnsignedData::emit(&to_be_signed, SignerField::Certificate(&octets), (r.into(), s.into()));
    [&[basic[0] & 0xf0 | 2], &basic[1..], &envelope].concat()
}

fn frame(number: u8, packet: &[u8]) -> String {
    let head = [&[0xff; 6][..], &[2, 0, 0, 0, 0, number, 0x89, 0x47]].concat();
    [&head, packet].concat().iter().map(|octet| format!("{octet:02x}")).collect()
}

#[test]
fn a_strict_station_knows_only_stations_that_sign_with_trusted_certificates() {
    let Some(place) = Namespace::new() else {
        println!("skipped: strict station: no network namespaces here (not root?)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str| run(Command::new(BINARY).args(["geo", "cert", "make"]).arg(folder.path().join(name)));
    let (table, _) = (make("lab"), make("other"));
    place.shell("ip link add radio0 type veth peer name air && ip link set air up && ip link set radio0 up");
    let text = format!(
        "run_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n[geo]\ninterfaces = [\"radio0\"]\n\
         position = {{ latitude = 48.0, longitude = 11.0 }}\n{table}",
        folder.path().display()
    );
    let config = folder.path().join("strict.toml");
    fs::write(&config, text).unwrap();
    let _daemon = place.roam6(&config);
    let run_dir = folder.path().join("run");
    let show = |part: &str| {
        let shown = place.command(&[BINARY, "show", part, "--run-dir", run_dir.to_str().unwrap()]).output();
        String::from_utf8(shown.unwrap().stdout).unwrap()
    };
    let send = || {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
        let micros = unix - (1_072_915_200 - 5) * 1_000_000;
        let signed = |number, lab: &str| sign(&beacon(number, micros), &folder.path().join(lab), micros);
        let mut changed = signed(6, "lab");
        *changed.last_mut().unwrap() ^= 1;
        let frames = [
            frame(5, &beacon(5, micros)),
            frame(6, &changed),
            frame(7, &signed(7, "other")),
            frame(8, &signed(8, "lab")),
        ];
        let words: Vec<&str> =
            ["python3", "-c", SENDER, "air"].into_iter().chain(frames.iter().map(String::as_str)).collect();
        place.command(&words).status().unwrap()
    };
    let is_known = || {
        send();
        show("stations").contains("verified")
    };
    wait_or_report("no station was verified", is_known, || {
        fs::read_to_string(config.with_extension("log")).unwrap() + &show("counters")
    });
    let stations = show("stations");
    assert!(stations.contains("02:00:00:00:00:08"), "{stations}");
    for number in 5..8 {
        assert!(!stations.contains(&format!("02:00:00:00:00:0{number}")), "{stations}");
    }
    let counters = show("counters");
    for reason in ["not_authenticated", "bad_authenticator", "unknown_certificate"] {
        assert!(counters.contains(&format!("dropped_{reason}")), "{counters}");
    }
}
