//! Round trips: what is emitted parses to the same value, also with unassigned code points.

use crate::samples::{CARE_OF, HOME, HOME_AGENT, address, icmp6_messages, mobility_messages, octets};
use roam6_wire::icmp6;
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{self, MobilityOption, authenticated_part, parameter_problem};
use roam6_wire::{Malformed, Why};

fn parse_mobility(bytes: &[u8]) -> Result<mobility::Message, Malformed> {
    mobility::Message::parse(bytes, address(HOME), address(HOME_AGENT))
}

/// A Binding Update with raw option octets, which may be malformed.
fn update_with(options: &[u8]) -> Vec<u8> {
    let mut body = octets("000184000001");
    body.extend_from_slice(options);
    let unknown = mobility::Message::Unknown { kind: mobility::kind::BINDING_UPDATE, body };
    unknown.emit(address(HOME), address(HOME_AGENT))
}

fn options_of(bytes: &[u8]) -> Result<Vec<MobilityOption>, Malformed> {
    parse_mobility(bytes).map(|message| message.options().to_vec())
}

#[test]
fn every_mobility_message_round_trips() {
    for message in mobility_messages() {
        let bytes = message.emit(address(HOME), address(HOME_AGENT));
        assert_eq!(bytes.len() % 8, 0);
        assert_eq!(parse_mobility(&bytes), Ok(message));
    }
}

#[test]
fn every_icmpv6_message_round_trips() {
    for (header, message) in icmp6_messages() {
        let bytes = message.emit(header.real_source(), header.real_destination());
        let packet = ip6::emit(&header, protocol::ICMPV6, &bytes);
        let datagram = Datagram::parse(&packet).unwrap();
        assert_eq!(datagram.header, header);
        assert_eq!(icmp6::Message::parse(&datagram), Ok(message.clone()));
        assert_eq!(message.check_on_link(&datagram), Ok(()));
    }
}

#[test]
fn every_mobility_code_point_survives() {
    for code in 0..=255 {
        let kind = mobility::Message::Unknown { kind: code, body: vec![0; 26] };
        let read = parse_mobility(&kind.emit(address(HOME), address(HOME_AGENT))).unwrap();
        assert_eq!(read.kind(), code);
        if code > mobility::kind::BINDING_ERROR {
            assert_eq!(read, kind);
        }
        if code > mobility::option::kind::FLOW_IDENTIFICATION {
            let options = vec![MobilityOption::Unknown { kind: code, body: vec![code; 5] }];
            let message = mobility::Message::BindingRefreshRequest { options };
            assert_eq!(parse_mobility(&message.emit(address(HOME), address(HOME_AGENT))), Ok(message));
        }
    }
}

#[test]
fn home_address_option_golden_octets() {
    let header = Header::new(address(CARE_OF), address(HOME_AGENT)).with_home_address(address(HOME));
    let packet = ip6::emit(&header, protocol::MOBILITY, &[]);
    assert_eq!(packet[40..], octets("8702010200 00c91020010db8000000000000000000000100".replace(' ', "").as_str()));
}

#[test]
fn encapsulation_limit_option_is_eight_octets() {
    let outer = Header::new(address(CARE_OF), address(HOME_AGENT)).with_encapsulation_limit(4);
    let inner = ip6::emit(&Header::new(address(HOME), address(HOME_AGENT)), protocol::NONE, &[]);
    let packet = ip6::encapsulate(&outer, &inner);
    assert_eq!(packet[40..48], octets("2900040104010100"));
    let datagram = Datagram::parse(&packet).unwrap();
    assert_eq!((datagram.encapsulation_limit, datagram.payload_at), (Some(4), 48));
    assert_eq!(datagram.payload, inner);
}

#[test]
fn link_padding_is_removed_and_a_truncated_packet_refused() {
    let mut packet = ip6::emit(&Header::new(address(HOME), address(HOME_AGENT)), protocol::UDP, &[1, 2, 3]);
    packet.extend([0; 6]);
    assert_eq!(Datagram::parse(&packet).unwrap().payload, [1, 2, 3]);
    let short = Datagram::parse(&packet[..42]).unwrap_err();
    assert_eq!(short.why, Why::Short { has: 2, needs: 3 });
}

