//! Shim6: golden octets, every message and option, mutated messages, and a cross-check by tshark.

use crate::mutation::mutate;
use crate::samples::{address, octets};
use roam6_wire::fuzz;
use roam6_wire::ip6::{self, Header};
use roam6_wire::shim6::{
    self, ErrorCode, ErrorMessage, Fork, LocatorList, LocatorPreference, Message, Nonce, PROTOCOL, PayloadHeader,
    Probe, ProbeRecord, ProbeState, ShimOption, Tag, VerificationMethod, error_code, option, tag_of,
};
use roam6_wire::{Malformed, Why};

const I1: &str = "3b01010022f8123456789abcdeadbeef";
const PROBE: &str = "3b0643001dc0123456789abc0140000020010db8000a00000000000000000001\
    20010db8000c000000000000000000010102030400000000";

const TAG: Tag = Tag::from_low_bits(0x1234_5678_9abc);
const NONCE: Nonce = Nonce(0xdead_beef);

fn record(data: u32) -> ProbeRecord {
    let (source, destination) = (address("2001:db8:a::1"), address("2001:db8:c::1"));
    ProbeRecord { source, destination, nonce: Nonce(0x0102_0304), data }
}

fn probe(state: ProbeState, sent: usize, received: usize) -> Message {
    let records = |count| (0..count).map(|data| record(data as u32)).collect();
    Message::Probe(Probe { tag: TAG, state, sent: records(sent), received: records(received), options: vec![] })
}

/// Locator List, Locator Preferences and proof.
fn locator_options(count: u16) -> Vec<ShimOption> {
    let locator = |index| (VerificationMethod(index as u8 % 3), address(&format!("2001:db8:{index:x}::1")));
    let preference = |index| LocatorPreference { flags: index as u8 % 4, priority: 7, weight: 200 };
    vec![
        ShimOption::Locators(LocatorList { generation: 99, locators: (0..count).map(locator).collect() }),
        ShimOption::Preferences { generation: 99, elements: (0..count).map(preference).collect() },
        ShimOption::Parameters(vec![5; 131]),
        ShimOption::Signature(vec![6; 128]),
        ShimOption::KeepaliveTimeout(15),
        ShimOption::KeepaliveMilliseconds(100),
        ShimOption::Unknown { kind: 77, data: vec![1, 2, 3] },
    ]
}

fn messages() -> Vec<Message> {
    let (initiator_nonce, responder_nonce, packet_tag) = (NONCE, Nonce(7), Tag::from_low_bits(5));
    let ulids = ShimOption::Ulids { sender: address("2001:db8::1"), receiver: address("2001:db8::2") };
    let first = vec![ulids, ShimOption::Fork(Fork(3))];
    let validator = vec![ShimOption::Validator(vec![9; 20])];
    let second = [validator.clone(), first.clone(), locator_options(5)].concat();
    vec![
        Message::I1 { tag: TAG, nonce: NONCE, options: vec![] },
        Message::I1 { tag: TAG, nonce: NONCE, options: first },
        Message::R1 { initiator_nonce, responder_nonce, options: validator.clone() },
        Message::I2 { tag: TAG, initiator_nonce, responder_nonce, options: second.clone() },
        Message::R2 { tag: TAG, nonce: NONCE, options: locator_options(8) },
        Message::R1bis { packet_tag, responder_nonce, options: validator },
        Message::I2bis { tag: TAG, initiator_nonce, responder_nonce, packet_tag, options: second },
        Message::UpdateRequest { tag: TAG, nonce: NONCE, options: locator_options(3) },
        Message::UpdateAck { tag: TAG, nonce: NONCE, options: vec![] },
        Message::Keepalive { tag: TAG, options: vec![] },
        probe(ProbeState::Operational, 1, 0),
        probe(ProbeState::InboundOk, 4, 3),
        probe(ProbeState::Exploring, 15, 15),
        Message::Error(ErrorMessage { code: ErrorCode::CRITICAL_OPTION, pointer: 56, packet: octets(I1) }),
        Message::Unknown { kind: 60, body: vec![3; 10] },
    ]
}

#[test]
fn shim6_golden_octets() {
    let first = Message::I1 { tag: TAG, nonce: NONCE, options: vec![] };
    assert_eq!(first.emit(), octets(I1));
    assert_eq!(Message::parse(&octets(I1)), Ok(first));
    let exploring = probe(ProbeState::Exploring, 1, 0);
    assert_eq!(exploring.emit(), octets(PROBE));
    assert_eq!(Message::parse(&octets(PROBE)), Ok(exploring));
}

#[test]
fn every_shim6_message_round_trips() {
    for message in messages() {
        assert_eq!(Message::parse(&message.emit()), Ok(message));
    }
    for count in 0..60 {
        let message = Message::R2 { tag: TAG, nonce: NONCE, options: locator_options(count) };
        assert_eq!(Message::parse(&message.emit()), Ok(message));
    }
}

#[test]
fn payload_header_and_control_message_are_distinguished() {
    let header = PayloadHeader { next_header: 6, tag: TAG };
    assert_eq!(header.emit().to_vec(), octets("0600923456789abc"));
    assert_eq!(PayloadHeader::parse(&header.emit()), Some(header));
    assert_eq!(PayloadHeader::parse(&octets(I1)), None);
    let flagged = Message::parse(&[header.emit(), [0; 8]].concat()).unwrap_err();
    assert_eq!((flagged.what, flagged.at), ("P bit", 2));
}

