//! IPv6 over GeoNetworking (EN 302 636-6-1): what the adaptation layer sends and receives on its virtual links.

use super::packets::{A, AREA2, B, C, D, IUT, IUT_PLACE, Kind, Node, TestPacket, ipv6_to, iut};
use super::tester::{BROADCAST, QUIET, Tester, Verdict, is_own};
use super::{MULTICAST, Purpose, check, delivered, known, make, own_of, purpose};
use crate::clock;
use core::net::Ipv6Addr;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Area, ExtendedHeader, Packet, UpperProtocol};
use roam6_wire::icmp6::{Message, NeighbourSolicitation, ON_LINK_HOP_LIMIT, RouterAdvertisement};
use roam6_wire::ip6::{self, Header, protocol};
use std::time::Duration;

/// The areas of the links of [`FOUR`], and one of none.
const FIRST: Area = Area::circle(IUT_PLACE, 800);
const SECOND: Area = Area::circle(IUT_PLACE, 600);
const ADVERTISED: Area = Area::circle(IUT_PLACE, 500);
/// Two SGVLs, a DGVL and a TVL.
const FOUR: &str = "advertised_links = 2
[[geo.links]]
name = \"gn0\"
area = { latitude = 48.0, longitude = 11.0, a = 800 }
[[geo.links]]
name = \"gn1\"
area = { latitude = 48.0, longitude = 11.0, a = 600 }
[[geo.links]]
name = \"gn2\"
around = 700
traffic_class = 5
hop_limit = 4
flows = [{ dscp = 46, traffic_class = 2, store_carry_forward = true, lifetime = \"2s\", hop_limit = 3 }]
[[geo.links]]
name = \"gn3\"
hops = 3
resolution = \"identifier\"
[[geo.links]]
name = \"gn4\"
hops = 1
[[geo.destinations]]
address = \"ff18::1\"
area = { latitude = 48.0, longitude = 11.03, a = 500 }
[[geo.destinations]]
address = \"ff18::2\"
around = 400
station = \"02:4e:00:00:00:0b\"
[[geo.destinations]]
address = \"ff18::3\"
hops = 2
[[geo.destinations]]
address = \"2001:db8::5\"
area = { latitude = 48.0, longitude = 11.03, a = 500 }
";
const MARK: [u8; 8] = [0xab, 0xcd, 0xef, 1, 2, 3, 4, 5];

/// Whether an extended header is as wanted.
type HeaderCheck = fn(&ExtendedHeader) -> bool;

pub(super) fn purposes() -> Vec<Purpose> {
    let mut all = generated();
    all.extend(received());
    all.extend(received_fields());
    all.extend(advertised());
    all
}

fn is_ipv6(packet: &Packet<'_>) -> bool {
    is_own(packet) && packet.upper_protocol == UpperProtocol::Ipv6 && packet.payload.ends_with(&MARK)
}

/// The host sends a datagram on a link; the packet that carries it.
fn sent_on(t: &mut Tester, link: &str, mac: LinkAddress, to: Ipv6Addr) -> Result<super::tester::Received, String> {
    t.open_upper(link)?;
    t.neighbours(&[B, D])?;
    t.send_upper(mac, &ipv6_to(IUT.link_local(), to, &MARK))?;
    t.expect("packet", is_ipv6)
}

fn group(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xff18, 0, 0, 0, 0, 0, 0, number)
}

fn generated() -> Vec<Purpose> {
    [sent_by_link(), sent_by_destination(), sent_by_flow()].into_iter().flatten().collect()
}

fn sent_by_link() -> Vec<Purpose> {
    let mut all = Vec::new();
    let links: [(&str, &str, &'static str, HeaderCheck); 5] = [
        (
            "MG/SGVL/first",
            "gn0",
            "multicast on an SGVL is broadcast in its area",
            |it| matches!(it, ExtendedHeader::GeoBroadcast { area, .. } if *area == FIRST),
        ),
        (
            "MG/SGVL/second",
            "gn1",
            "each SGVL has its own area",
            |it| matches!(it, ExtendedHeader::GeoBroadcast { area, .. } if *area == SECOND),
        ),
        (
            "MG/DGVL/area",
            "gn2",
            "multicast on a DGVL is broadcast in an area around the station",
            |it| matches!(it, ExtendedHeader::GeoBroadcast { area, .. } if *area == Area::circle(IUT_PLACE, 700)),
        ),
        ("MG/TVL/hops", "gn3", "multicast on a TVL is a topologically-scoped broadcast", |it| {
            matches!(it, ExtendedHeader::TopoBroadcast(_))
        }),
        ("MG/TVL/single-hop", "gn4", "on a TVL of one hop a single-hop broadcast", |it| {
            matches!(it, ExtendedHeader::SingleHop { .. })
        }),
    ];
    for (id, link, about, fits) in links {
        all.push(purpose(format!("roam6/IPv6GEO/{id}"), "8.2", about, FOUR, move |t| {
            let sent = sent_on(t, link, MULTICAST, known())?;
            let packet = sent.packet().ok_or("malformed")?;
            check(fits(&packet.extended) && sent.to == BROADCAST, format!("another header: {:?}", packet.extended))
        }));
        let id = format!("roam6/IPv6GEO/{id}-unicast");
        all.push(purpose(
            id,
            "8.2",
            "unicast on any link is a GUC packet to the station of its MAC address",
            FOUR,
            move |t| {
                let sent = sent_on(t, link, D.mid, D.mid.link_local())?;
                let packet = sent.packet().ok_or("malformed")?;
                let ExtendedHeader::GeoUnicast { destination, .. } = packet.extended else {
                    return Err("no GUC".into());
                };
                check(destination.address.mid == D.mid && destination.place == D.place && sent.to == D.mid, "to D")
            },
        ));
    }
    all
}

fn sent_by_destination() -> Vec<Purpose> {
    let mut all = Vec::new();
    let destinations: [(&str, u16, &'static str, HeaderCheck); 3] = [
        (
            "area",
            1,
            "a group with an area",
            |it| matches!(it, ExtendedHeader::GeoBroadcast { area, .. } if *area == Area { a: 500, ..AREA2 }),
        ),
        (
            "station",
            2,
            "a group with an area around another station",
            |it| matches!(it, ExtendedHeader::GeoBroadcast { area, .. } if *area == Area::circle(B.place, 400)),
        ),
        ("hops", 3, "a group with a number of hops", |it| matches!(it, ExtendedHeader::TopoBroadcast(_))),
    ];
    for (name, number, about, fits) in destinations {
        all.push(purpose(format!("roam6/IPv6GEO/MG/destination-{name}"), "8.2", about, FOUR, move |t| {
            let sent = sent_on(t, "gn0", MULTICAST, group(number))?;
            let packet = sent.packet().ok_or("malformed")?;
            check(fits(&packet.extended), format!("another header: {:?}", packet.extended))
        }));
    }
    all.push(purpose("roam6/IPv6GEO/MG/anycast", "8.2", "a unicast address with an area is a GAC packet", FOUR, |t| {
        let sent = sent_on(t, "gn0", B.mid, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 5))?;
        check(sent.packet().is_some_and(|it| matches!(it.extended, ExtendedHeader::GeoAnycast { .. })), "a GAC packet")
    }));
    all.push(purpose(
        "roam6/IPv6GEO/MG/payload",
        "8.2",
        "the payload is the IPv6 packet without Ethernet header",
        FOUR,
        |t| {
            let sent = sent_on(t, "gn0", MULTICAST, known())?;
            let packet = sent.packet().ok_or("malformed")?;
            check(packet.payload == ipv6_to(IUT.link_local(), known(), &MARK), "the packet as it was sent")
        },
    ));
    all.push(purpose(
        "roam6/IPv6GEO/MG/location-service",
        "8.2",
        "a station without position is looked up",
        FOUR,
        |t| {
            t.open_upper("gn0")?;
            t.neighbours(&[B])?;
            t.send_upper(A.mid, &ipv6_to(IUT.link_local(), A.mid.link_local(), &MARK))?;
            t.expect("LS request", own_of(Kind::LsRequest(A.mid)))?;
            let mut reply = make(t, Kind::LsReply(iut()), A);
            reply.sender = B.mid;
            t.send(&reply)?;
            t.expect("the packet", is_ipv6).map(drop)
        },
    ));
    all
}

fn sent_by_flow() -> Vec<Purpose> {
    let mut all = Vec::new();
    for (name, dscp, class, hops, lifetime) in [("link", 0_u8, 5_u8, 4_u8, 60), ("flow", 46, 2 | 0x80, 3, 2)] {
        let id = format!("roam6/IPv6GEO/MG/parameters-{name}");
        all.push(purpose(
            id,
            "8.2",
            "traffic class, SCF, lifetime and hop limit of the link, or of the flow",
            FOUR,
            move |t| {
                t.open_upper("gn2")?;
                t.neighbours(&[B])?;
                let header = Header { traffic_class: dscp << 2, ..Header::new(IUT.link_local(), known()) };
                let datagram = [&[0x13, 0x88, 0x13, 0x89, 0, 16, 0, 1][..], &MARK].concat();
                t.send_upper(MULTICAST, &ip6::emit(&header, protocol::UDP, &datagram))?;
                let sent = t.expect("packet", is_ipv6)?;
                let packet = sent.packet().ok_or("malformed")?;
                let found = (packet.traffic_class.0, packet.max_hop_limit, packet.lifetime.duration().as_secs());
                check(found == (class, hops, lifetime), format!("not {found:?}"))
            },
        ));
    }
    all.push(purpose(
        "roam6/IPv6GEO/ND/identifier",
        "9",
        "with resolution by identifier no solicitation is sent",
        FOUR,
        |t| {
            t.open_upper("gn3")?;
            t.neighbours(&[B])?;
            let target = B.mid.link_local();
            let message = Message::NeighbourSolicitation(NeighbourSolicitation { target, options: Vec::new() });
            let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0xb);
            let header = Header::new(IUT.link_local(), group).with_hop_limit(ON_LINK_HOP_LIMIT);
            let octets = ip6::emit(&header, protocol::ICMPV6, &message.emit(IUT.link_local(), group));
            t.send_upper(LinkAddress([0x33, 0x33, 0xff, 0, 0, 0xb]), &octets)?;
            t.expect_none("a solicitation", |it| {
                is_own(it) && it.upper_protocol == UpperProtocol::Ipv6 && it.payload == octets
            })?;
            // The link-local address of this host may not be usable yet.
            let is_neighbour = || {
                t.host.ping(1, &["-W", "1", &format!("{target}%gn3")]).ok();
                let shown = t.host.output("ip", &["-6", "neigh", "show", "dev", "gn3"]).unwrap_or_default();
                shown.contains("02:4e:00:00:00:0b").then_some(())
            };
            clock::wait_for(Duration::from_secs(8), is_neighbour)
                .ok_or_else(|| "the kernel has no neighbour".to_owned())
        },
    ));
    all
}

/// The link that receives a packet.
fn link_of(t: &mut Tester, packet: &TestPacket) -> Result<String, String> {
    for link in ["gn0", "gn1", "gn2", "gn3", "gn4"] {
        t.open_upper(link)?;
        let mut again = packet.clone();
        (again.sequence, again.source.timestamp.0) = (t.next_sequence(), t.timestamp(0));
        let content = [&MARK[..], &again.sequence.to_be_bytes()].concat();
        let destination: Ipv6Addr = if packet.kind == Kind::Tsb || matches!(packet.kind, Kind::Gbc(_) | Kind::Shb) {
            known()
        } else {
            IUT.link_local()
        };
        again.payload = ipv6_to(Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1), destination, &content);
        t.send(&again)?;
        if t.upper_frame(&content, QUIET).is_some() {
            return Ok(link.to_owned());
        }
    }
    Err("no link receives it".to_owned())
}

