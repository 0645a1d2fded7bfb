//! Packets of the test runs, each with the verdict and the packet that the TC programs have to return.

use super::{CN, COA, DROP, HA, INNER_COA, INNER_MNN, Ip, MNN, MOVED_AWAY, PASS, REDIRECT, TO_NEXT_HOP};
use std::collections::BTreeMap;

/// A packet and the expected result.
pub(super) struct Fixture {
    pub(super) description: &'static str,
    pub(super) packet: Vec<u8>,
    pub(super) verdict: u32,
    /// The frame's IPv6 packet afterwards; `None` if it does not matter.
    pub(super) out: Option<Vec<u8>>,
    /// The counter that is incremented.
    pub(super) counter: Option<&'static str>,
    /// The link-layer addresses afterwards; `None` if they do not matter.
    pub(super) mac_addresses: Option<[u8; 12]>,
}

/// Increments of counters.
pub(super) type CounterChanges = BTreeMap<String, u64>;

impl Fixture {
    pub(super) fn counter_changes(&self) -> CounterChanges {
        self.counter.into_iter().map(|name| (name.to_owned(), 1)).collect()
    }
}

fn pass(says: &'static str, packet: Ip) -> Fixture {
    let out = Some(packet.0.clone());
    Fixture { description: says, packet: packet.0, verdict: PASS, out, counter: None, mac_addresses: None }
}

fn drop(says: &'static str, packet: Ip, counter: &'static str) -> Fixture {
    Fixture {
        description: says,
        packet: packet.0,
        verdict: DROP,
        out: None,
        counter: Some(counter),
        mac_addresses: None,
    }
}

fn redirect(says: &'static str, packet: Ip, out: Ip, counter: &'static str) -> Fixture {
    let addresses = Some(TO_NEXT_HOP);
    Fixture {
        description: says,
        packet: packet.0,
        verdict: REDIRECT,
        out: Some(out.0),
        counter: Some(counter),
        mac_addresses: addresses,
    }
}

/// Decapsulated and received by the tunnel device.
fn receive(says: &'static str, packet: Ip, out: Ip) -> Fixture {
    Fixture { mac_addresses: None, ..redirect(says, packet, out, "decapsulated") }
}

#[rustfmt::skip]
pub(super) fn encapsulation_cases() -> Vec<Fixture> {
    let plain = Ip::udp(CN, MNN);
    let big = |payload: usize| Ip::new(CN, MNN, 17, &vec![0; payload]);
    let solicitation = Ip::new(CN, MNN, 58, &[135, 0, 0, 0, 0, 0, 0, 0]).hop_limit(255);
    vec![
        redirect("to a mobile network: into the tunnel, one hop less", plain.clone(),
            plain.clone().hop_limit(63).within(HA, COA), "encapsulated"),
        redirect("the traffic class is copied outside", plain.clone().traffic_class(0xb9),
            plain.clone().traffic_class(0xb9).hop_limit(63).within(HA, COA), "encapsulated"),
        redirect("as long as the path allows", big(1420), big(1420).hop_limit(63).within(HA, COA), "encapsulated"),
        pass("longer: the kernel answers Packet Too Big", big(1421)),
        pass("a spent hop limit: the kernel answers Time Exceeded", plain.clone().hop_limit(1)),
        pass("no tunnel", Ip::udp(MNN, CN)),
        pass("a tunnel without a path: the kernel answers", Ip::udp(CN, MOVED_AWAY)),
        pass("a tunnel whose path runs through another: the slow path", Ip::udp(CN, INNER_MNN)),
        pass("link-local source", Ip::udp("fe80::1", MNN)),
        pass("multicast", Ip::udp(CN, "ff0e::1")),
        pass("neighbour discovery for an address answered for", solicitation),
        pass("longer than it says, as with Ethernet padding: the kernel trims it", plain.clone().followed(3)),
        pass("shorter than it says: the kernel drops it", plain.clone().claiming(9)),
        pass("with an outer header of this host already: the tunnel device counts", plain.clone().within(HA, MNN)),
        pass("the same further inside", plain.clone().within(HA, INNER_MNN).within(CN, MNN)),
        redirect("the tunnel of another", plain.clone().within(CN, MNN),
            plain.clone().within(CN, MNN).hop_limit(63).within(HA, COA), "encapsulated"),
    ]
}

