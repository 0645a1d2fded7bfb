//! Formats and data validity: the fields of the packets that the implementation originates, and of those that it discards.

use super::packets::{A, AREA1, AREA2, B, D, IUT_PLACE, Kind, address, iut};
use super::tester::{Received, Tester, Verdict, is_beacon, is_own};
use super::{Purpose, check, delivered, known, make, not_delivered, own_of, purpose, transport};
use roam6_proto::contract::config::geo::PacketParameters;
use roam6_wire::geo::{Area, ExtendedHeader, Shape, UpperProtocol};
use std::time::Duration;

/// Octets of the Basic and the Common Header (§9.6.1, §9.7.1).
const RESERVED_1: usize = 1;
const LIFETIME: usize = 2;
const REMAINING: usize = 3;
const TYPE: usize = 5;
const FLAGS: usize = 7;
const LENGTH: usize = 8;
const MAXIMUM: usize = 10;
const RESERVED_2: usize = 11;

const RECTANGLE: Area = Area { shape: Shape::Rectangle, a: 800, b: 600, angle: 30, ..AREA1 };
const ELLIPSE: Area = Area { shape: Shape::Ellipse, a: 800, b: 600, angle: 30, ..AREA1 };

pub(super) const LINK: &str = "[[geo.links]]\nname = \"gn0\"\naround = 900\n";
const NONE: &str = "";

pub(super) fn purposes() -> Vec<Purpose> {
    let mut all = headers();
    all.extend(invalid());
    all.extend(sources());
    all
}

/// An originated packet of each kind, with a known destination.
pub(super) fn originated() -> [(&'static str, Kind); 5] {
    [
        ("SHB", Kind::Shb),
        ("TSB", Kind::Tsb),
        ("GBC", Kind::Gbc(AREA1)),
        ("GAC", Kind::Gac(AREA2)),
        ("GUC", Kind::Guc(D)),
    ]
}

/// Requests a packet with stations around, and returns its frame.
fn originate(t: &mut Tester, kind: Kind, parameters: PacketParameters) -> Result<Received, String> {
    t.neighbours(&[B, D])?;
    t.request(transport(kind), parameters, 32)?;
    t.expect("packet", own_of(kind))
}

fn set(octets: &mut [u8], at: usize, value: u8) {
    if let Some(octet) = octets.get_mut(at) {
        *octet = value;
    }
}

fn octet(frame: &Received, at: usize) -> u8 {
    frame.bytes.get(at).copied().unwrap_or(0xff)
}

fn headers() -> Vec<Purpose> {
    let mut all = vec![
        purpose("TP/GEONW/FDV/BAH/BV-01", "9.6.2", "default version, RHL and LT of a GBC packet", NONE, |t| {
            let sent = originate(t, Kind::Gbc(AREA1), PacketParameters::default())?;
            check(octet(&sent, 0) == 0x11 && octet(&sent, REMAINING) == 10, "version 1 and RHL 10")?;
            check(sent.packet().is_some_and(|it| it.lifetime.duration() == Duration::from_secs(60)), "LT of 60 s")
        }),
        purpose("roam6/FDV/BAH/reserved", "9.6.2", "reserved octets of both headers are 0", NONE, |t| {
            let sent = originate(t, Kind::Gbc(AREA1), PacketParameters::default())?;
            check(octet(&sent, RESERVED_1) == 0 && octet(&sent, RESERVED_2) == 0, "0")
        }),
        purpose("roam6/FDV/BAH/hop-limit", "10.3.8.2", "RHL and MHL are the requested maximum hop limit", NONE, |t| {
            let sent =
                originate(t, Kind::Gbc(AREA1), PacketParameters { hops: Some(4), ..PacketParameters::default() })?;
            check(octet(&sent, REMAINING) == 4 && octet(&sent, MAXIMUM) == 4, "4 and 4")
        }),
    ];
    for (name, seconds, lifetime) in
        [("short", 0.5, 0x28), ("medium", 5.0, 0x15), ("long", 100.0, 0x2a), ("longest", 600.0, 0xf2)]
    {
        let id = format!("roam6/FDV/BAH/lifetime-{name}");
        all.push(purpose(id, "9.6.4", "LT is the requested lifetime in its finest unit", NONE, move |t| {
            let lifetime_wanted = Some(Duration::from_secs_f64(seconds));
            let sent =
                originate(t, Kind::Gbc(AREA1), PacketParameters { lifetime: lifetime_wanted, ..Default::default() })?;
            check(octet(&sent, LIFETIME) == lifetime, format!("{lifetime:#04x}, not {:#04x}", octet(&sent, LIFETIME)))
        }));
    }
    for class in [0_u8, 1, 2, 3, 63] {
        for store in [false, true] {
            let id = format!("roam6/FDV/COH/traffic-class-{class}{}", if store { "-scf" } else { "" });
            all.push(purpose(id, "9.7.5", "TC is the requested class, with SCF", NONE, move |t| {
                let wanted =
                    PacketParameters { class: Some(class), store_carry_forward: Some(store), ..Default::default() };
                let sent = originate(t, Kind::Gbc(AREA1), wanted)?;
                check(octet(&sent, 6) == class | u8::from(store) << 7, "TC")
            }));
        }
    }
    for (name, mobile) in [("mobile", true), ("stationary", false)] {
        let config = if mobile { "is_mobile = true" } else { "is_mobile = false" };
        let id = format!("roam6/FDV/COH/flags-{name}");
        all.push(purpose(id, "9.7.2", "itsGnIsMobile in the flags", config, move |t| {
            let sent = originate(t, Kind::Shb, PacketParameters::default())?;
            check(octet(&sent, FLAGS) == u8::from(mobile) << 7, "flags")
        }));
    }
    all
}

fn invalid() -> Vec<Purpose> {
    /// Sends octets of a packet that is changed in one place.
    fn changed(t: &mut Tester, change: impl Fn(&mut Vec<u8>)) -> Verdict {
        t.open_upper("gn0")?;
        let good = make(t, Kind::Shb, B);
        t.send(&good)?;
        delivered(t, &good)?;
        let bad = make(t, Kind::Tsb, B);
        let mut octets = bad.emit();
        change(&mut octets);
        t.send_octets(B.mid, super::tester::BROADCAST, &octets)?;
        not_delivered(t, &bad)?;
        t.expect_none("a copy", move |packet| bad.is_copy(packet))
    }
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, &str, &str, Change); 8] = [
        ("BAH/version-0", "10.3.3", "a packet of version 0 is discarded", |it| set(it, 0, 0x01)),
        ("BAH/version-2", "10.3.3", "a packet of version 2 is discarded", |it| set(it, 0, 0x21)),
        ("BAH/next-header", "10.3.3", "an unknown NH of the Basic Header is discarded", |it| set(it, 0, 0x13)),
        ("COH/hop-limit", "10.3.5", "a packet with a MHL below its RHL is discarded", |it| set(it, MAXIMUM, 3)),
        ("COH/header-type", "9.7.4", "an unknown header type is discarded", |it| set(it, TYPE, 0x90)),
        ("COH/header-subtype", "9.7.4", "an unknown header subtype is discarded", |it| set(it, TYPE, 0x57)),
        ("COH/payload-length", "9.7.2", "a packet shorter than its payload length is discarded", |it| {
            set(it, LENGTH, 0x0f)
        }),
        ("COH/truncated", "9.7.2", "a packet that ends in its extended header is discarded", |it| it.truncate(30)),
    ];
    changes
        .into_iter()
        .map(|(id, clause, about, change)| {
            purpose(format!("roam6/FDV/{id}"), clause, about, LINK, move |t| changed(t, change))
        })
        .collect()
}

