//! Golden octets of the key exchange option in an update and in its acknowledgement.

use crate::samples::{HOME, HOME_AGENT, address, octets};
use roam6_wire::Sequence;
use roam6_wire::mobility::{
    AckFlags, BindingAcknowledgement, BindingUpdate, KeyExchange, Message, MobilityOption, Status, UpdateFlags,
};

/// The public key of RFC 5903 §8.1.
const POINT: &str = "03dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c3772581180";
const UPDATE: &str = "3b070500276b0007c400000f122b52364b5801010000000003dad0b65394221cf9b051e1feca5787\
    d098dfe637fc90b9ef945d0c377258118001050000000000";
const ACKNOWLEDGEMENT: &str = "3b070600817e00400007000f122b52364b5801021234567803dad0b65394221cf9b051e1feca5787\
    d098dfe637fc90b9ef945d0c377258118001050000000000";

fn update(option: MobilityOption) -> Message {
    Message::BindingUpdate(BindingUpdate {
        sequence: Sequence(7),
        flags: UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER,
        lifetime_units: 15,
        options: vec![option],
    })
}

fn point() -> [u8; 33] {
    octets(POINT).try_into().unwrap()
}

#[test]
fn request_and_answer_golden_octets() {
    let request = update(MobilityOption::KeyExchange(KeyExchange::Request { point: point() }));
    let answer = Message::BindingAcknowledgement(BindingAcknowledgement {
        status: Status::ACCEPTED,
        flags: AckFlags::ROUTER,
        sequence: Sequence(7),
        lifetime_units: 15,
        options: vec![MobilityOption::KeyExchange(KeyExchange::Answer { spi: 0x1234_5678, point: point() })],
    });
    for (message, golden) in [(request, octets(UPDATE)), (answer, octets(ACKNOWLEDGEMENT))] {
        assert_eq!(message.emit(address(HOME), address(HOME_AGENT)), golden);
        assert_eq!(Message::parse(&golden, address(HOME), address(HOME_AGENT)), Ok(message));
    }
}

#[test]
fn other_versions_lengths_and_flags_are_unknown_options() {
    let request = [octets("52364b58010100000000"), octets(POINT)].concat();
    let mut others = vec![request[..42].to_vec(), [&request[..], &[0]].concat()];
    for (at, changed) in [(0, 0x53), (4, 2), (5, 0), (5, 3), (5, 0x81), (9, 1)] {
        let mut body = request.clone();
        body[at] = changed;
        others.push(body);
    }
    for body in others {
        let other = update(MobilityOption::Unknown { kind: 18, body: body.clone() });
        let bytes = other.emit(address(HOME), address(HOME_AGENT));
        assert_eq!(Message::parse(&bytes, address(HOME), address(HOME_AGENT)), Ok(other), "{body:02x?}");
    }
}
