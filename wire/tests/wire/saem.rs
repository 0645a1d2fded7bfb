//! SAEM against the octets of another encoder for the same ASN.1 (pycrate 0.8.1).

use crate::dissector::{ETHERNET, fields_of_link};
use crate::its::frame;
use rasn::types::{BitString, FixedOctetString};
use roam6_wire::Malformed;
use roam6_wire::its::common::Header;
use roam6_wire::its::extension::{Extension, Value, id};
use roam6_wire::its::number::Number;
use roam6_wire::its::saem::*;
use roam6_wire::its::{MAX_LENGTH, Message, PROTOCOL_VERSION, message};
use std::net::Ipv6Addr;

/// ItsPduHeader of 4 octets of station 4000000000; then bit by bit 0 (an announcement), 011 (version 3), 0100 (services
/// only), 0000 and 0001 (announcement 0, content 1), and no service.
const BARE: [u8; 9] = [2, 12, 0xee, 0x6b, 0x28, 0x00, 0b0011_0100, 0b0000_0001, 0];

/// With every field.
const FULL: &str = "020cee6b28003f3902110105070908436166c3a920413902c800010903091020010db80000000000000000000000010a02\
                    1f900805046675656c24000111b47b8c0101150102070820010db800090000000000000000000040fe80000000000000\
                    000000000000000120010db8000000000000000000000053020d1020010db80000000000000000000000540e06020000\
                    000001";