#[test]
fn a_second_home_address_option_is_refused() {
    let header = Header::new(address(CARE_OF), address(HOME_AGENT)).with_home_address(address(HOME));
    let once = ip6::emit(&header, protocol::DESTINATION, &[]);
    let mut twice = ip6::emit(&header, protocol::DESTINATION, &once[40..]);
    twice[64] = protocol::NONE;
    let refused = Datagram::parse(&twice).unwrap_err();
    assert_eq!(refused, Malformed { what: "Home Address option", at: 70, why: Why::Misplaced });
}

#[test]
fn a_non_unicast_home_address_is_refused() {
    for home in ["ff02::1", "::", "::1", "fe80::1"] {
        let header = Header::new(address(CARE_OF), address(HOME_AGENT));
        assert!(Datagram::parse(&ip6::emit(&header.with_home_address(address(home)), 59, &[])).is_err());
        assert!(Datagram::parse(&ip6::emit(&header.with_routing_home(address(home)), 59, &[])).is_err());
    }
}

#[test]
fn parameter_problem_pointers_follow_rfc6275() {
    let good = mobility_messages()[1].emit(address(HOME), address(HOME_AGENT));
    for (at, value, pointer) in [(0, 58, Some(0)), (1, 0, Some(1)), (6, 9, None)] {
        let mut bad = good.clone();
        bad[at] = value;
        if pointer.is_some() {
            let length = (usize::from(bad[1]) + 1) * 8;
            bad[4..6].fill(0);
            let sum = roam6_wire::checksum::checksum(address(HOME), address(HOME_AGENT), 135, &bad[..length]);
            bad[4..6].copy_from_slice(&sum.to_be_bytes());
        }
        assert_eq!(parameter_problem(&parse_mobility(&bad).unwrap_err()), pointer);
    }
}

#[test]
fn invalid_options_rejected_by_status_are_parsed() {
    // A Binding Identifier of 5 octets, and a prefix of 129 bits.
    let identifier = options_of(&update_with(&octets("230500010000ff"))).unwrap();
    assert_eq!(identifier, [MobilityOption::Invalid { kind: 35, body: octets("00010000ff") }]);
    let prefix = octets("061200812001 0db8000000000000000000000000".replace(' ', "").as_str());
    assert!(matches!(options_of(&update_with(&prefix)).unwrap()[..], [MobilityOption::Invalid { kind: 6, .. }]));
}

#[test]
fn other_invalid_mobility_options_are_malformed() {
    let refused = options_of(&update_with(&octets("030400000000"))).unwrap_err();
    assert_eq!(refused, Malformed { what: "mobility option", at: 14, why: Why::Length { has: 4, needs: 16 } });
    assert_eq!(refused.to_string(), "mobility option at 14: length 4, needs 16");
    assert!(options_of(&update_with(&octets("0303000000"))).is_err());
    assert!(options_of(&update_with(&octets("c8ff00"))).is_err(), "longer than the message");
}

#[test]
fn no_option_may_follow_the_authentication_option() {
    let proof = "09110100000100aaaaaaaaaaaaaaaaaaaaaaaa";
    let after = update_with(&octets(&format!("{proof}c80100")));
    assert_eq!(options_of(&after).unwrap_err().why, Why::Misplaced);
    assert_eq!(authenticated_part(&after), None);
    let padded = update_with(&octets(&format!("{proof}00")));
    assert!(authenticated_part(&padded).is_some());
    let second = update_with(&octets(&format!("{proof}{}", proof.replace("091101", "091102"))));
    assert_eq!(authenticated_part(&second).unwrap().1, 19, "MN-HA comes before MN-AAA");
    assert_eq!(authenticated_part(&update_with(&[])), None);
}

#[test]
fn mobility_options_are_bounded() {
    let many = update_with(&octets("c800").repeat(mobility::option::MAX_OPTIONS + 1));
    assert_eq!(options_of(&many).unwrap_err().why, Why::TooMany(mobility::option::MAX_OPTIONS));
    let huge = vec![MobilityOption::Unknown { kind: 200, body: vec![0; 255] }; 20];
    let message = mobility::Message::BindingRefreshRequest { options: huge };
    let emitted = message.emit(address(HOME), address(HOME_AGENT));
    assert!(emitted.len() <= mobility::MAX_LENGTH);
    assert_eq!(options_of(&emitted).unwrap().len(), 7);
}