fn received() -> Vec<Purpose> {
    let mut all = Vec::new();
    let cases: [(&str, Kind, u8, &str, &'static str); 7] = [
        ("MR/SGVL/first", Kind::Gbc(FIRST), 10, "gn0", "a GBC packet arrives on the SGVL with its area"),
        ("MR/SGVL/second", Kind::Gbc(SECOND), 10, "gn1", "also on the second"),
        ("MR/DGVL/around", Kind::Gbc(Area::circle(B.place, 700)), 10, "gn2", "an area around its source on the DGVL"),
        ("MR/DGVL/other", Kind::Gbc(Area::circle(IUT_PLACE, 555)), 10, "gn2", "any other area on the DGVL"),
        ("MR/TVL/hops", Kind::Tsb, 3, "gn3", "a TSB packet on the TVL"),
        ("MR/TVL/single-hop", Kind::Shb, 1, "gn4", "an SHB packet on the TVL of one hop"),
        ("MR/GVL/unicast", Kind::Guc(iut()), 10, "gn1", "a GUC packet on the smallest SGVL that contains its source"),
    ];
    for (id, kind, hops, link, about) in cases {
        all.push(purpose(format!("roam6/IPv6GEO/{id}"), "8.2.2", about, FOUR, move |t| {
            t.neighbours(&[B])?;
            let mut packet = make(t, kind, B);
            (packet.hops, packet.max_hops) = (hops, hops);
            let found = link_of(t, &packet)?;
            check(found == link, format!("{link}, not {found}"))
        }));
    }
    all
}

fn received_fields() -> Vec<Purpose> {
    let mut all = Vec::new();
    all.push(purpose(
        "TP/IPv6GEO/MR/GVL/BV-06",
        "8.2.2",
        "a GUC packet arrives on the link with its IPv6 destination",
        FOUR,
        |t| {
            t.open_upper("gn3")?;
            let address = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 1);
            t.host.ip(&[&format!("address add {address}/64 dev gn3 nodad")]).map_err(|error| format!("{error:#}"))?;
            std::thread::sleep(Duration::from_millis(200));
            let mut packet = make(t, Kind::Guc(iut()), C);
            packet.payload = ipv6_to(Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1), address, &packet.mark());
            t.send(&packet)?;
            delivered(t, &packet)
        },
    ));
    all.push(purpose(
        "roam6/IPv6GEO/MR/source",
        "8.2.2",
        "the source MAC address is the MID of the source",
        FOUR,
        |t| {
            t.open_upper("gn0")?;
            let packet = make(t, Kind::Gbc(FIRST), B);
            t.send(&packet)?;
            let frame = t.upper_frame(&packet.mark(), Duration::from_secs(3)).ok_or("nothing")?;
            check(frame.from == B.mid && frame.to == MULTICAST, "B, to 33:33:00:00:00:01")
        },
    ));
    all.push(purpose("roam6/IPv6GEO/MR/hop-limit", "8.2.2", "the hop limit of IPv6 is not changed", FOUR, |t| {
        t.open_upper("gn0")?;
        let mut packet = make(t, Kind::Gbc(FIRST), B);
        packet.sender = D.mid;
        t.send(&packet)?;
        let frame = t.upper_frame(&packet.mark(), Duration::from_secs(3)).ok_or("nothing")?;
        check(frame.bytes == packet.payload, "the packet as it was sent")
    }));
    all.push(purpose(
        "roam6/IPv6GEO/VI/mtu",
        "10",
        "the MTU of a virtual link is 1398 octets on Ethernet",
        FOUR,
        |t| {
            t.open_upper("gn0")?;
            let shown = t.host.output("ip", &["link", "show", "dev", "gn0"]).map_err(|error| format!("{error:#}"))?;
            check(shown.contains("mtu 1398"), shown)
        },
    ));
    all.push(purpose("roam6/IPv6GEO/VI/address", "9", "the MAC address of a virtual link is the MID", FOUR, |t| {
        t.open_upper("gn0")?;
        let shown = t.host.output("ip", &["link", "show", "dev", "gn0"]).map_err(|error| format!("{error:#}"))?;
        check(shown.contains(&IUT.to_string()), shown)
    }));
    all
}

