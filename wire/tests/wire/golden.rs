//! Golden octets of Mobility Headers from other sources, parsed and emitted.

use crate::samples::{HOME, HOME_AGENT, address, octets};
use roam6_wire::mobility::{
    AckFlags, BindingAcknowledgement, BindingUpdate, Message, MobilityOption, Status, UpdateFlags, authenticated_part,
};
use roam6_wire::{Malformed, Sequence, Why};

const UPDATE: &str = "3b06050027e70001c400000f0100031020010db8000100000000000000000100\
    010200000612003820010db80f0000000000000000000000";
const SIGNED_UPDATE: &str = "3b09050043b00001c400000f0100031020010db8000100000000000000000100\
    010200000612003820010db80f0000000000000000000000010300000009110100000100f05c21184c357afd9c595c0d";
const ACKNOWLEDGEMENT: &str = "3b01060060a200400001000f01020000";

fn update() -> BindingUpdate {
    BindingUpdate {
        sequence: Sequence(1),
        flags: UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER,
        lifetime_units: 15,
        options: vec![
            MobilityOption::AlternateCareOf(address("2001:db8:1::100")),
            MobilityOption::MobileNetworkPrefix("2001:db8:f00::/56".parse().unwrap()),
        ],
    }
}

#[test]
fn mobile_router_binding_update_golden_octets() {
    let message = Message::BindingUpdate(update());
    assert_eq!(message.emit(address(HOME), address(HOME_AGENT)), octets(UPDATE));
    assert_eq!(Message::parse(&octets(UPDATE), address(HOME), address(HOME_AGENT)), Ok(message));
}

#[test]
fn authenticated_binding_update_golden_octets() {
    let golden = octets(SIGNED_UPDATE);
    let authenticator: [u8; 12] = *golden.last_chunk().unwrap();
    let (covered, at) = authenticated_part(&golden).unwrap();
    assert_eq!(at, 68);
    assert_eq!(covered[..4], golden[..4]);
    assert_eq!(covered[4..6], [0, 0], "the checksum counts as zero");
    assert_eq!(covered[6..], golden[6..68]);

    let emitted =
        Message::BindingUpdate(update()).emit_authenticated(address(HOME), address(HOME_AGENT), 256, |octets| {
            assert_eq!(octets, covered);
            authenticator
        });
    assert_eq!(emitted, golden);

    let Ok(Message::BindingUpdate(parsed)) = Message::parse(&golden, address(HOME), address(HOME_AGENT)) else {
        panic!("not an update");
    };
    let proof = MobilityOption::Authentication { subtype: 1, spi: 256, data: authenticator.to_vec() };
    assert_eq!(parsed.options.last(), Some(&proof));
}

#[test]
fn binding_acknowledgement_golden_octets() {
    let message = Message::BindingAcknowledgement(BindingAcknowledgement {
        status: Status::ACCEPTED,
        flags: AckFlags::ROUTER,
        sequence: Sequence(1),
        lifetime_units: 15,
        options: vec![],
    });
    assert_eq!(message.emit(address(HOME_AGENT), address(HOME)), octets(ACKNOWLEDGEMENT));
    assert_eq!(Message::parse(&octets(ACKNOWLEDGEMENT), address(HOME_AGENT), address(HOME)), Ok(message));
}

#[test]
fn the_mobility_header_checksum_covers_the_home_address() {
    let with_care_of = Message::parse(&octets(UPDATE), address("2001:db8:1::100"), address(HOME_AGENT));
    assert_eq!(with_care_of, Err(Malformed { what: "Mobility Header", at: 4, why: Why::Checksum }));
}