#[test]
fn neighbour_discovery_with_hop_limit_below_255_is_refused() {
    for (header, message) in icmp6_messages().into_iter().filter(|(header, _)| header.hop_limit == 255) {
        let bytes = message.emit(header.source, header.destination);
        let packet = ip6::emit(&header.with_hop_limit(254), protocol::ICMPV6, &bytes);
        let refused = message.check_on_link(&Datagram::parse(&packet).unwrap());
        assert_eq!(refused, Err(Malformed { what: "hop limit", at: 0, why: Why::Value(254) }));
    }
}

#[test]
fn a_neighbour_option_of_length_zero_is_refused() {
    let header = Header::new(address(HOME), address(HOME_AGENT));
    let message =
        icmp6::Message::Unknown { kind: icmp6::kind::ROUTER_SOLICITATION, code: 0, body: octets("000000000100") };
    let bytes = message.emit(header.source, header.destination);
    let packet = ip6::emit(&header, protocol::ICMPV6, &bytes);
    let refused = icmp6::Message::parse(&Datagram::parse(&packet).unwrap()).unwrap_err();
    assert_eq!(refused.why, Why::Length { has: 0, needs: 1 });
}

#[test]
fn solicited_node_multicast_address_follows_rfc4291() {
    assert_eq!(icmp6::solicited_node(address("4037::1:800:200e:8c6c")), address("ff02::1:ff0e:8c6c"));
}

#[test]
fn an_option_that_does_not_fit_the_mobility_header_is_omitted() {
    let long = mobility::Message::Unknown { kind: 200, body: vec![1; 5000] };
    let emitted = long.emit(address(HOME), address(HOME_AGENT));
    assert_eq!(emitted.len(), mobility::MAX_LENGTH);
    assert!(parse_mobility(&emitted).is_ok());

    let packet = ip6::emit(&Header::new(address(HOME), address(HOME_AGENT)), protocol::UDP, &vec![0; 70_000]);
    assert_eq!(Datagram::parse(&packet).unwrap().payload.len(), 65_535);

    let invoking = icmp6::Message::PacketTooBig { mtu: 1280, invoking: vec![0; 1500] };
    assert_eq!(invoking.emit(address(HOME), address(HOME_AGENT)).len(), 1240);
}

/// Offset, type and body length of each option of an update or acknowledgement, without padding.
fn options_on_the_wire(bytes: &[u8]) -> Vec<(usize, u8, u8)> {
    let mut at = 12;
    let mut found = Vec::new();
    while at < bytes.len() {
        let (kind, length) = (bytes[at], if bytes[at] == 0 { 0 } else { bytes[at + 1] });
        if kind > 1 {
            found.push((at, kind, length));
        }
        at += if kind == 0 { 1 } else { 2 + usize::from(length) };
    }
    found
}

#[test]
fn every_mobility_option_is_aligned() {
    let mut seen = 0;
    for message in mobility_messages().iter().filter(|message| matches!(message.kind(), 5 | 6)) {
        for (at, kind, length) in options_on_the_wire(&message.emit(address(HOME), address(HOME_AGENT))) {
            let (step, offset) = match (kind, length) {
                (3, _) => (8, 6),
                (6, _) => (8, 4),
                (9, _) => (4, 1),
                (5 | 10, _) | (35, 20) => (8, 2),
                (29..=32, _) => (4, 0),
                (2 | 4 | 18 | 35 | 44 | 45, _) => (2, 0),
                _ => (1, 0),
            };
            assert_eq!(at % step, offset, "option {kind} at {at}");
            seen += 1;
        }
    }
    assert_eq!(seen, 28);
}

#[test]
fn reserved_bits_are_ignored() {
    for (reserved, name) in [(3, "Reserved of the header"), (14, "Reserved of the prefix option")] {
        let mut bytes = update_with(&octets("0612003820010db80f0000000000000000000000"));
        let good = parse_mobility(&bytes).unwrap();
        bytes[reserved] = 0xff;
        bytes[4..6].fill(0);
        let sum = roam6_wire::checksum::checksum(address(HOME), address(HOME_AGENT), protocol::MOBILITY, &bytes);
        bytes[4..6].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(parse_mobility(&bytes), Ok(good), "{name}");
    }
}