#[rustfmt::skip]
pub(super) fn decapsulation_cases() -> Vec<Fixture> {
    let inner = Ip::udp(MNN, CN);
    let to_agent = Ip::udp(MNN, HA);
    vec![
        redirect("from a mobile network: out of the tunnel, one hop less", inner.within(COA, HA),
            inner.clone().hop_limit(63), "decapsulated"),
        redirect("the encapsulation limit is taken off too", inner.within_limited(COA, HA),
            inner.clone().hop_limit(63), "decapsulated"),
        redirect("tunnel in tunnel", Ip::udp(INNER_MNN, CN).within(INNER_COA, HA).within(COA, HA),
            Ip::udp(INNER_MNN, CN).hop_limit(63), "decapsulated"),
        redirect("from one mobile network to another", Ip::udp(MNN, "2001:db8:f4::4").within(COA, HA),
            Ip::udp(MNN, "2001:db8:f4::4").hop_limit(63).within(HA, "2001:db8:4::2"), "hairpinned"),
        receive("for this host: the kernel gets the inner packet", to_agent.within(COA, HA), to_agent),
        receive("a spent hop limit inside: the kernel answers", inner.clone().hop_limit(1).within(COA, HA),
            inner.clone().hop_limit(1)),
        drop("a stranger's outer source", inner.within("2001:db8:2::99", HA), "dropped_source"),
        drop("an inner source without a tunnel", Ip::udp("2001:db8:bad::1", CN).within(COA, HA), "dropped_source"),
        drop("an inner source of another mobile network", Ip::udp(INNER_MNN, CN).within(COA, HA), "dropped_source"),
        drop("link-local inside", Ip::udp("fe80::1", CN).within(COA, HA), "dropped_scope"),
        drop("multicast inside", Ip::udp(MNN, "ff0e::1").within(COA, HA), "dropped_scope"),
        drop("IPv4 inside a header that says IPv6", Ip::new(COA, HA, 41, &[0x45; 40]), "dropped_form"),
        drop("too short inside", Ip::new(COA, HA, 41, &[0x60; 39]), "dropped_form"),
        redirect("options that may be skipped are taken off", inner.within_options(COA, HA, [0x1e, 2, 0, 0, 1, 0]),
            inner.clone().hop_limit(63), "decapsulated"),
        pass("an option that must be known", inner.within_options(COA, HA, [0xc7, 4, 0, 0, 0, 0])),
        pass("one behind another", inner.within_options(COA, HA, [0, 1, 0, 0x45, 1, 0])),
        pass("options that end behind their header", inner.within_options(COA, HA, [1, 2, 0, 0, 1, 4])),
        receive("an inner packet shorter than it says: the kernel drops it", inner.clone().claiming(9).within(COA, HA),
            inner.clone().claiming(9)),
        receive("octets behind the inner packet: the kernel trims them", inner.clone().followed(7).within(COA, HA),
            inner.clone().followed(7)),
        receive("the same from one mobile network to another",
            Ip::udp(MNN, "2001:db8:f4::4").followed(7).within(COA, HA), Ip::udp(MNN, "2001:db8:f4::4").followed(7)),
        pass("an outer packet shorter than it says", inner.within(COA, HA).claiming(49)),
        pass("octets behind the outer packet", inner.within(COA, HA).followed(1)),
        pass("a tunnel that ends elsewhere", inner.within(COA, "2001:db8:1::77")),
        pass("a Binding Update", Ip::new(COA, HA, 60, &[135, 2, 201, 16, 0, 0, 0, 0])),
    ]
}

/// RFC 6040 §4.2: the resulting ECN field by the outer; `None` where the packet is dropped.
pub(super) const ECN: [[Option<u8>; 4]; 4] = [
    [Some(0), Some(0), Some(0), None],
    [Some(1), Some(1), Some(1), Some(3)],
    [Some(2), Some(1), Some(2), Some(3)],
    [Some(3), Some(3), Some(3), Some(3)],
];

pub(super) fn ecn_cases() -> Vec<Fixture> {
    let mut fixtures = Vec::new();
    for (inside, row) in ECN.iter().enumerate() {
        for (outside, after) in row.iter().enumerate() {
            let inner = Ip::udp(MNN, CN).traffic_class(inside as u8);
            let packet = inner.within(COA, HA).traffic_class(outside as u8);
            fixtures.push(match after {
                Some(mark) => redirect(
                    "congestion marks survive",
                    packet,
                    inner.traffic_class(*mark).hop_limit(63),
                    "decapsulated",
                ),
                None => drop("a mark that cannot survive", packet, "dropped_ecn"),
            });
        }
    }
    fixtures
}
