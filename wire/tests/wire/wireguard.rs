//! Golden octets of the WireGuard key option in an acknowledgement, and what others make of it.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use crate::dissector::fields_of;
use crate::samples::{HOME, HOME_AGENT, address, octets};
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::mobility::{AckFlags, BindingAcknowledgement, Message, MobilityOption, Status, WireguardKey};
use roam6_wire::{Bid, Sequence};

/// The public key of RFC 7748 §6.1.
const KEY: &str = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
const ACKNOWLEDGEMENT: &str = "3b060600398400400007000f122a52365747010000011061\
    8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";

fn acknowledgement(option: MobilityOption) -> Message {
    Message::BindingAcknowledgement(BindingAcknowledgement {
        status: Status::ACCEPTED,
        flags: AckFlags::ROUTER,
        sequence: Sequence(7),
        lifetime_units: 15,
        options: vec![option],
    })
}

fn key() -> MobilityOption {
    let public_key = octets(KEY).try_into().unwrap();
    MobilityOption::WireguardKey(WireguardKey { bid: Bid(1), port: 4193, public_key })
}

#[test]
fn wireguard_key_golden_octets() {
    let (message, golden) = (acknowledgement(key()), octets(ACKNOWLEDGEMENT));
    assert_eq!(message.emit(address(HOME_AGENT), address(HOME)), golden);
    assert_eq!(Message::parse(&golden, address(HOME_AGENT), address(HOME)), Ok(message));
}

#[test]
fn other_versions_lengths_and_flags_are_unknown_options() {
    let body = [octets("52365747010000011061"), octets(KEY)].concat();
    let mut others = vec![body[..41].to_vec(), [&body[..], &[0]].concat()];
    for (at, changed) in [(0, 0x53), (4, 2), (5, 1)] {
        let mut body = body.clone();
        body[at] = changed;
        others.push(body);
    }
    for body in others {
        let other = acknowledgement(MobilityOption::Unknown { kind: 18, body: body.clone() });
        let bytes = other.emit(address(HOME_AGENT), address(HOME));
        assert_eq!(Message::parse(&bytes, address(HOME_AGENT), address(HOME)), Ok(other), "{body:02x?}");
    }
}

#[test]
fn tshark_reads_the_acknowledgement() {
    let payload = acknowledgement(key()).emit(address(HOME_AGENT), address(HOME));
    let packet = ip6::emit(&Header::new(address(HOME_AGENT), address(HOME)), protocol::MOBILITY, &payload);
    let Some(text) = fields_of(&[packet], &["_ws.malformed", "mip6.ba.seqnr"]) else { return };
    assert_eq!(text.lines().next(), Some("|7"));
}