/// A router broadcasts an advertisement in an area.
fn advertise(t: &mut Tester, router: Node, area: Area, lifetime: u16) -> Verdict {
    let advertisement = RouterAdvertisement { hop_limit: 64, lifetime, ..Default::default() };
    let source = router.mid.link_local();
    let message = Message::RouterAdvertisement(advertisement).emit(source, known());
    let header = Header::new(source, known()).with_hop_limit(ON_LINK_HOP_LIMIT);
    let mut packet = make(t, Kind::Gbc(area), router);
    packet.payload = ip6::emit(&header, protocol::ICMPV6, &message);
    t.send(&packet)
}

fn exists(t: &Tester, link: &str) -> bool {
    t.host.output("ip", &["link", "show", "dev", link]).is_ok()
}

fn wait(t: &Tester, link: &str, wanted: bool) -> Verdict {
    let done = || (exists(t, link) == wanted).then_some(());
    clock::wait_for(Duration::from_secs(5), done).ok_or_else(|| format!("{link} exists: {}", !wanted))
}

fn advertised() -> Vec<Purpose> {
    vec![
        purpose("roam6/IPv6GEO/RA/created", "8.1", "an RA for a new area creates an SGVL", FOUR, |t| {
            advertise(t, B, ADVERTISED, 60)?;
            wait(t, "gnra0", true)?;
            t.open_upper("gnra0")?;
            t.neighbours(&[B])?;
            t.send_upper(MULTICAST, &ipv6_to(IUT.link_local(), known(), &MARK))?;
            let sent = t.expect("packet", is_ipv6)?;
            let in_area =
                |it: Packet<'_>| matches!(it.extended, ExtendedHeader::GeoBroadcast { area, .. } if area == ADVERTISED);
            check(sent.packet().is_some_and(in_area), "in the area of the RA")
        }),
        purpose("roam6/IPv6GEO/RA/delivered", "8.1", "the RA that creates the link is delivered on it", FOUR, |t| {
            t.host.set_sysctl("ipv6/conf/default/accept_ra", "2").map_err(|error| format!("{error:#}"))?;
            advertise(t, B, ADVERTISED, 60)?;
            let routed = || {
                let shown =
                    t.host.output("ip", &["-6", "route", "show", "default", "dev", "gnra0"]).unwrap_or_default();
                shown.contains("fe80::4e:ff:fe00:b").then_some(())
            };
            clock::wait_for(Duration::from_secs(5), routed).ok_or_else(|| "no default route by the router".to_owned())
        }),
        purpose("roam6/IPv6GEO/RA/withdrawn", "8.1", "a router lifetime of 0 removes the SGVL", FOUR, |t| {
            advertise(t, B, ADVERTISED, 60)?;
            wait(t, "gnra0", true)?;
            advertise(t, B, ADVERTISED, 0)?;
            wait(t, "gnra0", false)
        }),
        purpose("roam6/IPv6GEO/RA/expired", "8.1", "the SGVL ends with the router lifetime", FOUR, |t| {
            advertise(t, B, ADVERTISED, 2)?;
            wait(t, "gnra0", true)?;
            wait(t, "gnra0", false)
        }),
        purpose("roam6/IPv6GEO/RA/second-router", "8.1", "the SGVL stays while another router serves it", FOUR, |t| {
            advertise(t, B, ADVERTISED, 60)?;
            wait(t, "gnra0", true)?;
            advertise(t, C, ADVERTISED, 60)?;
            advertise(t, B, ADVERTISED, 0)?;
            std::thread::sleep(QUIET);
            check(exists(t, "gnra0"), "the link")
        }),
        purpose("roam6/IPv6GEO/RA/outside", "8.1", "an RA for an area elsewhere creates nothing", FOUR, |t| {
            advertise(t, B, AREA2, 60)?;
            std::thread::sleep(QUIET);
            check(!exists(t, "gnra0"), "no link")
        }),
        purpose(
            "roam6/IPv6GEO/RA/configured",
            "8.1",
            "an RA for the area of a configured SGVL creates nothing",
            FOUR,
            |t| {
                advertise(t, B, FIRST, 60)?;
                std::thread::sleep(QUIET);
                check(!exists(t, "gnra0"), "no link")
            },
        ),
        purpose("roam6/IPv6GEO/RA/limit", "8.1", "no more links than configured", FOUR, |t| {
            for radius in [300, 400, 500] {
                advertise(t, B, Area::circle(IUT_PLACE, radius), 60)?;
            }
            wait(t, "gnra1", true)?;
            check(!exists(t, "gnra2"), "two links")
        }),
    ]
}
