//! Golden octets of an update in UDP over IPv6 with the capabilities option, and what others make of both.

use crate::dissector::fields_of;
use crate::samples::{CARE_OF, HOME, HOME_AGENT, address, octets};
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{BindingUpdate, Capabilities, Message, MobilityOption, PathEncapsulation, UpdateFlags};
use roam6_wire::udp6::Encapsulated6;
use roam6_wire::{Bid, Ipv6Endpoint, Sequence};

const UPDATE: &str = "6000000000481140\
    20010db8000100000000000000000100\
    20010db8000000000000000000000001\
    105f105f00489b72\
    6000000000188740\
    20010db8000000000000000000000100\
    20010db8000000000000000000000001\
    3b020500f53f0007c400000f120a52364350010300010100";

fn update() -> BindingUpdate {
    let flags = Capabilities::UDP_OVER_IPV6 | Capabilities::ZERO_CHECKSUM;
    let encapsulations = vec![(Bid(1), PathEncapsulation::UDP)];
    BindingUpdate {
        sequence: Sequence(7),
        flags: UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER,
        lifetime_units: 15,
        options: vec![MobilityOption::Capabilities(Capabilities { flags, encapsulations })],
    }
}

fn packet() -> Vec<u8> {
    let payload = Message::BindingUpdate(update()).emit(address(HOME), address(HOME_AGENT));
    let inner = ip6::emit(&Header::new(address(HOME), address(HOME_AGENT)), protocol::MOBILITY, &payload);
    let end = |host| Ipv6Endpoint { address: address(host), port: DSMIP_PORT };
    Encapsulated6 { source: end(CARE_OF), destination: end(HOME_AGENT), inner: &inner }.emit()
}

#[test]
fn update_in_udp_over_ipv6_golden_octets() {
    let packet = packet();
    let golden = octets(UPDATE);
    assert_eq!(packet, golden);
    let carried = Encapsulated6::parse(&golden).unwrap();
    let inner = Datagram::parse(carried.inner).unwrap();
    let message = Message::parse(inner.payload, inner.source, inner.destination);
    assert_eq!(message, Ok(Message::BindingUpdate(update())));
}

#[test]
fn other_versions_and_experiments_are_unknown_options() {
    let capabilities = octets("5236435001030001010000");
    for (at, changed) in [(0, 0x53), (4, 2)] {
        let mut body = capabilities[..10].to_vec();
        body[at] = changed;
        let update =
            BindingUpdate { options: vec![MobilityOption::Unknown { kind: 18, body: body.clone() }], ..update() };
        let bytes = Message::BindingUpdate(update.clone()).emit(address(HOME), address(HOME_AGENT));
        let read = Message::parse(&bytes, address(HOME), address(HOME_AGENT));
        assert_eq!(read, Ok(Message::BindingUpdate(update)), "octet {at}");
    }
    let plain = Capabilities { flags: 1, encapsulations: vec![(Bid(2), PathEncapsulation(7))] };
    assert_eq!(plain.encapsulation_of(Bid(2)), PathEncapsulation(7));
    assert_eq!(plain.encapsulation_of(Bid(1)), PathEncapsulation::NATIVE);
    assert!(plain.has(Capabilities::UDP_OVER_IPV6) && !plain.has(Capabilities::ZERO_CHECKSUM));
}

#[test]
fn tshark_reads_the_update_in_udp() {
    let fields = ["frame.protocols", "_ws.malformed", "udp.checksum.status", "mip6.bu.seqnr"];
    let Some(text) = fields_of(&[packet()], &fields) else { return };
    let line = text.lines().next().unwrap();
    assert!(line.contains("udp:ipv6:mipv6") && line.ends_with("||1|7"), "{line}");
}
