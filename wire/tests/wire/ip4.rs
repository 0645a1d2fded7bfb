//! Golden octets between a mobile router on an IPv4-only uplink and its home agent (RFC 5555 §3.1, §3.2, §4.2).

use crate::dissector::fields_of;
use crate::mutation::mutate;
use crate::samples::{HOME, HOME_AGENT, address, octets};
use roam6_wire::ip4::{DSMIP_PORT, Encapsulated};
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{
    AckFlags, BindingAcknowledgement, BindingUpdate, Ipv4Status, Message, MobilityOption, Status, UpdateFlags,
};
use roam6_wire::{Ipv4Endpoint, Sequence, fuzz};
use std::net::Ipv4Addr;

const UPDATE: &str = "45000064000000004011144dc6336407cb0071019d15105f005004e3600000000020874020010db80000000000000000\
    0000010020010db80000000000000000000000013b03050033b10007c500000f1d066000c0000209200600000a00000201020000";
const ACKNOWLEDGEMENT: &str = "45000064000000004011144dcb007101c6336407105f9d15005004e3600000000020874020010db80000000000000000\
    0000000120010db80000000000000000000001003b030600e0a500400007000f1f0680000000006e1e060060c000020901020000";

const HOME4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
/// The mobile router as the home agent sees it: address and port of the NAT.
const OBSERVED: Ipv4Endpoint = Ipv4Endpoint { address: Ipv4Addr::new(198, 51, 100, 7), port: 40213 };
const AGENT: Ipv4Endpoint = Ipv4Endpoint { address: Ipv4Addr::new(203, 0, 113, 1), port: DSMIP_PORT };

fn update() -> Message {
    Message::BindingUpdate(BindingUpdate {
        sequence: Sequence(7),
        flags: UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER | UpdateFlags::FORCE_UDP,
        lifetime_units: 15,
        options: vec![
            MobilityOption::Ipv4HomeAddress { prefix_length: 24, prefix_wanted: false, address: HOME4 },
            MobilityOption::Ipv4CareOf(Ipv4Addr::new(10, 0, 0, 2)),
        ],
    })
}

fn acknowledgement() -> Message {
    Message::BindingAcknowledgement(BindingAcknowledgement {
        status: Status::ACCEPTED,
        flags: AckFlags::ROUTER,
        sequence: Sequence(7),
        lifetime_units: 15,
        options: vec![
            MobilityOption::NatDetection { force_udp: true, refresh_seconds: 110 },
            MobilityOption::Ipv4AddressAcknowledgement {
                status: Ipv4Status::ACCEPTED,
                prefix_length: 24,
                address: HOME4,
            },
        ],
    })
}

/// The two messages with their inner addresses and outer endpoints.
fn golden() -> [(&'static str, Message, Header, (Ipv4Endpoint, Ipv4Endpoint)); 2] {
    let (home, agent) = (address(HOME), address(HOME_AGENT));
    [
        (UPDATE, update(), Header::new(home, agent), (OBSERVED, AGENT)),
        (ACKNOWLEDGEMENT, acknowledgement(), Header::new(agent, home), (AGENT, OBSERVED)),
    ]
}

#[test]
fn binding_update_and_acknowledgement_through_a_nat() {
    for (golden, message, header, (source, destination)) in golden() {
        let golden = octets(golden);
        let inner = ip6::emit(&header, protocol::MOBILITY, &message.emit(header.source, header.destination));
        let carried = Encapsulated { source, destination, tos: 0, inner: &inner };
        assert_eq!(carried.emit(), golden);
        let read = Encapsulated::parse(&golden).unwrap();
        assert_eq!(read, carried);
        let datagram = Datagram::parse(read.inner).unwrap();
        assert_eq!(Message::parse(datagram.payload, header.source, header.destination), Ok(message));
    }
}

fn packets() -> Vec<Vec<u8>> {
    let bare = |end: Ipv4Endpoint| Ipv4Endpoint { port: 0, ..end };
    let mut packets: Vec<Vec<u8>> = golden().iter().map(|(golden, ..)| octets(golden)).collect();
    let read = packets.clone();
    packets.extend(read.iter().map(|packet| {
        let carried = Encapsulated::parse(packet).unwrap();
        Encapsulated { source: bare(carried.source), destination: bare(carried.destination), ..carried }.emit()
    }));
    packets
}

#[test]
fn tshark_dissects_ipv4_encapsulation() {
    let fields = ["frame.protocols", "ip.checksum.status", "udp.checksum.status", "mip6.mhtype", "_ws.malformed"];
    let Some(text) = fields_of(&packets(), &fields) else { return };
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "raw:ip:udp:ipv6:mipv6|1|1|5|",
            "raw:ip:udp:ipv6:mipv6|1|1|6|",
            "raw:ip:ipv6:mipv6|1||5|",
            "raw:ip:ipv6:mipv6|1||6|"
        ]
    );
}

#[test]
fn mutated_ipv4_packets_never_panic() {
    mutate(0x5555, &packets(), fuzz::ip4);
}
