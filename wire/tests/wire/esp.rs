//! Golden octets of the ESP key option in an acknowledgement, and what others make of it.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use crate::dissector::fields_of;
use crate::samples::{HOME, HOME_AGENT, address, octets};
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::mobility::{AckFlags, BindingAcknowledgement, EspKey, Message, MobilityOption, Status};
use roam6_wire::{Bid, Sequence};

/// The public key of RFC 5903 §8.1, compressed.
const POINT: &str = "03dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c3772581180";
const ACKNOWLEDGEMENT: &str = "3b070600583a00400007000f1231\
    52364553010000018abc000100001234\
    03dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c377258118000";

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
    let point = octets(POINT).try_into().unwrap();
    MobilityOption::EspKey(EspKey { bid: Bid(1), spi: 0x8abc_0001, answers: 0x1234, point })
}

#[test]
fn esp_key_golden_octets() {
    let (message, golden) = (acknowledgement(key()), octets(ACKNOWLEDGEMENT));
    assert_eq!(message.emit(address(HOME_AGENT), address(HOME)), golden);
    assert_eq!(Message::parse(&golden, address(HOME_AGENT), address(HOME)), Ok(message));
}

#[test]
fn other_versions_lengths_flags_and_reserved_spis_are_unknown_options() {
    let body = [octets("52364553010000018abc000100001234"), octets(POINT)].concat();
    let mut others = vec![body[..48].to_vec(), [&body[..], &[0]].concat()];
    for (at, changed) in [(0, vec![0x53]), (4, vec![2]), (5, vec![1]), (8, vec![0, 0, 0, 255]), (12, vec![0, 0, 0, 1])]
    {
        let mut body = body.clone();
        body[at..at + changed.len()].copy_from_slice(&changed);
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