fn sources() -> Vec<Purpose> {
    [headers_by_kind(), control_packets()].into_iter().flatten().collect()
}

fn headers_by_kind() -> Vec<Purpose> {
    let mut all = Vec::new();
    let kinds = [
        ("SHB", Kind::Shb, 0x50),
        ("TSB", Kind::Tsb, 0x51),
        ("GBC-circle", Kind::Gbc(AREA1), 0x40),
        ("GBC-rectangle", Kind::Gbc(RECTANGLE), 0x41),
        ("GBC-ellipse", Kind::Gbc(ELLIPSE), 0x42),
        ("GAC-circle", Kind::Gac(AREA2), 0x30),
        ("GAC-rectangle", Kind::Gac(Area { shape: Shape::Rectangle, a: 300, b: 200, angle: 30, ..AREA2 }), 0x31),
        ("GAC-ellipse", Kind::Gac(Area { shape: Shape::Ellipse, a: 300, b: 200, angle: 30, ..AREA2 }), 0x32),
        ("GUC", Kind::Guc(D), 0x20),
    ];
    for (name, kind, header_type) in kinds {
        let id = if name == "SHB" { "TP/GEONW/FDV/SHB/BV-01".to_owned() } else { format!("roam6/FDV/{name}/header") };
        all.push(purpose(id, "9.8", "header type and subtype, and the source position vector", NONE, move |t| {
            let sent = originate(t, kind, PacketParameters::default())?;
            check(octet(&sent, TYPE) == header_type, "header type and subtype")?;
            let packet = sent.packet().ok_or("it is malformed")?;
            check(packet.extended.source().place == IUT_PLACE && packet.extended.source().accurate, "place, and PAI")?;
            let age = t.timestamp(0).wrapping_sub(packet.extended.source().timestamp.0);
            check(age < 5_000, format!("timestamp, which is {age} ms old"))?;
            destination(&packet.extended, kind)
        }));
        let id = format!("roam6/FDV/{name}/length");
        all.push(purpose(id, "9.7.2", "NH is BTP-A, and PL the length of the payload", NONE, move |t| {
            let sent = originate(t, kind, PacketParameters::default())?;
            let packet = sent.packet().ok_or("it is malformed")?;
            let length = u16::from_be_bytes([octet(&sent, LENGTH), octet(&sent, LENGTH + 1)]);
            check(
                packet.upper_protocol == UpperProtocol::BtpA && usize::from(length) == packet.payload.len(),
                "NH and PL",
            )?;
            check(packet.length() == sent.bytes.len(), "no padding")
        }));
    }
    all.push(purpose(
        "TP/GEONW/FDV/SHB/BV-02",
        "9.8.4",
        "media-dependent data of an SHB packet, 0 without DCC",
        NONE,
        |t| {
            let sent = originate(t, Kind::Shb, PacketParameters::default())?;
            check(sent.bytes.get(36..40) == Some(&[0; 4][..]), "0")
        },
    ));
    all.push(purpose("roam6/FDV/BEA/header", "9.8.6", "a beacon: header type, RHL 1, no payload, NH any", NONE, |t| {
        let sent = t.expect("beacon", |packet| is_own(packet) && is_beacon(packet))?;
        check(octet(&sent, TYPE) == 0x10 && octet(&sent, REMAINING) == 1 && octet(&sent, 4) == 0, "header")?;
        check(octet(&sent, LENGTH) == 0 && octet(&sent, LENGTH + 1) == 0, "PL 0")
    }));
    all.push(purpose("roam6/FDV/BEA/position", "9.5.2", "a beacon: position vector", NONE, |t| {
        let sent = t.expect("beacon", |packet| is_own(packet) && is_beacon(packet))?;
        let packet = sent.packet().ok_or("it is malformed")?;
        check(packet.extended.source().place == IUT_PLACE, "place")
    }));
    all
}