#[test]
fn tag_of_reads_the_context_tag() {
    for message in messages() {
        let of_context = (64..68).contains(&message.kind());
        assert_eq!(tag_of(&message.emit()), of_context.then_some(TAG), "{message:?}");
    }
    let payload = PayloadHeader { next_header: 6, tag: TAG }.emit();
    assert_eq!(tag_of(&[&payload[..], &[0; 20]].concat()), Some(TAG));
}

/// A Keepalive with raw option octets, and correct length and checksum.
fn keepalive_with(options: &[u8]) -> Vec<u8> {
    let body = [&octets("123456789abc00000000"), options].concat();
    Message::Unknown { kind: 66, body }.emit()
}

#[test]
fn an_unknown_critical_option_causes_an_error_message() {
    let ignored = keepalive_with(&octets("0002000401020304"));
    let option = ShimOption::Unknown { kind: 1, data: vec![1, 2, 3, 4] };
    assert_eq!(Message::parse(&ignored), Ok(Message::Keepalive { tag: TAG, options: vec![option] }));
    let refused = Message::parse(&keepalive_with(&octets("00020004010203040003000401020304"))).unwrap_err();
    assert_eq!((refused.at, error_code(&refused)), (24, Some(ErrorCode::CRITICAL_OPTION)));
    let checksum = Message::parse(&octets("3b01010022f9123456789abcdeadbeef")).unwrap_err();
    assert_eq!((checksum.why, error_code(&checksum)), (Why::Checksum, None));
}

#[test]
fn hdr_ext_len_minimums_are_checked() {
    for (kind, units) in [(1, 1), (2, 1), (3, 2), (4, 1), (5, 1), (6, 3), (64, 1), (65, 1), (66, 1), (67, 6), (68, 1)] {
        let short = Message::Unknown { kind, body: vec![0; units * 8 - 6] }.emit();
        let refused = Err(Malformed { what: "Hdr Ext Len", at: 1, why: Why::Length { has: units - 1, needs: units } });
        assert_eq!(Message::parse(&short), refused);
    }
}

#[test]
fn a_duplicate_option_is_refused() {
    let fork = ShimOption::Fork(Fork(3));
    let twice = Message::I1 { tag: TAG, nonce: NONCE, options: vec![fork.clone(), fork] };
    assert_eq!(Message::parse(&twice.emit()).unwrap_err().why, Why::Misplaced);
}

#[test]
fn locator_preference_elements_may_have_any_length() {
    let option = |element: u8, elements: &[u8]| {
        let contents = [&[0, 0, 0, 9, element], elements].concat();
        let padding = vec![0; (8 - (4 + contents.len()) % 8) % 8];
        let option = [&[0, 6, 0, contents.len() as u8][..], &contents, &padding].concat();
        Message::parse(&Message::Unknown { kind: 64, body: [vec![0; 10], option].concat() }.emit())
    };
    let flags = |message: Result<Message, Malformed>| match message.map(|message| message.options().to_vec()).as_deref()
    {
        Ok([ShimOption::Preferences { elements, .. }]) => {
            Some(elements.iter().map(|element| (element.flags, element.priority, element.weight)).collect::<Vec<_>>())
        }
        _ => None,
    };
    assert_eq!(flags(option(1, &[1, 2])), Some(vec![(1, 0, 0), (2, 0, 0)]));
    assert_eq!(flags(option(2, &[1, 8, 2, 9])), Some(vec![(1, 8, 0), (2, 9, 0)]));
    assert_eq!(flags(option(5, &[1, 8, 3, 7, 7])), Some(vec![(1, 8, 3)]));
    assert_eq!(flags(option(2, &[1, 8, 2])), None, "half an element");
    assert_eq!(flags(option(0, &[])), None);
}

#[test]
fn locators_are_aligned_to_8_octets() {
    let message = Message::UpdateRequest { tag: TAG, nonce: NONCE, options: locator_options(4) };
    let bytes = message.emit();
    let at = option::find(&bytes, option::kind::LOCATORS).unwrap();
    assert_eq!(at, 16);
    assert_eq!(&bytes[at + LocatorList::method_at(0)..][..4], [0, 1, 2, 0]);
    let first = bytes.windows(16).position(|window| window == address("2001:db8::1").octets()).unwrap();
    assert_eq!(first % 8, 0);
}

#[test]
fn mutated_shim6_messages_never_panic() {
    let valid: Vec<_> = messages().iter().map(Message::emit).collect();
    mutate(0x5533, &valid, fuzz::shim6);
}

/// The dissector reads the fields one octet early, so only its verdict on the checksum is used.
#[test]
fn tshark_accepts_the_shim6_checksum() {
    let header = Header::new(address("2001:db8::1"), address("2001:db8::2"));
    let packets: Vec<_> = messages().iter().map(|message| ip6::emit(&header, PROTOCOL, &message.emit())).collect();
    let Some(text) = crate::dissector::fields_of(&packets, &["shim6.checksum.status", "shim6.p"]) else { return };
    assert_eq!(text.lines().count(), packets.len());
    assert!(text.lines().all(|line| line == "1|0" || line == "1|False"), "{text}");
    assert_eq!(shim6::PROTOCOL, 140);
}
