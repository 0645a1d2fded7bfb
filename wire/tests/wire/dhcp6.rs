//! DHCPv6 messages: golden octets from the figures of RFC 8415, round trips, and malformed messages.

use crate::samples::{dhcp6_messages, octets};
use roam6_wire::dhcp6::{
    ClientServerMessage, DhcpOption, Duid, Iaid, IdentityAssociation, Message, MessageType, Prefix, Timers,
    TransactionId,
};
use roam6_wire::{LinkAddress, Malformed, Why};

/// Put together by hand from the figures of RFC 8415 §8, §11.4, §21.2, §21.9, §21.14, §21.21 and §21.22.
const SOLICIT: &str = "01abcdef0001000a00030001020000000001000800020000000e00000019002900000007000000000000000\
    0001a001900000000000000003800000000000000000000000000000000";

fn solicit() -> Message {
    let wish = Prefix { prefix: "::/56".parse().unwrap(), preferred: 0, valid: 0, options: vec![] };
    let options = vec![DhcpOption::Prefix(wish)];
    Message::Exchange(ClientServerMessage {
        kind: MessageType::Solicit,
        transaction: TransactionId([0xab, 0xcd, 0xef]),
        options: vec![
            DhcpOption::ClientId(Duid::from_link_address(LinkAddress([2, 0, 0, 0, 0, 1]))),
            DhcpOption::ElapsedTime(0),
            DhcpOption::RapidCommit,
            DhcpOption::Prefixes(IdentityAssociation { id: Iaid(7), timers: Timers::default(), options }),
        ],
    })
}

/// A Reply with raw option octets, which may be malformed.
fn reply(options: &str) -> Result<Message, Malformed> {
    Message::parse(&octets(&format!("07010203{options}")))
}

#[test]
fn dhcpv6_solicit_golden_octets() {
    assert_eq!(solicit().emit(), octets(SOLICIT));
    assert_eq!(Message::parse(&octets(SOLICIT)), Ok(solicit()));
}

#[test]
fn every_dhcpv6_message_round_trips() {
    for message in dhcp6_messages() {
        assert_eq!(Message::parse(&message.emit()), Ok(message));
    }
    for kind in 0..=255 {
        let length = if matches!(kind, 12 | 13) { 33 } else { 35 };
        let read = Message::parse(&[&[kind][..], &vec![0; length]].concat()).unwrap();
        assert_eq!(matches!(read, Message::Unknown { .. }), !(1..=13).contains(&kind));
        assert_eq!(read.emit()[0], kind);
    }
}

#[test]
fn duid_formats_follow_rfc8415() {
    let mac = LinkAddress([2, 0, 0, 0, 0, 1]);
    assert_eq!(Duid::from_link_address_and_time(mac, 5).octets(), octets("0001000100000005020000000001"));
    assert_eq!(Duid::from_uuid([7; 16]).octets(), [&[0, 4][..], &[7; 16]].concat());
}

#[test]
fn malformed_dhcpv6_is_refused_with_its_offset() {
    let refused = |what, at, why| Err(Malformed { what, at, why });
    assert_eq!(reply("000e000100"), refused("DHCPv6 option", 8, Why::Length { has: 1, needs: 0 }));
    assert_eq!(reply("00190004"), refused("DHCPv6 message", 8, Why::Short { has: 0, needs: 4 }));
    assert_eq!(reply("0019000400000007"), refused("DHCPv6 option", 8, Why::Length { has: 4, needs: 12 }));
    let long = format!("001a0019{}{}{}", "0000000000000000", "81", "00".repeat(16));
    assert_eq!(reply(&long), refused("DHCPv6 option", 17, Why::Value(129)));
    let many = "000e0000".repeat(65);
    assert_eq!(reply(&many), refused("DHCPv6 options", 4 + 64 * 4, Why::TooMany(64)));
    assert!(reply("00010002ffff").is_err(), "an identifier without substance");
    let endless = format!("00010083{}", "00".repeat(131));
    assert!(reply(&endless).is_err(), "an identifier of 131 octets");
}

#[test]
fn dhcpv6_option_nesting_is_bounded() {
    let mut inner = String::from("000e0000");
    for depth in 1..=4 {
        let length = 12 + inner.len() / 2;
        inner = format!("0019{length:04x}{}{inner}", "00".repeat(12));
        assert_eq!(reply(&inner).is_ok(), depth < 3, "{depth}");
    }
}