fn octets(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|digit| digit.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn address(text: &str) -> Address {
    Address(FixedOctetString::new(text.parse::<Ipv6Addr>().unwrap().octets()))
}

fn other(id: u8, value: &'static [u8]) -> Extension {
    Extension { id, value: value.into() }
}

fn message(change_count: ChangeCount, services: Vec<Service>) -> Saem {
    let header = Header { protocol_version: PROTOCOL_VERSION, message_id: message::SAEM, station_id: 4_000_000_000 };
    let version = Version { message_id: 0, version: VERSION };
    let body = Body { change_count, extensions: None, services: Some(services), channels: None, routing: None };
    Saem { header, sam: Sam { version, body } }
}

fn bare() -> Saem {
    message(ChangeCount { announcement: 0, content: 1 }, Vec::new())
}

fn service(application: u32, channel: u8, extensions: Option<Vec<Extension>>) -> Service {
    let options = ServiceOptions { extensions, ..ServiceOptions::default() };
    Service { application: Number::from(application), channel, options }
}

fn full() -> Saem {
    let emit = |values: &[Value]| -> Vec<Extension> { values.iter().map(|value| value.emit().unwrap()).collect() };
    let ip = |text: &str| text.parse::<Ipv6Addr>().unwrap();
    let fuel = [Value::Address(ip("2001:db8::1")), Value::Port(8080), Value::Context(b"fuel".to_vec())];
    let services = vec![service(540_801, 1, Some(emit(&fuel))), service(36, 0, None)];
    let mut all = message(ChangeCount { announcement: 3, content: 9 }, services);
    all.sam.body.extensions = Some(emit(&[Value::RepeatRate(5), Value::Advertiser("Café A9".to_owned())]));
    let options = ChannelOptions { extensions: Some(vec![other(21, &[2])]), ..ChannelOptions::default() };
    let rate = Rate { adaptable: BitString::repeat(true, 1), rate: 12 };
    all.sam.body.channels = Some(vec![Channel { operating_class: 17, number: 180, power: -5, rate, options }]);
    let mut extensions = emit(&[Value::SecondaryDns(ip("2001:db8::54"))]);
    extensions.push(other(14, &[2, 0, 0, 0, 0, 1]));
    all.sam.body.routing = Some(Routing {
        lifetime: 1800,
        prefix: address("2001:db8:9::"),
        prefix_length: 64,
        gateway: address("fe80::1"),
        dns: address("2001:db8::53"),
        extensions,
    });
    all
}

fn emit(saem: Saem) -> Vec<u8> {
    Message::Saem(Box::new(saem)).emit().expect("within all bounds")
}

fn parse(bytes: &[u8]) -> Result<Saem, Malformed> {
    match Message::parse(bytes)? {
        Message::Saem(saem) => Ok(*saem),
        other => panic!("{other:?} is no announcement"),
    }
}

#[test]
fn saem_octets_match_another_encoder() {
    for (message, bytes) in [(bare(), BARE.to_vec()), (full(), octets(FULL))] {
        assert_eq!(emit(message.clone()), bytes);
        assert_eq!(parse(&bytes), Ok(message));
    }
}

#[test]
fn its_aid_takes_one_to_four_octets() {
    let known = [
        (0, "00f8"),
        (127, "7ff8"),
        (128, "8000f8"),
        (16_511, "bffff8"),
        (16_512, "c00000f8"),
        (2_113_663, "dffffff8"),
        (2_113_664, "e0000000f8"),
        (270_549_118, "effffffef8"),
        (270_549_119, "effffffff8"),
    ];
    for (number, text) in known {
        let message = message(ChangeCount { announcement: 15, content: 15 }, vec![service(number, 31, None)]);
        let bytes = [&BARE[..7], &[0xff, 1], &octets(text)].concat();
        assert_eq!(emit(message), bytes, "{number}");
        let read = parse(&bytes).unwrap().sam.body.services.unwrap();
        assert_eq!(u32::from(read[0].application), number);
    }
}

#[test]
fn truncated_or_extended_saem_is_refused() {
    let bytes = octets(FULL);
    for length in 0..bytes.len() {
        assert!(parse(&bytes[..length]).is_err(), "{length} octets");
    }
    assert!(parse(&[&bytes[..], &[0]].concat()).is_err());
    for first in [0b0010_0100, 0b1011_0100] {
        let mut bytes = BARE;
        bytes[6] = first;
        assert!(parse(&bytes).is_err(), "{first:08b}");
    }
}

#[test]
fn invalid_saem_values_are_refused() {
    let wrong = |extension: Extension| {
        let mut message = bare();
        message.sam.body.extensions = Some(vec![extension.clone()]);
        assert!(parse(&emit(message)).is_err(), "{extension:?}");
    };
    for id in [id::ADVERTISER, id::CONTEXT, id::ADDRESS, id::PORT, id::SECONDARY_DNS, id::REPEAT_RATE] {
        wrong(other(id, &[]));
        wrong(other(id, &[1; 40]));
    }
    wrong(other(id::ADVERTISER, &[0]));
    wrong(other(id::ADVERTISER, b"\x02\xff\xff"));
    wrong(other(id::ADVERTISER, b"\x03\x1b[m"));
    wrong(other(id::CONTEXT, &[3, 1, 2]));

    let mut message = full();
    message.sam.body.routing.as_mut().unwrap().prefix_length = 129;
    assert!(parse(&emit(message)).is_err());
    for options in [(Some(()), None), (None, Some(()))] {
        let mut message = full();
        let service = &mut message.sam.body.services.as_mut().unwrap()[0];
        (service.options.mandatory, service.options.reply_to) = options;
        assert!(parse(&emit(message)).is_err(), "{options:?}");
    }
}

#[test]
fn saem_lists_are_bounded() {
    let many = |count| emit(message(ChangeCount { announcement: 0, content: 0 }, vec![service(1, 0, None); count]));
    assert!(parse(&many(MAX_LIST)).is_ok());
    assert!(parse(&many(MAX_LIST + 1)).is_err());
    // The length claims 64 K services, and none follow.
    let huge = [&BARE[..8], &[0xc4], &[0; MAX_LENGTH - 9]].concat();
    assert!(parse(&huge).is_err());
}

#[test]
fn tshark_dissects_saem_lower_layers() {
    let frames = [bare(), full()].map(|saem| frame(&Message::Saem(Box::new(saem))));
    let fields = ["_ws.malformed", "_ws.expert.message", "btpb.dstport", "its.messageID", "its.stationID"];
    let Some(text) = fields_of_link(ETHERNET, &frames, &fields) else { return };
    for line in text.lines() {
        assert!(line.starts_with("||2005|"), "{text}");
    }
}