fn control_packets() -> Vec<Purpose> {
    let mut all = Vec::new();
    all.push(purpose("roam6/FDV/LSQ/header", "9.8.7", "an LS request: header type, sought address", NONE, |t| {
        t.neighbours(&[B])?;
        t.request(transport(Kind::Guc(A)), PacketParameters::default(), 8)?;
        let sent = t.expect("LS request", own_of(Kind::LsRequest(A.mid)))?;
        let packet = sent.packet().ok_or("it is malformed")?;
        let ExtendedHeader::LocationRequest { sought, .. } = packet.extended else { return Err("no request".into()) };
        check(octet(&sent, TYPE) == 0x60 && packet.payload.is_empty() && octet(&sent, REMAINING) == 10, "header")?;
        check(sought.mid == A.mid, "sought address")
    }));
    all.push(purpose(
        "roam6/FDV/LSP/header",
        "9.8.8",
        "an LS reply: header type, position of the requester",
        NONE,
        |t| {
            let asked = make(t, Kind::LsRequest(iut().mid), B);
            t.send(&asked)?;
            let sent = t.expect("LS reply", own_of(Kind::LsReply(B)))?;
            let packet = sent.packet().ok_or("it is malformed")?;
            check(octet(&sent, TYPE) == 0x61 && packet.payload.is_empty(), "header")?;
            destination(&packet.extended, Kind::LsReply(B))
        },
    ));
    for (name, upper) in [("BTP-B", UpperProtocol::BtpB), ("IPv6", UpperProtocol::Ipv6)] {
        let config = format!("facilities = {{ }}\n{LINK}");
        let id = format!("roam6/FDV/COH/next-header-{name}");
        all.push(purpose(id, "9.7.3", "NH of CAMs and of IPv6 packets", config, move |t| {
            t.open_upper("gn0")?;
            let datagram =
                super::packets::ipv6_to("fe80::1".parse().unwrap_or(core::net::Ipv6Addr::LOCALHOST), known(), &[1]);
            t.send_upper(super::MULTICAST, &datagram)?;
            t.expect("packet", move |packet| is_own(packet) && packet.upper_protocol == upper).map(drop)
        }));
    }
    all.push(purpose(
        "roam6/FDV/GBC/area-too-large",
        "8.3",
        "no packet to an area above itsGnMaxGeoAreaSize",
        NONE,
        |t| {
            t.neighbours(&[B])?;
            t.request(transport(Kind::Gbc(Area::circle(IUT_PLACE, 2_000))), PacketParameters::default(), 8)?;
            t.expect_none("a packet", |packet| is_own(packet) && !is_beacon(packet))
        },
    ));
    all
}

/// The destination fields of a packet.
fn destination(extended: &ExtendedHeader, kind: Kind) -> Verdict {
    match (extended, kind) {
        (ExtendedHeader::GeoBroadcast { area, .. }, Kind::Gbc(wanted))
        | (ExtendedHeader::GeoAnycast { area, .. }, Kind::Gac(wanted)) => check(*area == wanted, "area"),
        (ExtendedHeader::GeoUnicast { destination, .. }, Kind::Guc(node))
        | (ExtendedHeader::LocationReply { destination, .. }, Kind::LsReply(node)) => {
            check(destination.address == address(node.mid) && destination.place == node.place, "destination")
        }
        (ExtendedHeader::TopoBroadcast(_), Kind::Tsb) | (ExtendedHeader::SingleHop { .. }, Kind::Shb) => Ok(()),
        _ => Err("another header".to_owned()),
    }
}
